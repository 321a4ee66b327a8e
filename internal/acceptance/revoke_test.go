package acceptance

import (
	"context"
	"math"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/holdfast-go/holdfast/internal/kafkatest"
	"github.com/holdfast-go/holdfast/internal/rule"
	"github.com/holdfast-go/holdfast/internal/wiretap"
	"github.com/holdfast-go/holdfast/stream"
)

// handover is a member A of two partitions that has to give one of them to B. Which one it is the group
// decides: both are prepared alike.
type handover struct {
	t            *testing.T
	c            *kafkatest.Cluster
	input, group string
	a, b         *tap
	flowA, flowB *flow
	gate         *gate // of A's fold
	moved        int32
	told         int // place on A's wire where the group told A to give it up
}

// beforeHandover starts A and has it commit ten records of each partition. Folds wait from an offset on.
func beforeHandover(t *testing.T, ctx context.Context, from int64, budget time.Duration) *handover {
	c := kafkatest.Start(t)
	h := &handover{t: t, c: c, a: newTap(t, c), b: newTap(t, c), gate: newGate(from, 0, 1)}
	h.input = c.CreateTopic(t, kafkatest.UniqueName("input"), 2, nil)
	h.group = h.input + "-flow"
	h.produce(0, 10)
	conf := tapped(short(config(c.Addrs, h.group, h.input)), h.a, "A")
	conf.Commit.RevokeBudget = budget
	conf.Fold = h.gate.fold
	h.flowA = start(t, ctx, "A", conf)
	t.Cleanup(h.gate.open) // before the flow is ended: a fold that waits would keep it from ending
	h.flowA.committedTo(0, 10)
	h.flowA.committedTo(1, 10)
	return h
}

func (h *handover) produce(from, to int) {
	pr := producer(h.t, h.c)
	for p := range int32(2) {
		produce(h.t, pr, h.input, p, 3, from, to)
	}
}

// begin starts B and waits until the group has told A which partition to give up.
func (h *handover) begin(ctx context.Context) {
	h.t.Helper()
	mark := h.a.mark()
	h.flowB = start(h.t, ctx, "B", tapped(short(config(h.c.Addrs, h.group, h.input)), h.b, "B"))
	var kept []int32
	told := h.a.awaitSeen("an assignment of one partition", mark, 1, isRequest[*kmsg.SyncGroupRequest](func(s sight) bool {
		kept = assignment(s.resp)
		return len(kept) == 1
	}))
	h.told = told[0].place
	h.moved = 1 - assignment(told[0].resp)[0]
}

// assignment returns the partitions in the answer to a SyncGroup.
func assignment(resp kmsg.Response) (partitions []int32) {
	sync, ok := resp.(*kmsg.SyncGroupResponse)
	if !ok || sync.ErrorCode != 0 {
		return nil
	}
	var a kmsg.ConsumerMemberAssignment
	if a.ReadFrom(sync.MemberAssignment) != nil {
		return nil
	}
	for _, t := range a.Topics {
		partitions = append(partitions, t.Partitions...)
	}
	return partitions
}

// returned waits until A's revoke callback has returned: its next JoinGroup says so.
func (h *handover) returned() (place int) {
	h.t.Helper()
	return h.a.awaitSeen("A's JoinGroup", h.told, 1, isRequest[*kmsg.JoinGroupRequest]())[0].place
}

// late returns the writes for the moved partition that A has sent after its revoke callback returned,
// and the offsets among them that the broker has taken.
func (h *handover) late(returned int) (sent, taken []sight) {
	id := idOf(h.group, h.moved)
	return h.a.seen(returned, func(s sight) bool { return isWrite(s) && wiretap.TransactionalID(s.req) == id }),
		h.a.seen(returned, isRequest[*kmsg.TxnOffsetCommitRequest](under(id), answeredWith(nil)))
}

func (h *handover) finish(from, to int) {
	h.t.Helper()
	h.produce(from, to)
	awaitCommitted(h.t, h.c, h.group, h.input, 2, int64(to))
	for _, f := range []*flow{h.flowA, h.flowB} {
		if err := f.stop(); err != nil {
			h.t.Error(err)
		}
	}
	for _, d := range check(h.t, h.c, h.group, h.input, h.group+"-snapshots") {
		h.t.Error(d)
	}
}

// A commit is in flight, and another batch waits behind it, when the partition is taken away. The
// callback resolves the one, commits the other and returns. Without the rule it returns before, and the
// broker takes the second one from a member that does not own the partition any more: its token is live.
// Public cases A11, E7.
func TestKafkaRevokeWithACommitInFlight(t *testing.T) {
	schedule := func(t *testing.T, ctx context.Context) (h *handover, returned int, init *wiretap.Fault) {
		h = beforeHandover(t, ctx, math.MaxInt64, 3500*time.Millisecond)
		end := h.a.Fault(wiretap.HoldRequest, wiretap.Committing)
		t.Cleanup(end.Lift)
		h.produce(10, 20)
		caught(t, end, 2)
		h.produce(20, 30)
		for p := range int32(2) {
			awaitOffset(t, h.gate.doors[p].folded, 29)
		}
		init = h.b.Fault(wiretap.HoldRequest, wiretap.Keys(kmsg.InitProducerID))
		t.Cleanup(init.Lift)
		h.begin(ctx)
		if rule.On(ctx, rule.RevokeTeardown) {
			// The member heart-beats in its session with one partition, so that its callback has begun.
			h.a.awaitSeen("a heartbeat", h.told, 1, isRequest[*kmsg.HeartbeatRequest](func(s sight) bool { return s.answered }))
			if joins := h.a.seen(h.told, isRequest[*kmsg.JoinGroupRequest]()); len(joins) > 0 {
				t.Errorf("the callback has returned with a commit in flight: %v", joins)
			}
			end.Lift()
			returned = h.returned()
		} else {
			returned = h.returned()
			caught(t, init, 1)
			end.Lift()
			h.a.awaitSeen("the end of A's late transaction", returned, 1,
				isRequest[*kmsg.EndTxnRequest](under(idOf(h.group, h.moved)), answeredWith(nil)))
		}
		return h, returned, init
	}
	t.Run("with all rules", func(t *testing.T) {
		t.Parallel()
		h, returned, init := schedule(t, t.Context())
		e := await(h.flowA, 0, any1[revoked])
		if e.Partition.Partition != h.moved || !e.Flushed {
			t.Errorf("revoked %+v, want partition %d flushed", e, h.moved)
		}
		init.Lift()
		again := func(e stream.Assigned) bool { return e.Partition.Partition == h.moved }
		if e := await(h.flowB, 0, again); e.Committed != 30 {
			t.Errorf("B begins at %d, A has folded up to 30", e.Committed)
		}
		h.finish(30, 40)
		if sent, _ := h.late(returned); len(sent) > 0 {
			t.Errorf("A has written after its revoke: %v", sent)
		}
	})
	t.Run("without the rule", func(t *testing.T) {
		t.Parallel()
		h, returned, _ := schedule(t, rule.Without(t.Context(), rule.RevokeTeardown))
		if sent, taken := h.late(returned); len(taken) == 0 {
			t.Errorf("the broker has not taken A's late write; A has sent: %v", sent)
		}
	})
}

// A user function that does not return cannot keep the partition: the callback returns when the budget
// is over, and when the function returns at last nothing leaves. That the rule alone does it shows where
// the read-back, which would find B's commit, is off as well: then A moves the offset back.
// Public case A11.
func TestKafkaRevokeWithAStuckFold(t *testing.T) {
	const budget = time.Second
	schedule := func(t *testing.T, ctx context.Context) (h *handover, returned int) {
		h = beforeHandover(t, ctx, 10, budget)
		h.produce(10, 20)
		for p := range int32(2) {
			awaitOffset(t, h.gate.doors[p].entered, 10)
		}
		h.begin(ctx)
		returned = h.returned()
		h.flowB.committedTo(h.moved, 20)
		d := h.gate.doors[h.moved]
		d.pass <- struct{}{} // one record: its offset is below B's
		awaitOffset(t, d.folded, 10)
		return h, returned
	}
	for name, off := range map[string][]rule.Name{
		"with all rules":        nil,
		"without the read-back": {rule.ReadBack},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h, returned := schedule(t, rule.Without(t.Context(), off...))
			e := await(h.flowA, 0, any1[revoked])
			if e.Flushed || e.Took < budget {
				t.Errorf("revoked %+v, want the budget of %v used and nothing flushed", e, budget)
			}
			h.gate.open()
			h.finish(20, 30)
			if sent, _ := h.late(returned); len(sent) > 0 {
				t.Errorf("A has written after its revoke: %v", sent)
			}
			if lost := each[lost](h.flowA); len(lost) > 0 {
				t.Errorf("the revoke has cost A other partitions: %+v", lost)
			}
		})
	}
	t.Run("without the rule and the read-back", func(t *testing.T) {
		t.Parallel()
		h, returned := schedule(t, rule.Without(t.Context(), rule.RevokeTeardown, rule.ReadBack))
		h.a.awaitSeen("the end of A's late transaction", returned, 1,
			isRequest[*kmsg.EndTxnRequest](under(idOf(h.group, h.moved)), answeredWith(nil)))
		if next := committed(t, h.c, h.group, h.input)[h.moved]; next != 11 {
			t.Errorf("the committed offset is %d, want 11: moved back from 20", next)
		}
		if d := check(t, h.c, h.group, h.input, h.group+"-snapshots"); len(d) == 0 {
			t.Error("the state is what the input gives, although A has written over B's")
		}
	})
}
