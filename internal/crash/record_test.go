package crash

import (
	"slices"
	"sync"
	"testing"

	"github.com/holdfast-go/holdfast/internal/kafkatest"
	"github.com/holdfast-go/holdfast/internal/trial"
	"github.com/holdfast-go/holdfast/internal/wiretap"
)

func TestMain(m *testing.M) { kafkatest.Main(m, trial.Child()) }

// found is a pair where the recorder has met it first.
type found struct {
	Pair
	from, to     Step
	atFrom, atTo int // the stages of both
}

// recorder notes the pairs of a run in the order of their first sight.
type recorder struct {
	mu    sync.Mutex
	at    map[laneStep]int
	known map[Pair]bool
	pairs []found
}

func (rec *recorder) note(stage int, sightings []Sighting) {
	rec.mu.Lock()
	defer rec.mu.Unlock()
	for _, s := range sightings {
		rec.at[laneStep{s.Lane, s.To}] = stage
		p, ok := s.Pair()
		if !ok || rec.known[p] {
			continue
		}
		rec.known[p] = true
		rec.pairs = append(rec.pairs, found{p, *s.From, s.To, rec.at[laneStep{s.Lane, *s.From}], stage})
	}
}

// record watches an undisturbed run, and returns its pairs. The run is judged as well.
func record(t *testing.T, c component) []found {
	t.Helper()
	r := newRun(t, c)
	rec := &recorder{at: map[laneStep]int{}, known: map[Pair]bool{}}
	var stage stageNumber
	r.one.Tap.OnRequest(func(q wiretap.Request) { rec.note(stage.get(), r.tr.Of(idOf(q))) })
	for i, s := range stages() {
		stage.set(i)
		r.begin(i, s)
		s.done(r)
	}
	r.f.CaughtUp()
	r.f.Verify()
	rec.mu.Lock()
	defer rec.mu.Unlock()
	return slices.Clone(rec.pairs)
}

type stageNumber struct {
	mu sync.Mutex
	n  int
}

func (s *stageNumber) set(n int) { s.mu.Lock(); defer s.mu.Unlock(); s.n = n }
func (s *stageNumber) get() int  { s.mu.Lock(); defer s.mu.Unlock(); return s.n }
