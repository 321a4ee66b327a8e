package matrix

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/holdfast-go/holdfast/holdfasttest"
	"github.com/holdfast-go/holdfast/internal/kafkatest"
	"github.com/holdfast-go/holdfast/internal/trial"
	"github.com/holdfast-go/holdfast/internal/wiretap"
)

// inFlight holds the next commit of a member on its way, and returns the partition that it is about.
func (c *cell) inFlight(m *trial.Member) (hold *wiretap.Fault, partition int32) {
	c.t.Helper()
	hold = m.HoldCommit()
	partition = m.PartitionOf(c.f.Caught(hold, 1)[0])
	c.bit(true, "a commit of partition %d was in flight", partition)
	return hold, partition
}

// told waits for what closes a channel, and notes it.
func (c *cell) told(what <-chan struct{}, words string) {
	c.t.Helper()
	limit := time.NewTimer(c.f.Patience)
	defer limit.Stop()
	select {
	case <-what:
		c.bit(true, "%s", words)
	case <-limit.C:
		c.bit(false, "%s", words)
	}
}

// awaitMove waits until another member than m has partition p, after mark.
func (c *cell) awaitMove(mark int, p int32, m *trial.Member) trial.Event {
	c.t.Helper()
	return c.f.Await(fmt.Sprintf("another owner of partition %d", p), mark, 1, func(e trial.Event) bool {
		return e.Kind == holdfasttest.EventAssigned && e.Partition == p && e.Member != m.Name
	})[0]
}

// moved notes the move of a partition whose commit was in flight: a member of ours has taken it over.
func (c *cell) moved(e trial.Event) {
	c.t.Helper()
	byJava := c.java != nil && e.Member == c.java.Name
	c.bit(byJava || e.TookOver, "%s took partition %d over", e.Member, e.Partition)
}

// risen notes that a member commits under a later generation than before the fault.
func (c *cell) risen(m *trial.Member, before int32) {
	c.t.Helper()
	mark := c.f.Mark()
	m.AwaitCommit(mark)
	c.bit(m.Generation() > before, "generation %d to %d", before, m.Generation())
}

// join has another member come while a commit of an old one is in flight.
func join(c *cell) {
	before := c.ms[0].Generation()
	hold, _ := c.inFlight(c.ms[0])
	other := c.f.Member("newcomer")
	asked := make(chan struct{})
	var once sync.Once
	other.Tap.OnRequest(func(r wiretap.Request) {
		if k := kmsg.Key(r.Key); k == kmsg.JoinGroup || k == kmsg.ConsumerGroupHeartbeat {
			once.Do(func() { close(asked) })
		}
	})
	other.Start()
	c.ms = append(c.ms, other)
	c.told(asked, "the newcomer has asked to join")
	hold.Lift()
	other.Owns()
	got := c.f.Since(c.mark, other.Is(trial.Kinds(holdfasttest.EventAssigned)))
	took := 0
	for _, e := range got {
		if e.TookOver {
			took++
		}
	}
	// What a Java member has had before has no id of ours yet.
	c.bit(took > 0 || c.java != nil && len(got) > 0, "the newcomer took %d of %d partitions over", took, len(got))
	c.risen(c.ms[0], before)
}

// leave has a member end in order while a commit of it is in flight.
func leave(c *cell) {
	before := c.ms[1].Generation()
	hold, partition := c.inFlight(c.ms[0])
	mark := c.f.Mark()
	c.ms[0].Terminate()
	hold.Lift()
	if err := c.ms[0].Wait(); err != nil {
		c.t.Error(err)
	}
	c.moved(c.awaitMove(mark, partition, c.ms[0]))
	c.risen(c.ms[1], before)
}

// killed ends a member with SIGKILL while a commit of it is in flight, which never arrives.
func killed(c *cell) {
	before := c.ms[1].Generation()
	hold, partition := c.inFlight(c.ms[0])
	c.victim = c.ms[0].Name
	mark := c.f.Mark()
	c.ms[0].Kill()
	c.ms[0].Discard(hold)
	c.moved(c.awaitMove(mark, partition, c.ms[0]))
	c.risen(c.ms[1], before)
}

// stopped stops a member with a commit in flight until its partitions have other owners: the Java member, if
// there is one. Its commit arrives then, and it wakes.
func stopped(c *cell) {
	m, other := c.ms[0], c.ms[1]
	before := other.Generation()
	if c.java != nil { // with another of ours beside it, which of the two takes the partition is the assignor's to say
		other.Terminate()
		if err := other.Wait(); err != nil {
			c.t.Error(err)
		}
		c.f.CaughtUp() // what it had has owners
	}
	hold, partition := c.inFlight(m)
	c.victim = m.Name
	mark := c.f.Mark()
	m.Pause()
	e := c.awaitMove(mark, partition, m)
	c.moved(e)
	if c.java != nil {
		c.timedOut(c.f.TransactionalID(partition))
	}
	refused := m.Refusals.Count()
	hold.Lift()
	c.refusedLate(m, partition, refused)
	mark = c.f.Mark()
	m.Cont()
	c.f.Await("the loss of partitions by "+m.Name, mark, 1, m.Is(trial.Kinds(holdfasttest.EventLost)))
	c.f.Await("the return of "+m.Name, mark, 1, m.Is(trial.Kinds(holdfasttest.EventRestored)))
	if c.java != nil {
		other.Start()
		other.Owns()
	}
	c.risen(other, before)
}

// timedOut waits until the transaction under an id of ours, whose partition a Java member has taken, is
// aborted. A member of ours would have ended it before it reads the offset. The Java member has an id of its
// own, and its brokers give it the offset when the transaction has timed out: a commit that arrives before
// that would be in time, and no stale one.
func (c *cell) timedOut(id string) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), c.f.Patience)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		ts, err := c.f.Admin.DescribeTransactions(ctx, id)
		if err == nil && ts[id].State == "CompleteAbort" {
			c.bit(true, "its transaction was aborted")
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			c.bit(false, "its transaction was aborted: %q (%v)", ts[id].State, err)
			return
		}
	}
}

// refusedLate waits until a broker has refused the commit of partition p that was held back, whoever has
// the partition by then, and notes it. Before it there were so many refusals of the member.
func (c *cell) refusedLate(m *trial.Member, p int32, before int) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), c.f.Patience)
	defer cancel()
	for n := before + 1; ; n++ {
		if err := m.Refusals.Await(ctx, n); err != nil {
			c.bit(false, "a broker refused the late commit of partition %d: %v", p, err)
			return
		}
		if r := m.Refusals.All()[n-1]; kmsg.Key(r.Request.Key) == kmsg.EndTxn && m.PartitionOf(r.Request) == p {
			c.bit(true, "a broker refused the late commit: %v", r)
			return
		}
	}
}

// rollingRestart ends each member in order while a commit of it is in flight, and starts it again.
func rollingRestart(c *cell) {
	before := c.ms[0].Generation()
	for _, m := range c.ms {
		hold, partition := c.inFlight(m)
		mark := c.f.Mark()
		m.Terminate()
		hold.Lift()
		if err := m.Wait(); err != nil {
			c.t.Error(err)
		}
		c.moved(c.awaitMove(mark, partition, m))
		m.Start()
		m.Owns()
		m.AwaitCommit(mark)
	}
	c.risen(c.ms[0], before)
}

func bouncedClean(c *cell) { bounced(c, (*kafkatest.Broker).Stop) }

func bouncedHard(c *cell) {
	bounced(c, func(b *kafkatest.Broker, _ context.Context) error { return b.Kill() })
}

// bounced ends the broker that coordinates the transactions of a partition when it has carried out a
// commit whose answer is on its way, and starts it again when every member has committed without it.
func bounced(c *cell, end func(*kafkatest.Broker, context.Context) error) {
	id := c.idOf(c.ms[0])
	broker := c.f.Coordinator(trial.OfTransaction, id)
	var holds []*wiretap.Fault
	for _, m := range c.ms {
		f := m.Tap.Proxy(broker.Addr).Fault(wiretap.HoldResponse, wiretap.First(1, wiretap.All(wiretap.Keys(kmsg.EndTxn), wiretap.Committing)))
		c.t.Cleanup(f.Lift)
		holds = append(holds, f)
	}
	c.f.Caught(holds[0], 1)
	c.bit(true, "the answer to a commit was in flight from broker %d", broker.ID)
	ctx, cancel := context.WithTimeout(c.t.Context(), restarts)
	defer cancel()
	if err := end(broker, ctx); err != nil {
		c.t.Fatal(err)
	}
	mark := c.f.Mark()
	for _, f := range holds {
		f.Lift()
	}
	to := c.f.OtherCoordinator(trial.OfTransaction, id, broker.ID)
	c.bit(to != broker.ID, "the transaction's coordinator went from broker %d to %d", broker.ID, to)
	for _, m := range c.all() {
		m.AwaitCommit(mark)
	}
	if err := broker.Restart(ctx); err != nil {
		c.t.Fatal(err)
	}
	c.f.InSync()
}

// idOf returns the transactional id of a partition that m has committed.
func (c *cell) idOf(m *trial.Member) string {
	return c.f.TransactionalID(m.AwaitCommit(c.f.Mark()).Partition)
}

// coordinatorMoved has another broker coordinate the group, and the transactional id of a commit that is
// in flight to the one that did.
func coordinatorMoved(c *cell) {
	m := c.ms[0]
	stale := make(chan struct{})
	var once sync.Once
	remove := m.Tap.OnResponse(func(_ wiretap.Request, resp kmsg.Response) {
		if end, ok := resp.(*kmsg.EndTxnResponse); ok && end.ErrorCode == kerr.NotCoordinator.Code {
			once.Do(func() { close(stale) })
		}
	}, kmsg.EndTxn)
	defer remove()
	hold, partition := c.inFlight(m)
	from, to := c.f.MoveCoordinator(trial.OfTransaction, c.f.TransactionalID(partition))
	c.bit(from != to, "the transaction's coordinator moved from broker %d to %d", from, to)
	from, to = c.f.MoveCoordinator(trial.OfGroup, c.f.App.Group)
	c.bit(from != to, "the group's from %d to %d", from, to)
	mark := c.f.Mark()
	hold.Lift()
	c.told(stale, "the commit met NOT_COORDINATOR")
	c.f.Await(fmt.Sprintf("a commit of partition %d", partition), mark, 1, trial.CommittedTo(partition, 0))
}
