package fence

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/internal/pace"
	"github.com/holdfast-go/holdfast/stream"
)

// Offset is a position in the input partition.
type Offset struct {
	Next        int64 // next offset to fold: one past the last one folded
	LeaderEpoch int32 // leader epoch of the last record folded, -1: unknown
}

// Committed is what Open found.
type Committed struct {
	Next            int64  // stable committed offset, -1: none
	LeaderEpoch     int32  // -1: unknown
	Nonce, Sequence uint64 // of the commit it came from, zero if it was not committed by a Writer
	Kind            string // of the component that committed it, "flow" without Config.Kind; "" as Nonce
	TookOver        bool   // the transactional id had been initialised before
}

// Writer writes to one owned partition. Every write is a transaction that carries the input offset,
// bound to the ownership, so that the broker refuses it from anybody else. It is safe for concurrent
// use.
//
// Calls that wait at the same time share one transaction and its outcome: the first goes at once,
// those that come while it runs go together in the next.
//
// A call returns nil once its records and its offset are known to be committed, and any error means
// that neither is, but for one: an error that matches ErrOutcomeUnknown says that nobody knows. It
// always matches ErrOwnershipLost too, and what was folded must be dropped. Refusals by the broker
// that leave the ownership in place are not errors: the same records go again. Calls whose transaction
// ran out of time go again with fewer others, and in the end alone.
type Writer struct {
	c      Config
	id     string
	own    *Ownership
	opener opener
	base   context.Context // values only
	ctx    context.Context // ends with the ownership, and when Close is out of patience
	cancel context.CancelCauseFunc
	limit  time.Duration // for one batch, all attempts together
	turn   chan struct{} // one permit, for the fields of turnState
	turnState

	mu      sync.Mutex
	queue   []*waiter
	flying  *Offset // offset of the transaction that is in flight
	last    Offset  // newest known committed offset, Next -1: none
	commits int64
	applied Applied
	// logStart is the first offset of the progress partition's log, nil: nobody has told.
	logStart *int64
	closed   bool
	final    error // ends every later call
	wake     chan struct{}
	done     chan struct{} // closed when the writer's goroutine and all its clients are at rest
}

// turnState belongs to whoever holds the turn.
type turnState struct {
	producer producer // nil: closed, the next transaction begins with a takeover
	known    known
	sequence uint64 // of the last known commit of this ownership
	pacer    *pacer
	pace     pace.Pace
	fences   int       // producer fences since the last commit
	rewinds  bool      // the next commit may lie below the last one
	absent   time.Time // since when a topic is unknown to the brokers, zero: none is
}

// waiter is one call that waits for its transaction.
type waiter struct {
	messages []stream.Message
	bytes    int64
	offset   *Offset
	done     chan error // has room for the one outcome
}

// Write writes rs in one transaction and commits the newest committed offset again, which is what
// makes the broker check that this is still the owner. A message without a topic goes to the
// progress partition, any other where Config.Outputs says. Messages for one partition are written in
// the order given.
//
// It returns ErrTooSlow if a transaction with these records alone did not come to its end within
// TransactionTimeout: the ownership is still held, and the call may be made again, with fewer records.
// It returns ErrNoOffset before there is an offset to commit, ErrTooLarge for a record that no batch
// can hold, a *Refusal if the broker refuses one of rs for what it is, ErrOwnershipLost, ErrIDTaken,
// ErrClosed, and the cause of ctx if that ends before the transaction began. Nothing was written
// then; see Writer for ErrOutcomeUnknown. The bytes of rs must not change until it returns.
func (w *Writer) Write(ctx context.Context, rs ...stream.Message) error {
	if len(rs) == 0 {
		return nil
	}
	return w.submit(ctx, &waiter{messages: rs})
}

// Commit writes rs and the offset in one transaction: all or none. An offset below one that was
// committed, or that an earlier call is about to commit, is refused with ErrOffsetBack; the same
// offset again is not. Otherwise it returns what Write does, and fails if an earlier Commit, which
// the offset stands behind, was refused or withdrawn while this one waited.
func (w *Writer) Commit(ctx context.Context, next Offset, rs ...stream.Message) error {
	return w.submit(ctx, &waiter{messages: rs, offset: &next})
}

func (w *Writer) submit(ctx context.Context, q *waiter) error {
	for i := range q.messages {
		size, limit := q.messages[i].BatchBytes(), stream.MaxBatchBytes(w.c.limit(q.messages[i].Topic))
		q.bytes += size
		if size > limit {
			err := stream.NewError("write", &Refusal{Index: i, Message: q.messages[i],
				Err: fmt.Errorf("%d bytes, the limit is %d: %w", size, limit, stream.ErrTooLarge)}).At(w.c.Progress, -1)
			err.Key = q.messages[i].Key
			return err.Hinted("make the record smaller, or raise max.message.bytes of its topic and MaxRecordBytes")
		}
	}
	q.done = make(chan error, 1)
	if err := w.enqueue(ctx, q); err != nil {
		return err
	}
	select {
	case err := <-q.done:
		return err
	case <-ctx.Done():
	}
	if w.withdraw(q) {
		return context.Cause(ctx)
	}
	return <-q.done // its transaction has begun, and no outcome but its own is true
}

func (w *Writer) enqueue(ctx context.Context, q *waiter) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.final != nil:
		return w.final
	case w.closed:
		return stream.NewError("write", stream.ErrClosed).At(w.c.Input, -1)
	}
	floor := w.floorLocked()
	if q.offset == nil && floor.Next < 0 {
		return stream.NewError("write", stream.ErrNoOffset).At(w.c.Input, -1)
	}
	if q.offset != nil && q.offset.Next < max(floor.Next, 0) {
		err := fmt.Errorf("%w: from %d", stream.ErrOffsetBack, floor.Next)
		return stream.NewError("commit", err).At(w.c.Input, q.offset.Next)
	}
	w.queue = append(w.queue, q)
	w.signal()
	return nil
}

// floorLocked is the newest offset that was committed or is on its way.
func (w *Writer) floorLocked() Offset {
	for i := len(w.queue) - 1; i >= 0; i-- {
		if o := w.queue[i].offset; o != nil {
			return *o
		}
	}
	if w.flying != nil {
		return *w.flying
	}
	return w.last
}

// withdraw takes q out of the queue if its transaction has not begun.
func (w *Writer) withdraw(q *waiter) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := range w.queue {
		if w.queue[i] == q {
			w.queue = append(w.queue[:i], w.queue[i+1:]...)
			if q.offset != nil {
				w.refuseBehindLocked(i, errors.New("it was withdrawn"))
			}
			return true
		}
	}
	return false
}

// refuseBehindLocked takes the calls that carry an offset out of the queue, from index i on: they
// stand behind a call that carried one and was not written. Their offsets were chosen in the belief
// that its records are:
//
//  1. Commit(12, a) waits, or is in flight; Commit(15, b) is queued behind it.
//  2. a is refused. The offset 12 is not committed.
//  3. The offset 15 is committed with b. Nobody folds the records of a again.
func (w *Writer) refuseBehindLocked(i int, cause error) {
	kept := w.queue[:i:i]
	for _, q := range w.queue[i:] {
		if q.offset == nil {
			kept = append(kept, q)
			continue
		}
		q.done <- w.behind(*q.offset, cause)
	}
	w.queue = kept
}

// behind is the answer to a call whose offset stands behind one that was not committed. It is no
// *Refusal: none of the call's own records was refused.
func (w *Writer) behind(o Offset, cause error) error {
	err := fmt.Errorf("the commit before this one, which its offset stands behind, was not made: %v", cause)
	return stream.NewError("commit", err).At(w.c.Input, o.Next).Hinted("commit again, with an offset that does not pass what was not written")
}

func (w *Writer) signal() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// run is the writer's goroutine: one transaction at a time until the writer ends.
//
// The client is closed under the turn, because a Retake may hold it:
//
//  1. Retake has opened a client and fetches the offset through it.
//  2. The ownership is lost; run ends, and closes and forgets the client.
//  3. Retake fetches again, through a client that is not there any more.
func (w *Writer) run() {
	defer func() {
		<-w.turn
		w.dispose()
		w.turn <- struct{}{}
		w.opener.rest()
		close(w.done)
	}()
	for {
		select {
		case <-w.wake:
		case <-w.ctx.Done():
			w.failAll(w.endError())
			return
		}
		for w.transact() {
		}
		if w.drained() {
			return
		}
	}
}

// transact brings the next batch to its outcome and reports whether there was one.
func (w *Writer) transact() bool {
	<-w.turn
	defer func() { w.turn <- struct{}{} }()
	b := w.drain()
	if b != nil {
		w.settle(b)
	}
	return b != nil
}

// drained reports whether the writer was closed and has nothing left to do.
func (w *Writer) drained() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return (w.closed || w.final != nil) && len(w.queue) == 0
}

// endError says why the writer's context ended.
func (w *Writer) endError() error {
	if cause := context.Cause(w.ctx); errors.Is(cause, stream.ErrOwnershipLost) || errors.Is(cause, stream.ErrClosed) {
		return cause
	}
	return stream.NewError("write", stream.ErrClosed).At(w.c.Input, -1)
}

// failAll ends every queued call, and every later one, with err.
func (w *Writer) failAll(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.final == nil {
		w.final = err
	}
	for _, q := range w.queue {
		q.done <- w.final
	}
	w.queue = nil
	w.signal()
}

// Close ends the writer: queued calls whose transaction has not begun fail with ErrClosed, the
// transaction in flight is waited for until ctx ends and cut then. It sends no abort: the next
// takeover does that, and by now the id may be another's. It may be called more than once, and
// returns the cause of ctx if the clients had not come to rest by then.
func (w *Writer) Close(ctx context.Context) error {
	w.mu.Lock()
	if !w.closed {
		w.closed = true
		err := stream.NewError("write", stream.ErrClosed).At(w.c.Input, -1)
		for _, q := range w.queue {
			q.done <- err
		}
		w.queue = nil
	}
	w.signal()
	w.mu.Unlock()
	select {
	case <-w.done:
		w.cancel(stream.ErrClosed) // the watcher of the ownership ends with it
		return nil
	case <-ctx.Done():
	}
	w.cancel(fmt.Errorf("%w before the transaction in flight had ended", stream.ErrClosed))
	select {
	case <-w.done:
		return nil
	case <-time.After(time.Second):
		return context.Cause(ctx)
	}
}
