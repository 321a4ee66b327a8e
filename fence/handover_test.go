package fence

import (
	"context"
	"errors"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// counter owns partitions in turn with others and counts in each: the state is a number, and so is
// the committed offset, and both must be the same whatever happens between two owners.
type counter struct {
	t      *testing.T
	p      place
	g      *Group
	config Config
	counts *[2]atomic.Int64 // newest number that a commit was answered for, by partition
	total  *atomic.Int64

	mu   sync.Mutex
	gone []*Ownership // ended, and maybe still assigned
	work sync.WaitGroup
}

func (c *counter) assigned(_ context.Context, o *Ownership) {
	c.work.Go(func() { c.own(o) })
}

// own counts until the ownership ends, then asks for another.
func (c *counter) own(o *Ownership) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	stop := context.AfterFunc(goneContext{o.Gone()}, cancel)
	defer stop()
	err := c.count(ctx, o)
	if o.State() != Gone && !errors.Is(err, context.Canceled) {
		o.Lose(err)
	}
	c.mu.Lock()
	c.gone = append(c.gone, o)
	c.mu.Unlock()
}

func (c *counter) count(ctx context.Context, o *Ownership) error {
	conf := c.config
	n := o.Partition().Partition
	conf.Ownership, conf.Input, conf.Progress = o, o.Partition(), c.p.progressOf(n)
	w, found, err := Open(ctx, conf)
	if err != nil {
		return err
	}
	defer closeWriter(c.t, w)
	state, newest, at := int64(0), Progress{}, int64(-1)
	for r, err := range Restore(ctx, RestoreConfig{Kafka: c.p.k, Partition: conf.Progress}) {
		if err != nil {
			return err
		}
		p, ok, err := progressFrom(r)
		switch {
		case err != nil:
			return err
		case ok:
			newest, at = p, r.Offset
		default:
			if state, err = strconv.ParseInt(string(r.Value), 10, 64); err != nil {
				return err
			}
		}
	}
	if at >= 0 {
		w.Adopt(newest, at)
	}
	if state != max(found.Next, 0) || at >= 0 && newest.Inputs[0].Next != state {
		c.t.Errorf("partition %d: state %d, committed %d, progress %+v", n, state, found.Next, newest)
	}
	if answered := c.counts[n].Load(); state < answered {
		c.t.Errorf("partition %d: %d was answered as committed, restored was %d", n, answered, state)
	}
	for o.State() == Held {
		state++
		if err := w.Commit(ctx, Offset{state, -1}, put("n", strconv.FormatInt(state, 10))); err != nil {
			return err
		}
		if before := c.counts[n].Swap(state); before >= state {
			c.t.Errorf("partition %d: %d was committed after %d", n, state, before)
		}
		c.total.Add(1)
	}
	return nil
}

// run polls until ctx ends.
func (c *counter) run(ctx context.Context, cl *kgo.Client) {
	for ctx.Err() == nil {
		poll, cancel := context.WithTimeout(ctx, 20*time.Millisecond)
		cl.PollFetches(poll)
		cancel()
		c.mu.Lock()
		gone := c.gone
		c.gone = nil
		c.mu.Unlock()
		for _, o := range gone {
			if o.State() != Gone {
				o.Lose(nil)
			}
			if renewed, err := c.g.Renew(ctx, o); err == nil && renewed != nil {
				c.assigned(ctx, renewed)
			}
		}
		cl.AllowRebalance()
	}
	cl.CloseAllowingRebalance()
	c.work.Wait()
}

// Members come and go while every request of a transaction fails now and then. No owner ever finds a
// state that differs from the committed offset, or that lacks what an earlier one was told is
// committed.
func TestHandoverUnderFaults(t *testing.T) {
	t.Parallel()
	cluster, p := fakeCluster(t, kfake.NumBrokers(3), kfake.SeedTopics(2, testInput, testProgress))
	conf := Config{
		Kafka: p.k, Group: p.group, InputPartitions: 2, InputTopicID: topicID(t, p.k, p.input),
		TransactionTimeout: 5 * time.Second, Logger: testLogger(t),
	}
	var counts [2]atomic.Int64
	var total atomic.Int64
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	member := func(ctx context.Context) {
		c := &counter{t: t, p: p, config: conf, counts: &counts, total: &total}
		c.g = NewGroup(c.assigned, func(o *Ownership, _ bool) { o.Lose(nil) })
		cl, err := c.g.NewClient(context.Background(), p.k, Session{Group: p.group, HeartbeatInterval: 50 * time.Millisecond}, kgo.ConsumeTopics(p.input))
		if err != nil {
			t.Error(err)
			return
		}
		c.run(ctx, cl)
	}
	var members sync.WaitGroup
	members.Go(func() { member(ctx) })
	faults := []struct {
		key kmsg.Key
		err *kerr.Error
	}{
		{kmsg.Produce, kerr.InvalidProducerEpoch}, {kmsg.Produce, kerr.NotLeaderForPartition},
		{kmsg.TxnOffsetCommit, kerr.UnknownMemberID}, {kmsg.EndTxn, kerr.InvalidTxnState},
		{kmsg.TxnOffsetCommit, kerr.NotCoordinator}, {kmsg.TxnOffsetCommit, kerr.TransactionAbortable},
		{kmsg.TxnOffsetCommit, kerr.RequestTimedOut}, {kmsg.EndTxn, kerr.UnknownServerError},
		{kmsg.EndTxn, kerr.ProducerFenced}, {kmsg.EndTxn, kerr.NotCoordinator},
	}
	// A fault comes when the one before it has been met and something was committed after it.
	fault, committed := (*kfake.FaultHandle)(nil), int64(0)
	const rounds, perRound = 12, 20
	progress, at := int64(-1), time.Now() // a hang is a time without a commit, however long the whole takes
	for round := range rounds {
		joined, leave := context.WithCancel(ctx)
		members.Go(func() { member(joined) })
		goal := int64(round+1) * perRound
		for total.Load() < goal {
			if done := total.Load(); fault == nil || fault.Hits() > 0 && done > committed {
				f := faults[rand.IntN(len(faults))]
				fault, committed = cluster.Fault(kfake.Fault{Keys: []kmsg.Key{f.key}, Err: f.err}), done
			}
			if n := total.Load(); n > progress {
				progress, at = n, time.Now()
			} else if time.Since(at) > patience {
				leave()
				cancel()
				members.Wait()
				t.Fatalf("stuck in round %d after %d commits", round, n)
			}
			time.Sleep(5 * time.Millisecond)
		}
		leave()
	}
	cancel()
	members.Wait()
	if counts[0].Load() == 0 || counts[1].Load() == 0 {
		t.Errorf("counts %d and %d", counts[0].Load(), counts[1].Load())
	}
}
