package fence

import (
	"errors"
	"sync/atomic"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/stream"
)

// I4: an outcome in doubt is read back at two deposed brokers, the group's coordinator and the leader of the
// progress partition, which agree on the commit before it.
//
//  1. A transaction is committed, and the answer is lost.
//  2. The id is taken over, and offset and end of the log are read where neither has heard of that commit: it
//     passes for aborted.
//  3. The same effects go again, to the leader that there is, and lie behind those that were committed.
func TestReadBackAtTwoDeposedBrokers(t *testing.T) {
	t.Parallel()
	cluster, p := fakeCluster(t)
	network := newTap()
	p.txn = network.config(p.k)
	ctx := testContext(t)
	m := join(t, p, Session{})
	c := p.config(t, m.granted(t))
	var armed atomic.Bool
	c.Unknown = func(error) { armed.Store(true); network.set(nil) }
	w, _ := openWriter(t, c)
	if err := w.Commit(ctx, Offset{1, -1}, put("k", "1")); err != nil {
		t.Fatal(err)
	}
	known, ok := w.LastCommit(ctx)
	if !ok {
		t.Fatal("no last commit")
	}
	var lost atomic.Bool
	network.set(func(key kmsg.Key) fate {
		switch {
		case key != kmsg.EndTxn:
			return pass
		case lost.CompareAndSwap(false, true):
			return loseIt
		}
		return cut
	})
	asked := deposed(cluster, &armed, known)
	err := w.Commit(ctx, Offset{2, -1}, put("output", "2"))
	if asked.Load() != 2 {
		t.Fatal("nothing was read back at the deposed brokers")
	}
	log, outputs := wire.Log{Client: testClient(t, p.k), Topic: testProgress}, 0
	_, end, _, endErr := log.Ends(ctx)
	if endErr != nil {
		t.Fatal(endErr)
	}
	if _, err := log.View(ctx, wire.ViewOptions{To: end}, func(e wire.Entry) error {
		if string(e.Record.Key) == "output" && e.Status == wire.StatusCommitted {
			outputs++
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if outputs != 1 {
		t.Errorf("I4: one commit has written its output %d times", outputs)
	}
	if err != nil && (!errors.Is(err, stream.ErrOwnershipLost) || !errors.Is(err, stream.ErrOutcomeUnknown)) {
		t.Errorf("what was committed was told to be not: %v", err)
	}
}

// deposed has a broker, once it is armed, answer once for the group's offset and once for the end of the progress
// partition as of a commit that is not the last one any more.
func deposed(cluster *kfake.Cluster, armed *atomic.Bool, old LastCommit) (asked *atomic.Int32) {
	asked = new(atomic.Int32)
	var offsetAsked, endAsked atomic.Bool
	metadata := witness{old.Nonce, old.Sequence}.metadata("")
	cluster.ControlKey(int16(kmsg.OffsetFetch), func(kreq kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		req := kreq.(*kmsg.OffsetFetchRequest)
		if !req.RequireStable || !armed.Load() || !offsetAsked.CompareAndSwap(false, true) {
			return nil, nil, false
		}
		asked.Add(1)
		gp := kmsg.NewOffsetFetchResponseGroupTopicPartition()
		gp.Offset, gp.LeaderEpoch, gp.Metadata = old.Next, -1, &metadata
		gt := kmsg.NewOffsetFetchResponseGroupTopic()
		gt.Topic, gt.TopicID, gt.Partitions = testInput, req.Groups[0].Topics[0].TopicID, append(gt.Partitions, gp)
		g := kmsg.NewOffsetFetchResponseGroup()
		g.Group, g.Topics = testGroup, append(g.Topics, gt)
		resp := req.ResponseKind().(*kmsg.OffsetFetchResponse)
		resp.Groups = append(resp.Groups, g)
		return resp, nil, true
	})
	cluster.ControlKey(int16(kmsg.ListOffsets), func(kreq kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		req := kreq.(*kmsg.ListOffsetsRequest)
		if !armed.Load() || req.Topics[0].Partitions[0].Timestamp != -1 || !endAsked.CompareAndSwap(false, true) {
			return nil, nil, false
		}
		asked.Add(1)
		return endAt(req, old.At+2), nil, true
	})
	return asked
}

// I7: a read-back that meets a deposed leader finds a progress partition that ends before what was acknowledged.
// One such answer is no truncation.
func TestReadBackAtADeposedLeader(t *testing.T) {
	t.Parallel()
	cluster, p := fakeCluster(t)
	ctx := testContext(t)
	m := join(t, p, Session{})
	w, _ := openWriter(t, p.config(t, m.granted(t)))
	for next := range int64(2) {
		if err := w.Commit(ctx, Offset{next, -1}, put("k", "1")); err != nil {
			t.Fatal(err)
		}
	}
	known, _ := w.LastCommit(ctx)
	var armed, asked atomic.Bool
	cluster.ControlKey(int16(kmsg.ListOffsets), func(kreq kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		req := kreq.(*kmsg.ListOffsetsRequest)
		if !armed.Load() || req.Topics[0].Partitions[0].Timestamp != -1 || !asked.CompareAndSwap(false, true) {
			return nil, nil, false
		}
		return endAt(req, known.At), nil, true
	})
	cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.TxnOffsetCommit}, Err: kerr.UnknownServerError, Count: 1})
	armed.Store(true)
	if err := w.Commit(ctx, Offset{2, -1}, put("k", "2")); err != nil {
		t.Errorf("I7: one answer of a deposed leader has stopped the writer: %v", err)
	}
	if !asked.Load() {
		t.Error("nothing was read back at the deposed leader")
	}
}

// endAt answers a request for the end of the progress partition.
func endAt(req *kmsg.ListOffsetsRequest, end int64) kmsg.Response {
	rp := kmsg.NewListOffsetsResponseTopicPartition()
	rp.Offset, rp.Timestamp = end, -1
	rt := kmsg.NewListOffsetsResponseTopic()
	rt.Topic, rt.Partitions = testProgress, append(rt.Partitions, rp)
	resp := req.ResponseKind().(*kmsg.ListOffsetsResponse)
	resp.Topics = append(resp.Topics, rt)
	return resp
}
