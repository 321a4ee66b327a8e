//go:build synctests

package virtual

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/holdfasttest"
)

// inOrder runs a test for FencedOutputs and the pipe in bubbles of their own: they commit at Interval.
func inOrder(t *testing.T, s setting, test func(t *testing.T, w *world)) {
	t.Parallel()
	for name, isPipe := range map[string]bool{"FencedOutputs": false, "pipe": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := s
				if s.Pipe = isPipe; !isPipe {
					s.Guarantee = holdfast.FencedOutputs
				}
				w := newWorld(t, s, 1, newStates())
				test(t, w)
				w.end()
				w.close()
			})
		})
	}
}

// Public case B5: a record comes each millisecond, and transactions follow each other as fast as they can.
// None is refused for the epoch of the one before, and the pause between two does not grow beyond the
// few milliseconds that the brokers need (R11): requests take no time here, so that pauses are all that there is.
func TestCaseB5NoPauseBetweenTransactions(t *testing.T) {
	inOrder(t, setting{Commit: holdfast.Commit{Interval: time.Nanosecond}}, func(t *testing.T, w *world) {
		m := w.start("m")
		w.send(few(1)...)
		w.committed(time.Minute)
		before, began := m.count(holdfasttest.EventCommitted), time.Now()
		for i := range 500 {
			w.send(record{key: fmt.Sprintf("k%d", i%5), value: fmt.Sprint(i)})
			time.Sleep(time.Millisecond)
		}
		took, n := time.Since(began), m.count(holdfasttest.EventCommitted)-before
		if most := 5 * time.Millisecond; took/time.Duration(max(n, 1)) > most {
			t.Errorf("%d transactions in %v, want one each %v at least", n, took, most)
		}
		if refused := m.refusals(); len(refused) > 0 {
			t.Errorf("transactions were refused: %q", refused)
		}
		w.committed(time.Minute)
	})
}

// Public case B9: the commit interval is far above the transaction timeout, and the records of a batch come
// one by one. The batch closes when half of the timeout has passed since its first record, and not before.
func TestCaseB9BatchClosesAtHalfTheTransactionTimeout(t *testing.T) {
	const timeout = 10 * time.Second
	s := setting{Member: holdfast.Member{TransactionTimeout: timeout}, Commit: holdfast.Commit{Interval: time.Hour}}
	inOrder(t, s, func(t *testing.T, w *world) {
		m := w.start("m")
		w.send(few(1)...)
		w.committed(time.Minute)
		for n := 1; n <= 3; n++ {
			time.Sleep(time.Minute)
			began := time.Now()
			w.send(few(1)...)
			time.Sleep(timeout/2 - time.Second)
			w.send(few(1)...)
			if left := w.behind(); len(left) != 1 {
				t.Errorf("batch %d closed before %v", n, timeout/2-time.Second)
			}
			w.committed(timeout)
			if took := time.Since(began); took < timeout/2 || took > timeout/2+500*time.Millisecond {
				t.Errorf("batch %d was committed %v after its first record, want %v", n, took, timeout/2)
			}
		}
		if refused := m.refusals(); len(refused) > 0 {
			t.Errorf("transactions were refused: %q", refused)
		}
	})
}
