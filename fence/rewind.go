package fence

import (
	"context"

	"github.com/holdfast-go/holdfast/stream"
)

// TransactionalID returns the id that the writer writes under.
func (w *Writer) TransactionalID() string { return w.id }

// Refetch reads the stable committed offset again, for a caller that found it to disagree with the
// progress record. It returns what Open does.
func (w *Writer) Refetch(ctx context.Context) (Committed, error) {
	select {
	case <-w.turn:
	case <-ctx.Done():
		return Committed{}, context.Cause(ctx)
	}
	defer func() { w.turn <- struct{}{} }()
	if err := w.ended(); err != nil {
		return Committed{}, err
	}
	ctx, cancel := w.whileOpen(ctx)
	defer cancel()
	if w.producer == nil { // a Retake was cut by the end of its context
		return w.first(ctx)
	}
	off, err := w.stableOffset(ctx)
	if err != nil {
		return Committed{}, stream.NewError("fetch offset", err).At(w.c.Input, -1)
	}
	return w.found(off, false), nil
}

// Rebuild commits next, which may lie below the committed offset, under an incarnation: the state is
// folded again from there, and what records of a lower incarnation say does not count any more. It
// returns what Commit does.
func (w *Writer) Rebuild(ctx context.Context, incarnation uint32, next Offset) error {
	select {
	case <-w.turn:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	w.c.Incarnation = incarnation
	w.rewinds = true // what is known stays known: a read-back compares with it
	w.mu.Lock()
	w.last = Offset{Next: -1, LeaderEpoch: -1}
	w.mu.Unlock()
	w.turn <- struct{}{}
	return w.Commit(ctx, next)
}
