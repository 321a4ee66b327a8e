package demo

import (
	"context"
	"errors"
	"slices"

	"github.com/holdfast-go/holdfast/internal/wiretap"
)

// overwrite makes the corruption that the fence exists for:
//
//  1. a member is stopped while a snapshot of one of its partitions is on its way
//  2. another member takes the partition over, folds on, writes newer snapshots, commits offsets
//  3. the first is woken, and its old snapshot lands behind the newer ones
//  4. the second is killed before it writes those keys again; the next one restores the old
//     states and goes on from the committed offset: the events between are in no state
func (r *run) overwrite(ctx context.Context) error {
	stale, err := r.anyone()
	if err != nil {
		return err
	}
	snapshots := r.place.topics[r.place.Snapshots]
	// A learner of a long course: the damage is still in the state when the run ends.
	old := stale.tap.Fault(wiretap.HoldRequest, func(q wiretap.Request) bool {
		return slices.ContainsFunc(producedKeys(q, snapshots), func(key string) bool { return takesLong(key) })
	})
	if err := r.caught(ctx, old, "a snapshot"); err != nil {
		return err
	}
	partition := producedPartitions(old.Caught()[0], snapshots)[0]
	from := r.generator.end()[partition]
	after := r.journal.mark()
	if err := stale.suspend(); err != nil {
		return err
	}
	r.note("%s stopped (SIGSTOP) with a snapshot of partition %d on its way", stale.name, partition)
	if err := r.takenOver(ctx, partition, after, stale.name); err != nil {
		return err
	}
	err = r.step(ctx, "newer snapshots of every key", func(v view) bool { return v.committed[partition] > from+3*foldedWell })
	if err != nil {
		return err
	}
	return r.landStale(ctx, stale, old, partition)
}

// landStale lets the old snapshot through and ends the owner behind it.
func (r *run) landStale(ctx context.Context, stale *process, old *wiretap.Fault, partition int32) error {
	v, _ := r.journal.view()
	owner, err := r.member(v.by[partition])
	if err != nil {
		return err
	}
	// The owner's later snapshots are held: those of the same keys would heal them.
	newer := owner.tap.Fault(wiretap.HoldRequest, producing(r.place.topics[r.place.Snapshots]))
	if err := r.caught(ctx, newer, "a snapshot"); err != nil {
		return err
	}
	r.note("%s has written newer snapshots and committed offset %d", owner.name, v.committed[partition])
	// The one old snapshot is enough: the progress record that follows it would show the next owner
	// that something is wrong, if it landed as well.
	stale.tap.Fault(wiretap.HoldRequest, producing(r.place.topics[r.place.Snapshots]))
	if err := wake(stale.cmd.Process); err != nil {
		return err
	}
	old.Release()
	bounded, cancel := context.WithTimeoutCause(ctx, stepTimeout, errors.New("no old snapshot landed"))
	defer cancel()
	var hit snapshotSeen
	err = r.watch.await(bounded, "the old snapshot to land", func(seen map[string]snapshotSeen) (bool, error) {
		for _, s := range seen {
			if s.partition == partition && !s.deleted && s.last() < s.newest {
				hit = s
				return true, nil
			}
		}
		return false, nil
	})
	if err != nil {
		return err
	}
	r.note("%s woken (SIGCONT): its old snapshot of %s ends at event %d and lies over one that ends at %d",
		stale.name, hit.learner, hit.last(), hit.newest)
	after := r.journal.mark()
	for _, p := range []*process{owner, stale} {
		if err := p.kill(); err != nil {
			return err
		}
	}
	r.note("%s and %s killed (SIGKILL)", owner.name, stale.name)
	for range 2 {
		if _, err := r.startMember(); err != nil {
			return err
		}
	}
	err = r.step(ctx, "the partition to be restored", func(v view) bool { return v.did(didRestore, partition, after, "") })
	if err != nil {
		return err
	}
	r.note("partition %d is restored with the old states and goes on from the committed offset", partition)
	return r.step(ctx, "all partitions to be held", func(v view) bool {
		return len(v.entries) > after && len(v.owners()) == partitions
	})
}
