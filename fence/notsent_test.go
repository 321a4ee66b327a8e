package fence

import (
	"sync"
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"
)

// R5: a client that does not find the partition that took the records calls the commit of their transaction done. From
// transaction.version 2 on it has aborted it, and below it has sent nothing. Here it has forgotten the topic.
func TestCommitThatIsNotSentIsNoCommit(t *testing.T) {
	t.Parallel()
	for name, opts := range map[string][]kfake.Opt{
		"transaction.version 1": {kfake.MaxVersions(kversion.V3_9_0())},
		"transaction.version 2": nil,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cluster, p := fakeCluster(t, opts...)
			w, _ := openWriter(t, p.config(t, join(t, p, Session{}).granted(t)))
			cl := w.producer.(*txn).cl
			var once sync.Once
			cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.TxnOffsetCommit}, Count: -1, Observe: true, When: func(kmsg.Request) bool {
				once.Do(func() { cl.PurgeTopicsFromProducing(testProgress) })
				return true
			}})
			commits := cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.EndTxn}, Count: -1, Observe: true, When: func(req kmsg.Request) bool {
				return req.(*kmsg.EndTxnRequest).Commit
			}})
			for next, want := range []string{"1", "2"} {
				if err := w.Commit(testContext(t), Offset{int64(next + 1), -1}, put("k", want)); err != nil {
					t.Fatal(err)
				}
				if state, progress, _ := p.restored(t, 0); state["k"] != want || len(progress.Inputs) != 1 || progress.Inputs[0].Next != int64(next+1) {
					t.Errorf("I1: what was told as committed at offset %d is not: %v, %+v", next+1, state, progress)
				}
				if commits.Hits() != next+1 {
					t.Errorf("%d commits on the wire, want %d", commits.Hits(), next+1)
				}
			}
		})
	}
}
