package eos

import (
	"fmt"
	"testing"

	"github.com/holdfast-go/holdfast/internal/kafkatest"
)

// size is how large a run is.
type size struct {
	records    int
	partitions int32
	copiers    int
}

func sizes() size {
	if nightly() {
		return size{records: 100_000, partitions: 9, copiers: 3}
	}
	return size{records: 20_000, partitions: 4, copiers: 2}
}

const bounces = 3 // of each copier

// Copiers in one group are bounced while they copy, and so are brokers. The input comes in portions,
// and in each portion one of them is bounced when a transaction of it is known to be open: neither a
// fast nor a slow machine makes the bounce miss it.
// Public case A6.
func TestKafkaTransactions(t *testing.T) {
	t.Parallel()
	c := kafkatest.New(t, kafkatest.Options{Brokers: 3})
	engines := []string{ours}
	if nightly() {
		engines = append(engines, "fence")
	}
	for _, engine := range engines {
		t.Run(engine, func(t *testing.T) {
			t.Run("copiers", func(t *testing.T) {
				t.Run("hard", func(t *testing.T) {
					t.Parallel()
					aborted, refused := bounceCopiers(t, c, engine, (*member).crash)
					if aborted == 0 {
						t.Error("no record was aborted: no kill has met an open transaction")
					}
					if refused == 0 {
						t.Error("no commit was refused: none has arrived when its partition had another owner")
					}
				})
				t.Run("clean", func(t *testing.T) {
					t.Parallel()
					bounceCopiers(t, c, engine, (*member).leave)
				})
			})
			// Not beside the others: they wait for brokers that are there.
			if !nightly() {
				t.Run("brokers", func(t *testing.T) { bounceBrokers(t, c, engine, kill, shutDown) })
				return
			}
			t.Run("brokers hard", func(t *testing.T) { bounceBrokers(t, c, engine, kill, kill, kill) })
			t.Run("brokers clean", func(t *testing.T) { bounceBrokers(t, c, engine, shutDown, shutDown, shutDown) })
		})
	}
}

// bounceCopiers runs copiers and bounces each of them, one after the other, from a fifth of the way on.
// It returns how many records were aborted and how many commits refused.
func bounceCopiers(t *testing.T, c *kafkatest.Cluster, engine string, bounce func(m *member, portion, n int)) (aborted, refused int) {
	s := sizes()
	b := newBench(t, c, s.partitions)
	b.conf.Engine = engine
	var ms []*member
	for i := range s.copiers {
		ms = append(ms, b.member(fmt.Sprint("copier ", i+1)))
	}
	b.seed(s.records / 5)
	b.live.await(s.records / 5)
	portion := (s.records - b.seeded) / (bounces*s.copiers + 1)
	for n := range bounces {
		for _, m := range ms {
			bounce(m, portion, n)
		}
	}
	b.seed(s.records)
	b.live.await(s.records)
	for _, m := range ms {
		m.stop()
		refused += int(m.refused.Load())
	}
	aborted = b.check()
	took := len(b.log.since(0, func(e entry) bool { return e.is("took") }))
	t.Logf("%d records were aborted, %d commits refused; %d takeovers found the id in use", aborted, refused, took)
	if took < bounces*s.copiers {
		t.Errorf("%d takeovers after %d bounces: the copiers' partitions did not move", took, bounces*s.copiers)
	}
	return aborted, refused
}
