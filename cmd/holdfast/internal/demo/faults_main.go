package demo

import (
	"context"
	"fmt"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/holdfast-go/holdfast/internal/wiretap"
)

// killInTransaction kills a member whose transaction is written and not decided: its records and its
// offset have been acknowledged, and the request to commit is held at the tap.
func (r *run) killInTransaction(ctx context.Context) error {
	victim, err := r.anyone()
	if err != nil {
		return err
	}
	hold := victim.tap.Fault(wiretap.HoldRequest, wiretap.All(wiretap.Keys(kmsg.EndTxn), wiretap.Committing))
	if err := r.caught(ctx, hold, "a request to commit"); err != nil {
		return err
	}
	partition := victim.tap.endedPartition(hold.Caught()[0])
	after := r.journal.mark()
	if err := victim.kill(); err != nil {
		return err
	}
	r.note("%s killed (SIGKILL) in mid-transaction: partition %d written, not committed", victim.name, partition)
	next, err := r.startMember()
	if err != nil {
		return err
	}
	r.note("%s started in its place", next.name)
	if err := r.settled(ctx, next.name, after); err != nil {
		return err
	}
	v, _ := r.journal.view()
	r.note("%s has its share and has restored it: %s", next.name, r.holdings(v))
	return nil
}

// stopPastSession stops a member while the commit of one of its partitions is on its way, and wakes
// it after another member has taken that partition over and gone on.
func (r *run) stopPastSession(ctx context.Context) error {
	victim, err := r.anyone()
	if err != nil {
		return err
	}
	hold := victim.tap.Fault(wiretap.HoldRequest, wiretap.Keys(kmsg.TxnOffsetCommit))
	defer hold.Lift()
	if err := r.caught(ctx, hold, "an offset on its way"); err != nil {
		return err
	}
	partition := committedPartition(hold.Caught()[0])
	after := r.journal.mark()
	if err := victim.suspend(); err != nil {
		return err
	}
	r.note("%s stopped (SIGSTOP) with a write to partition %d on its way", victim.name, partition)
	if err := r.takenOver(ctx, partition, after, victim.name); err != nil {
		return err
	}
	refusedBefore := victim.tap.refusals.Count()
	if err := wake(victim.cmd.Process); err != nil {
		return err
	}
	hold.Lift()
	r.note("%s woken (SIGCONT); what it had sent reaches the broker", victim.name)
	if err := r.refusedMore(ctx, victim, refusedBefore); err != nil {
		return err
	}
	refusals := victim.tap.refusals.All()[refusedBefore:]
	r.note("the broker refuses it: %s", refusals[0].Err.Message)
	err = r.step(ctx, victim.name+" to be a member again", func(v view) bool { return v.count(victim.name) > 0 })
	if err != nil {
		return err
	}
	v, _ := r.journal.view()
	r.note("%s has let go, and is a member again: %s", victim.name, r.holdings(v))
	return nil
}

// takenOver waits until another member has restored the partition and committed on it.
func (r *run) takenOver(ctx context.Context, partition int32, after int, not string) error {
	what := fmt.Sprintf("another member to take partition %d over", partition)
	if err := r.step(ctx, what, func(v view) bool { return v.did(didRestore, partition, after, not) }); err != nil {
		return err
	}
	what = fmt.Sprintf("another member to commit on partition %d", partition)
	err := r.step(ctx, what, func(v view) bool { return v.by[partition] != not })
	if err != nil {
		return err
	}
	v, _ := r.journal.view()
	r.note("%s has taken partition %d over and goes on with it", v.by[partition], partition)
	return nil
}

func (r *run) caught(ctx context.Context, f *wiretap.Fault, what string) error {
	ctx, cancel := context.WithTimeoutCause(ctx, stepTimeout, fmt.Errorf("%s did not pass within %v", what, stepTimeout))
	defer cancel()
	return f.Await(ctx, 1)
}

func (r *run) refusedMore(ctx context.Context, p *process, before int) error {
	ctx, cancel := context.WithTimeoutCause(ctx, stepTimeout, fmt.Errorf("the broker refused nothing within %v", stepTimeout))
	defer cancel()
	return p.tap.refusals.Await(ctx, before+1)
}

// settled waits until every partition is held again, and the named member holds some.
func (r *run) settled(ctx context.Context, name string, after int) error {
	return r.step(ctx, fmt.Sprintf("%s to hold its share", name), func(v view) bool {
		return len(v.entries) > after && len(v.owners()) == partitions && v.count(name) > 0
	})
}

// anyone returns the living member with the first name, which is the one that has run longest.
func (r *run) anyone() (*process, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var names []string
	for name := range r.alive {
		names = append(names, name)
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("no member is running")
	}
	return r.alive[slices.Min(names)], nil
}
