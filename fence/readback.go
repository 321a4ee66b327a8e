package fence

import (
	"context"
	"errors"
	"time"

	"github.com/holdfast-go/holdfast/internal/rule"
	"github.com/holdfast-go/holdfast/stream"
)

// verdict is what a read-back finds.
type verdict int

const (
	mixed     verdict = iota // offset and progress record tell different stories: look again
	aborted                  // both are as last known: the same effects may go again
	committed                // both are those in doubt
	foreign                  // somebody else has committed
)

// retake takes the id over within an ownership and reads back what is committed (R4). done: b, whose
// outcome was in doubt, is committed.
func (w *Writer) retake(ctx context.Context, b *batch) (done bool, err error) {
	b.begun = time.Time{}
	if w.producer, err = w.opener.open(ctx); err != nil {
		return false, err
	}
	if !rule.On(w.base, rule.Takeover) || !rule.On(w.base, rule.ReadBack) {
		return false, nil
	}
	v, err := w.readBack(ctx, b)
	if err != nil {
		return false, err
	}
	switch v {
	case committed:
		w.c.Logger.Info("the unknown outcome was read back", "outcome", "committed", "offset", b.next.Next)
		return true, nil
	case aborted:
		if b.doubt {
			w.c.Logger.Info("the unknown outcome was read back", "outcome", "aborted", "offset", b.next.Next)
		}
		b.doubt = false
		return false, nil
	case mixed, foreign:
	}
	return false, errAnotherCommitted
}

// readBack reads the stable committed offset and the newest committed progress record until both
// agree, for up to unstableFor.
func (w *Writer) readBack(ctx context.Context, b *batch) (verdict, error) {
	until := time.NewTimer(unstableFor)
	defer until.Stop()
	for {
		off, err := w.stableOffset(ctx)
		if err != nil {
			return mixed, err
		}
		found, at, err := w.producer.progress(ctx, w.known.from)
		shorter := errors.Is(err, stream.ErrTruncated)
		if err != nil && !shorter {
			return mixed, err
		}
		v := mixed // a log that is too short may be that of a leader that was deposed and has not heard of it
		if !shorter {
			p := w.known.progress
			if found != nil {
				p = witness{found.Nonce, found.Sequence}
			}
			v = compare(w.known, b, off.Next, parseWitness(off.Metadata), p)
		}
		switch v {
		case committed:
			w.known.from, w.known.read = at+1, true
			return v, nil
		case aborted, foreign:
			return v, nil
		case mixed:
		}
		select {
		case <-time.After(lookAgain):
		case <-until.C:
			return mixed, err // nil, or that the log is too short for all that time
		case <-ctx.Done():
			return mixed, context.Cause(ctx)
		}
	}
}

// compare judges what was read: the offset with the witness in its metadata, and the witness of the
// newest progress record.
func compare(k known, b *batch, next int64, offset, progress witness) verdict {
	offsetKnown, progressKnown := next == k.next && offset == k.offset, progress == k.progress
	offsetDoubt, progressDoubt := b.doubt && next == b.next.Next && offset == b.witness, b.doubt && progress == b.witness
	switch {
	case !offsetKnown && !offsetDoubt, !progressKnown && !progressDoubt:
		return foreign
	case offsetDoubt && progressDoubt:
		return committed
	case offsetKnown && progressKnown:
		return aborted
	}
	return mixed
}

// isForeign reports whether err says that a read-back found somebody else's commit.
func isForeign(err error) bool {
	return errors.Is(err, errAnotherCommitted) && errors.Is(err, stream.ErrOwnershipLost)
}
