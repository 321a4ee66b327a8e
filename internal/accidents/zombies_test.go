package accidents

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/holdfasttest"
	"github.com/holdfast-go/holdfast/internal/kafkatest"
	"github.com/holdfast-go/holdfast/internal/rule"
	"github.com/holdfast-go/holdfast/internal/trial"
	"github.com/holdfast-go/holdfast/internal/wiretap"
	"github.com/holdfast-go/holdfast/stream"
)

// whole are the kinds that commit outputs and offset together. The schedules of this file that have their
// like for FencedState in internal/acceptance run for these.
var whole = []kind{outputs, copies}

// withAndWithout runs a schedule under all rules, and without some of them: then what they prevent has to
// happen.
func withAndWithout(t *testing.T, kinds []kind, off []rule.Name, schedule func(t *testing.T, ctx context.Context, what kind, inForce bool)) {
	t.Helper()
	t.Parallel()
	for _, what := range kinds {
		t.Run(string(what)+"/with all rules", func(t *testing.T) {
			if what == copies { // the fence is the same
				nightly(t)
			}
			t.Parallel()
			schedule(t, t.Context(), what, true)
		})
		t.Run(string(what)+"/without the rule", func(t *testing.T) {
			nightly(t)
			t.Parallel()
			schedule(t, rule.Without(t.Context(), off...), what, false)
		})
	}
}

// hold holds requests of a member in its proxies until it is lifted or the test ends.
func hold(r *run, match wiretap.Match) *wiretap.Fault {
	f := r.tap.Fault(wiretap.HoldRequest, match)
	r.t.Cleanup(f.Lift)
	return f
}

// inits matches what initialises the transactional ids of the component. The fence probe of a start has an
// id of its own, and is let through.
func (l *lab) inits() wiretap.Match {
	var ids []string
	for p := range l.partitions {
		ids = append(ids, l.id(p))
	}
	return wiretap.All(wiretap.Keys(kmsg.InitProducerID), func(r wiretap.Request) bool {
		req, err := r.Decoded()
		return err == nil && slices.Contains(ids, wiretap.TransactionalID(req))
	})
}

// expelled waits until the group has no member of a client id, and has settled without it.
func (l *lab) expelled(client string) {
	l.t.Helper()
	l.until("the group is rid of "+client, func() bool {
		gs, err := l.admin.DescribeGroups(l.t.Context(), l.group)
		g := gs[l.group]
		for _, m := range g.Members {
			if m.ClientID == client {
				return false
			}
		}
		return err == nil && (g.State == "Stable" || g.State == "Empty")
	})
}

// atRest waits until the markers of the last transaction under an id are written.
func (l *lab) atRest(id string) {
	l.t.Helper()
	l.until("the transaction has ended", func() bool {
		ts, err := l.admin.DescribeTransactions(l.t.Context(), id)
		state := ts[id].State
		return err == nil && (state == "CompleteCommit" || state == "CompleteAbort")
	})
}

// quick gives the shortest timings that a loaded machine bears.
func (l *lab) quick() {
	l.member = holdfast.Member{SessionTimeout: 4 * time.Second, RebalanceTimeout: 6 * time.Second, HeartbeatInterval: 300 * time.Millisecond}
}

// behind starts the component behind proxies of its own, with what they see answered.
func (l *lab) behind(ctx context.Context, name string) (*run, *answers) {
	l.t.Helper()
	tap := tapOf(l.t, l.k)
	seen := watch(l.t, tap)
	r := l.startUnder(ctx, name, dialer(tap))
	r.tap = tap
	return r, seen
}

// R3: a member has a commit on its way when one of its two partitions is taken away. Its token stays
// live, so that the group would take the commit; the callback does not return before it has an outcome.
// Without the teardown it lands when the partition is another's.
func TestKafkaLateCommitForALostPartition(t *testing.T) {
	withAndWithout(t, whole, []rule.Name{rule.RevokeTeardown}, func(t *testing.T, ctx context.Context, what kind, inForce bool) {
		l := newShared(t, what, 2)
		l.commit.RevokeBudget = 15 * time.Second
		for p := range int32(2) {
			l.produce(p, 0, 10)
		}
		a, seenA := l.behind(ctx, "A")
		a.committedTo(0, 10)
		a.committedTo(1, 10)
		end := hold(a, wiretap.Committing)
		for p := range int32(2) {
			l.produce(p, 10, 20)
		}
		caught(t, end, 2)
		joins := seenA.of(kmsg.JoinGroup, "", nil)
		tapB := tapOf(t, l.k)
		init := tapB.Fault(wiretap.HoldRequest, l.inits())
		t.Cleanup(init.Lift)
		b := l.startUnder(ctx, "B", dialer(tapB))
		b.tap = tapB
		seenA.await(joins+1, kmsg.JoinGroup, "", nil) // A has joined with both, and is told to give one up
		if !inForce {
			caught(t, init, 1) // B owns the partition
			before := seenA.of(kmsg.EndTxn, l.id(0), nil) + seenA.of(kmsg.EndTxn, l.id(1), nil)
			end.Lift()
			l.until("the late commit is taken", func() bool {
				return seenA.of(kmsg.EndTxn, l.id(0), nil)+seenA.of(kmsg.EndTxn, l.id(1), nil) >= before+2
			})
			return
		}
		beats := seenA.of(kmsg.Heartbeat, "", nil)
		seenA.await(beats+2, kmsg.Heartbeat, "", nil)
		if n := len(init.Caught()); n > 0 {
			t.Errorf("the partition was given to B with a commit of A on its way")
		}
		end.Lift()
		caught(t, init, 1)
		if e := await(a, 0, any1[revoked]); !e.Flushed {
			t.Errorf("revoked %+v, want it flushed", e)
		}
		init.Lift()
		for p := range int32(2) {
			l.produce(p, 20, 30)
		}
		l.reaches(30)
		a.end()
		b.end()
		l.verdict(nil, a, b)
	})
}

// reaches waits until next is committed for each partition, whoever does it.
func (l *lab) reaches(next int64) {
	l.t.Helper()
	l.until("everything is committed", func() bool {
		for p := range l.partitions {
			if l.committed(p) < next {
				return false
			}
		}
		return true
	})
}

// R4: a stale owner's InitProducerID arrives when its successor works. The broker fences the successor,
// which asks the group, reads back and goes on; the stale owner asks as well, and gives up. Without the
// question the two abort each other for as long as they meet.
func TestKafkaStaleOwnerInitialisesLate(t *testing.T) {
	withAndWithout(t, whole, []rule.Name{rule.Probe}, func(t *testing.T, ctx context.Context, what kind, inForce bool) {
		l := newShared(t, what, 1)
		l.quick()
		first := l.start("first") // it commits the start, so that A has nothing to commit before it folds
		await(first, 0, any1[stream.Restored])
		first.end()

		tapA := tapOf(t, l.k)
		seenA := watch(t, tapA)
		// The client of the takeover in the callback is given up when that has to return: what is held is
		// the request of the next one.
		tapA.Fault(wiretap.DropRequest, wiretap.First(1, l.inits()))
		init := tapA.Fault(wiretap.HoldRequest, l.inits())
		t.Cleanup(init.Lift)
		a := l.startUnder(ctx, "A", dialer(tapA))
		a.tap = tapA
		caught(t, init, 1)
		seenA.await(1, kmsg.OffsetFetch, "", nil) // the client's own, after the callback
		join := hold(a, wiretap.Keys(kmsg.JoinGroup))
		b, seenB := l.behind(ctx, "B")
		caught(t, join, 1)
		l.expelled("A")
		l.produce(0, 0, 10)
		b.committedTo(0, 10)
		l.atRest(l.id(0)) // else the broker asks A to try again, and its question to the group comes first

		bindA, bindB := hold(a, wiretap.Keys(kmsg.TxnOffsetCommit)), hold(b, wiretap.Keys(kmsg.TxnOffsetCommit))
		produceB := hold(b, wiretap.Keys(kmsg.Produce))
		init.Lift()
		await(a, 0, any1[stream.Restored])
		l.produce(0, 10, 20)
		caught(t, bindA, 1)
		produceB.Lift() // not before, so that A has not found out at its first produce
		caught(t, bindB, 1)
		if !inForce {
			tookA, tookB := seenA.of(kmsg.InitProducerID, l.id(0), nil), seenB.of(kmsg.InitProducerID, l.id(0), nil)
			for i := range 2 {
				bindA.Release()
				caught(t, bindA, i+2)
				bindB.Release()
				caught(t, bindB, i+2)
			}
			tookA, tookB = seenA.of(kmsg.InitProducerID, l.id(0), nil)-tookA, seenB.of(kmsg.InitProducerID, l.id(0), nil)-tookB
			if tookA != 2 || tookB != 2 || l.committed(0) != 10 {
				t.Errorf("in two rounds A has initialised %d times, B %d times, and %d is committed", tookA, tookB, l.committed(0))
			}
			return
		}
		inits := seenA.of(kmsg.InitProducerID, l.id(0), nil)
		bindA.Release()
		await(a, 0, any1[lost])
		bindB.Lift()
		b.committedTo(0, 20)
		if n := seenA.of(kmsg.InitProducerID, l.id(0), nil); n != inits {
			t.Errorf("A has initialised the id again")
		}
		bindA.Lift()
		join.Lift()
		a.end()
		b.end()
		l.verdict(nil, first, a, b)
	})
}

// R2: the group expels a member that does not know it, and the takeover of its successor is late, so
// that no epoch refuses it. It rejoins under another member id and is not told that its partition is
// gone. What it sends goes under the id of the grant, and the broker refuses it. Under the live id it
// would be taken.
func TestKafkaSilentRejoin(t *testing.T) {
	withAndWithout(t, whole, []rule.Name{rule.GrantID}, func(t *testing.T, ctx context.Context, what kind, inForce bool) {
		l := newShared(t, what, 1)
		l.quick()
		l.produce(0, 0, 10)
		entered, pass := make(chan struct{}, 1), make(chan struct{})
		open := func() { close(pass) }
		l.before = func(ctx context.Context, r stream.Record) error {
			if r.Offset != 10 {
				return nil
			}
			select {
			case entered <- struct{}{}:
			default:
			}
			select {
			case <-pass:
			case <-ctx.Done():
			}
			return nil
		}
		a, seenA := l.behind(ctx, "A")
		l.before = nil
		a.committedTo(0, 10)
		l.atRest(l.id(0))
		join := hold(a, wiretap.Keys(kmsg.JoinGroup))
		tapB := tapOf(t, l.k)
		init := tapB.Fault(wiretap.HoldRequest, l.inits())
		t.Cleanup(init.Lift)
		b := l.startUnder(ctx, "B", dialer(tapB))
		b.tap = tapB
		caught(t, join, 1)
		l.produce(0, 10, 20)
		<-entered
		l.expelled("A")
		caught(t, init, 1)
		sync := hold(a, wiretap.Keys(kmsg.SyncGroup))
		syncB := hold(b, wiretap.Keys(kmsg.SyncGroup))
		join.Lift()
		caught(t, sync, 1) // A has another member id, and its generation
		ends, mark := seenA.of(kmsg.EndTxn, l.id(0), nil), a.mark()
		open()
		if !inForce {
			seenA.await(ends+1, kmsg.EndTxn, l.id(0), nil)
			return
		}
		await(a, mark, func(e stream.Refused) bool { return e.Final })
		if n := seenA.of(kmsg.EndTxn, l.id(0), nil); n != ends {
			t.Errorf("A has committed for a partition that is B's")
		}
		for _, f := range []*wiretap.Fault{sync, syncB, init} {
			f.Lift()
		}
		l.reaches(20)
		a.end()
		b.end()
		l.verdict(nil, a, b)
	})
}

// R8: something outside the group initialises the id each time a commit is about to be bound. At the
// fifth fence in a row the component stops, naming the id and the causes. Nothing is lost.
func TestKafkaHijackedID(t *testing.T) {
	t.Parallel()
	for _, what := range whole {
		t.Run(string(what), func(t *testing.T) {
			if what == copies { // the fence is the same
				nightly(t)
			}
			t.Parallel()
			l := newShared(t, what, 1)
			l.produce(0, 0, 10)
			a, _ := l.behind(t.Context(), "A")
			a.committedTo(0, 10)
			bind := hold(a, wiretap.Keys(kmsg.TxnOffsetCommit))
			l.produce(0, 10, 20)
			for i := range 5 {
				caught(t, bind, i+1)
				stranger := l.k.Client(t, kgo.TransactionalID(l.id(0)))
				if _, _, err := stranger.ProducerID(t.Context()); err != nil {
					t.Fatal(err)
				}
				stranger.Close()
				bind.Release()
			}
			err := a.failure()
			named(t, err, stream.ErrIDTaken, l.id(0), "5 refusals in a row", "initialises the id late", "two applications")
			if e := (*stream.Error)(nil); errors.As(err, &e) && e.TransactionalID != l.id(0) {
				t.Errorf("the error names the id %q", e.TransactionalID)
			}
			if next := l.committed(0); next != 10 {
				t.Errorf("committed %d, want 10", next)
			}
			l.verdict(nil, a, l.finish(10, 20))
		})
	}
}

// Two applications have one group and one snapshot or progress topic by mistake, and different inputs:
// their partitions have the same transactional ids. The second one stops and says whose progress it has
// found. The first one was fenced at most, and goes on.
func TestKafkaTwoApplicationsUnderOneID(t *testing.T) {
	each(t, 1, func(t *testing.T, l *lab) {
		l.produce(0, 0, 10)
		first := l.start("first")
		first.committedTo(0, 10)
		other := newLab(t, l.k, l.kind, 1)
		other.group = l.group
		other.produce(0, 0, 10)
		second := other.start("second")
		named(t, second.failure(), stream.ErrInputChanged, l.input+"/0")
		l.produce(0, 10, 20)
		first.committedTo(0, 20)
		first.end()
		l.verdictOf(func(h *holdfasttest.History) {}, nil, first)
		if rs := other.read(other.output); len(rs) > 0 {
			t.Errorf("the second application has written %d outputs", len(rs))
		}
		if got := other.committed(0); got > 0 {
			t.Errorf("the second application has committed %d", got)
		}
	})
}

// The epoch: a process is stopped with a commit on its way, for longer than its session, and wakes
// when its successor has committed. What it had on its way is refused, and nothing that it wakes with is
// seen by a reader.
func TestKafkaPausedOwnersLateOutput(t *testing.T) {
	t.Parallel()
	for name, app := range map[string]trial.App{
		"flow": {Kind: trial.Flow, Guarantee: holdfast.FencedOutputs},
		"pipe": {Kind: trial.Pipe},
	} {
		t.Run(name, func(t *testing.T) {
			if app.Kind == trial.Pipe { // the fence is the same
				nightly(t)
			}
			t.Parallel()
			app.Session = 3 * time.Second
			f := trial.New(t, kafkatest.Start(t), app, 1)
			a, b := f.Member("A"), f.Member("B")
			a.Start()
			a.Owns()
			f.Send(30)
			f.CaughtUp()
			b.Start()
			commit := a.HoldCommit()
			beat := a.Hold(wiretap.HoldRequest, wiretap.Keys(kmsg.Heartbeat))
			f.Send(30)
			f.Caught(commit, 1)
			f.Caught(beat, 1)
			mark := f.Mark()
			a.Pause()
			b.AwaitCommit(mark)
			f.Send(30)
			f.CaughtUp()
			a.Cont()
			commit.Lift()
			f.Await("the refusal of A", mark, 1, a.Is(trial.Kinds(holdfasttest.EventRefused, holdfasttest.EventLost)))
			beat.Lift()
			f.Send(30)
			f.CaughtUp()
			if f.Verify(); a.Exits() > 0 {
				t.Errorf("%d processes ended by themselves", a.Exits())
			}
		})
	}
}
