package wire

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"

	"github.com/holdfast-go/holdfast/stream"
)

// transaction begins one on a cluster of an embedded broker and produces a record in it.
func transaction(t *testing.T, opts ...kfake.Opt) (*kfake.Cluster, *kgo.Client, Binding) {
	t.Helper()
	cluster, err := kfake.NewCluster(append(opts, kfake.NumBrokers(2), kfake.SeedTopics(1, "in", "out"))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	cl, err := kgo.NewClient(kgo.SeedBrokers(cluster.ListenAddrs()...), kgo.TransactionalID("id"), kgo.MetadataMinAge(50*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	ctx := within(t, time.Minute)
	if err := cl.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	if err := cl.ProduceSync(ctx, &kgo.Record{Topic: "out", Value: []byte("v")}).FirstErr(); err != nil {
		t.Fatal(err)
	}
	pid, epoch, err := cl.ProducerID(ctx)
	if err != nil {
		t.Fatal(err)
	}
	id, err := TopicID(ctx, cl, "in")
	if err != nil {
		t.Fatal(err)
	}
	return cluster, cl, Binding{
		TransactionalID: "id", ProducerID: pid, ProducerEpoch: epoch, Group: "g", Generation: -1,
		Input: stream.Partition{Topic: "in"}, TopicID: id, Next: 42, LeaderEpoch: 0, Metadata: "note",
	}
}

func TestBindOffset(t *testing.T) {
	t.Parallel()
	old := kversion.Stable()
	old.SetMaxKeyVersion(int16(kmsg.TxnOffsetCommit), 4)
	for _, c := range []struct {
		name string
		opts []kfake.Opt
		adds int32
	}{
		{"versions of the cluster", nil, 0},
		{"TxnOffsetCommit 4", []kfake.Opt{kfake.MaxVersions(old)}, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			cluster, cl, b := transaction(t, c.opts...)
			ctx := within(t, time.Minute)
			var adds atomic.Int32
			cluster.ControlKey(int16(kmsg.AddOffsetsToTxn), func(kmsg.Request) (kmsg.Response, error, bool) {
				adds.Add(1)
				return nil, nil, false
			})
			f, err := LookupFeatures(ctx, cl)
			if err != nil || f.Brokers != 2 || f.AddOffsets() != (c.adds > 0) {
				t.Fatalf("features %+v, %v", f, err)
			}
			if o, err := FetchOffset(ctx, cl, "g", Member{}, b.Input, b.TopicID); err != nil || o.Next != -1 {
				t.Errorf("before any commit: %+v, %v", o, err)
			}
			// The embedded broker knows of open transactions only in groups that exist.
			var other kadm.Offsets
			other.AddOffset("out", 0, 1, -1)
			if _, err := kadm.NewClient(cl).CommitOffsets(ctx, "g", other); err != nil {
				t.Fatal(err)
			}
			if err := BindOffset(ctx, cl, b, f.AddOffsets()); err != nil {
				t.Fatal(err)
			}
			if _, err := FetchOffset(ctx, cl, "g", Member{}, b.Input, b.TopicID); !errors.Is(err, kerr.UnstableOffsetCommit) {
				t.Errorf("while the transaction is open: %v", err)
			}
			if o, err := FetchUnstableOffset(ctx, cl, "g", Member{}, b.Input, b.TopicID); err != nil || o.Next != -1 {
				t.Errorf("unstable fetch: %+v, %v", o, err)
			}
			if err := cl.EndTransaction(ctx, kgo.TryCommit); err != nil {
				t.Fatal(err)
			}
			want := GroupOffset{Next: 42, LeaderEpoch: 0, Metadata: "note"}
			if o, err := FetchOffset(ctx, cl, "g", Member{}, b.Input, b.TopicID); err != nil || o != want {
				t.Errorf("after the commit: %+v, %v, want %+v", o, err, want)
			}
			if adds.Load() != c.adds {
				t.Errorf("%d AddOffsetsToTxn, want %d", adds.Load(), c.adds)
			}
		})
	}
}

func TestBindOffsetNamesTheStep(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		key  kmsg.Key
		step Step
	}{{kmsg.AddOffsetsToTxn, StepAddOffsets}, {kmsg.TxnOffsetCommit, StepOffset}} {
		cluster, cl, b := transaction(t)
		cluster.Fault(kfake.Fault{Keys: []kmsg.Key{c.key}, Err: kerr.ProducerFenced})
		err := BindOffset(within(t, time.Minute), cl, b, true)
		var step *StepError
		if !errors.As(err, &step) || step.Step != c.step || !errors.Is(err, kerr.ProducerFenced) {
			t.Errorf("%v: %v", c.step, err)
		}
	}
}

func TestBindOffsetWaitsOutConcurrentTransactions(t *testing.T) {
	t.Parallel()
	cluster, cl, b := transaction(t)
	cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.TxnOffsetCommit}, Err: kerr.ConcurrentTransactions, Count: 3})
	if err := BindOffset(within(t, time.Minute), cl, b, false); err != nil {
		t.Error(err)
	}
	cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.TxnOffsetCommit}, Err: kerr.ConcurrentTransactions, Count: -1})
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := BindOffset(ctx, cl, b, false); err == nil {
		t.Error("no error after the wait was cut")
	}
}

func TestTopicIDOfNoTopic(t *testing.T) {
	t.Parallel()
	_, cl, _ := transaction(t)
	if _, err := TopicID(within(t, time.Minute), cl, "absent"); !errors.Is(err, stream.ErrTopic) {
		t.Errorf("%v", err)
	}
}

// A client notes the partitions of a topic after it has sent the first records, here only when the record behind them
// can be partitioned. Until then it calls the end of their transaction done, and has not sent it.
func TestAwaitNoted(t *testing.T) {
	t.Parallel()
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "out"), kfake.MaxVersions(kversion.V3_9_0()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	release, given := make(chan struct{}), make(chan struct{})
	cluster.ControlKey(int16(kmsg.Metadata), func(req kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		if len(req.(*kmsg.MetadataRequest).Topics) > 0 {
			cluster.SleepControl(func() { <-given })
		}
		return nil, nil, false
	})
	ends := cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.EndTxn}, Count: -1, Observe: true})
	cl, err := kgo.NewClient(kgo.SeedBrokers(cluster.ListenAddrs()...), kgo.TransactionalID("id"), kgo.ProducerLinger(0),
		kgo.RecordPartitioner(kgo.BasicConsistentPartitioner(func(string) func(*kgo.Record, int) int {
			return func(r *kgo.Record, _ int) int {
				if string(r.Key) == "held" {
					<-release
					return -1
				}
				return 0
			}
		})))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := cl.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	promised := make(chan error, 1)
	cl.Produce(ctx, &kgo.Record{Topic: "out", Key: []byte("k")}, func(_ *kgo.Record, err error) { promised <- err })
	cl.Produce(ctx, &kgo.Record{Topic: "out", Key: []byte("held")}, nil)
	close(given)
	if err := <-promised; err != nil {
		t.Fatal(err)
	}
	out, gaveUp := stream.Partition{Topic: "out"}, errors.New("gave up")
	short, giveUp := context.WithCancelCause(ctx)
	giveUp(gaveUp)
	if err := AwaitNoted(short, cl, out); !errors.Is(err, gaveUp) {
		t.Errorf("a partition that is not noted: %v", err)
	}
	if err := cl.EndTransaction(ctx, kgo.TryCommit); err != nil || ends.Hits() != 0 {
		t.Errorf("the end before that: %v, and %d requests; the wait may be of no use any more", err, ends.Hits())
	}
	close(release)
	if err := AwaitNoted(ctx, cl, out); err != nil {
		t.Error(err)
	}
}
