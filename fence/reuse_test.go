package fence

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"
)

// R6: below transaction.version 2 all transactions of a client have one epoch, so that an abort that is on its
// way for long may end the transaction after the one that it was sent for. What was written then would be
// aborted, or told as committed with half of it gone. There the client is closed without an abort, and the
// takeover ends the transaction; from version 2 on the client aborts and is used again.
func TestClientAfterAnAbort(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name      string
		opts      []kfake.Opt
		takeovers int
	}{
		{name: "transaction.version 1", opts: []kfake.Opt{kfake.MaxVersions(kversion.V3_9_0())}, takeovers: 1},
		{name: "transaction.version 2"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			cluster, p := fakeCluster(t, c.opts...)
			w, _ := openWriter(t, p.config(t, join(t, p, Session{}).granted(t)))
			if err := w.Commit(testContext(t), Offset{1, -1}, put("k", "1")); err != nil {
				t.Fatal(err)
			}
			watch := func(key kmsg.Key, when func(kmsg.Request) bool) *kfake.FaultHandle {
				return cluster.Fault(kfake.Fault{Keys: []kmsg.Key{key}, Count: -1, Observe: true, When: when})
			}
			takeovers := watch(kmsg.InitProducerID, nil)
			aborts := watch(kmsg.EndTxn, func(req kmsg.Request) bool { return !req.(*kmsg.EndTxnRequest).Commit })
			refused := cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.TxnOffsetCommit}, Err: kerr.TransactionAbortable})
			if err := w.Commit(testContext(t), Offset{2, -1}, put("k", "2")); err != nil {
				t.Fatal(err)
			}
			if refused.Hits() != 1 {
				t.Fatalf("%d offsets were refused, want 1", refused.Hits())
			}
			if took, aborted := takeovers.Hits(), aborts.Hits(); took != c.takeovers || aborted != 1-c.takeovers {
				t.Errorf("I5: %d takeovers and %d aborts on the wire, want %d and %d", took, aborted, c.takeovers, 1-c.takeovers)
			}
			if state, progress, _ := p.restored(t, 0); state["k"] != "2" || progress.Inputs[0].Next != 2 {
				t.Errorf("I5: what was told as committed is not: %v, %+v", state, progress)
			}
		})
	}
}
