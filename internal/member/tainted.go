package member

import (
	"errors"
	"fmt"

	"github.com/holdfast-go/holdfast/internal/engine"
	"github.com/holdfast-go/holdfast/stream"
)

// errSpoiled ends an ownership whose memory a failed step may have spoiled.
var errSpoiled = errors.New("state may have been changed by a failed step and is restored")

// tainted ends the ownership: the failed fold may have changed a state in place, and there is no
// Clone to tell what it was (R19). The partition is granted anew and restored.
//
// It goes forward before it goes back (R29): what precedes the record is committed, and from here on states
// are copied by the codec, in all partitions of this member, so that no second step spoils one
// (Engine.CopyByCodec). So the partition is granted anew at once, but for the pause that the policy asked
// for, and that counts for nothing.
func (w *worker) tainted(offset int64, result engine.Result) error {
	if result.Uncopied != nil {
		return w.unwritten(result.Uncopied)
	}
	if w.m.copying.CompareAndSwap(false, true) {
		w.log.Warn("a step failed on a state that cannot be copied for want of Clone: from here on each step's state is copied by the codec", "offset", offset)
	}
	if err := w.commitAll(); err != nil {
		return err
	}
	err := stream.NewError(w.stage(), fmt.Errorf("%w: %w", errSpoiled, stream.ErrOwnershipLost))
	if w.copying { // of a key that could not be written: it stays behind, and is tried with a pause as before
		err.Err = fmt.Errorf("the codec cannot copy a state: %w", stream.ErrOwnershipLost)
	}
	return err.At(w.own.Partition(), offset).Hinted("give Config.Clone to avoid the restore")
}

// copyStates has the engine copy states if some partition of this member has met a step that spoiled one.
func (w *worker) copyStates() {
	if !w.copying && w.m.copying.Load() {
		w.copying = true
		w.engine.CopyByCodec()
	}
}
