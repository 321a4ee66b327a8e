package outputs

import (
	"context"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/holdfast-go/holdfast/internal/wiretap"
	"github.com/holdfast-go/holdfast/stream"
)

// Outputs, snapshots, progress and offset are one transaction: on the wire, where the offset is the
// last write before the one end, and in the logs, record by record. Nothing is sent while idle.
func TestKafkaOneTransaction(t *testing.T) {
	each(t, func(t *testing.T, l *lab) {
		w := newTap(t, l.k)
		l.produce(0, 0, 50)
		m := l.start(t.Context(), "only", w.through(l.conf))
		m.committedTo(0, 50)
		// Value 51 has no outputs: the offset of a batch that only filters moves by itself.
		l.produce(0, 51, 52)
		e := await(m, 0, func(e stream.Committed) bool { return e.Next == 51 })
		if e.Outputs != 0 {
			t.Errorf("%d outputs for a record that has none", e.Outputs)
		}
		idle := w.mark()
		probe := w.awaitSeen("heartbeats", idle, 3, is(kmsg.Heartbeat)) // 900 ms, 45 commit intervals
		if writes := w.seen(idle, transactional); len(writes) != 0 {
			t.Errorf("while idle for %d heartbeats: %v", len(probe), writes)
		}
		m.stop()
		if got, told := w.orderly(), len(all[stream.Committed](m, 0)); got != told {
			t.Errorf("%d commits on the wire, the hooks told of %d", got, told)
		}
		if next := l.committed()[0]; next != 51 {
			t.Errorf("committed %d, want 51", next)
		}
		l.verify()
	})
}

// A batch is closed by whichever bound comes first, and never split: what one step sends is in one
// transaction. A revoke closes it, too.
func TestKafkaBatchBounds(t *testing.T) {
	for name, c := range map[string]struct {
		set   func(*settings)
		fits  func(stream.Committed) bool
		least int // transactions for 60 records
	}{
		"writes": {func(s *settings) { s.Commit.Interval, s.Commit.MaxWrites = time.Hour, 10 },
			func(e stream.Committed) bool { return e.Writes+e.Outputs <= 10+2 }, 60 / 12},
		"bytes": {func(s *settings) {
			s.Commit.Interval, s.Commit.MaxBytes = time.Hour, 2000
			s.Payload = func(stream.Record) []byte { return make([]byte, 300) }
		}, func(e stream.Committed) bool { return e.Bytes <= 2000+3*500 }, 5},
		"revoke": {func(s *settings) { s.Commit.Interval = time.Hour },
			func(stream.Committed) bool { return true }, 1},
	} {
		t.Run(name, func(t *testing.T) {
			each(t, func(t *testing.T, l *lab) {
				c.set(&l.conf)
				l.conf.Member.TransactionTimeout = 30 * time.Second // its half bounds Interval
				folded := make(chan struct{}, 100)
				s := l.conf
				s.Before = func(context.Context, stream.Record) error { folded <- struct{}{}; return nil }
				l.produce(0, 0, 60)
				m := l.start(t.Context(), "only", s)
				for range 60 {
					<-folded
				}
				m.stop() // what is left is closed by the revoke
				told := all[stream.Committed](m, 0)
				for _, e := range told {
					if !c.fits(e) {
						t.Errorf("a transaction of %d outputs, %d writes, %d bytes", e.Outputs, e.Writes, e.Bytes)
					}
				}
				if len(told) < c.least {
					t.Errorf("%d transactions, want at least %d", len(told), c.least)
				}
				if next := l.committed()[0]; next != 60 {
					t.Errorf("committed %d, want 60", next)
				}
				l.verify()
			})
		})
	}
}

// The next batch is folded while one commits, up to its bound and not past it.
func TestKafkaFoldsWhileCommitting(t *testing.T) {
	each(t, func(t *testing.T, l *lab) {
		w := newTap(t, l.k)
		folded := make(chan int64, 1000)
		s := w.through(l.conf)
		s.Commit.MaxWrites = 10
		// While record 0 commits, records 1 to 10 have ten outputs, and records 1 to 7 have seven and three
		// states. A pipe's function may have been called for one more.
		last, ahead := int64(10), int64(1)
		if l.kind == isFlow {
			last, ahead = 7, 0
		}
		s.Before = func(_ context.Context, r stream.Record) error { folded <- r.Offset; return nil }
		m := l.start(t.Context(), "only", s)
		await(m, 0, anyOf[stream.Committed]) // the start offset
		hold := w.Fault(wiretap.HoldResponse, wiretap.First(1, wiretap.Committing))
		t.Cleanup(hold.Lift)
		l.produce(0, 0, 1)
		caught(t, hold, 1)
		l.produce(0, 1, 100)
		reached := int64(-1)
		for reached < last {
			reached = <-folded
		}
		// The client waits 10 s for the answer that is held, and then asks again.
		w.awaitSeen("a heartbeat", w.mark(), 1, is(kmsg.Heartbeat))
		for len(folded) > 0 {
			reached = <-folded
		}
		if reached > last+ahead {
			t.Errorf("offset %d was folded while a transaction was under way, want %d at most: the bound is 10 writes", reached, last+ahead)
		}
		hold.Lift()
		m.committedTo(0, 100)
		m.stop()
		w.orderly()
		l.verify()
	})
}
