package fence

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/holdfast-go/holdfast/internal/rule"
	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/stream"
)

// The tests of this file play the shortest traces by which the model of the commit protocol (model/traces.go)
// goes wrong with rules switched off. A and B are its two processes. As there, the question to the group before
// an initialisation is off in all of them: it would end most of them early, and none of the rules is to need it.

// actor is a member with a writer. Each of the two has a network of its own.
type actor struct {
	t        *testing.T
	ctx      context.Context // carries the rules that are off
	p        place
	net, txn *tap
	m        *member
	o        *Ownership
	w        *Writer
	found    Committed
	freed    sync.Once
	joins    chan struct{} // one for each JoinGroup that is held back
	hears    chan struct{} // closed: they go out
}

// enter has a process join the group of p under ctx's rules.
func enter(t *testing.T, ctx context.Context, p place, s Session) *actor {
	t.Helper()
	a := &actor{t: t, ctx: ctx, p: p, net: newTap(), txn: newTap(), hears: make(chan struct{})}
	a.p.member, a.p.txn = a.net.config(p.k), a.txn.config(p.k)
	a.m = joinUnder(t, ctx, a.p, s)
	t.Cleanup(a.hear)
	t.Cleanup(a.release)
	return a
}

// deaf keeps the member's JoinGroup from leaving: it learns nothing more until hear.
func (a *actor) deaf() {
	a.joins = make(chan struct{}, 8)
	a.net.set(func(key kmsg.Key) fate {
		switch key {
		case kmsg.JoinGroup:
			a.joins <- struct{}{}
			<-a.hears
		case kmsg.SyncGroup: // it has a member id and a generation by then, and its application is told nothing
			return holdBack
		}
		return pass
	})
}

// release lets held answers go.
func (a *actor) release() { a.freed.Do(a.net.release) }

func (a *actor) hear() {
	select {
	case <-a.hears:
	default:
		close(a.hears)
	}
}

// expelled has B join, and takes A out of the group while it is about to join with B: that is how a member
// comes to rejoin without a callback.
func (a *actor) expelled() (b *actor) {
	a.t.Helper()
	a.deaf()
	b = enter(a.t, a.ctx, place{k: a.p.k, group: a.p.group, input: a.p.input, progress: a.p.progress}, Session{})
	select {
	case <-a.joins:
	case <-a.ctx.Done():
		a.t.Fatal("A does not join with B")
	}
	leave := kmsg.NewPtrLeaveGroupRequest()
	leave.Group, leave.MemberID = a.p.group, a.o.MemberID()
	leave.Members = []kmsg.LeaveGroupRequestMember{{MemberID: a.o.MemberID()}}
	if _, err := leave.RequestWith(a.ctx, testClient(a.t, a.p.k)); err != nil {
		a.t.Fatal(err)
	}
	b.o = b.m.granted(a.t)
	return b
}

// rejoins has the member learn of its expulsion and join again, and its application learn nothing.
func (a *actor) rejoins() {
	a.hear()
	for look := time.NewTicker(time.Millisecond); a.ctx.Err() == nil; <-look.C {
		if id, generation := a.m.client.GroupMetadata(); id != "" && id != a.o.MemberID() && generation >= 0 {
			return
		}
	}
	a.t.Error("the member has not joined again")
}

// opens takes the partition over and reads the committed offset.
func (a *actor) opens() error {
	a.t.Helper()
	w, found, err := Open(a.ctx, a.p.config(a.t, a.o))
	if err != nil {
		return err
	}
	a.t.Cleanup(func() { closeWriter(a.t, w) })
	a.w, a.found = w, found
	return nil
}

// commits commits that it has folded up to next.
func (a *actor) commits(next int64, value string) error {
	a.t.Helper()
	return a.w.Commit(a.ctx, Offset{next, -1}, put("k", value))
}

// expulsion is how most of the traces begin: A is granted the partition and is expelled, and B is granted it.
func expulsion(t *testing.T, off ...rule.Name) (a, b *actor) {
	t.Helper()
	_, p := fakeCluster(t)
	ctx := rule.Without(testContext(t), append([]rule.Name{rule.Probe}, off...)...)
	a = enter(t, ctx, p, Session{})
	a.o = a.m.granted(t)
	return a, a.expelled()
}

// trace is one that may end in two ways: what A does last is refused, or, without the rules, it is done.
type trace struct {
	name string
	off  []rule.Name
	done bool
}

func (c trace) judge(t *testing.T, what string, err error) {
	t.Helper()
	switch {
	case !c.done && !errors.Is(err, stream.ErrOwnershipLost):
		t.Errorf("I3: %s, which is B's, ended with %v, want ErrOwnershipLost", what, err)
	case c.done && err != nil:
		t.Errorf("the rules make no difference: %s ended with %v", what, err)
	}
}

// must ends the test: a step before the last has not come about.
func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Fence: A initialises late, after its successor, so that no epoch refuses it. The group does.
func TestTraceLateTakeoverOfAnExpelledMember(t *testing.T) {
	t.Parallel()
	for _, c := range []trace{{"bound", nil, false}, {"without the binding", []rule.Name{rule.FencedBinding}, true}} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			a, b := expulsion(t, c.off...)
			must(t, b.opens())
			must(t, a.opens())
			c.judge(t, "a commit of A", a.commits(1, "A"))
		})
	}
}

// R2ID: as before, and A is a member again before it initialises: the group would take its live token.
func TestTraceSilentRejoinBeforeTheTakeover(t *testing.T) {
	t.Parallel()
	for _, c := range []trace{{"the grant's id", nil, false}, {"the live id", []rule.Name{rule.GrantID}, true}} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			a, b := expulsion(t, c.off...)
			must(t, b.opens())
			a.rejoins()
			must(t, a.opens())
			c.judge(t, "a commit of A", a.commits(1, "A"))
		})
	}
}

// R2Order: as before, and A is a member again between its records and its token.
func TestTraceSilentRejoinBeforeTheToken(t *testing.T) {
	t.Parallel()
	for _, c := range []trace{{"the grant's id", nil, false}, {"the live id", []rule.Name{rule.GrantID}, true}} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			a, b := expulsion(t, c.off...)
			must(t, b.opens())
			live, once := a.m.session.metadata, atomic.Bool{}
			a.m.session.metadata = func() (string, int32) {
				if a.txn.count(kmsg.Produce) > 0 && once.CompareAndSwap(false, true) {
					a.rejoins()
				}
				return live()
			}
			must(t, a.opens())
			c.judge(t, "a commit of A", a.commits(1, "A"))
			if !once.Load() {
				t.Error("A has read no token after its records")
			}
		})
	}
}

// overtaken plays the lost updates: A and B have read the same offset, B commits, and A, whom the epoch has
// refused, initialises again and sends the same effects again. It returns what became of them.
func overtaken(t *testing.T, a, b *actor, between func()) error {
	t.Helper()
	must(t, a.opens())
	must(t, b.opens())
	must(t, b.commits(1, "B"))
	between()
	err := a.commits(1, "A")
	if err != nil { // B goes on, and ends what A has left open
		must(t, b.commits(2, "B"))
	}
	state, _, _ := a.p.restored(t, a.o.Partition().Partition)
	if lost := state["k"] != "B"; lost != (err == nil) {
		t.Errorf("A's commit ended with %v, and the state is %v", err, state)
	}
	return err
}

// R4 with R2ID, and with Fence: either is enough, neither is not.
func TestTraceSameEffectsAgainOverAnothersCommit(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		trace
		rejoins bool
	}{
		{trace{"all", nil, false}, false},
		{trace{"all, A is back", nil, false}, true},
		{trace{"no read-back, A is refused by the group", []rule.Name{rule.ReadBack}, false}, false},
		{trace{"no read-back, A is back under another id", []rule.Name{rule.ReadBack}, false}, true},
		{trace{"a read-back alone", []rule.Name{rule.FencedBinding}, false}, false},
		{trace{"a read-back alone, A is back", []rule.Name{rule.GrantID}, false}, true},
		{trace{"neither read-back nor binding", []rule.Name{rule.ReadBack, rule.FencedBinding}, true}, false},
		{trace{"neither read-back nor grant's id", []rule.Name{rule.ReadBack, rule.GrantID}, true}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			a, b := expulsion(t, c.off...)
			c.judge(t, "a commit of A", overtaken(t, a, b, func() {
				if c.rejoins {
					a.rejoins()
				}
			}))
		})
	}
}

// R12Init with Fence: nobody has initialised before it read its offset, so that A's first initialisation comes
// behind B's commit and reads nothing back.
func TestTraceFirstInitialisationBehindAnothersCommit(t *testing.T) {
	t.Parallel()
	for _, c := range []trace{
		{"all", nil, false},
		{"no takeover", []rule.Name{rule.Takeover}, false},
		{"no binding", []rule.Name{rule.FencedBinding}, false},
		{"neither", []rule.Name{rule.Takeover, rule.FencedBinding}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			a, b := expulsion(t, c.off...)
			c.judge(t, "a commit of A", overtaken(t, a, b, func() {}))
		})
	}
}

// R4Bind: A is back when its read-back has found B's commit. It is granted nothing anew: its membership is not
// the one that the partition was granted under.
func TestTraceReadBackAfterASilentRejoinGrantsNothing(t *testing.T) {
	t.Parallel()
	a, b := expulsion(t)
	must(t, a.opens())
	must(t, b.opens())
	must(t, b.commits(1, "B"))
	var back atomic.Bool
	a.txn.set(func(key kmsg.Key) fate {
		if key == kmsg.InitProducerID && back.CompareAndSwap(false, true) {
			a.rejoins()
		}
		return pass
	})
	if err := a.commits(1, "A"); !isForeign(err) || !back.Load() {
		t.Fatalf("I3: a commit behind B's ended with %v, A is back: %v, cause %v", err, back.Load(), a.o.Cause())
	}
	if renewed, err := a.m.Renew(a.ctx, a.o); renewed != nil || err != nil {
		t.Errorf("I3: A is granted what is B's: %v, %v", renewed, err)
	}
	must(t, b.commits(2, "B2"))
}

// R6: A has a transaction open when B learns, by the epoch, that it is fenced. B ends no transaction then: it
// would be A's.
func TestTraceFencedProducerEndsNothing(t *testing.T) {
	t.Parallel()
	a, b := expulsion(t)
	must(t, b.opens())
	must(t, a.opens())
	reached, pass1 := make(chan struct{}, 8), make(chan struct{})
	a.txn.set(func(key kmsg.Key) fate {
		if key == kmsg.TxnOffsetCommit {
			reached <- struct{}{}
			<-pass1
		}
		return pass
	})
	written := make(chan error, 1)
	go func() { written <- a.commits(1, "A") }()
	<-reached
	ends := atomic.Int32{}
	b.txn.set(func(key kmsg.Key) fate {
		if key == kmsg.EndTxn && b.txn.count(kmsg.InitProducerID) < 2 {
			ends.Add(1)
		}
		return pass
	})
	must(t, b.commits(1, "B"))
	if n := ends.Load(); n > 0 || b.txn.count(kmsg.InitProducerID) != 2 {
		t.Errorf("I3: B has ended %d transactions before its second takeover of %d", n, b.txn.count(kmsg.InitProducerID))
	}
	close(pass1)
	if err := <-written; !errors.Is(err, stream.ErrOwnershipLost) {
		t.Errorf("I3: A's commit ended with %v", err)
	}
}

// R12Init with R12Stab and Table: A's commit is decided when B has read its offset.
func TestTraceOffsetIsReadBeforeTheLastCommit(t *testing.T) {
	t.Parallel()
	for _, c := range []trace{
		{"all", nil, false},
		{"no takeover", []rule.Name{rule.Takeover}, false},
		{"no stable fetch", []rule.Name{rule.StableFetch}, false},
		{"neither", []rule.Name{rule.Takeover, rule.StableFetch}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			_, p := fakeCluster(t)
			a := enter(t, rule.Without(testContext(t), append([]rule.Name{rule.Probe}, c.off...)...), p, Session{})
			a.o = a.m.granted(t)
			must(t, a.opens())
			ending, end := make(chan struct{}, 8), make(chan struct{})
			a.txn.set(func(key kmsg.Key) fate {
				if key == kmsg.EndTxn {
					ending <- struct{}{}
					<-end
				}
				return pass
			})
			written := make(chan error, 1)
			go func() { written <- a.commits(2, "A") }()
			<-ending
			b := a.expelled()
			opened := make(chan error, 1)
			go func() { opened <- b.opens() }()
			// The first answer may be that the offset is unstable; the second request tells that it has come.
			var err error
			for look := time.NewTicker(time.Millisecond); len(opened) == 0 && b.txn.count(kmsg.OffsetFetch) < 2; <-look.C {
			}
			close(end)
			landed := <-written
			if err = <-opened; err != nil {
				t.Fatal(err)
			}
			must(t, b.commits(max(b.found.Next, 0)+1, "B"))
			now, err := wire.FetchOffset(b.ctx, testClient(t, p.k), p.group, wire.Member{}, b.o.Partition(), topicID(t, p.k, p.input))
			must(t, err)
			if fell := landed == nil && now.Next < 2; fell != c.done {
				t.Errorf("I1: A's commit of 2 ended with %v, B found %d, and %d is committed after B's", landed, b.found.Next, now.Next)
			}
		})
	}
}

// moved is A with a partition that a rebalance has given to B.
func moved(t *testing.T, off ...rule.Name) (a, b *actor) {
	t.Helper()
	_, p := fakeCluster(t, kfake.SeedTopics(2, testInput, testProgress))
	ctx := rule.Without(testContext(t), append([]rule.Name{rule.Probe}, off...)...)
	a = enter(t, ctx, p, Session{})
	first, second := a.m.granted(t), a.m.granted(t)
	b = enter(t, ctx, p, Session{})
	b.o = b.m.granted(t)
	if a.o = first; second.Partition() == b.o.Partition() {
		a.o = second
	}
	return a, b
}

// R13: A's token stays live when its partition has moved, so that the group would take its commit.
func TestTraceCommitAfterTheRevokeCallback(t *testing.T) {
	t.Parallel()
	for _, c := range []trace{{"torn down", nil, false}, {"not torn down", []rule.Name{rule.RevokeTeardown}, true}} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			a, b := moved(t, c.off...)
			must(t, b.opens())
			err := a.opens()
			if err == nil {
				err = a.commits(1, "A")
			}
			c.judge(t, "a commit of A", err)
		})
	}
}

// R4 with R13: as before, with B's commit in between.
func TestTraceSameEffectsAgainAfterTheRevokeCallback(t *testing.T) {
	t.Parallel()
	for _, c := range []trace{
		{"a read-back alone", []rule.Name{rule.RevokeTeardown}, false},
		{"neither", []rule.Name{rule.RevokeTeardown, rule.ReadBack}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			a, b := moved(t, c.off...)
			c.judge(t, "a commit of A", overtaken(t, a, b, func() {}))
		})
	}
	t.Run("a teardown alone", func(t *testing.T) {
		t.Parallel()
		a, _ := moved(t, rule.ReadBack)
		trace{}.judge(t, "a takeover of A", a.opens())
	})
}

// Regrant: the group goes on to another generation and moves nothing, A is refused under the old one, and the
// answer with the new one does not come in time. The partition stays A's all along, and A goes on with it.
func TestTraceGoneAndStillAssigned(t *testing.T) {
	t.Parallel()
	_, p := fakeCluster(t)
	ctx := rule.Without(testContext(t), rule.Probe)
	a := enter(t, ctx, p, Session{})
	a.o = a.m.granted(t)
	a.m.session.rebalanceTimeout = 200 * time.Millisecond
	must(t, a.opens())
	joins := make(chan struct{}, 8)
	a.net.set(func(key kmsg.Key) fate {
		if key == kmsg.JoinGroup {
			joins <- struct{}{}
			return holdBack
		}
		return pass
	})
	c := enter(t, ctx, p, Session{})
	<-joins
	for look := time.NewTicker(time.Millisecond); c.generation() <= a.generation() && ctx.Err() == nil; <-look.C {
	}
	if err := a.commits(1, "A"); !errors.Is(err, stream.ErrOwnershipLost) || a.o.State() != Gone {
		t.Fatalf("I8: a commit under the old generation: %v", err)
	}
	a.net.set(nil)
	a.release()
	renewed, err := a.m.Renew(ctx, a.o)
	if err != nil || renewed == nil {
		t.Fatalf("I7: A is granted nothing anew: %v, %v", renewed, err)
	}
	a.o = renewed
	must(t, a.opens())
	must(t, a.commits(1, "A"))
}

func (a *actor) generation() int32 {
	_, generation := a.m.client.GroupMetadata()
	return generation
}
