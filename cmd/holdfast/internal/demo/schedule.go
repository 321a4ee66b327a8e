package demo

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/internal/rule"
)

// Schedule is a sequence of faults, each made at a point of the protocol that the parent waits for.
type Schedule struct {
	Name   string
	About  string // what is done, one sentence
	Rule   string // the rule that it is about, for people; "" for the main one
	Number string // of the rule in docs/ARCHITECTURE.md, if it has one
	Breaks string // what goes wrong without the rule, to follow its name
	// Without are the rules that a sabotage switches off: the one of that name, and what would notice
	// the damage and stop before it spreads.
	Without []rule.Name

	members  int
	timing   timing
	unfenced bool
	refuses  bool // the broker has to refuse a stale write, else nothing was shown
	faults   func(ctx context.Context, r *run) error
}

// brisk are intervals at which transactions run all the time.
var brisk = timing{
	Session: 6 * time.Second, Rebalance: 12 * time.Second, Heartbeat: 500 * time.Millisecond,
	Transaction: 20 * time.Second,
	Persist:     150 * time.Millisecond, Cooldown: 20 * time.Millisecond, Interval: 100 * time.Millisecond,
}

// lagging are intervals under which the committed offset stays behind the snapshots for a while: a
// state that is saved at once is ahead of one that waits.
var lagging = timing{
	Session: brisk.Session, Rebalance: brisk.Rebalance, Heartbeat: brisk.Heartbeat, Transaction: brisk.Transaction,
	Persist: 1500 * time.Millisecond, Cooldown: 20 * time.Millisecond, Interval: 100 * time.Millisecond,
}

// Main is the schedule of holdfast demo.
func Main() Schedule {
	return Schedule{
		Name:    "main",
		About:   "One process is killed in mid-transaction, one is stopped past its session and woken",
		members: 2, timing: brisk, refuses: true,
		faults: func(ctx context.Context, r *run) error {
			if err := r.killInTransaction(ctx); err != nil {
				return err
			}
			return r.stopPastSession(ctx)
		},
	}
}

// Plain is the schedule of holdfast demo --plain.
func Plain() Schedule {
	return Schedule{
		Name:    "plain",
		About:   "Without the fence: a stopped process wakes and its old snapshot lands on a newer one",
		members: 2, timing: brisk, unfenced: true,
		faults: func(ctx context.Context, r *run) error { return r.overwrite(ctx) },
	}
}

// Schedules are those that make one rule bite, by the rule's name.
func Schedules() []Schedule {
	return []Schedule{
		{
			Name: "grant-id", Without: []rule.Name{rule.GrantID},
			Number: "R2", Rule: "a member that rejoined under another id has lost its partitions, and is granted them anew",
			About:   "A process is held out of the group until others have done its work, and rejoins without being told",
			Breaks:  "the expelled process believes that it still holds what it is granted again, and nobody folds those partitions",
			members: 2, timing: brisk,
			faults: func(ctx context.Context, r *run) error { return r.rejoinSilently(ctx) },
		},
		{
			Name: "restore-bound", Without: []rule.Name{rule.RestoreBound, rule.SecondWitness},
			Number: "R12", Rule: "a restore reads to the high watermark, past open transactions",
			About:   "A foreign transaction is open in the snapshot topic while the partition changes hands",
			Breaks:  "the next owner restores only up to the open transaction: what lies behind it in the snapshots is lost",
			members: 2, timing: brisk,
			faults: func(ctx context.Context, r *run) error { return r.pinSnapshots(ctx) },
		},
		{
			Name: "two-write-delete", Without: []rule.Name{rule.TwoWriteDelete},
			Number: "R20", Rule: "a key is first marked as deleted, and removed once no replay can bring it back",
			About:   "A process is killed between a learner's graduation and the commit of its offset",
			Breaks:  "the next owner finds no trace of a learner who has graduated, and folds the end of the course into an empty state, which comes back to life and miscounts every course after it",
			members: 2, timing: lagging,
			faults: func(ctx context.Context, r *run) error { return r.killAhead(ctx, "a graduation", graduatedAhead) },
		},
		{
			Name: "applied-skip", Without: []rule.Name{rule.AppliedSkip},
			Rule:    "a replay skips what a key has applied",
			About:   "A process is killed between a snapshot and the commit of its offset",
			Breaks:  "the next owner folds events again that a restored state has in it already (repeated); the learner's course ends early, or never",
			members: 2, timing: lagging,
			faults: func(ctx context.Context, r *run) error { return r.killAhead(ctx, "a snapshot", foldedAhead) },
		},
		{
			Name: "holds", Without: []rule.Name{rule.Holds},
			Number: "R17", Rule: "the committed offset stays behind every event whose state is not saved",
			About:   "A process is killed while states wait for their snapshot",
			Breaks:  "the committed offset has passed events whose states were not saved: the next owner neither restores nor folds them",
			members: 2, timing: lagging,
			faults: func(ctx context.Context, r *run) error { return r.killUnsaved(ctx) },
		},
		{
			Name: "outputs-first", Without: []rule.Name{rule.OutputsFirst},
			Number: "R18", Rule: "outputs are acknowledged before the snapshot that covers them commits",
			About:   "A process is killed while its outputs are on their way",
			Breaks:  "the committed offset has passed events whose outputs the broker never got, and nobody emits them again",
			members: 2, timing: brisk,
			faults: func(ctx context.Context, r *run) error { return r.killBeforeOutputs(ctx) },
		},
	}
}

// Find returns the schedule of that name. The error lists the names.
func Find(name string) (Schedule, error) {
	all := Schedules()
	i := slices.IndexFunc(all, func(s Schedule) bool { return s.Name == name })
	if i >= 0 {
		return all[i], nil
	}
	names := make([]string, len(all))
	for i, s := range all {
		names[i] = s.Name
	}
	return Schedule{}, fmt.Errorf("there is no %q; the names are %s", name, strings.Join(names, ", "))
}
