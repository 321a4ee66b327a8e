package fence

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"

	"github.com/holdfast-go/holdfast/stream"
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
			commits := cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.EndTxn}, Count: -1, Observe: true, When: func(req kmsg.Request) bool {
				return req.(*kmsg.EndTxnRequest).Commit
			}})
			var once sync.Once
			cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.TxnOffsetCommit}, Count: -1, Observe: true, When: func(kmsg.Request) bool {
				if commits.Hits() == 1 { // the first transaction was not ended before the client had the partition
					once.Do(func() { cl.PurgeTopicsFromProducing(testProgress) })
				}
				return true
			}})
			for next, want := range []string{"1", "2", "3"} {
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

// R5: a client that has sent the first records of a topic notes its partitions afterwards. Here it is held up before
// that, by a record behind them that cannot be partitioned yet. A transaction that ended then would leave the client
// with a partition that it takes for a part of the next one, and does not add to it.
func TestEndWaitsUntilTheClientHasNoted(t *testing.T) {
	t.Parallel()
	cluster, p := fakeCluster(t, kfake.SeedTopics(1, "out"), kfake.MaxVersions(kversion.V3_9_0()))
	w, _ := openWriter(t, p.config(t, join(t, p, Session{}).granted(t)))
	release, given := make(chan struct{}), make(chan struct{})
	x := clientOf(t, w, heldUp(cluster, given, release))
	var inTransaction atomic.Bool
	cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.AddPartitionsToTxn}, Count: -1, Observe: true, When: func(req kmsg.Request) bool {
		for _, topic := range req.(*kmsg.AddPartitionsToTxnRequest).Topics {
			if topic.Topic == "out" {
				inTransaction.Store(true)
			}
		}
		return true
	}})
	begin := func(ms ...stream.Message) {
		if err := x.begin(); err != nil {
			t.Fatal(err)
		}
		if _, _, errs := x.produce(testContext(t), ms, 0); errs != nil {
			t.Fatal(errors.Join(errs...))
		}
	}
	begin(put("k", "0"))
	if err := x.end(testContext(t), true); err != nil {
		t.Fatal(err)
	}
	begin(put("k", "1"))
	promised := make(chan error, 1)
	x.cl.Produce(testContext(t), &kgo.Record{Topic: "out", Key: []byte("k")}, func(r *kgo.Record, err error) {
		x.acked(r)
		promised <- err
	})
	x.cl.Produce(testContext(t), &kgo.Record{Topic: "out", Key: []byte("held")}, nil)
	close(given)
	if err := <-promised; err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- x.end(testContext(t), true) }()
	select {
	case err := <-ended:
		t.Errorf("I1: the transaction has ended before the client had noted the partition: %v", err)
		ended <- err
	case <-time.After(50 * time.Millisecond):
	}
	close(release)
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	inTransaction.Store(false)
	begin(put("k", "2"), stream.Message{Topic: "out", Key: []byte("k")})
	if err := x.end(testContext(t), true); err != nil {
		t.Fatal(err)
	}
	if !inTransaction.Load() {
		t.Error("I1: the next transaction has a record in a partition that was not added to it")
	}
}

// heldUp is an option of a client that sends what comes for the topic out once all of it is given, and notes the topic's
// partitions when it is released.
func heldUp(cluster *kfake.Cluster, given, release chan struct{}) kgo.Opt {
	cluster.ControlKey(int16(kmsg.Metadata), func(req kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		if slices.ContainsFunc(req.(*kmsg.MetadataRequest).Topics, func(r kmsg.MetadataRequestTopic) bool { return r.Topic != nil && *r.Topic == "out" }) {
			cluster.SleepControl(func() { <-given })
		}
		return nil, nil, false
	})
	return kgo.RecordPartitioner(kgo.BasicConsistentPartitioner(func(string) func(*kgo.Record, int) int {
		return func(r *kgo.Record, _ int) int {
			if string(r.Key) == "held" {
				<-release
				return -1
			}
			return 0
		}
	}))
}

// clientOf makes a client of the writer's own, with other options, in the place of that one.
func clientOf(t *testing.T, w *Writer, opts ...kgo.Opt) *txn {
	t.Helper()
	of := w.producer.(*txn)
	g := newGate(t.Context(), func(context.Context) error { return nil })
	base, err := of.c.Kafka.ClientOpts(g.wrap)
	if err != nil {
		t.Fatal(err)
	}
	cl, err := kgo.NewClient(append(append(base, kgo.TransactionalID(of.id), kgo.ProducerLinger(0)), opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	x := &txn{cluster: of.cluster, cl: cl, gate: g, took: map[stream.Partition]bool{}}
	t.Cleanup(x.close)
	if err := x.init(testContext(t)); err != nil {
		t.Fatal(err)
	}
	return x
}
