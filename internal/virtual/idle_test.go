//go:build synctests

package virtual

import (
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/holdfast-go/holdfast/holdfasttest"
)

// I7: an input that ends in an aborted transaction is committed to its end, and then nothing is committed any
// more, however long it is idle.
func TestIdleInputIsCommittedToItsEndOnce(t *testing.T) {
	each(t, func(*setting) {}, func(t *testing.T, w *world) {
		m := w.start("m")
		w.send(few(5)...)
		w.committed(time.Minute)
		w.discard(few(3)...)
		time.Sleep(time.Minute)
		ends, err := kadm.NewClient(w.client).ListEndOffsets(t.Context(), input)
		if err != nil {
			t.Fatal(err)
		}
		end, _ := ends.Lookup(input, 0)
		last := int64(-1)
		for _, e := range m.rec.Member().Events {
			if e.Kind == holdfasttest.EventCommitted {
				last = e.Offset
			}
		}
		if last != end.Offset {
			t.Errorf("I7: the committed offset is %d, and the input ends at %d", last, end.Offset)
		}
		n := m.count(holdfasttest.EventCommitted)
		time.Sleep(10 * time.Minute)
		if more := m.count(holdfasttest.EventCommitted) - n; more != 0 {
			t.Errorf("I6: %d commits within ten minutes without a record", more)
		}
	})
}
