package fence_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/holdfast-go/holdfast/devbroker"
	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/kafka"
	"github.com/holdfast-go/holdfast/stream"
)

// ledger sums payments by account, in a consumer loop of its own.
type ledger struct {
	kafka  kafka.Config
	group  *fence.Group
	member *kgo.Client
	ready  chan struct{} // closed when member is set: callbacks may come before NewClient returns

	mu    sync.Mutex
	owned map[stream.Partition]*account
	gone  []*fence.Ownership // ended by an error, and maybe still assigned

	fail context.CancelCauseFunc // ends run, also while it polls
}

// account is one owned partition.
type account struct {
	own    *fence.Ownership
	writer *fence.Writer
	sums   map[string]int
}

// assigned takes the partition over, brings its state back and says where to fetch from. It is called
// inside the client's callback, before the client fetches the partition.
func (l *ledger) assigned(ctx context.Context, o *fence.Ownership) {
	<-l.ready
	a, start, err := l.open(ctx, o)
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil {
		l.fail(err)
		return
	}
	l.owned[o.Partition()] = a
	l.member.SetOffsets(map[string]map[int32]kgo.EpochOffset{
		o.Partition().Topic: {o.Partition().Partition: {Epoch: -1, Offset: start}},
	})
}

func (l *ledger) open(ctx context.Context, o *fence.Ownership) (*account, int64, error) {
	states := stream.Partition{Topic: "ledger-state", Partition: o.Partition().Partition}
	w, found, err := fence.Open(ctx, fence.Config{
		Kafka: l.kafka, Group: "ledger", Ownership: o, Input: o.Partition(), Progress: states,
	})
	if err != nil {
		return nil, 0, err
	}
	a, next, end := &account{own: o, writer: w, sums: map[string]int{}}, int64(-1), int64(0)
	for r, err := range fence.Restore(ctx, fence.RestoreConfig{Kafka: l.kafka, Partition: states}) {
		end = r.Offset + 1
		switch {
		case err != nil:
		case fence.IsProgressKey(r.Key):
			var p fence.Progress
			if p, err = fence.DecodeProgress(r.Value); err == nil && p.Group != "ledger" {
				err = fmt.Errorf("%s was written by group %s", states, p.Group)
			}
			if err == nil {
				next = p.Inputs[0].Next
				w.Adopt(p, r.Offset)
			}
		default:
			a.sums[string(r.Key)], err = strconv.Atoi(string(r.Value))
		}
		if err != nil {
			return nil, 0, errors.Join(err, w.Close(ctx))
		}
	}
	if next < 0 {
		w.AdoptNone(end, 0)
	}
	if next != found.Next { // the offset and the states are of two histories: a person must look
		return nil, 0, errors.Join(fmt.Errorf("committed offset %d, states up to %d", found.Next, next), w.Close(ctx))
	}
	// Without a committed offset the loop has to say where it starts, here at the first record: the
	// client does not choose by itself, and would fetch nothing.
	return a, max(found.Next, 0), nil
}

// released has nothing to flush, since each poll is committed before the next one.
func (l *ledger) released(o *fence.Ownership, _ bool) {
	l.mu.Lock()
	a := l.owned[o.Partition()]
	delete(l.owned, o.Partition())
	l.mu.Unlock()
	if a != nil && a.own == o {
		_ = a.writer.Close(context.Background()) // it has no limit of time to report
	}
}

// run folds until the input offset end is committed.
func (l *ledger) run(ctx context.Context, end int64) (err error) {
	l.owned, l.ready = map[stream.Partition]*account{}, make(chan struct{})
	ctx, l.fail = context.WithCancelCause(ctx)
	defer l.fail(nil)
	l.group = fence.NewGroup(l.assigned, l.released)
	l.member, err = l.group.NewClient(ctx, l.kafka, fence.Session{Group: "ledger"}, kgo.ConsumeTopics("payments"))
	if err != nil {
		return err
	}
	close(l.ready)
	defer l.member.CloseAllowingRebalance()
	for committed := int64(0); committed < end; {
		fetches := l.member.PollFetches(ctx) // rebalances are blocked from here to AllowRebalance
		if err := fetches.Err(); err != nil {
			return errors.Join(context.Cause(ctx), err)
		}
		fetches.EachPartition(func(f kgo.FetchTopicPartition) {
			if next, ok := l.fold(ctx, stream.Partition{Topic: f.Topic, Partition: f.Partition}, f.Records); ok {
				committed = next
			}
		})
		if len(fetches) > 0 { // a poll that returns nothing does not hold rebalances back
			l.renew(ctx)
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		l.member.AllowRebalance()
	}
	return nil
}

// fold applies what was fetched, and commits the sums and the offset together: all or none, and from
// nobody but the owner.
func (l *ledger) fold(ctx context.Context, p stream.Partition, rs []*kgo.Record) (next int64, ok bool) {
	a := l.owned[p]
	if a == nil || len(rs) == 0 {
		return 0, false
	}
	changed := map[string]bool{}
	for _, r := range rs {
		amount, err := strconv.Atoi(string(r.Value))
		if err != nil {
			l.fail(err)
			return 0, false
		}
		a.sums[string(r.Key)] += amount
		changed[string(r.Key)] = true
	}
	var writes []stream.Message
	for key := range changed {
		writes = append(writes, stream.Message{Key: []byte(key), Value: []byte(strconv.Itoa(a.sums[key]))})
	}
	last := rs[len(rs)-1]
	err := a.writer.Commit(ctx, fence.Offset{Next: last.Offset + 1, LeaderEpoch: last.LeaderEpoch}, writes...)
	switch {
	case errors.Is(err, stream.ErrOwnershipLost): // what was folded is dropped; the next owner folds it again
		l.gone = append(l.gone, a.own)
		delete(l.owned, p)
		_ = a.writer.Close(ctx) // it sends nothing any more
	case err != nil:
		l.fail(err)
	}
	return last.Offset + 1, err == nil
}

// renew asks for partitions whose ownership ended while the group still assigns them to this member.
func (l *ledger) renew(ctx context.Context) {
	var later []*fence.Ownership
	for _, o := range l.gone {
		again, err := l.group.Renew(ctx, o)
		switch {
		case err != nil:
			l.fail(err)
		case again != nil:
			l.assigned(ctx, again)
		case l.group.Owned(o.Partition()) == o:
			later = append(later, o) // the group has not told yet: ask again
		}
	}
	l.gone = later
}

// A consumer loop of one's own, with a fenced writer for each partition that it owns.
func Example() {
	broker, err := devbroker.Start(devbroker.Config{
		Listen: "127.0.0.1:0",
		Topics: []devbroker.Topic{{Name: "payments", Partitions: 1}, {Name: "ledger-state", Partitions: 1, Compact: true}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer broker.Close()
	ctx := context.Background()
	pay := func(payments ...string) {
		cl, err := broker.Kafka().Client(kgo.DefaultProduceTopic("payments"))
		if err != nil {
			fmt.Println(err)
			return
		}
		defer cl.Close()
		for i := 0; i < len(payments); i += 2 {
			r := &kgo.Record{Key: []byte(payments[i]), Value: []byte(payments[i+1])}
			if err := cl.ProduceSync(ctx, r).FirstErr(); err != nil {
				fmt.Println(err)
			}
		}
	}

	pay("alice", "5", "bob", "2", "alice", "7")
	fmt.Println("first run:", (&ledger{kafka: broker.Kafka()}).run(ctx, 3))
	pay("bob", "40")
	fmt.Println("second run:", (&ledger{kafka: broker.Kafka()}).run(ctx, 4))

	sums := map[string]string{}
	states := stream.Partition{Topic: "ledger-state", Partition: 0}
	for r, err := range fence.Restore(ctx, fence.RestoreConfig{Kafka: broker.Kafka(), Partition: states}) {
		if err != nil {
			fmt.Println(err)
			return
		}
		if !fence.IsProgressKey(r.Key) {
			sums[string(r.Key)] = string(r.Value)
		}
	}
	for _, account := range slices.Sorted(maps.Keys(sums)) {
		fmt.Println(account, sums[account])
	}
	// Output:
	// first run: <nil>
	// second run: <nil>
	// alice 12
	// bob 42
}
