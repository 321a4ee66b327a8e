package fence

import (
	"errors"
	"sync"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/holdfast-go/holdfast/internal/rule"
	"github.com/holdfast-go/holdfast/stream"
)

// I2: the states of a partition are in one topic. Where that was deleted and made again under a writer,
// the writer does not go on in the empty one: only the keys that are written again would be in it.
//
//  1. The keys a and b are committed.
//  2. The topic is deleted and made again. The writer takes over, for a passing fault.
//  3. Offset and newest progress record are as known, for there is no newer one: the key a is written.
//  4. The next owner finds a, and a progress record that agrees with the offset. The key b is lost.
func TestWriterDoesNotGoOnInATopicThatWasMadeAgain(t *testing.T) {
	t.Parallel()
	cluster, p := fakeCluster(t)
	ctx, admin := testContext(t), kadm.NewClient(testClient(t, p.k))
	m := join(t, p, Session{})
	conf := p.config(t, m.granted(t))
	var once sync.Once
	conf.Hooks = []stream.Hooks{{Refused: func(stream.Refused) { // before the takeover that follows
		once.Do(func() {
			if _, err := admin.DeleteTopics(ctx, p.progress); err != nil {
				t.Error(err)
			}
			if _, err := admin.CreateTopic(ctx, 1, 1, nil, p.progress); err != nil {
				t.Error(err)
			}
		})
	}}}
	w, _ := openWriter(t, conf)
	if err := w.Commit(ctx, Offset{1, -1}, put("a", "1"), put("b", "1")); err != nil {
		t.Fatal(err)
	}
	cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Err: kerr.ProducerFenced})
	err := w.Commit(ctx, Offset{2, -1}, put("a", "2"))
	if !errors.Is(err, stream.ErrTruncated) {
		t.Errorf("commit: %v, want ErrTruncated", err)
	}
	if state, _, _ := p.restored(t, 0); len(state) > 0 {
		t.Errorf("the topic that was made again has %v", state)
	}
}

// I2: the progress partition loses its tail under a writer, in an unclean election. What comes next is
// written where the lost records were, and agrees with the offset: nothing else would tell the next owner.
func TestWriterDoesNotGoOnInALogThatLostItsTail(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		off  []rule.Name
		want error
	}{
		{"with all rules", nil, stream.ErrTruncated},
		{"without the rule", []rule.Name{rule.SameLog}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := newRecorder()
			w := fakeWriterUnder(t, rule.Without(t.Context(), c.off...), r, newFakeSession().grant(), -1)
			for next := range int64(3) {
				if err := w.Commit(t.Context(), Offset{next, -1}, put("a", "1")); err != nil {
					t.Fatal(err)
				}
			}
			r.mu.Lock()
			r.log = r.log[:2]
			r.mu.Unlock()
			if err := w.Commit(t.Context(), Offset{3, -1}, put("b", "1")); !errors.Is(err, c.want) {
				t.Errorf("I2: commit to a log that has lost its tail: %v, want %v", err, c.want)
			}
			state, _ := r.snapshot()
			if _, written := state["b"]; written != (c.want == nil) {
				t.Errorf("what came after the loss is committed: %t", written)
			}
		})
	}
}
