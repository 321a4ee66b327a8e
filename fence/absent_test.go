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

// A topic that a broker has not heard of yet is there all the same: no record is refused for it, and
// nothing stops (I7).
func TestTopicIsNotKnownYet(t *testing.T) {
	t.Parallel()
	for _, code := range []error{kerr.UnknownTopicOrPartition, kerr.UnknownTopicID} {
		for name, calls := range map[string][]stream.Message{
			"one record": {put("a", "1")}, "several": {put("a", "1"), put("b", "2"), put("c", "3")},
		} {
			t.Run(code.Error()+"/"+name, func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					r := newRecorder()
					known := time.Now().Add(10 * time.Second)
					r.fail = func(step wire.Step, _ int) error {
						if step == wire.StepProduce && time.Now().Before(known) {
							return code
						}
						return nil
					}
					w := fakeWriter(t, r, newFakeSession().grant(), 5)
					if err := w.Commit(testContext(t), Offset{6, -1}, calls...); err != nil {
						t.Fatalf("commit: %v", err)
					}
					if r.opens != 1 {
						t.Errorf("%d takeovers for a topic that one broker did not know", r.opens)
					}
				})
			})
		}
	}
}

// The writer's own topic is missing where it stays unknown. That is found out in a bounded time, once, and
// is no fault of a record: the writer has stopped, and the calls behind do not wait for it again.
func TestTopicStaysUnknown(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRecorder()
		r.fail = func(step wire.Step, _ int) error {
			if step == wire.StepProduce {
				return kerr.UnknownTopicOrPartition
			}
			return nil
		}
		w := fakeWriter(t, r, newFakeSession().grant(), 5)
		for i, most := range []time.Duration{20 * time.Second, pauseMax} {
			began := time.Now()
			err := w.Commit(testContext(t), Offset{6, -1}, put("a", "1"), put("b", "2"))
			if _, ok := errors.AsType[*Refusal](err); ok || !errors.Is(err, stream.ErrTopic) {
				t.Fatalf("commit %d: %v, want a stop with ErrTopic", i, err)
			}
			if took := time.Since(began); i == 0 && took < 10*time.Second || took > most {
				t.Errorf("commit %d was refused after %v", i, took)
			}
		}
	})
}

// A record that is too large is looked for while another topic is not known for a moment: the search
// blames no record for that.
func TestTopicIsNotKnownDuringASearch(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRecorder()
		r.fail = func(step wire.Step, n int) error {
			if step == wire.StepProduce && n == 2 {
				return kerr.UnknownTopicOrPartition
			}
			return nil
		}
		w := fakeWriter(t, r, newFakeSession().grant(), 5)
		err := w.Commit(testContext(t), Offset{6, -1}, put("a", "1"), put("b", "2"), put("c", "poison"))
		if refusal, ok := errors.AsType[*Refusal](err); !ok || refusal.Index != 2 || errors.Is(err, stream.ErrTopic) {
			t.Fatalf("commit: %v, want a refusal of record 2", err)
		}
	})
}
