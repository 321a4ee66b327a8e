package outputs

import (
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/rule"
	"github.com/holdfast-go/holdfast/internal/wiretap"
	"github.com/holdfast-go/holdfast/stream"
)

// cutEnd runs a member that does not learn the outcome of its transaction up to offset 20, and lets it
// find out. delivered: the broker has carried the end out.
func cutEnd(t *testing.T, l *lab, delivered bool, off ...rule.Name) (*member, *tap) {
	t.Helper()
	w := newTap(t, l.k)
	l.conf.Member.TransactionTimeout = 3 * time.Second // bounds the wait for the answer
	m := l.start(rule.Without(t.Context(), off...), "only", w.through(l.conf))
	l.produce(0, 0, 10)
	m.committedTo(0, 10)
	first := w.Fault(wiretap.CutOnResponse, wiretap.First(1, wiretap.Committing))
	t.Cleanup(first.Lift)
	// The client asks again by itself, until the member gives the client up.
	cut := w.Fault(wiretap.CutOnRequest, func(r wiretap.Request) bool {
		return wiretap.Committing(r) && (!delivered || len(first.Caught()) > 0)
	})
	t.Cleanup(cut.Lift)
	refused := m.mark()
	l.produce(0, 10, 20)
	e := await(m, refused, func(e stream.Refused) bool { return true })
	if e.Cause != "unknown" {
		t.Errorf("refused: %+v, want an unknown outcome", e)
	}
	first.Lift()
	cut.Lift()
	return m, w
}

// The answer to an EndTxn is lost, or the EndTxn itself. The member reads back which, and outputs are
// there once in either case.
func TestKafkaUnknownOutcome(t *testing.T) {
	for name, delivered := range map[string]bool{"the answer is lost": true, "the request is lost": false} {
		t.Run(name, func(t *testing.T) {
			each(t, func(t *testing.T, l *lab) {
				m, w := cutEnd(t, l, delivered)
				e := await(m, 0, func(e stream.Committed) bool { return e.Next > 10 })
				if !e.ReadBack {
					t.Errorf("committed %+v, want it read back", e)
				}
				l.produce(0, 20, 30)
				m.committedTo(0, 30)
				m.stop()
				w.orderly()
				l.verify()
			})
		})
	}
}

// A system that takes the lost answer for an abort sends the batch again, and its outputs are there
// twice.
func TestKafkaUnknownOutcomeWithoutReadBack(t *testing.T) {
	each(t, func(t *testing.T, l *lab) {
		m, _ := cutEnd(t, l, true, rule.ReadBack)
		l.produce(0, 20, 30)
		m.committedTo(0, 30)
		m.stop()
		seen := map[string]int{}
		for _, e := range l.view(l.conf.Output) {
			if e.ReadCommitted() {
				seen[string(e.Record.Value)]++
			}
		}
		for _, n := range seen {
			if n > 1 {
				return
			}
		}
		t.Error("no output is there twice")
	})
}
