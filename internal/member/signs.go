package member

import (
	"context"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/holdfast-go/holdfast/internal/rule"
	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/stream"
)

// judgement is what one look at the witnesses comes to.
type judgement struct {
	verdict verdict
	start   int64 // of begin
	skips   bool  // of begin: it passes over what is gone below start
	gone    int64 // and that from here on
	past    bool  // the offset is past the end of the log
	why     error // of rebuild: why the state cannot be used; nil: the witnesses disagree
	err     error
}

// judge says what one look comes to: whether the state can be used, and what the witnesses say.
func (w *worker) judge(ctx context.Context, f *found) (j judgement) {
	policy := w.m.cfg.Start
	if err := w.usable(ctx, *f); err != nil {
		if !errors.Is(err, stream.ErrInputChanged) { // what its hint costs
			_, _ = w.askEnds(ctx)
		}
		if policy.Rebuild && rebuildCures(err) {
			return judgement{verdict: rebuild, why: err}
		}
		return judgement{err: err}
	}
	if f.log, j.err = w.askEnds(ctx); j.err != nil {
		return j
	}
	j = within(f.witnesses, policy, w.m.cfg.Fenced, !w.m.cfg.Features.Fenced())
	if c := f.committed.Next; c >= 0 && !rule.On(w.ctx, rule.SecondWitness) {
		return judgement{verdict: begin, start: c}
	}
	return j
}

// shortLooks is how often the witnesses are looked at before what only one of them, or none, stands for is
// done.
const shortLooks = 2

// needs is how many looks a judgement takes to be acted on (R28). Where committed offset and progress are both
// there, and of one commit, one is enough: two logs do not agree by mistake. Anything else may be one wrong
// answer, of a broker that was deposed, or has not caught up, and each of these drops, skips or repeats
// something, or stops for nothing:
//
//  1. The snapshot topic was deleted and made again. The group has committed offset 10.
//  2. The coordinator that is asked was cut off before there was an offset, and answers that there is none.
//  3. There is nothing at all, and that is a new flow: it begins at the first record, or at the end.
//
// A new flow needs nobody's leave, so that it takes longer where anything says that the partition has a past:
// something else has initialised its id, other partitions of the group have offsets, or others of the snapshot
// topic have records. Each of them is there too when a new flow begins that is a moment late, or whose first
// owner was killed before its first commit. So they make the look longer, and do not stop it: see refused for
// what does.
func (w *worker) needs(f found, j judgement, s signs) int {
	c, p := f.committed.Next, f.progress
	switch {
	case j.past:
		return looks // a leader that was deposed ends before it, until it hears of its successor
	case j.err == nil && j.verdict == begin && f.headLost():
		return shortLooks
	case j.verdict == beginNew && j.err == nil && s.any():
		return looks
	case j.verdict == beginNew && j.err == nil, j.verdict == rebuild && j.err == nil:
		return shortLooks
	case j.err != nil:
		if errors.Is(j.err, stream.ErrOffsetMismatch) || rebuildCures(j.err) {
			return shortLooks
		}
		return 1
	case j.verdict == begin && j.skips:
		return shortLooks // it passes over records
	case j.verdict == begin && (c < 0 || p == nil || c > p.Inputs[0].Next):
		return shortLooks // by a start policy, or because a person has set the offset
	}
	return 1
}

// signs are what tells, beside its own offset and progress, that a partition has a past.
type signs struct {
	tookOver bool  // its transactional id had been initialised before
	unasked  error // what could not be asked for
	own      int64 // its offset as another client is told it, -1 none
	offsets  int   // other partitions of the input that have an offset
	written  int   // other partitions of the snapshot topic that have something
	// bare is a partition whose offset a component of ours has committed in a transaction, and of whose progress
	// partition there is nothing, although a progress record was in that very transaction: the topic was made again.
	bare *stream.Partition
}

func (s signs) any() bool {
	return s.tookOver || s.unasked != nil || s.own >= 0 || s.offsets > 0 || s.written > 0
}

// refused is why a partition without offset and progress does not begin anew after all, nil if it may. It takes
// evidence that only a loss explains. That others of the group have offsets is none: an owner of several partitions
// that is killed while it starts leaves some without.
func (s signs) refused(w witnesses) error {
	hint := "choose Rebuild (Start.Disagreement) to fold the input from its first record on, or AdoptEmpty to begin this partition as a new one"
	if w.stateless {
		hint = "choose Rebuild (Start.Disagreement) to process the input once more, or set the group's offset to where this partition is to begin, as with " + w.reset(0)
	}
	switch {
	case s.own >= 0:
		return mismatch(fmt.Sprintf("the group has committed offset %d, as one client is told, and none, as another one is, and there is no progress record", s.own), hint)
	case s.bare != nil:
		return mismatch(fmt.Sprintf("there is neither a committed offset nor a progress record; the group has an offset of %v, and of its progress there is nothing either: another application uses the group, or the topic was made again", s.bare),
			"where another application uses the group, give this one a group of its own. Else "+hint)
	}
	return nil
}

// signs asks for what a partition without offset and progress may have of a past. The client is another one than
// the takeover's, so that it has found the coordinator for itself.
func (w *worker) signs(ctx context.Context) signs {
	s := signs{tookOver: w.committed.TookOver, own: -1}
	at := w.own.Partition()
	input := w.m.input(at.Topic)
	offsets, err := wire.FetchUnstableOffsets(ctx, w.m.admin, w.m.cfg.Session.Group, at.Topic, input.ID, input.Partitions)
	if err != nil {
		s.unasked = err
		return s
	}
	// After the offsets: what has committed one of them is in its progress partition by now.
	ends, err := kadm.NewClient(w.m.admin).ListEndOffsets(ctx, w.m.cfg.Snapshots.Topic)
	s.unasked = err
	for p, o := range offsets {
		partition := stream.Partition{Topic: at.Topic, Partition: int32(p)}
		if partition == at {
			s.own = o.Next
			continue
		}
		end, ok := ends.Lookup(w.m.cfg.Snapshots.Topic, w.m.progress(partition).Partition)
		known := ok && end.Err == nil
		if known && end.Offset > 0 {
			s.written++
		}
		if o.Next < 0 {
			continue
		}
		s.offsets++
		if named, ours := wire.ParseWitness(o.Metadata); ours && named.Nonce != 0 && known && end.Offset == 0 {
			s.bare = &partition
		}
	}
	return s
}

// concluded is what the last look comes to.
func (w *worker) concluded(f found, j judgement, past signs, look int) judgement {
	policy := w.m.cfg.Start
	if j.why != nil {
		w.log.Warn("the state cannot be used", "error", j.why)
	}
	switch {
	case j.err != nil:
	case j.verdict == beginNew:
		err := past.refused(f.witnesses)
		switch {
		case err == nil, policy.AdoptEmpty:
		case policy.Rebuild:
			j.verdict = rebuild
		default:
			j.err = err
		}
	case j.verdict == lookAgain && look >= looks && policy.Rebuild:
		j.verdict = rebuild
	case j.verdict == lookAgain && look >= looks:
		j.err = disagreement(f.witnesses)
	}
	return j
}
