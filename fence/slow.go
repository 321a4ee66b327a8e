package fence

import (
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/stream"
)

// errRanOut wraps why the attempt before did not commit, once it is known that it did not.
type errRanOut struct{ err error }

func (e errRanOut) Error() string { return e.err.Error() }
func (e errRanOut) Unwrap() error { return e.err }

// ranOut reports whether an attempt of class c failed because its transaction was older than it may be, and its
// records have taken most of that time: we gave it up, or the broker has aborted it and answers with a fence.
// Where they were acknowledged long before, it is the coordinator that did not answer, or this process that stood
// still, and less to write would not help. Nor would it where there are no records: the progress record alone
// waits for a leader that does not answer.
func (w *Writer) ranOut(b *batch, c class, err error) bool {
	if b.bytes == 0 || b.begun.IsZero() || time.Since(b.begun) < w.c.TransactionTimeout {
		return false
	}
	if !b.wrote.IsZero() && b.wrote.Sub(b.begun) < w.c.TransactionTimeout/2 {
		return false
	}
	switch c {
	case classTransient, classFence:
		return true
	case classAbort:
		return w.absent.IsZero()
	case classUnknown:
		step, ok := errors.AsType[*wire.StepError](err)
		return ok && errors.Is(step.Err, kerr.InvalidTxnState) || isProducerFence(err)
	case classToken, classGone, classReplaced, classRecord, classInput, classFatal:
	}
	return false
}

func isProducerFence(err error) bool {
	return errors.Is(err, kerr.InvalidProducerEpoch) || errors.Is(err, kerr.ProducerFenced) || errors.Is(err, kerr.TransactionAbortable)
}

// aged is the class of an attempt's error with the age of its transaction in mind. What is in doubt stays so,
// and is read back before it counts as having run out of time.
func (w *Writer) aged(b *batch, c class, err error) class {
	switch {
	case !w.ranOut(b, c, err):
	case c == classUnknown:
		b.ranOut = err
	default:
		return classSlow
	}
	return c
}

// slow is what follows when nothing of an attempt that ran out of time is in doubt.
func (w *Writer) slow(b *batch, err error) error {
	w.dispose()
	if w.own.State() != Held {
		return w.lose(b, fmt.Errorf("it cannot be taken over while %s: %w", w.own.State(), err))
	}
	return w.smaller(b, err)
}

// smaller has what b has come again in smaller transactions (R27): nothing of it is committed, and as it is it
// would run out of time again. Calls that share it go back to the front of the queue, in their order, and fewer
// of them are taken. One call is never split: its caller knows what of it may go first.
func (w *Writer) smaller(b *batch, cause error) error {
	calls := 0
	for _, q := range b.waiters {
		if len(q.messages) > 0 {
			calls++
		}
	}
	w.pace.RanOut(b.bytes, calls <= 1)
	if calls > 1 {
		w.c.Logger.Info("calls that ran out of time together go on in smaller transactions", "calls", calls, "bytes", b.bytes, "bound", w.pace.Learned())
		w.mu.Lock()
		w.queue = append(b.waiters[:len(b.waiters):len(b.waiters)], w.queue...)
		w.flying, b.waiters = nil, nil
		w.mu.Unlock()
		return nil
	}
	return w.tooSlow("commit", b.began, b.next.Next, fmt.Errorf("%d records of %d bytes in %v: %w: %w", len(b.messages()), b.bytes, w.c.TransactionTimeout, stream.ErrTooSlow, cause))
}

// noSuccess is the error of a batch whose attempts together have taken as long as they may. Brokers that
// throttle have answered, and said why it takes long. A commit of the offset alone, as a start makes it, cannot be made
// smaller: it is tried again, as a takeover under a quota is.
func (w *Writer) noSuccess(b *batch, err error) error {
	told := w.opener.throttled(b.began)
	if told != "" && b.bytes > 0 {
		return w.tooSlow("commit", b.began, b.next.Next, fmt.Errorf("no success in %d attempts and %v: %w: %w", b.attempts, w.limit, stream.ErrTooSlow, err))
	}
	if told != "" {
		err = fmt.Errorf("%s: %w", told, err)
	}
	e := stream.NewError("commit", fmt.Errorf("no success in %d attempts and %v: %w: %w", b.attempts, w.limit, stream.ErrUnreachable, err))
	return e.At(w.c.Input, b.next.Next).Hinted("look at the brokers: nothing was committed, and the next write tries again")
}

// tooSlow adds to an error that says that time ran out what is known of the reason.
func (w *Writer) tooSlow(op string, since time.Time, offset int64, err error) *stream.Error {
	why := "no broker tells of a quota: look at the link to the brokers, and at the leaders and replicas of the topics"
	if told := w.opener.throttled(since); told != "" {
		err = fmt.Errorf("%s: %w", told, err)
		why = "raise its quota (kafka-configs.sh --describe --entity-type clients, and users)"
	}
	e := stream.NewError(op, err).At(w.c.Input, offset)
	e.Group, e.TransactionalID = w.c.Group, w.id
	return e.Hinted("nothing was committed: commit less at a time; %s", why)
}
