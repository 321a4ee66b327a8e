package acceptance

import (
	"context"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/holdfast-go/holdfast/internal/kafkatest"
	"github.com/holdfast-go/holdfast/internal/rule"
	"github.com/holdfast-go/holdfast/internal/wiretap"
	"github.com/holdfast-go/holdfast/stream"
)

// rejoin is a member A of two partitions that the group expels while A's JoinGroup is on its way, so
// that A goes on in good faith and then rejoins under another member id without being told.
type rejoin struct {
	t            *testing.T
	c            *kafkatest.Cluster
	input, group string
	a, b         *tap
	flowA, flowB *flow
	gate         *gate
	holdJoin     *wiretap.Fault // A's JoinGroup
	granted      string         // the member id that A's partitions were granted under
}

// expelled runs until B owns both partitions and A believes that it does. A has begun to fold the
// first of ten records in partition 1 that B may fold too. B's takeover waits if holdInit is set.
func expelled(t *testing.T, ctx context.Context, holdInit bool) (r *rejoin, init *wiretap.Fault) {
	c := kafkatest.Start(t)
	r = &rejoin{t: t, c: c, a: newTap(t, c), b: newTap(t, c), gate: newGate(10, 1)}
	r.input = c.CreateTopic(t, kafkatest.UniqueName("input"), 2, nil)
	r.group = r.input + "-flow"
	r.produce(0, 10)

	conf := tapped(short(config(c.Addrs, r.group, r.input)), r.a, "A")
	conf.Fold = r.gate.fold
	r.flowA = start(t, ctx, "A", conf)
	t.Cleanup(r.gate.open) // before the flow is ended: a fold that waits would keep it from ending
	r.flowA.committedTo(0, 10)
	r.flowA.committedTo(1, 10)
	last := r.a.seen(0, isRequest[*kmsg.TxnOffsetCommitRequest](answeredWith(nil)))
	r.granted = memberID(last[len(last)-1].req)

	r.holdJoin = r.a.Fault(wiretap.HoldRequest, wiretap.Keys(kmsg.JoinGroup))
	t.Cleanup(r.holdJoin.Lift)
	if holdInit {
		init = r.b.Fault(wiretap.HoldRequest, wiretap.Keys(kmsg.InitProducerID))
		t.Cleanup(init.Lift)
	}
	r.flowB = start(t, ctx, "B", tapped(short(config(c.Addrs, r.group, r.input)), r.b, "B"))
	caught(t, r.holdJoin, 1)
	awaitExpelled(t, c, r.group, "A")
	produce(t, producer(t, c), r.input, 1, 3, 10, 20)
	awaitOffset(t, r.gate.doors[1].entered, 10)
	return r, init
}

func (r *rejoin) produce(from, to int) {
	pr := producer(r.t, r.c)
	for p := range int32(2) {
		produce(r.t, pr, r.input, p, 3, from, to)
	}
}

// rejoined lets A's JoinGroup go on until A has its other member id and its generation, and waits for
// the group's assignment: the moment at which nothing but the grant's member id tells it apart from
// the owner it was.
func (r *rejoin) rejoined() (sync *wiretap.Fault) {
	sync = r.a.Fault(wiretap.HoldRequest, wiretap.Keys(kmsg.SyncGroup))
	r.t.Cleanup(sync.Lift)
	r.holdJoin.Lift()
	caught(r.t, sync, 1)
	return sync
}

// writes returns what A has sent for partition 1, and what of it the broker took under another member id
// than the grant's.
func (r *rejoin) writes(mark int) (sent, taken []sight) {
	id := idOf(r.group, 1)
	return r.a.seen(mark, func(s sight) bool { return isWrite(s) && wiretap.TransactionalID(s.req) == id }),
		r.a.seen(mark, isRequest[*kmsg.TxnOffsetCommitRequest](under(id), answeredWith(nil),
			func(s sight) bool { return memberID(s.req) != r.granted }))
}

// finish has the flows go on and compares what is stored with the input.
func (r *rejoin) finish(flows ...*flow) {
	r.t.Helper()
	r.produce(20, 30)
	awaitCommitted(r.t, r.c, r.group, r.input, 2, 30)
	for _, f := range flows {
		if err := f.stop(); err != nil {
			r.t.Error(err)
		}
	}
	for _, d := range check(r.t, r.c, r.group, r.input, r.group+"-snapshots") {
		r.t.Error(d)
	}
}

// B stays: it owns the partitions, and its takeover is late, so that no producer epoch refuses A. With
// the rule, the broker refuses A under the grant's member id while A does not know of its expulsion,
// and after A rejoined nothing leaves at all. Without it, the broker takes A's write for a partition
// that B owns.
// Public case E11.
func TestKafkaSilentRejoinWithTheSuccessorAlive(t *testing.T) {
	schedule := func(t *testing.T, ctx context.Context) (r *rejoin, sent, taken []sight) {
		r, init := expelled(t, ctx, true)
		caught(t, init, 2)
		// Partition 0 has no gate: A commits before it rejoins.
		mark := r.a.mark()
		produce(t, producer(t, r.c), r.input, 0, 3, 10, 20)
		refused := r.a.awaitSeen("the refusal of A's commit", mark, 1,
			isRequest[*kmsg.TxnOffsetCommitRequest](under(idOf(r.group, 0)), answeredWith(kerr.UnknownMemberID)))
		if id := memberID(refused[0].req); id != r.granted {
			t.Errorf("the refused commit has member id %q, the grant's is %q", id, r.granted)
		}
		// B does not learn of the next generation before A has had its chance.
		syncB := r.b.Fault(wiretap.HoldRequest, wiretap.Keys(kmsg.SyncGroup))
		t.Cleanup(syncB.Lift)
		sync := r.rejoined()
		mark = r.a.mark()
		r.gate.doors[1].pass <- struct{}{}
		if rule.On(ctx, rule.GrantID) {
			await(r.flowA, 0, func(e stream.Refused) bool { return e.Partition.Partition == 1 && e.Final })
		} else {
			r.a.awaitSeen("the end of A's transaction", mark, 1,
				isRequest[*kmsg.EndTxnRequest](under(idOf(r.group, 1)), answeredWith(nil)))
		}
		sent, taken = r.writes(mark)
		r.gate.open()
		for _, f := range []*wiretap.Fault{sync, syncB, init} {
			f.Lift()
		}
		return r, sent, taken
	}
	t.Run("with all rules", func(t *testing.T) {
		t.Parallel()
		r, sent, _ := schedule(t, t.Context())
		if len(sent) > 0 {
			t.Errorf("A has written under another member id than the grant's: %v", sent)
		}
		r.finish(r.flowA, r.flowB)
	})
	t.Run("without the rule", func(t *testing.T) {
		t.Parallel()
		if _, sent, taken := schedule(t, rule.Without(t.Context(), rule.GrantID)); len(taken) == 0 {
			t.Errorf("the broker has not taken A's write; A has sent: %v", sent)
		}
	})
}

// B takes over, commits and leaves, and the partitions come back to A with no callback but an empty
// one. With the rule nothing of A's old ownership leaves, and A is granted the partitions anew. That the
// rule alone does it shows where the read-back, which would find B's commit, is off as well: then A's
// write moves the offset back and puts older state over newer.
// Public case E12.
func TestKafkaSilentRejoinWithTheSuccessorGone(t *testing.T) {
	schedule := func(t *testing.T, ctx context.Context) (r *rejoin, sent, taken []sight) {
		r, _ = expelled(t, ctx, false)
		r.flowB.committedTo(1, 20)
		if err := r.flowB.stop(); err != nil {
			t.Error(err)
		}
		sync := r.rejoined()
		mark := r.a.mark()
		r.gate.doors[1].pass <- struct{}{} // one record: its offset is below B's
		if rule.On(ctx, rule.GrantID) {
			await(r.flowA, 0, func(e stream.Refused) bool { return e.Partition.Partition == 1 && e.Final })
		} else {
			r.a.awaitSeen("the end of A's transaction", mark, 1,
				isRequest[*kmsg.EndTxnRequest](under(idOf(r.group, 1)), answeredWith(nil)))
		}
		sent, taken = r.writes(mark)
		if rule.On(ctx, rule.GrantID) {
			r.gate.open()
		}
		sync.Lift()
		return r, sent, taken
	}
	for name, off := range map[string][]rule.Name{
		"with all rules":        nil,
		"without the read-back": {rule.ReadBack},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, sent, _ := schedule(t, rule.Without(t.Context(), off...))
			if len(sent) > 0 {
				t.Errorf("A has written under another member id than the grant's: %v", sent)
			}
			again := func(e stream.Restored) bool { return e.Partition.Partition == 1 && e.Start != 0 }
			if e := await(r.flowA, 0, again); e.Start != 20 {
				t.Errorf("A goes on with partition 1 at %d, B has committed 20", e.Start)
			}
			produce(t, producer(t, r.c), r.input, 0, 3, 10, 20)
			r.finish(r.flowA)
		})
	}
	t.Run("without the rule and the read-back", func(t *testing.T) {
		t.Parallel()
		r, sent, taken := schedule(t, rule.Without(t.Context(), rule.ReadBack, rule.GrantID))
		if len(taken) == 0 {
			t.Fatalf("the broker has not taken A's write; A has sent: %v", sent)
		}
		if next := committed(t, r.c, r.group, r.input)[1]; next != 11 {
			t.Errorf("the committed offset is %d, want 11: moved back from 20", next)
		}
		if d := check(t, r.c, r.group, r.input, r.group+"-snapshots"); len(d) == 0 {
			t.Error("the state is what the input gives, although A has written over B's")
		}
	})
}
