package fence

import (
	"errors"
	"fmt"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/stream"
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

// The topic takes each record, but no longer all of them in one batch, since its max.message.bytes was
// lowered: they are sent in as few batches as it takes, so that a large transaction still ends in its time.
// Alone, each with the time of an answer, they would not.
func TestRecordsThatTheTopicTakesInPartsOnly(t *testing.T) {
	t.Parallel()
	r := newRecorder()
	r.together = 12
	w := fakeWriter(t, r, newFakeSession().grant(), 5)
	var ms []stream.Message
	for i := range 200 {
		ms = append(ms, put(fmt.Sprint(i), "v"))
	}
	if err := w.Commit(testContext(t), Offset{205, -1}, ms...); err != nil {
		t.Fatal(err)
	}
	if state, _ := r.snapshot(); len(state) != len(ms) {
		t.Errorf("%d records are there, want %d", len(state), len(ms))
	}
	if last := r.most[len(r.most)-1]; last <= r.together/4 || last > r.together {
		t.Errorf("the transaction that was committed has sent %d at once, want up to %d and not much less", last, r.together)
	}
	if n := len(r.most); n > 60 {
		t.Errorf("%d transactions were needed", n)
	}
}
