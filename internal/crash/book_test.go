package crash

import (
	"fmt"
	"sync"
	"testing"

	"github.com/holdfast-go/holdfast/internal/kafkatest"
	"github.com/holdfast-go/holdfast/internal/trial"
)

// book has the outcome of each strike.
type book struct {
	list     []strike
	commit   string
	protocol string

	mu       sync.Mutex
	outcomes map[string]string
}

func newBook(t *testing.T, list []strike) *book {
	return &book{list: list, commit: trial.Tested(t), protocol: protocol(t), outcomes: map[string]string{}}
}

func (b *book) note(s strike, outcome string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.outcomes[s.String()] = outcome
}

func (b *book) tested() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.outcomes)
}

// write keeps the outcomes where HOLDFAST_CRASH_RESULTS says, under the commit that they are of.
func (b *book) write(t *testing.T) { trial.Keep(t, "HOLDFAST_CRASH_RESULTS", b.table()) }

// table is the outcomes as Markdown: a row a crash point, a column a blow.
func (b *book) table() string {
	tested := b.tested()
	b.mu.Lock()
	defer b.mu.Unlock()
	text := fmt.Sprintf("# Crash steps on Kafka %s, %s\n\nCommit %s: tested %d/%d.\n", kafkatest.Version(), b.protocol, b.commit, tested, len(b.list))
	component, row := "", ""
	for _, s := range b.list {
		if s.c.name != component {
			component = s.c.name
			text += fmt.Sprintf("\n## %s\n\n| Between | kill | cut | reset |\n|---|---|---|---|\n", component)
		}
		if r := component + s.point.String(); r != row {
			row = r
			text += fmt.Sprintf("| %v |", s.point)
			for _, blow := range blows {
				cell := "–"
				at := strike{c: s.c, point: s.point, blow: blow}.String()
				for _, other := range b.list {
					if other.String() == at {
						cell = b.outcomes[at]
						if cell == "" {
							cell = "not tested"
						}
					}
				}
				text += " " + cell + " |"
			}
			text += "\n"
		}
	}
	return text
}
