package engine

import "time"

// Again is how a batch that ran out of time comes again.
type Again uint8

// The ways in which it does.
const (
	// Unchanged: it has one step, or one write, and cannot be made smaller. It is in flight still, and goes as
	// it is.
	Unchanged Again = iota
	// Smaller: what it had is back. The batches that Close makes next have it.
	Smaller
	// Restored: it is whole and has states, which are those after its last step. The memory of the partition is
	// ahead of what can be committed, and must be dropped; no step is possible any more.
	Restored
)

// Bound lowers Settings.MaxBytes for the batches to come, 0 lifts that.
func (e *Engine[S]) Bound(bytes int64) { e.bound = bytes }

// Slow tells that b is known not to be committed, because the time for it ran out. Set a lower Bound before
// the next Close.
func (e *Engine[S]) Slow(now time.Time, b *Batch) Again {
	e.inFlight(b)
	if !e.cfg.Whole {
		if len(b.Writes)+len(b.Dropped) <= 1 {
			return Unchanged
		}
		e.Aborted(now, b)
		return Smaller
	}
	if b.steps <= 1 {
		if len(b.Dropped) <= 1 {
			return Unchanged
		}
		e.Aborted(now, b)
		return Smaller
	}
	stateless := len(b.Writes) == 0 && len(e.due.items) == 0
	e.Aborted(now, b)
	if !stateless {
		e.tainted, e.spoiled = true, true
		return Restored
	}
	return Smaller
}

func stepsOf(outputs []Output) (n int) {
	for i, o := range outputs {
		if i == 0 || o.Offset != outputs[i-1].Offset {
			n++
		}
	}
	return n
}

// takeOutputs gives b, which is whole, the outputs of its steps. Where outputs are all that the steps have
// left, a batch above the bound is cut between two of them: the offset it commits is the one behind its last
// output, and the rest is for the next batch.
func (e *Engine[S]) takeOutputs(b *Batch) {
	n := len(e.outputs)
	if e.bound > 0 && len(b.Writes) == 0 && len(e.due.items) == 0 {
		n = e.fitting()
	}
	rest := e.outputs[n:]
	b.Outputs, b.steps = e.outputs[:n:n], e.wholeSteps
	if len(rest) > 0 {
		b.steps = stepsOf(b.Outputs)
		last := b.Outputs[n-1]
		b.Next, b.LeaderEpoch = last.Offset+1, last.Epoch
		b.Folded, b.FoldedEpoch = b.Next, b.LeaderEpoch
	}
	e.outputs = append(make([]Output, 0, n), rest...) // the next batch is about as large
	e.wholeBytes, e.wholeSteps, e.hurried, e.alone = 0, stepsOf(rest), false, false
	for _, o := range rest {
		e.wholeBytes += o.Message.BatchBytes()
	}
	for _, o := range b.Outputs {
		b.Size += o.Message.BatchBytes()
	}
}

// fitting returns how many of the outputs that wait are within the bound: those of whole steps, of one at
// least.
func (e *Engine[S]) fitting() int {
	size, step := int64(0), 0 // step: where that of the present output begins
	for i, o := range e.outputs {
		if i > 0 && o.Offset != e.outputs[i-1].Offset {
			step = i
		}
		if size += o.Message.BatchBytes(); size > e.bound && step > 0 {
			return step
		}
	}
	return len(e.outputs)
}
