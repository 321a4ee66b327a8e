package acceptance

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/kafkatest"
	"github.com/holdfast-go/holdfast/internal/wiretap"
	"github.com/holdfast-go/holdfast/stream"
)

// blocked is a fold that hangs at the first record of partition 0 until it is let go on.
type blocked struct {
	at   chan struct{} // closed when it hangs
	free chan struct{}
	once sync.Once
}

func newBlocked() *blocked {
	return &blocked{at: make(chan struct{}), free: make(chan struct{})}
}

func (b *blocked) fold(ctx context.Context, k *holdfast.Key[tally], r stream.Record) error {
	if r.Partition == 0 {
		b.once.Do(func() { close(b.at) })
		<-b.free
	}
	return fold(ctx, k, r)
}

// A fold that hangs holds up its own partition alone: the other one is fetched, folded and committed,
// and what is fetched for the hanging one is bounded. When it goes on, so does its fetching.
func TestKafkaSlowFoldHoldsUpItsPartitionAlone(t *testing.T) {
	t.Parallel()
	const records, queue, fetchBytes = 4000, 50, 4 << 10
	k := kafkatest.Start(t)
	input := k.CreateTopic(t, kafkatest.UniqueName("input"), 2, nil)
	group, tap := input+"-flow", tapOf(t, k)
	fetched := watchFetches(tap)
	pr := k.Client(t, kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerBatchMaxBytes(2<<10), kgo.ProducerBatchCompression(kgo.NoCompression()))
	produce(t, pr, input, 0, 5, 0, records)

	slow := newBlocked()
	free := sync.OnceFunc(func() { close(slow.free) })
	t.Cleanup(free)
	conf := behind(tap, config(k.Addrs, group, input))
	conf.Fold, conf.Member.QueueRecords = slow.fold, queue
	conf.Kafka.Opts = append(conf.Kafka.Opts, kgo.FetchMaxPartitionBytes(fetchBytes))
	f := start(t, t.Context(), "slow", conf)
	<-slow.at
	for i := range 10 { // each round is fetched, folded and committed before the next
		produce(t, pr, input, 1, 5, i*100, (i+1)*100)
		f.committedTo(1, int64(i+1)*100)
	}
	all := logBytes(t, k, input)
	if got := fetched.bytes(0); got > all/4 {
		t.Errorf("%d of %d bytes of the hanging partition were fetched: its queue takes %d records", got, all, queue)
	}
	if got := committed(t, k, group, input)[0]; got != 0 {
		t.Errorf("committed %d for the partition that hangs in its first record", got)
	}
	free()
	f.committedTo(0, records)
	if err := f.stop(); err != nil {
		t.Fatal(err)
	}
	for _, d := range check(t, k, group, input, group+"-snapshots") {
		t.Error(d)
	}
}

// fetches counts the bytes of records that answers to Fetch brought, by partition. The input is told
// from the snapshot topic by the fetch sessions of the group's client: others name one partition each.
type fetches struct {
	mu sync.Mutex
	n  map[int32]int
}

func watchFetches(tap *wiretap.Cluster) *fetches {
	f := &fetches{n: map[int32]int{}}
	tap.OnResponse(func(_ wiretap.Request, resp kmsg.Response) {
		f.mu.Lock()
		defer f.mu.Unlock()
		for _, t := range resp.(*kmsg.FetchResponse).Topics {
			for _, p := range t.Partitions {
				f.n[p.Partition] += len(p.RecordBatches)
			}
		}
	}, kmsg.Fetch)
	return f
}

func (f *fetches) bytes(partition int32) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.n[partition]
}

// logBytes is the size of the records of partition 0, without the overhead of batches.
func logBytes(t *testing.T, k *kafkatest.Cluster, topic string) (n int) {
	t.Helper()
	for _, r := range readAll(t, k, topic, kgo.ReadUncommitted()) {
		if r.Partition == 0 {
			n += len(r.Key) + len(r.Value) + 7
		}
	}
	return n
}

// A stop commits everything that was folded, though nothing was due for an hour.
func TestKafkaShutdownCommitsEverything(t *testing.T) {
	for _, guarantee := range []holdfast.Guarantee{holdfast.FencedState, holdfast.Unfenced} {
		t.Run(guarantee.String(), func(t *testing.T) {
			t.Parallel()
			k := kafkatest.Start(t)
			input := k.CreateTopic(t, kafkatest.UniqueName("input"), 2, nil)
			group, pr := input+"-flow", producer(t, k)
			const records = 700 // more than one transaction's writes
			for p := range int32(2) {
				produce(t, pr, input, p, 600, 0, records)
			}
			folded := newCounter()
			conf := rarely(config(k.Addrs, group, input))
			conf.Guarantee, conf.Fold = guarantee, counting(folded, fold)
			f := start(t, t.Context(), "stopping", conf)
			folded.await(t, 2*records)
			if err := f.stop(); err != nil {
				t.Fatal(err)
			}
			for p, next := range committed(t, k, group, input) {
				if next != records {
					t.Errorf("partition %d: committed %d, want %d", p, next, records)
				}
			}
			for _, e := range each[revoked](f) {
				if !e.Flushed {
					t.Errorf("revoked %+v, want everything flushed", e)
				}
			}
			for _, d := range check(t, k, group, input, group+"-snapshots") {
				t.Error(d)
			}
		})
	}
}

func TestKafkaRunTwice(t *testing.T) {
	t.Parallel()
	b := newBench(t, holdfast.FencedState)
	h, err := holdfast.New(b.conf)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- h.Run(ctx) }()
	cancel()
	if err := <-done; err != nil {
		t.Errorf("Run that is asked to stop at once returned %v", err)
	}
	named(t, h.Run(t.Context()), holdfast.ErrConfig, "run before")
}

// A static member that restarts within its session gets its partitions back without a rebalance of
// the others, and goes on where it was.
func TestKafkaStaticMemberRestarts(t *testing.T) {
	t.Parallel()
	k := kafkatest.Start(t)
	input := k.CreateTopic(t, kafkatest.UniqueName("input"), 2, nil)
	group, pr := input+"-flow", producer(t, k)
	conf := func(id string) holdfast.Config[tally] {
		c := config(k.Addrs, group, input)
		c.Member.InstanceID = id
		return c
	}
	a := start(t, t.Context(), "a", conf("a"))
	for p := range int32(2) { // a owns both before b comes and is given one of them
		await(a, 0, func(e stream.Restored) bool { return e.Partition.Partition == p })
	}
	b := start(t, t.Context(), "b", conf("b"))
	settled := await(b, 0, any1[stream.Restored]).Partition.Partition
	mine := 1 - settled
	for p := range int32(2) {
		produce(t, pr, input, p, 3, 0, 10)
	}
	awaitCommitted(t, k, group, input, 2, 10)
	grants := len(each[stream.Assigned](b))
	if err := a.stop(); err != nil {
		t.Fatal(err)
	}
	for p := range int32(2) {
		produce(t, pr, input, p, 3, 10, 20)
	}
	a = start(t, t.Context(), "a again", conf("a"))
	if e := await(a, 0, any1[stream.Restored]); e.Partition.Partition != mine || e.Keys != 3 || e.Start < 10 {
		t.Errorf("restored %+v, want partition %d with 3 keys", e, mine)
	}
	awaitCommitted(t, k, group, input, 2, 20)
	if n := len(each[stream.Assigned](b)); n != grants {
		t.Errorf("the other member was granted %d partitions during the restart", n-grants)
	}

	// Another process with the id of a live one: the older one is expelled and says why.
	other := start(t, t.Context(), "other a", conf("a"))
	await(other, 0, any1[stream.Assigned])
	err := a.failure()
	if e := (*stream.Error)(nil); !errors.As(err, &e) || e.Hint == "" {
		t.Errorf("the expelled member ended with %v, want a next step", err)
	}
	for _, f := range []*flow{other, b} {
		if err := f.stop(); err != nil {
			t.Error(err)
		}
	}
	for _, d := range check(t, k, group, input, group+"-snapshots") {
		t.Error(d)
	}
}
