package acceptance

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/codec"
	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/internal/kafkatest"
	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/internal/wiretap"
	"github.com/holdfast-go/holdfast/stream"
)

// granted returns the member ids of the commits that the broker took after mark.
func granted(a *tap, mark int) (ids []string) {
	for _, s := range a.seen(mark, isRequest[*kmsg.TxnOffsetCommitRequest](answeredWith(nil))) {
		ids = append(ids, memberID(s.req))
	}
	return ids
}

// foreignCommit is another application that commits once under the partition's transactional id, with
// a progress record as an owner would write it.
func foreignCommit(t *testing.T, c *kafkatest.Cluster, group, input string, next int64) {
	t.Helper()
	id := idOf(group, 0)
	cl := c.Client(t, kgo.TransactionalID(id), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerLinger(0))
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	facts, err := wire.TopicFacts(ctx, cl, input)
	if err != nil {
		t.Fatal(err)
	}
	const nonce, sequence = 4711, 1
	key, value, err := fence.Progress{
		Inputs:     []fence.InputProgress{{Topic: input, TopicID: facts.ID, Next: next, LeaderEpoch: -1}},
		Partitions: 1, Group: group, Nonce: nonce, Sequence: sequence, At: time.Now(),
	}.Encode()
	if err != nil {
		t.Fatal(err)
	}
	if err := cl.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	if err := cl.ProduceSync(ctx, &kgo.Record{Topic: group + "-snapshots", Key: key, Value: value}).FirstErr(); err != nil {
		t.Fatal(err)
	}
	pid, epoch, err := cl.ProducerID(ctx)
	if err != nil {
		t.Fatal(err)
	}
	err = wire.BindOffset(ctx, cl, wire.Binding{
		TransactionalID: id, ProducerID: pid, ProducerEpoch: epoch, Group: group, Generation: -1,
		Input: stream.Partition{Topic: input}, TopicID: facts.ID, Next: next, LeaderEpoch: -1,
		Metadata: fmt.Sprintf("hf1:%x:%x", nonce, sequence),
	}, oldTransactions())
	if err != nil {
		t.Fatal(err)
	}
	if err := cl.EndTransaction(ctx, kgo.TryCommit); err != nil {
		t.Fatal(err)
	}
}

// Somebody else commits under the partition's id while the group assigns the partition to us and to
// nobody else. What we have in memory may not be what is committed: the ownership ends, and a new one
// begins under the same member id, after the group has answered.
func TestKafkaGoneWhileAssignedAnotherCommits(t *testing.T) {
	t.Parallel()
	c := kafkatest.Start(t)
	a := newTap(t, c)
	input := c.CreateTopic(t, kafkatest.UniqueName("input"), 1, nil)
	group := input + "-flow"
	pr := producer(t, c)
	produce(t, pr, input, 0, 3, 0, 10)
	f := start(t, t.Context(), "A", tapped(config(c.Addrs, group, input), a, "A"))
	f.committedTo(0, 10)
	before := granted(a, 0)[0]
	mark := a.mark()
	foreignCommit(t, c, group, input, 10)
	produce(t, pr, input, 0, 3, 10, 20)
	if e := await(f, 0, any1[lost]); !errors.Is(e.Cause, stream.ErrOwnershipLost) {
		t.Errorf("lost by %v", e.Cause)
	}
	second := func(e stream.Assigned) bool { return e.Ownership > 1 }
	if e := await(f, 0, second); e.Committed != 10 {
		t.Errorf("the new ownership begins at %d, want 10", e.Committed)
	}
	f.committedTo(0, 20)
	for _, id := range granted(a, mark) {
		if id != before {
			t.Errorf("committed under member id %q, the partition was granted under %q", id, before)
		}
	}
	if err := f.stop(); err != nil {
		t.Error(err)
	}
	for _, d := range check(t, c, group, input, group+"-snapshots") {
		t.Error(d)
	}
}

// taints is a flow whose fold changes a state in place and then fails, once, at a record.
func taints(c holdfast.Config[tally], at int64) holdfast.Config[*tally] {
	var failed atomic.Bool
	return holdfast.Config[*tally]{
		Kafka: c.Kafka, Group: c.Group, Inputs: c.Inputs, Snapshots: c.Snapshots, Codec: codec.JSON[*tally](),
		Member: c.Member, Commit: c.Commit, Logger: c.Logger,
		OnError: func(context.Context, *stream.RecordError) stream.Action { return stream.Retry },
		Fold: func(_ context.Context, k *holdfast.Key[*tally], r stream.Record) error {
			s, ok := k.State()
			if !ok {
				s = &tally{}
			}
			var n int64
			if _, err := fmt.Sscan(string(r.Value), &n); err != nil {
				return err
			}
			*s = s.with(n, r.Offset)
			if r.Offset == at && !failed.Swap(true) {
				return errors.New("too late: the state is changed")
			}
			k.Set(s)
			return nil
		},
	}
}

// beforeTaint starts a flow whose fold will fail at offset 15.
func beforeTaint(t *testing.T) (c *kafkatest.Cluster, a *tap, f *flow, group, input string) {
	c = kafkatest.Start(t)
	a = newTap(t, c)
	input = c.CreateTopic(t, kafkatest.UniqueName("input"), 1, nil)
	group = input + "-flow"
	produce(t, producer(t, c), input, 0, 3, 0, 10)
	f = start(t, t.Context(), "A", taints(tapped(short(config(c.Addrs, group, input)), a, "A"), 15))
	f.committedTo(0, 10)
	return c, a, f, group, input
}

// A failed fold may have changed a state that it shares with memory. The ownership ends, and the next
// one restores. It does not initialise the id before the group has answered, and when the group says
// that it does not know the member any more, it does not come about.
func TestKafkaGoneWhileAssignedTaintedState(t *testing.T) {
	inits := isRequest[*kmsg.InitProducerIDRequest]()
	t.Run("the group answers", func(t *testing.T) {
		t.Parallel()
		c, a, f, group, input := beforeTaint(t)
		before := granted(a, 0)[0]
		mark := a.mark()
		heartbeat := a.Fault(wiretap.HoldRequest, wiretap.Keys(kmsg.Heartbeat))
		t.Cleanup(heartbeat.Lift)
		produce(t, producer(t, c), input, 0, 3, 10, 20)
		await(f, 0, any1[lost])
		caught(t, heartbeat, 1)
		if got := a.seen(mark, inits); len(got) > 0 {
			t.Errorf("the id was initialised before the group had answered: %v", got)
		}
		heartbeat.Lift()
		await(f, 0, func(e stream.Assigned) bool { return e.Ownership > 1 })
		f.committedTo(0, 20)
		asked := a.awaitSeen("the group's answer", mark, 1, isRequest[*kmsg.HeartbeatRequest](answeredWith(nil)))[0]
		if init := a.seen(mark, inits)[0]; init.place < asked.place {
			t.Error("the id was initialised before the group had answered")
		}
		for _, id := range granted(a, mark) {
			if id != before {
				t.Errorf("committed under member id %q, the partition was granted under %q", id, before)
			}
		}
		if err := f.stop(); err != nil {
			t.Error(err)
		}
		for _, d := range check(t, c, group, input, group+"-snapshots") {
			t.Error(d)
		}
	})
	t.Run("the group has expelled the member", func(t *testing.T) {
		t.Parallel()
		c, a, f, group, input := beforeTaint(t)
		join := a.Fault(wiretap.HoldRequest, wiretap.Keys(kmsg.JoinGroup))
		b := start(t, t.Context(), "B", as(short(config(c.Addrs, group, input)), "B"))
		t.Cleanup(join.Lift)
		caught(t, join, 1)
		awaitExpelled(t, c, group, "A")
		await(b, 0, any1[stream.Restored])
		mark := a.mark()
		produce(t, producer(t, c), input, 0, 3, 10, 20)
		await(f, 0, any1[lost])
		a.awaitSeen("the group's refusal", mark, 1, isRequest[*kmsg.HeartbeatRequest](answeredWith(kerr.UnknownMemberID)))
		b.committedTo(0, 20)
		join.Lift()
		for _, f := range []*flow{f, b} {
			if err := f.stop(); err != nil {
				t.Error(err)
			}
		}
		if got := a.seen(mark, inits); len(got) > 0 {
			t.Errorf("an expelled member has initialised the id: %v", got)
		}
		for _, d := range check(t, c, group, input, group+"-snapshots") {
			t.Error(d)
		}
	})
}

// A fold fails because its ownership is lost while it runs: it says what its context says. That is no
// fault of the record, and the error policy, which would have it skipped, is not asked. When the
// partition comes back the record is folded.
func TestKafkaFoldThatEndsWithItsOwnershipIsNotSkipped(t *testing.T) {
	t.Parallel()
	c := kafkatest.Start(t)
	a := newTap(t, c)
	input := c.CreateTopic(t, kafkatest.UniqueName("input"), 1, nil)
	group := input + "-flow"
	pr := producer(t, c)
	produce(t, pr, input, 0, 3, 0, 10)
	var waited, asked atomic.Bool
	entered := make(chan struct{})
	conf := tapped(short(config(c.Addrs, group, input)), a, "A")
	conf.Fold = func(ctx context.Context, k *holdfast.Key[tally], r stream.Record) error {
		if r.Offset == 10 && !waited.Swap(true) {
			close(entered)
			<-ctx.Done()
			return ctx.Err()
		}
		return fold(ctx, k, r)
	}
	conf.OnError = func(context.Context, *stream.RecordError) stream.Action {
		asked.Store(true)
		return stream.Skip
	}
	f := start(t, t.Context(), "A", conf)
	f.committedTo(0, 10)
	heartbeat := a.Fault(wiretap.HoldRequest, wiretap.Keys(kmsg.Heartbeat))
	t.Cleanup(heartbeat.Lift)
	produce(t, pr, input, 0, 3, 10, 20)
	<-entered
	awaitExpelled(t, c, group, "A")
	heartbeat.Lift()
	await(f, 0, any1[lost])
	f.committedTo(0, 20)
	if err := f.stop(); err != nil {
		t.Error(err)
	}
	if losses := each[lost](f); len(losses) != 1 {
		t.Errorf("one loss was told %d times: %+v", len(losses), losses)
	}
	if asked.Load() {
		t.Error("the error policy was asked about a fold that ended with its ownership")
	}
	for _, d := range check(t, c, group, input, group+"-snapshots") {
		t.Error(d)
	}
}
