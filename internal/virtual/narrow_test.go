//go:build synctests

package virtual

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/holdfasttest"
	"github.com/holdfast-go/holdfast/stream"
)

// widen sets how many bytes of produce requests get through in a second, 0: any number.
func (l *link) widen(bytes int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.narrow = bytes
}

// many are n records of as many keys, whose outputs and states do not compress well.
func many(from, n int) (rs []record) {
	for i := range n {
		rs = append(rs, record{key: fmt.Sprintf("%x", uint64(from+i+1)*0x9e3779b97f4a7c15), value: fmt.Sprint(i * i * 7919)})
	}
	return rs
}

// Public case B9: a batch waits that is too much for the link within the timeout of a transaction. It comes
// again in smaller ones until they fit, whatever it has; and when the link is wide again batches grow.
func TestCaseB9NarrowLink(t *testing.T) {
	each(t, short, func(t *testing.T, w *world) {
		m := w.start("m")
		w.send(many(0, 1)...)
		w.committed(time.Minute)
		m.link.widen(1500)
		w.send(many(1, 1500)...)
		w.committed(15 * time.Minute)
		slow := 0
		for _, cause := range m.refusals() {
			if strings.Contains(cause, "slow") {
				slow++
			}
		}
		if fenced := w.s.Pipe || w.s.Guarantee != holdfast.Unfenced; fenced != (slow > 0) {
			t.Errorf("I7: %d attempts ran out of time: %q", slow, m.refusals())
		}
		m.link.widen(0)
		w.send(many(1501, 1500)...)
		w.committed(time.Minute)
		if w.s.Pipe && m.count(holdfasttest.EventLost) > 0 {
			t.Errorf("a pipe, which has no state to go back, has lost %d ownerships", m.count(holdfasttest.EventLost))
		}
	})
}

// A single step is too much for the link. Run returns within a bound, with an error that says so, and nothing of
// the step is committed.
func TestNarrowerThanOneStep(t *testing.T) {
	each(t, short, func(t *testing.T, w *world) {
		m := w.start("m")
		w.send(many(0, 1)...)
		w.committed(time.Minute)
		m.link.widen(10)
		w.send(many(1, 40)...)
		select {
		case <-m.done:
		case <-time.After(15 * time.Minute):
			t.Fatal("I6: the member goes on for ever")
		}
		if !errors.Is(m.err, stream.ErrTooSlow) || errors.Is(m.err, stream.ErrUnreachable) {
			t.Errorf("I6: the member ended with %v, want %v", m.err, stream.ErrTooSlow)
		}
		m.link.widen(0)
		w.start("next")
		w.committed(time.Minute)
	})
}
