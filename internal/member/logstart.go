package member

import (
	"context"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/holdfast-go/holdfast/stream"
)

// extent is the first offset and the end of the input, as a start is judged by them.
type extent struct {
	first, last int64 // first -1: not known
}

var noExtent = extent{first: -1, last: -1}

// within is decide, held against what the input still has. Records below its start were not folded, and nobody can
// tell any more whether there were any: it may have been markers alone. So that is a stop, unless the start policy
// says to go on at the start of the log with the states as they are.
func within(w witnesses, policy Start, fenced, tornCommits bool) judgement {
	v, start, err := decideHead(w, policy, fenced, tornCommits)
	j := judgement{verdict: v, start: start, err: err}
	c, p := w.committed.Next, w.next()
	first, last := w.log.first, w.log.last
	switch {
	case first < 0:
	case err == nil && v == begin && start > last:
		j.err, j.past = w.pastEnd(start), true
	case err == nil && v == begin && start < first && !fenced && p >= first:
		j.start = first // what is between was folded, and is in the snapshots
	case err == nil && v == begin && start < first && (policy.LogStart || policy.AdoptEmpty && p < 0 || policy.AdoptRemaining && w.headLost()):
		j.start, j.skips, j.gone = first, true, start
	case err == nil && v == begin && start < first:
		j.err = w.belowStart(start)
	case errors.Is(err, stream.ErrOffsetMismatch) && p >= 0 && p < first && (c < 0 || c > p):
		// What the snapshots need next is gone, so that going back to them is no way.
		if policy.LogStart && c <= first {
			return judgement{verdict: begin, start: first, skips: true, gone: p}
		}
		j.err = w.aheadAndGone(err)
	}
	if policy.Rebuild && rebuildCures(j.err) {
		return judgement{verdict: rebuild, past: j.past, why: j.err}
	}
	return j
}

// next is the next offset to fold as the progress record has it, -1 if there is none.
func (w witnesses) next() int64 {
	if w.progress == nil {
		return -1
	}
	return w.progress.Inputs[0].Next
}

// belowStart is the error of a next offset that is below the start of the log.
func (w witnesses) belowStart(next int64) error {
	first := w.log.first
	with := fmt.Sprintf("to go on at offset %d with the states as they are, without what was before it", first)
	if w.stateless {
		with = fmt.Sprintf("to go on at offset %d, without the outputs of what was before it", first)
	}
	return stream.NewError("check input", fmt.Errorf("the next record to fold is not in the log any more: it is at offset %d, and the log begins at %d: %w",
		next, first, stream.ErrTruncated)).
		Hinted("records were deleted, by retention as a rule, before they were folded: raise the input's retention. Choose ResumeAtLogStart (Start.Disagreement) "+
			"%s, or Rebuild to begin there anew", with)
}

// pastEnd is the error of a next offset that is past the end of the log.
func (w witnesses) pastEnd(next int64) error {
	hint := "records that were folded are gone from the input (an unclean election, as a rule). Choose Rebuild (Start.Disagreement) to fold the input as it is"
	if w.stateless {
		hint = fmt.Sprintf("records that were processed are gone from the input (an unclean election), or somebody has set the offset: reset it to the end of the log (%s), "+
			"or choose Rebuild (Start.Disagreement) to process the input as it is", w.reset(w.log.last))
	}
	return stream.NewError("check input", fmt.Errorf("the log ends at %d, and the next record to fold is at offset %d: %w", w.log.last, next, stream.ErrTruncated)).
		Hinted("%s", hint)
}

// aheadAndGone gives a disagreement a way out that does not lead to where the log has nothing any more.
func (w witnesses) aheadAndGone(err error) error {
	e := (*stream.Error)(nil)
	if !errors.As(err, &e) {
		return err
	}
	before := ""
	if w.committed.Next > w.log.first {
		before = fmt.Sprintf("reset the group's offset there (%s) and ", w.reset(w.log.first))
	}
	return stream.NewError(e.Op, fmt.Errorf("the input begins at offset %d, past what they go on with: %w", w.log.first, e.Err)).
		Hinted("to go on at the log's start with what is there, %schoose ResumeAtLogStart (Start.Disagreement); to begin there anew, choose Rebuild", before)
}

// askEnds asks what the input has.
func (w *worker) askEnds(ctx context.Context) (extent, error) {
	first, last, stable, err := w.input().Ends(ctx)
	if err != nil {
		return noExtent, w.located(err)
	}
	w.cost.first.Store(first)
	w.tail.note(stable)
	return extent{first, last}, nil
}

// asked are the witnesses of an ownership that folds, for errors of its fetch.
func (w *worker) asked(log extent) witnesses {
	w.cost.first.Store(log.first)
	return witnesses{
		committed: w.committed, stateless: w.m.cfg.Map != nil, log: log,
		group: w.m.cfg.Session.Group, input: w.own.Partition(),
	}
}

// passOver goes on at the start of the log, where the start policy says so. It runs between polls.
func (m *Member) passOver(w *worker, from, first int64) {
	p := w.own.Partition()
	if m.group.Owned(p) != w.own {
		return
	}
	w.tellGone(from, first)
	full := w.queue.put([]*kgo.Record{upTo(p, first, -1)}, m.share())
	m.seek(w, first, -1)
	if w.outOfRange = 0; !full { // else the worker has it go on, when there is room
		m.resume(w)
	}
}

// tellGone tells which offsets are passed over.
func (w *worker) tellGone(from, to int64) {
	w.log.Warn("records that were not folded are gone and passed over", "from", from, "to", to)
	call(w.m.hooks, func(h stream.Hooks) func(stream.Gone) { return h.Gone },
		stream.Gone{Partition: w.own.Partition(), Ownership: w.own.Number(), From: from, To: to})
}
