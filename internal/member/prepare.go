package member

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/stream"
)

// looks is how often offset and progress are read again while they disagree: after a takeover
// nobody else can commit under our id, so a difference that stays is somebody's doing.
const looks = 5

// open takes the partition's transactional id over and fetches the stable committed offset.
func (w *worker) open(ctx context.Context) error {
	began := time.Now()
	st, committed, err := w.m.openStore(ctx, w)
	if err != nil {
		return err
	}
	w.storeMu.Lock()
	w.store, w.committed = st, committed
	w.storeMu.Unlock()
	if w.own.State() == fence.Gone { // torn down meanwhile, without this store
		st.Close(w.ctx)
		return w.own.Cause()
	}
	w.m.tookOver(w.own.Partition())
	token, _ := w.own.Token(w.ctx) // for the hook alone: an ownership that just ended is found out below
	e := stream.Assigned{
		Partition: w.own.Partition(), Ownership: w.own.Number(), Generation: token.Generation,
		TookOver: committed.TookOver, Takeover: time.Since(began), Committed: committed.Next,
	}
	w.told.next(func() {
		w.log.Info("partition assigned", "committed", committed.Next, "took_over", committed.TookOver, "takeover", e.Takeover)
		call(w.hooks(), func(h stream.Hooks) func(stream.Assigned) { return h.Assigned }, e)
	})
	return nil
}

// prepare restores the states and decides where folding begins.
func (w *worker) prepare(ctx context.Context) (start int64, err error) {
	if err := w.sameComponent(); err != nil {
		return 0, err
	}
	// As it was when the flow started: a partition that was added since has nothing to restore from.
	if err := w.checkInput(ctx, nil); err != nil {
		return 0, err
	}
	if start, ok, err := w.resume(ctx); ok || err != nil {
		return start, err
	}
	for look := 1; ; look++ {
		found, err := w.restore(ctx)
		if err != nil {
			return 0, err
		}
		found.committed = w.committed
		found.stateless = w.m.cfg.Map != nil
		found.group, found.input = w.m.cfg.Session.Group, w.own.Partition()
		if err := w.ours(found.foreign); err != nil {
			return 0, err
		}
		if found.progress != nil {
			w.m.noticeOthers(w)
		} else if err := w.alone(ctx); err != nil {
			return 0, err
		}
		w.counted(found)
		j := w.judge(ctx, &found)
		past := signs{}
		if j.verdict == beginNew && j.err == nil {
			past = w.signs(ctx)
		}
		if look < w.needs(found, j, past) {
			if err := w.lookTwice(ctx); err != nil {
				return 0, err
			}
			continue
		}
		j = w.concluded(found, j, past, look)
		if j.err != nil {
			return 0, w.located(j.err)
		}
		switch j.verdict {
		case begin:
			if j.skips {
				w.tellGone(j.gone, j.start)
			}
			if found.headLost() {
				return w.adopt(ctx, found, j.start)
			}
			return j.start, w.ready(found, j.start)
		case beginNew:
			return w.beginNew(ctx, found)
		case rebuild:
			return w.rebuild(ctx, found)
		case lookAgain:
			if err := w.lookAgain(ctx, look); err != nil {
				return 0, err
			}
		}
	}
}

// sameComponent refuses offsets that another kind of component has committed: a flow's offsets say that
// its snapshots have what is before them, and a pipe has none.
func (w *worker) sameComponent() error {
	kind, own := w.committed.Kind, w.m.cfg.Component
	if kind == "" || kind == own {
		return nil
	}
	return w.located(stream.NewError("start", fmt.Errorf("the offsets of the group were committed by a %s, and this is a %s: %w", kind, own, stream.ErrOtherComponent)).
		Hinted("give each component a group of its own"))
}

// ours refuses a snapshot partition that another group has written to, whatever the start policy.
// Nothing fences two groups from each other: their transactional ids differ, and each commits an
// offset of its own. A flow that rebuilt or resumed here would write among the other's states.
func (w *worker) ours(foreign *fence.Progress) error {
	if foreign == nil {
		return nil
	}
	return w.located(stream.NewError("start", fmt.Errorf("the snapshot topic %s was written by group %q (member %s, at %s, up to offset %d): %w",
		w.m.cfg.Snapshots.Topic, foreign.Group, foreign.MemberID, foreign.At.Format(time.RFC3339), foreign.Inputs[0].Next, stream.ErrOtherGroup)).
		Hinted("a snapshot topic belongs to one group: choose another Snapshots.Topic, whatever the start policy"))
}

// usable returns why the state that was restored must not be folded on, whatever the offsets say. Whose
// it is comes first. Then the fold version: who changes it with the state's format has said so, and a
// state that the codec cannot read is only what follows.
func (w *worker) usable(ctx context.Context, f found) error {
	if f.moved != "" {
		return w.located(layoutMoved(f.moved, w.m.progress(w.own.Partition()), w.m.topics(), w.m.cfg.Map != nil))
	}
	if err := w.checkFoldVersion(f.progress); err != nil {
		return err
	}
	if f.corrupt != nil {
		return f.corrupt
	}
	if err := w.checkInput(ctx, f.progress); err != nil {
		return err
	}
	// A hold may keep the offset back while keys have applied what is past it:
	//
	//  1. Record 1 is of a key that is not persisted. Records 2 to 9 are of one that is, at 9.
	//  2. The process crashes. Then the input loses what is from 5 on, and other records take these offsets.
	//  3. Folding begins at 1, and the key passes over the other records up to 9 as applied.
	if err := w.checkTruncation(ctx, f.furthest); err != nil {
		return err
	}
	return w.checkApplied(ctx, f)
}

// rebuildCures reports whether an error of usable is about the state and not about asking for it. Where keys have
// moved the records themselves are in two partitions, and so would be the states that are folded from them. What is of
// another input may be another component's, which goes on with it.
func rebuildCures(err error) bool {
	return errors.Is(err, stream.ErrInputChanged) && !wire.AreKeysMoved(err) && !errors.Is(err, errOtherInput) || errors.Is(err, stream.ErrTruncated) ||
		errors.Is(err, stream.ErrFoldVersion) || errors.Is(err, stream.ErrCorruptSnapshot) || errors.Is(err, stream.ErrSnapshotsLost)
}

// pauseBefore waits between two looks, longer after each; not before the first one, which comes after none.
func pauseBefore(ctx context.Context, looked int) error {
	if looked == 0 {
		return nil
	}
	select {
	case <-time.After(time.Duration(looked) * 100 * time.Millisecond):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// lookTwice comes before a start is refused, or something is dropped, skipped or repeated (R28). What was restored may end where
// the log of a deposed leader does (see checkApplied), which hears of its successor within a moment of its
// waking. And the offset may be old, of an owner that was cut off after it had asked:
//
//  1. A asks for the offset. There is none yet.
//  2. A is cut off, B takes over, folds, and makes the group's first commit.
//  3. A is back, reads B's snapshots, and would stop for an offset that somebody had deleted.
func (w *worker) lookTwice(ctx context.Context) error { return w.lookAgain(ctx, looks) }

func (w *worker) lookAgain(ctx context.Context, look int) error {
	if err := pauseBefore(ctx, look); err != nil {
		return err
	}
	committed, err := w.store.Refetch(ctx)
	if err != nil {
		return err
	}
	committed.TookOver = committed.TookOver || w.committed.TookOver
	w.committed = committed
	return nil
}

// ready starts the engine and tells that the partition is restored.
func (w *worker) ready(f found, start int64) error {
	w.tellStore(&f)
	w.m.forget(w.own.Partition(), start)
	w.engine.Singly(w.m.singleKeys(w.own.Partition()))
	w.pace = w.m.paceOf(w.own.Partition())
	w.engine.Bound(w.pace.learned())
	w.after, w.furthest = f.epochBefore(start), f.furthest
	w.engine.After(w.after)
	w.refusals = w.m.hasRefusals(w.own.Partition())
	w.engine.Start(time.Now(), start, w.committed.Next, w.m.skips(w.own.Partition(), start))
	w.restored = time.Now()
	stats := w.engine.Stats()
	w.cost.keys.Store(int64(stats.Keys))
	w.publish(w.restored, true)
	e := stream.Restored{
		Partition: w.own.Partition(), Keys: stats.Keys, Records: f.result.Records,
		Bytes: f.result.Bytes, Took: f.result.Took, Start: start, Retained: f.retained,
	}
	w.log.Info("partition restored", "keys", e.Keys, "records", e.Records, "bytes", e.Bytes, "took", e.Took, "start", start, "retained", e.Retained)
	call(w.m.hooks, func(h stream.Hooks) func(stream.Restored) { return h.Restored }, e)
	w.m.lookReady()
	return nil
}

// tellStore tells the store, before its first commit, what is known of the commits before it.
func (w *worker) tellStore(f *found) {
	w.store.LogStart(f.head.known())
	w.logStart.Store(f.head.known())
	switch {
	case f.toldStore:
		return
	case f.progress != nil:
		w.store.Adopt(*f.progress, f.progressAt)
	default:
		w.store.AdoptNone(f.result.Target, w.incarnation)
	}
	f.toldStore = true
}

// epochBefore returns the leader epoch of the record before the first one to fold, -1 if nobody knows it.
func (f found) epochBefore(start int64) int32 {
	switch {
	case f.progress != nil && len(f.progress.Inputs) == 1 && f.progress.Inputs[0].Next == start:
		return f.progress.Inputs[0].LeaderEpoch
	case f.committed.Next == start:
		return f.committed.LeaderEpoch
	}
	return -1
}

// beginNew resolves the start policy and commits the offset before the first fold (R23): a crash
// after the first fold would else resolve it again, to another offset.
func (w *worker) beginNew(ctx context.Context, f found) (int64, error) {
	start, err := w.resolveStart(ctx)
	if err != nil {
		return 0, err
	}
	w.tellStore(&f)
	if err := w.store.Commit(ctx, fence.Offset{Next: start, LeaderEpoch: -1}); err != nil {
		return 0, err
	}
	w.committed.Next = start
	return start, w.ready(f, start)
}

// rebuild begins at the input's first record with empty states, under the next incarnation: what
// snapshots of a lower one say does not count any more. It is above every one in the log, not only
// above that of the progress record:
//
//  1. The states are of incarnation 2, and the progress record is lost. The flow rebuilds.
//  2. The rebuilt states are written under 1.
//  3. The next restore finds those of 2, and leaves out the rebuilt ones as older.
func (w *worker) rebuild(ctx context.Context, f found) (int64, error) {
	first, _, _, err := w.input().Ends(ctx)
	if err != nil {
		return 0, err
	}
	w.tellStore(&f)
	if f.incarnation == math.MaxUint32 {
		return 0, w.located(stream.NewError("rebuild", fmt.Errorf("%w: there is no incarnation above %d", stream.ErrCorruptSnapshot, f.incarnation)).
			Hinted("somebody has written such a progress record or state: use another snapshot topic"))
	}
	w.incarnation = max(w.incarnation, f.incarnation) + 1
	w.engine.RaiseIncarnation(w.incarnation)
	w.log.Warn("state is rebuilt from the input", "start", first, "incarnation", w.incarnation)
	if err := w.store.Rebuild(ctx, w.incarnation, fence.Offset{Next: first, LeaderEpoch: -1}); err != nil {
		return 0, err
	}
	w.m.forget(w.own.Partition(), w.committed.Next) // what another owner may have made of them is void as well
	w.committed.Next = first
	f.progress, f.furthest = nil, fence.InputProgress{LeaderEpoch: -1}
	return first, w.ready(f, first)
}

func (w *worker) input() wire.Log {
	return wire.Log{Client: w.m.admin, Topic: w.own.Partition().Topic, TopicID: w.m.input(w.own.Partition().Topic).ID, Partition: w.own.Partition().Partition}
}

// resolveStart turns the start policy into an offset.
func (w *worker) resolveStart(ctx context.Context) (int64, error) {
	policy := w.m.cfg.Start
	first, last, _, err := w.input().Ends(ctx)
	switch {
	case err != nil:
		return 0, err
	case policy.Latest:
		return last, nil
	case policy.AtTime.IsZero():
		return first, nil
	}
	p := w.own.Partition()
	listed, err := kadm.NewClient(w.m.admin).ListOffsetsAfterMilli(ctx, policy.AtTime.UnixMilli(), p.Topic)
	if err == nil {
		o, ok := listed.Lookup(p.Topic, p.Partition)
		if ok && o.Err == nil {
			return o.Offset, nil
		}
		err = errors.Join(o.Err, fmt.Errorf("no offset by time for %s", p))
	}
	return 0, w.located(stream.NewError("resolve start time", err).Hinted("check that the brokers keep the partition's time index, or choose Earliest or Latest"))
}

// checkFoldVersion makes sure that the state is of the history that the flow would go on with (R22).
func (w *worker) checkFoldVersion(p *fence.Progress) error {
	if p != nil && p.FoldVersion != w.m.cfg.FoldVersion {
		return w.located(stream.NewError("start", fmt.Errorf("the state was folded under version %q and the flow has %q: %w",
			p.FoldVersion, w.m.cfg.FoldVersion, stream.ErrFoldVersion)).
			Hinted("set FoldVersion back, or choose Rebuild (Start.Disagreement) to fold the input again"))
	}
	return nil
}

// inputPatience is for how long the cluster has to say that the input does not exist before that is
// believed: a broker that has just started has not caught up with the topics yet.
const inputPatience = 10 * time.Second

// inputFacts asks for the facts of the input as it is.
func (w *worker) inputFacts(ctx context.Context) (wire.Facts, error) {
	for began := time.Now(); ; {
		facts, err := wire.TopicFacts(ctx, w.m.admin, w.own.Partition().Topic)
		if err != nil || facts.Exists || time.Since(began) >= inputPatience {
			return facts, err
		}
		select {
		case <-time.After(200 * time.Millisecond):
		case <-ctx.Done():
			return facts, context.Cause(ctx)
		}
	}
}

// checkInput makes sure that the input is the log that the state was folded from (R21): applied
// offsets of another log would have records skipped that were never folded.
func (w *worker) checkInput(ctx context.Context, p *fence.Progress) error {
	facts, err := w.inputFacts(ctx)
	if err != nil {
		return err
	}
	atStart := w.m.input(w.own.Partition().Topic)
	then := fence.InputProgress{TopicID: atStart.ID, LeaderEpoch: -1}
	partitions := atStart.Partitions
	if p != nil && len(p.Inputs) == 1 {
		then, partitions = p.Inputs[0], p.Partitions
	}
	stateless := w.m.cfg.Map != nil
	hint := changedHint(stateless)
	changed := func(format string, args ...any) error {
		return w.located(stream.NewError("check input", fmt.Errorf(format+": %w", append(args, stream.ErrInputChanged)...)).Hinted("%s", hint))
	}
	switch {
	case !facts.Exists:
		return changed("the topic does not exist any more")
	case facts.ID != then.TopicID:
		return w.located(madeAgain(then.TopicID, facts.ID, stateless))
	case facts.Partitions < partitions: // of one topic they are never taken away; the renewed ownership asks again
		return w.located(stream.NewError("check input", fmt.Errorf("the topic had %d partitions, and a broker that has not caught up tells %d: %w", partitions, facts.Partitions, stream.ErrUnreachable)).
			Hinted("look at the brokers' metadata: kafka-metadata-quorum.sh describe --replication tells which one is behind"))
	case facts.Partitions != partitions && stateless && p == nil:
		hint = fmt.Sprintf("give the progress topic %s a partition for each of them, and start again", w.m.cfg.Snapshots.Topic)
		return changed("the topic had %d partitions when the pipe started and has %d", partitions, facts.Partitions)
	case facts.Partitions != partitions && stateless && len(w.m.cfg.Inputs) == 1:
		// Without state no key is at home in a partition, and those that were there before keep theirs of
		// the progress topic. With several inputs the later ones would have others.
	case facts.Partitions > partitions && stateless:
		return changed("the topic had %d partitions and has %d: those of the inputs behind it have others of the progress topic", partitions, facts.Partitions)
	case facts.Partitions > partitions:
		return w.located(wire.KeysMoved(facts.Topic, partitions, facts.Partitions))
	}
	return w.checkTruncation(ctx, then)
}

// checkTruncation asks for the end of the leader epoch that the last folded record was in: below
// the offset after it the log was truncated, and other records have taken or will take the offsets.
func (w *worker) checkTruncation(ctx context.Context, then fence.InputProgress) error {
	if then.LeaderEpoch < 0 {
		return nil
	}
	p := w.own.Partition()
	end, err := wire.EpochEnd(ctx, w.m.admin, p, then.LeaderEpoch)
	if err != nil {
		return w.located(stream.NewError("check input", err).Hinted("the next assignment tries again"))
	}
	if end >= 0 && end < then.Next {
		return w.located(stream.NewError("check input",
			fmt.Errorf("the log of leader epoch %d ends at %d, and the state has folded it up to %d: %w", then.LeaderEpoch, end, then.Next, stream.ErrTruncated)).
			Hinted("records that were folded are gone from the input (an unclean election). Choose Rebuild (Start.Disagreement) to fold the input as it is"))
	}
	return nil
}

// located adds partition and group to an error that has none.
func (w *worker) located(err error) error {
	e := (*stream.Error)(nil)
	if errors.As(err, &e) && e.Topic == "" {
		e.At(w.own.Partition(), -1)
		e.Group = w.m.cfg.Session.Group
	}
	return err
}
