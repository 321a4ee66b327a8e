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
