package acceptance

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/internal/kafkatest"
	"github.com/holdfast-go/holdfast/internal/wiretap"
	"github.com/holdfast-go/holdfast/kafka"
	"github.com/holdfast-go/holdfast/stream"
)

// newWriter returns a writer of the one partition of a topic, under a live group membership of the
// same name. The snapshot topic is named after it.
func newWriter(t *testing.T, k *kafkatest.Cluster, maxWrites int, opts ...kgo.Opt) (w *fence.Writer, snapshots string) {
	t.Helper()
	input := k.CreateTopic(t, kafkatest.UniqueName("input"), 1, nil)
	snapshots = k.CreateTopic(t, input+"-snapshots", 1, map[string]string{"cleanup.policy": "compact"})
	conf := kafka.Config{Brokers: k.Addrs, Opts: opts}
	granted := make(chan *fence.Ownership, 1)
	group := fence.NewGroup(func(_ context.Context, o *fence.Ownership) { granted <- o }, func(*fence.Ownership, bool) {})
	client, err := group.NewClient(t.Context(), conf, fence.Session{Group: input},
		kgo.ConsumeTopics(input), kgo.Balancers(kgo.CooperativeStickyBalancer()))
	if err != nil {
		t.Fatal(err)
	}
	polling, stopPolling := context.WithCancel(context.WithoutCancel(t.Context()))
	var polled sync.WaitGroup
	polled.Go(func() {
		for polling.Err() == nil {
			client.PollFetches(polling)
			client.AllowRebalance()
		}
	})
	t.Cleanup(func() { stopPolling(); polled.Wait(); client.CloseAllowingRebalance() })
	own := <-granted
	w, _, err = fence.Open(t.Context(), fence.Config{
		Kafka: conf, Group: input, Ownership: own, Input: own.Partition(), InputTopicID: topicID(t, k, input), InputPartitions: 1,
		Progress: stream.Partition{Topic: snapshots}, MaxWrites: maxWrites,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.Close(context.WithoutCancel(t.Context())) })
	return w, snapshots
}

// waiting is a context that tells when somebody waits for its end: a write then stands in the queue.
type waiting struct {
	context.Context
	waits func()
}

func (w waiting) Done() <-chan struct{} {
	w.waits()
	return w.Context.Done()
}

// Keys are written at the same time over one producer: all are stored, and those that wait while a transaction is on its
// way share the next one, up to the cap.
func TestKafkaConcurrentKeys(t *testing.T) {
	for maxWrites, transactions := range map[int]int{256: 1, 1: 10} {
		t.Run(fmt.Sprint("cap ", maxWrites), func(t *testing.T) {
			t.Parallel()
			k := kafkatest.Start(t)
			a := newTap(t, k)
			w, snapshots := newWriter(t, k, maxWrites, kgo.Dialer(a.Dialer()))
			if err := w.Commit(t.Context(), fence.Offset{Next: 5, LeaderEpoch: -1}); err != nil {
				t.Fatal(err)
			}
			held := a.Fault(wiretap.HoldRequest, wiretap.First(1, wiretap.Keys(kmsg.EndTxn)))
			t.Cleanup(held.Lift)
			const keys = 10
			var all, queued sync.WaitGroup
			write := func(ctx context.Context, i int) {
				key := []byte(fmt.Sprint("k", i))
				if err := w.Write(ctx, stream.Message{Key: key, Value: key}); err != nil {
					t.Errorf("key %s: %v", key, err)
				}
			}
			all.Go(func() { write(t.Context(), keys) })
			caught(t, held, 1)
			for i := range keys {
				queued.Add(1)
				all.Go(func() { write(waiting{t.Context(), sync.OnceFunc(queued.Done)}, i) })
			}
			queued.Wait()
			held.Lift()
			all.Wait()
			stored, commits := map[string]string{}, 0
			for _, r := range readAll(t, k, snapshots, kgo.ReadCommitted()) {
				if !fence.IsProgressKey(r.Key) {
					stored[string(r.Key)] = string(r.Value)
					continue
				}
				commits++
				if p, err := fence.DecodeProgress(r.Value); err != nil || p.Inputs[0].Next != 5 {
					t.Errorf("progress %+v, %v: each write commits the offset again", p, err)
				}
			}
			if len(stored) != keys+1 || stored["k7"] != "k7" {
				t.Errorf("stored %v, want %d keys", stored, keys+1)
			}
			if want := 2 + transactions; commits != want {
				t.Errorf("%d transactions, want %d: two before, and %d for the %d keys that waited", commits, want, transactions, keys)
			}
		})
	}
}

// Four runs of one flow, each restored from the last: the offset goes on, the state is recovered,
// overwritten, and deleted, in both partitions.
func TestKafkaFourRuns(t *testing.T) {
	for _, guarantee := range []holdfast.Guarantee{holdfast.FencedState, holdfast.Unfenced} {
		t.Run(guarantee.String(), func(t *testing.T) {
			t.Parallel()
			k := kafkatest.Start(t)
			input := k.CreateTopic(t, kafkatest.UniqueName("input"), 2, nil)
			group, pr := input+"-flow", producer(t, k)
			conf := config(k.Addrs, group, input)
			conf.Guarantee = guarantee
			for run, want := range []int{1, 2, 0, 0} { // records folded into each key in the end
				for p := range int32(2) {
					value := fmt.Sprint(run)
					if run == 2 {
						value = "delete"
					}
					r := &kgo.Record{Topic: input, Partition: p, Key: []byte(fmt.Sprint("k", p)), Value: []byte(value)}
					if run < 3 {
						if err := pr.ProduceSync(t.Context(), r).FirstErr(); err != nil {
							t.Fatal(err)
						}
					}
				}
				f := start(t, t.Context(), fmt.Sprint("run ", run), conf)
				for p := range int32(2) {
					e := await(f, 0, func(e stream.Restored) bool { return e.Partition.Partition == p })
					if int(e.Start) != run {
						t.Errorf("run %d of partition %d begins at %d", run, p, e.Start)
					}
				}
				awaitCommitted(t, k, group, input, 2, int64(min(run+1, 3)))
				if err := f.stop(); err != nil {
					t.Fatal(err)
				}
				s := stored(t, k, group+"-snapshots")
				if s["k0"].N != want || s["k1"].N != want {
					t.Errorf("after run %d: stored %+v, want %d records in each key", run, s, want)
				}
			}
			if n := strings.Count(fmt.Sprint(committed(t, k, group, input)), ":3"); n != 2 {
				t.Errorf("committed %v, want 3 in both partitions", committed(t, k, group, input))
			}
		})
	}
}
