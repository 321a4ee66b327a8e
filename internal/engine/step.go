package engine

import (
	"context"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/stream"
)

// Outcome is what became of a record.
type Outcome uint8

// The outcomes of a record. The offset advances over it in all cases but Dropped and Failed.
const (
	Folded         Outcome = iota // the fold succeeded
	AlreadyApplied                // the key's snapshot contains it: a replay
	Filtered                      // Route filtered it, or the policy skipped it
	Dropped                       // it is below the start offset
	Failed                        // the fold, Route or Clone failed
)

// String returns the lower-case name of the outcome.
func (o Outcome) String() string {
	switch o {
	case Folded:
		return "folded"
	case AlreadyApplied:
		return "already applied"
	case Filtered:
		return "filtered"
	case Dropped:
		return "dropped"
	case Failed:
		return "failed"
	}
	return fmt.Sprintf("outcome(%d)", int(o))
}

// Result is what a step did.
type Result struct {
	Outcome Outcome
	// Outputs are what the fold emitted. They belong to the caller, and must be acknowledged before
	// a batch that is closed after this step is committed. With Whole there are none: the batch has
	// them.
	Outputs []stream.Message
	// Failure is set if the outcome is Failed. The offset has not advanced: call Step again with the
	// same record, or Skip.
	Failure *stream.RecordError
	// Tainted tells that the failed step may have changed the key's state in place, as S holds
	// references and there is no Clone. No further step is possible: the partition must be dropped
	// and restored. Close still works, for all that was done before this step (see CopyByCodec).
	Tainted bool
	// Uncopied tells, of a step that is Tainted though states are copied by the codec, why there is no
	// copy. It is the error of a state that cannot be written, as Close returns it.
	Uncopied error
}

// Step applies one record to its key. Records come in strictly rising offset order.
func (e *Engine[S]) Step(ctx context.Context, now time.Time, r stream.Record) Result {
	if e.tainted {
		violated(TaintedIsUnused, "step at %d", r.Offset)
	}
	if !e.admit(r.Offset) {
		return Result{Outcome: Dropped}
	}
	if len(e.skip) > 0 && e.skip[r.Offset] {
		e.advance(r.Offset, r.LeaderEpoch)
		return Result{Outcome: Filtered}
	}
	key, ok := r.Key, true
	if e.cfg.Route != nil {
		var err error
		if key, ok, err = e.route(r); err != nil {
			return e.fail(r, err)
		}
	}
	if !ok {
		e.advance(r.Offset, r.LeaderEpoch)
		return Result{Outcome: Filtered}
	}
	if key == nil {
		return e.fail(r, stream.ErrNoKey)
	}
	x := e.keys[string(key)]
	if x != nil && r.Offset <= x.applied && !e.cfg.NoAppliedSkip {
		e.advance(r.Offset, r.LeaderEpoch)
		return Result{Outcome: AlreadyApplied}
	}
	return e.fold(ctx, now, x, key, r)
}

// Skip advances over a record that the error policy skipped. The key's state stays as it was.
func (e *Engine[S]) Skip(r stream.Record) {
	if e.admit(r.Offset) {
		e.advance(r.Offset, r.LeaderEpoch)
	}
}

// admit reports whether a record is to be taken. A fetch that was under way when the position was
// set may bring records from below the start: they come first, before any other.
func (e *Engine[S]) admit(offset int64) bool {
	if !e.started {
		violated(StartOnce, "record %d before Start", offset)
	}
	if offset >= e.next {
		return true
	}
	if e.next > e.first {
		violated(OffsetsRise, "record %d after record %d", offset, e.next-1)
	}
	return false
}

func (e *Engine[S]) advance(offset int64, epoch int32) {
	e.next, e.epoch = offset+1, epoch
}

func (e *Engine[S]) fold(ctx context.Context, now time.Time, x *entry[S], key []byte, r stream.Record) Result {
	st := &e.step
	st.engine, st.entry, st.key = e, x, key
	c := &Call[S]{step: st}
	err := e.call(ctx, c, r)
	c.step = nil
	if err == nil {
		err = st.err
	}
	outputs, res, left := st.outputs, Result{}, false
	if err == nil {
		left = e.apply(e.at(now), r.Offset, r.LeaderEpoch, st)
	}
	if err != nil {
		res = e.fail(r, err)
		e.undo(st, &res)
	}
	*st = step[S]{}
	if err != nil {
		return res
	}
	e.advance(r.Offset, r.LeaderEpoch)
	return e.folded(r.Offset, left, outputs)
}

// folded is the result of a step that succeeded. With Whole its outputs stay here, for the batch. state: it has
// left one. A step that has left nothing makes no batch larger, and is none of it:
//
//  1. A step does not fit into the time of a transaction. Before it come some that leave nothing.
//  2. The batch has several steps, so that it is made smaller, and comes again as it was (R27).
//  3. As it never has one step alone, nobody counts how often.
func (e *Engine[S]) folded(offset int64, state bool, outputs []stream.Message) Result {
	if !e.cfg.Whole {
		return Result{Outcome: Folded, Outputs: outputs}
	}
	if state || len(outputs) > 0 {
		e.wholeSteps++
	}
	for _, m := range outputs {
		e.outputs = append(e.outputs, Output{Message: m, Offset: offset, Epoch: e.epoch})
		e.wholeBytes += m.BatchBytes()
	}
	return Result{Outcome: Folded}
}

// Mapped is a step whose user function was called outside of the engine, for it needs no state: ms is
// what it made of r, err why it failed. It needs Whole.
func (e *Engine[S]) Mapped(r stream.Record, ms []stream.Message, err error) Result {
	if !e.cfg.Whole {
		violated(WholeBatches, "Mapped at %d", r.Offset)
	}
	if e.tainted {
		violated(TaintedIsUnused, "step at %d", r.Offset)
	}
	if !e.admit(r.Offset) {
		return Result{Outcome: Dropped}
	}
	if e.skip[r.Offset] {
		e.advance(r.Offset, r.LeaderEpoch)
		return Result{Outcome: Filtered}
	}
	for i := 0; i < len(ms) && err == nil; i++ {
		err = e.permits(ms[i])
		ms[i].Headers = withoutState(ms[i].Headers)
	}
	if err != nil {
		return e.fail(r, err)
	}
	e.advance(r.Offset, r.LeaderEpoch)
	if len(ms) == 0 {
		return Result{Outcome: Filtered}
	}
	return e.folded(r.Offset, false, ms)
}

// DeadLetter advances over a record whose letter goes into the same batch as its offset. It needs
// Whole. The topic of the letter need not be one of Outputs.
func (e *Engine[S]) DeadLetter(r stream.Record, letter stream.Message) {
	if !e.cfg.Whole {
		violated(WholeBatches, "DeadLetter at %d", r.Offset)
	}
	if e.admit(r.Offset) {
		e.advance(r.Offset, r.LeaderEpoch)
		e.folded(r.Offset, false, []stream.Message{letter})
	}
}

// apply makes the effects of a step that succeeded those of its key, and reports whether there are any.
//
// A step that finds no state and leaves none has no effect to keep: no entry, no hold, and a
// deletion that is remembered stays as it is. A replay from the committed offset finds the key
// without a state again, and its fold does the same again.
func (e *Engine[S]) apply(now, offset int64, epoch int32, st *step[S]) bool {
	x := st.entry
	if !st.loaded {
		st.has = x != nil && x.has
	}
	if !st.has && (x == nil || x.deleted || !st.deleted) {
		return false
	}
	if x == nil {
		x = e.create(string(st.key))
	}
	if st.loaded {
		x.state = st.work
	}
	x.has = st.has
	e.bury(x, !st.has)
	x.applied = max(x.applied, offset)
	x.steps++
	if x.fresh == nil {
		if offset == e.next {
			epoch = e.epoch
		}
		x.fresh = e.holds.append(offset, epoch)
	}
	e.soil(x, now, st.persist)
	return true
}

// soil puts x among the dirty keys if it is not there yet, and brings it forward if asked.
func (e *Engine[S]) soil(x *entry[S], now int64, persist bool) {
	if x.in != &e.due {
		if x.in != nil {
			x.in.remove(x)
		}
		e.due.push(x, now+int64(e.cfg.PersistInterval), x.applied)
		if until, ok := e.single[x.key]; ok && x.applied <= until {
			e.alone = true
		}
		// What it will be encoded to is not known. A new key counts as the keys of the last batch did.
		e.wholeBytes += max(int64(x.size+RecordOverheadBytes), e.meanWrite)
	}
	if persist && x.refused == 0 && now-x.asked >= int64(e.cfg.PersistCooldown) {
		x.asked = now
		e.hurried = true
		e.due.move(x, min(x.rank, now))
	}
}

func (e *Engine[S]) fail(r stream.Record, err error) Result {
	if e.failedAt != r.Offset {
		e.failedAt, e.attempts = r.Offset, 0
	}
	e.attempts++
	_, isPanic := err.(*panicError)
	return Result{Outcome: Failed, Failure: &stream.RecordError{
		Record: r, Attempt: e.attempts, Panicked: isPanic, Err: err,
	}}
}

func (e *Engine[S]) call(ctx context.Context, c *Call[S], r stream.Record) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = panicked(v)
		}
	}()
	return e.cfg.Fold(ctx, c, r)
}

func (e *Engine[S]) route(r stream.Record) (key []byte, ok bool, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = panicked(v)
		}
	}()
	key, ok = e.cfg.Route(r)
	return key, ok, nil
}
