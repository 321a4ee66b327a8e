package fence

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/stream"
)

// R5 and R27: a commit is applied, and its answer is lost after its records had taken most of the time. The takeover
// that is to read it back fails at first. What is in doubt has not run out of time, however old it is.
func TestDoubtDoesNotRunOutOfTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, own := newRecorder(), newFakeSession().grant()
		w := fakeWriter(t, r, own, 0)
		taken := 0
		r.fail = func(s wire.Step, _ int) error {
			switch {
			case s == wire.StepProduce && taken == 0:
				time.Sleep(MaxTransactionTimeout * 9 / 10)
			case s == wire.StepEnd && taken == 0:
				time.Sleep(MaxTransactionTimeout)
				taken = 1
				return errors.New("the connection is gone")
			case s == wire.StepInit && taken > 0 && taken < 4:
				taken++
				return kerr.CoordinatorNotAvailable
			}
			return nil
		}
		r.applied = func(int) bool { return true }
		if err := w.Commit(t.Context(), Offset{2, -1}, kilobyte("a"), kilobyte("b")); err != nil {
			t.Errorf("I1: what is committed is said not to be: %v", err)
		}
		if state, txns := r.snapshot(); len(state) != 2 || len(txns) != 1 || taken != 4 {
			t.Errorf("I1: %d keys in %d transactions, want 2 in 1", len(state), len(txns))
		}
	})
}

// R27: less to write helps where writing took the time. Where there was nothing to write, or it was written long
// before, the same goes again.
func TestWhatIsNotSlowGoesAgain(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		step wire.Step
		rs   []stream.Message
	}{
		"no records, and no leader of the progress": {wire.StepProduce, nil},
		"records, and then no coordinator":          {wire.StepOffset, []stream.Message{kilobyte("a"), kilobyte("b")}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r, own := newRecorder(), newFakeSession().grant()
				w := fakeWriter(t, r, own, 0)
				r.fail = func(s wire.Step, n int) error {
					if s != c.step || n > 1 {
						return nil
					}
					time.Sleep(MaxTransactionTimeout + time.Second)
					return kerr.NotLeaderForPartition
				}
				if err := w.Commit(t.Context(), Offset{2, -1}, c.rs...); err != nil {
					t.Errorf("I7: %v", err)
				}
				if bound := w.pace.Learned(); bound != 0 {
					t.Errorf("I7: a bound of %d bytes was learned from it", bound)
				}
			})
		})
	}
}
