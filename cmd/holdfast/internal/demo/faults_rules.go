package demo

import (
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/holdfast-go/holdfast/internal/wiretap"
)

// How long a schedule looks for what only a broken member does. With every rule in force it never
// comes, so that this is how long the schedule lasts.
const brokenWithin = 5 * time.Second

// foldedWell is how many events of a partition mean that most of its keys have had some.
const foldedWell = 3 * learners / partitions

// killAhead kills a member at a moment at which the snapshots of one of its partitions are ahead of
// the committed offset in the way that ahead looks for.
func (r *run) killAhead(ctx context.Context, what string, ahead func(*generator, snapshotSeen, int64) (written, bool)) error {
	ctx, cancel := context.WithTimeoutCause(ctx, stepTimeout, fmt.Errorf("no kill fell behind %s and before its offset", what))
	defer cancel()
	for ctx.Err() == nil {
		var found written
		err := r.watch.await(ctx, what+" that is ahead of its offset", func(seen map[string]snapshotSeen) (bool, error) {
			at, err := r.place.committed(ctx)
			for _, s := range seen {
				if w, ok := ahead(r.generator, s, at[s.partition]); ok {
					found = w
					return true, err
				}
			}
			return false, err
		})
		if err != nil {
			return err
		}
		hit, err := r.killOwner(ctx, what, found)
		if err != nil || hit {
			return err
		}
	}
	return context.Cause(ctx)
}

// killOwner kills the owner of the event's partition, starts another member, and reports whether the
// committed offset was still before the event when the owner died.
func (r *run) killOwner(ctx context.Context, what string, w written) (bool, error) {
	v, _ := r.journal.view()
	victim, err := r.member(v.owners()[w.partition])
	if err != nil {
		return false, nil // the partition changes hands: look again
	}
	after := r.journal.mark()
	if err := victim.kill(); err != nil {
		return false, err
	}
	at, err := r.place.committed(ctx)
	if err != nil {
		return false, err
	}
	hit := at[w.partition] <= w.offset
	if hit {
		r.note("%s killed (SIGKILL) behind %s: event %d at %d/%d is in the snapshots, the committed offset is %d",
			victim.name, what, w.Event.Event, w.partition, w.offset, at[w.partition])
	} else {
		r.note("%s killed (SIGKILL), too late by %d offsets: once more", victim.name, at[w.partition]-w.offset)
	}
	next, err := r.startMember()
	if err != nil {
		return false, err
	}
	if err := r.settled(ctx, next.name, after); err != nil {
		return false, err
	}
	v, _ = r.journal.view()
	r.note("%s started in its place: %s", next.name, r.holdings(v))
	return hit, nil
}

// foldedAhead looks for a state with an event that a replay from the committed offset meets again.
func foldedAhead(g *generator, s snapshotSeen, committed int64) (written, bool) {
	if s.deleted {
		return written{}, false
	}
	w, ok := g.find(s.last())
	return w, ok && w.offset >= committed
}

// graduatedAhead looks for a learner who has graduated, and of whose course a replay from the
// committed offset meets the end without the beginning.
func graduatedAhead(g *generator, s snapshotSeen, committed int64) (written, bool) {
	if !s.deleted {
		return written{}, false
	}
	first, last, ok := g.graduation(s.learner, committed)
	if !ok || first.offset >= committed {
		return written{}, false
	}
	return last, true
}

// killBeforeOutputs holds the outputs of a member, and kills it: if it lets a snapshot commit before
// its outputs are acknowledged, then behind such a commit.
func (r *run) killBeforeOutputs(ctx context.Context) error {
	victim, err := r.anyone()
	if err != nil {
		return err
	}
	hold := victim.tap.Fault(wiretap.HoldRequest, producing(r.place.topics[r.place.Outputs]))
	ends := r.generator.end()
	if err := r.caught(ctx, hold, "an output"); err != nil {
		return err
	}
	r.note("the outputs of %s are held on their way to the broker", victim.name)
	var committed int32 = -1
	// An event behind these ends was made after the hold began, so that its output is among those
	// held. A commit behind it covers a state whose output the broker does not have.
	seen, err := r.within(ctx, brokenWithin, func(v view) bool {
		for partition, at := range v.committed {
			if v.by[partition] == victim.name && at > ends[partition]+foldedWell {
				committed = partition
				return true
			}
		}
		return false
	})
	if err != nil {
		return err
	}
	after := r.journal.mark()
	if err := victim.kill(); err != nil {
		return err
	}
	if seen {
		r.note("%s killed (SIGKILL) behind a commit on partition %d whose outputs never arrived", victim.name, committed)
	} else {
		r.note("%s killed (SIGKILL); it had committed nothing whose output had not arrived", victim.name)
	}
	next, err := r.startMember()
	if err != nil {
		return err
	}
	r.note("%s started in its place", next.name)
	return r.settled(ctx, next.name, after)
}

// killUnsaved kills a member that commits all the time while many of its states wait for their
// snapshot. An offset that has passed one of them loses it.
func (r *run) killUnsaved(ctx context.Context) error {
	victim, err := r.anyone()
	if err != nil {
		return err
	}
	ends := r.generator.end()
	err = r.step(ctx, "commits of "+victim.name, func(v view) bool {
		for partition, at := range v.committed {
			if v.by[partition] == victim.name && at > ends[partition]+foldedWell {
				return true
			}
		}
		return false
	})
	if err != nil {
		return err
	}
	after := r.journal.mark()
	if err := victim.kill(); err != nil {
		return err
	}
	r.note("%s killed (SIGKILL) with states that wait for their snapshot", victim.name)
	next, err := r.startMember()
	if err != nil {
		return err
	}
	r.note("%s started in its place", next.name)
	return r.settled(ctx, next.name, after)
}

// pinSnapshots opens a transaction of its own on a snapshot partition, lets the partition's owner
// commit snapshots behind it, and has the partition change hands.
func (r *run) pinSnapshots(ctx context.Context) error {
	victim, err := r.anyone()
	if err != nil {
		return err
	}
	v, _ := r.journal.view()
	partition := int32(-1)
	for p, name := range v.owners() {
		if name == victim.name {
			partition = p
		}
	}
	foreign, err := r.openForeign(ctx, partition)
	if err != nil {
		return err
	}
	defer foreign.Close()
	r.note("a foreign transaction is open on snapshot partition %d", partition)
	from := r.generator.end()[partition]
	err = r.step(ctx, "snapshots behind the foreign transaction", func(v view) bool {
		return v.by[partition] == victim.name && v.committed[partition] > from+2*foldedWell
	})
	if err != nil {
		return err
	}
	after := r.journal.mark()
	if err := victim.kill(); err != nil {
		return err
	}
	r.note("%s has committed snapshots behind it, and is killed (SIGKILL)", victim.name)
	next, err := r.startMember()
	if err != nil {
		return err
	}
	r.note("%s started in its place", next.name)
	err = r.step(ctx, "another member to take the partition", func(v view) bool {
		return v.did(didAssign, partition, after, victim.name)
	})
	if err != nil {
		return err
	}
	restored, err := r.within(ctx, brokenWithin, func(v view) bool { return v.did(didRestore, partition, after, victim.name) })
	if err != nil {
		return err
	}
	if restored {
		r.note("partition %d was restored without waiting for the foreign transaction", partition)
	} else {
		r.note("the restore of partition %d waits for the foreign transaction, which is aborted", partition)
	}
	if err := foreign.EndTransaction(ctx, kgo.TryAbort); err != nil {
		return fmt.Errorf("abort the foreign transaction: %w", err)
	}
	return r.settled(ctx, next.name, after)
}

// openForeign writes to a snapshot partition in a transaction with an id that no member has, and
// leaves it open.
func (r *run) openForeign(ctx context.Context, partition int32) (*kgo.Client, error) {
	cl, err := r.place.kafka.Client(kgo.TransactionalID(r.place.Group+"-foreign"), kgo.TransactionTimeout(stepTimeout),
		kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		return nil, err
	}
	err = cl.BeginTransaction()
	if err == nil {
		err = cl.ProduceSync(ctx, &kgo.Record{
			Topic: r.place.Snapshots, Partition: partition, Key: []byte("foreign"), Value: []byte("never committed"),
		}).FirstErr()
	}
	if err != nil {
		cl.Close()
		return nil, fmt.Errorf("open a foreign transaction: %w", err)
	}
	return cl, nil
}

// rejoinSilently holds a member's JoinGroup until the group has expelled it, and others have taken
// its partitions over, worked and left. Then the member comes back under another id: its client
// says nothing of a loss, and its partitions are its own again.
func (r *run) rejoinSilently(ctx context.Context) error {
	victim, err := r.anyone()
	if err != nil {
		return err
	}
	v, _ := r.journal.view()
	held := map[int32]int64{}
	for p, name := range v.owners() {
		if name == victim.name {
			held[p] = 0
		}
	}
	after := r.journal.mark()
	hold := victim.tap.Fault(wiretap.HoldRequest, wiretap.Keys(kmsg.JoinGroup))
	defer hold.Lift()
	next, err := r.startMember()
	if err != nil {
		return err
	}
	if err := r.caught(ctx, hold, "a JoinGroup"); err != nil {
		return err
	}
	// Without its JoinGroup it cannot have the group's next generation: what a broker refuses it from
	// here on is what it takes for its own and others have.
	victim.tap.outlived(false)
	r.note("%s starts, the group rebalances, and the JoinGroup of %s is held on its way", next.name, victim.name)
	for p := range held {
		if err := r.takenOver(ctx, p, after, victim.name); err != nil {
			return err
		}
	}
	if err := r.leave(ctx, victim.name); err != nil {
		return err
	}
	after = r.journal.mark()
	hold.Lift()
	r.note("the others have left, and the JoinGroup of %s goes on: it rejoins under another id", victim.name)
	back, err := r.within(ctx, 2*brokenWithin, func(v view) bool {
		for p := range held {
			if v.owners()[p] != victim.name || !v.did(didRestore, p, after, "") {
				return false
			}
		}
		return true
	})
	if err != nil {
		return err
	}
	if back {
		r.note("%s was granted its partitions anew and has restored them", victim.name)
	} else {
		r.note("%s did not restore the partitions that it had before", victim.name)
	}
	return nil
}

// leave ends all members but one in good order, or kills those that do not end.
func (r *run) leave(ctx context.Context, but string) error {
	ctx, cancel := context.WithTimeout(ctx, brokenWithin)
	defer cancel()
	r.mu.Lock()
	var leaving []*process
	for name, p := range r.alive {
		if name != but {
			leaving = append(leaving, p)
		}
	}
	r.mu.Unlock()
	for _, p := range leaving {
		if err := p.drain(ctx); err != nil {
			return err
		}
	}
	return nil
}
