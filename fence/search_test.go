package fence

import (
	"errors"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/holdfast-go/holdfast/internal/wire"
)

// What passes by itself while a record is looked for blames no record: the search begins again.
func TestSearchIsInterrupted(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]error{"fence": kerr.InvalidProducerEpoch, "network": errors.New("connection reset"), "abortable": kerr.TransactionAbortable} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRecorder()
			failed := false
			r.fail = func(step wire.Step, n int) error {
				if step == wire.StepProduce && n == 3 && !failed { // 1 finds that some record is refused
					failed = true
					return &wire.StepError{Step: step, Err: fault}
				}
				return nil
			}
			w := fakeWriter(t, r, newFakeSession().grant(), 5)
			err := w.Commit(testContext(t), Offset{6, -1}, put("a", "1"), put("b", "2"), put("c", "poison"), put("d", "4"))
			refusal, ok := errors.AsType[*Refusal](err)
			if !ok || refusal.Index != 2 {
				t.Fatalf("commit: %v, want a refusal of record 2", err)
			}
			if !failed {
				t.Error("the search was not interrupted")
			}
			if err := w.Commit(testContext(t), Offset{6, -1}, put("a", "1")); err != nil {
				t.Error(err)
			}
			if state, _ := r.snapshot(); len(state) != 1 || state["a"] != "1" {
				t.Errorf("state %v", state)
			}
		})
	}
}
