package engine

import (
	"errors"
	"fmt"

	"github.com/holdfast-go/holdfast/stream"
)

// CopyByCodec has the state of a key encoded before a step that asks for it, and read back if the step
// fails, where S holds references and there is no Clone. It lasts for the life of the engine, and may be
// called at any time.
//
// Without it a step that fails may leave a state that it has changed in place: it is Tainted, and memory
// must be dropped. To drop it is to go back, so something has to go forward first (R29):
//
//  1. One record in a hundred fails after it was given the state, and is skipped.
//  2. Each of them has the partition restored, from the offset that is committed.
//  3. The next one comes before anything was committed: the offset stays where it is, for ever.
//
// So the batch that is closed after such a step has everything that was done before it. That alone does
// not do: a key that was folded and not yet written, and is then spoiled, holds the offset back, and with
// Whole the whole batch. What makes it certain is that it happens once: whoever drops the memory has the
// states copied from then on, and a flow whose folds do not fail pays nothing.
func (e *Engine[S]) CopyByCodec() { e.copies = !e.cfg.Plain && e.cfg.Clone == nil }

// copyState keeps what the state of the step's key is.
func (e *Engine[S]) copyState(st *step[S]) {
	out, err := e.encodeInto(e.spare[:0], st.entry.state)
	if err != nil {
		if !e.cfg.KeepDirty { // else the state may become one that can be written
			st.lacks = e.uncopied(st.entry, err)
		}
		return
	}
	st.before, st.copied = out, true
	if len(out) > cap(e.spare) { // what the codec returned may be its own
		e.spare = make([]byte, 0, 2*len(out))
	}
}

// undo makes the state of a key what it was before a step that failed, or says that it cannot.
func (e *Engine[S]) undo(st *step[S], res *Result) {
	if !st.shared {
		return
	}
	x := st.entry
	if st.copied {
		state, err := e.decode(st.before)
		if err == nil {
			x.state = state
			return
		}
		out := stream.NewError("restore", fmt.Errorf("the codec cannot read what it has written: %w: %w", stream.ErrEncode, err)).
			At(e.cfg.Partition, x.applied).Hinted("mend the codec, or give Config.Clone")
		out.Key = []byte(x.key)
		st.lacks = out
	}
	res.Tainted, e.tainted, x.tainted, res.Uncopied = true, true, true, st.lacks
	e.spoiled = e.cfg.Whole && x.fresh != nil
	if x.in != nil {
		x.in.remove(x)
	}
}

// uncopied is the error of a state that the codec cannot copy: it cannot be written either.
func (e *Engine[S]) uncopied(x *entry[S], err error) error {
	err = e.unwritable(x, fmt.Errorf("%w: %w", stream.ErrEncode, err), "mend the codec, or the fold that built the state")
	if r, ok := errors.AsType[*Rejected](err); ok && x.fresh == nil {
		return r.Err // no step of the present batch is at fault
	}
	return err
}
