package acceptance

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/kafkatest"
	"github.com/holdfast-go/holdfast/internal/rule"
	"github.com/holdfast-go/holdfast/internal/wiretap"
	"github.com/holdfast-go/holdfast/stream"
)

// order watches that the offsets of each ownership begin at its start and leave none out.
type order struct {
	mu     sync.Mutex
	next   map[int32]int64
	faults []string
	// skips: records may be left out that the restored state of their key has in it already, after an
	// ownership that ended with snapshots ahead of the offset. Whether any is lost, check tells.
	skips bool
}

func (o *order) hooks() holdfast.Hooks {
	return holdfast.Hooks{Restored: func(e stream.Restored) {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.next[e.Partition.Partition] = e.Start
	}}
}

var errOrder = errors.New("not the next record")

// fold refuses every record that is not the next one.
func (o *order) fold(ctx context.Context, k *holdfast.Key[tally], r stream.Record) error {
	if ctx.Err() != nil {
		return ctx.Err() // the ownership ended while the call waited
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if want := o.next[r.Partition]; r.Offset < want || r.Offset > want && !o.skips {
		o.faults = append(o.faults, fmt.Sprintf("partition %d: offset %d was to be folded, %d is next", r.Partition, r.Offset, want))
		return errOrder
	}
	o.next[r.Partition] = r.Offset + 1
	return fold(ctx, k, r)
}

// A member joins and leaves again and again under load. Whatever batches were fetched when a partition
// went or came, each ownership folds records from its start on in order, and in the end none is lost or repeated.
func TestKafkaBatchesOfManyRebalances(t *testing.T) {
	t.Parallel()
	const partitions, rebalances = 4, 4
	c := kafkatest.Start(t)
	input := c.CreateTopic(t, kafkatest.UniqueName("input"), partitions, nil)
	group := input + "-flow"
	stop := load(t, c, input, partitions)
	var orders []*order
	join := func(name string) *flow {
		o := &order{next: map[int32]int64{}, skips: true}
		orders = append(orders, o)
		conf := config(c.Addrs, group, input)
		conf.Fold = o.fold
		conf.Hooks = append(conf.Hooks, o.hooks())
		return start(t, t.Context(), name, conf)
	}
	stays := join("stays")
	for p := range int32(partitions) {
		stays.committedTo(p, 1)
	}
	for i := range rebalances {
		comes := join(fmt.Sprintf("comes %d", i))
		await(comes, 0, any1[stream.Committed])
		mark := stays.mark()
		if err := comes.stop(); err != nil {
			t.Error(err)
		}
		await(stays, mark, any1[stream.Restored])
	}
	written := stop()
	awaitCommitted(t, c, group, input, partitions, int64(written))
	if err := stays.stop(); err != nil {
		t.Error(err)
	}
	for _, o := range orders {
		for _, fault := range o.faults {
			t.Error(fault)
		}
	}
	for _, d := range check(t, c, group, input, group+"-snapshots") {
		t.Error(d)
	}
}

// earlierBatch has a batch polled under an ownership that ends before the batch is folded.
func earlierBatch(t *testing.T, ctx context.Context) (r *rejoin, o *order) {
	c := kafkatest.Start(t)
	r = &rejoin{t: t, c: c, a: newTap(t, c), gate: newGate(10, 0)}
	r.input = c.CreateTopic(t, kafkatest.UniqueName("input"), 1, nil)
	r.group = r.input + "-flow"
	pr := producer(t, c)
	produce(t, pr, r.input, 0, 3, 0, 10)
	first := start(t, t.Context(), "first", short(config(c.Addrs, r.group, r.input)))
	first.committedTo(0, 10)
	if err := first.stop(); err != nil {
		t.Fatal(err)
	}
	o = &order{next: map[int32]int64{}}
	conf := tapped(short(config(c.Addrs, r.group, r.input)), r.a, "A")
	conf.Fold = func(ctx context.Context, k *holdfast.Key[tally], record stream.Record) error {
		r.gate.hold(record)
		return o.fold(ctx, k, record)
	}
	conf.Hooks = append(conf.Hooks, o.hooks())
	r.flowA = start(t, ctx, "A", conf)
	t.Cleanup(r.gate.open)
	await(r.flowA, 0, any1[stream.Restored])

	r.holdJoin = r.a.Fault(wiretap.HoldRequest, wiretap.Keys(kmsg.JoinGroup))
	t.Cleanup(r.holdJoin.Lift)
	// Another member that commits nothing: what matters is that A is expelled and has to rejoin.
	b := c.Client(t, kgo.ConsumerGroup(r.group), kgo.ConsumeTopics(r.input), kgo.Balancers(kgo.CooperativeStickyBalancer()),
		kgo.DisableAutoCommit(), kgo.ClientID("B"))
	caught(t, r.holdJoin, 1)
	awaitExpelled(t, c, r.group, "A")
	b.Close()
	awaitExpelled(t, c, r.group, "B")

	// One batch waits in the first ownership's queue, and the next one has been polled.
	for from := 10; from < 20; from += 5 {
		produce(t, pr, r.input, 0, 3, from, from+5)
		place := r.a.awaitSeen("a batch", 0, 1, isRequest[*kmsg.FetchRequest](func(s sight) bool { return hasRecordsFrom(s.resp, uint64(from)) }))[0].place
		// The client fetches again when the batch has been taken by a poll.
		r.a.awaitSeen("the next fetch", place+1, 1, isRequest[*kmsg.FetchRequest]())
	}
	awaitOffset(t, r.gate.doors[0].entered, 10)
	r.holdJoin.Lift()
	return r, o
}

// A batch that was polled under one ownership meets the next one of the same partition, whose start lies
// before it. With its number it is dropped and fetched again in order; without, it is folded first, and
// the records before it are lost.
func TestKafkaBatchOfAnEarlierOwnership(t *testing.T) {
	t.Run("with all rules", func(t *testing.T) {
		t.Parallel()
		r, o := earlierBatch(t, t.Context())
		defer func() { // also where the flow ends for them
			o.mu.Lock()
			defer o.mu.Unlock()
			for _, fault := range o.faults {
				t.Error("I2:", fault)
			}
		}()
		r.againRestored()
		r.gate.open()
		r.flowA.committedTo(0, 20)
		if err := r.flowA.stop(); err != nil {
			t.Error(err)
		}
		for _, d := range check(t, r.c, r.group, r.input, r.group+"-snapshots") {
			t.Error(d)
		}
	})
	t.Run("without the rule", func(t *testing.T) {
		t.Parallel()
		r, _ := earlierBatch(t, rule.Without(t.Context(), rule.OwnershipTag))
		r.againRestored()
		r.gate.open()
		select {
		case <-r.flowA.done:
		case <-time.After(patience):
			t.Fatal("the flow goes on: no record came out of order")
		}
		if e := (*stream.Error)(nil); !errors.Is(r.flowA.err, errOrder) || !errors.As(r.flowA.err, &e) || e.Offset != 15 {
			t.Errorf("the flow ended with %v, want a record that came before its turn at 15", r.flowA.err)
		}
	})
}

// againRestored waits until A has been granted its partition anew and has restored it.
func (r *rejoin) againRestored() {
	r.t.Helper()
	e := await(r.flowA, 0, func(e stream.Assigned) bool { return e.Ownership > 1 })
	if e.Committed != 10 {
		r.t.Errorf("the next ownership begins at %d, want 10", e.Committed)
	}
	await(r.flowA, 0, func(stream.Restored) bool { return len(each[stream.Restored](r.flowA)) > 1 })
}
