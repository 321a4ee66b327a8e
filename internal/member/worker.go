package member

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/internal/engine"
	"github.com/holdfast-go/holdfast/internal/intake"
	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/stream"
)

// worker folds one partition under one ownership. Its run goroutine alone touches the engine.
//
//	open → restore → fold ⇄ commit → flush (draining) → end
//	                  any of them  →  end (gone, failed)
type worker struct {
	m      *Member
	own    *fence.Ownership
	log    *slog.Logger
	ctx    context.Context // ends when the ownership is gone
	active context.Context // ends when it is draining
	end    context.CancelFunc
	done   chan struct{} // closed when run has returned
	began  time.Time

	// Touched by the group's callbacks and between polls only; these exclude each other.
	position int64
	fetched  int64 // next offset that the client reads, as far as it has handed over records
	paused   bool
	// outOfRange counts the answers, since the last record, that what is fetched is not in the log.
	outOfRange int

	// Set by open: in the callback, or later by run.
	store     store
	committed fence.Committed
	logStart  atomic.Int64 // of the snapshot partition, as the progress records note it; -1: not restored yet
	openErr   error
	storeMu   sync.Mutex // guards store against a teardown while a late open is under way

	queue    queue
	tail     tail
	outputs  outputs
	begun    atomic.Bool // the partition may be fetched
	halted   atomic.Bool // what comes next cannot be read: nothing is folded any more
	haltedBy atomic.Pointer[error]
	arrived  atomic.Int64 // entries that were put into the queue

	// Touched by run only.
	engine      Engine
	incarnation uint32
	furthest    fence.InputProgress // how far the states may have applied the input
	after       int32               // leader epoch of the record before the first one to fold, -1 unknown
	kept        *retained           // from an ownership before; nil: none, or it was used or dropped
	inflight    *engine.Batch
	refusals    bool          // some record could not be committed under an earlier ownership
	copying     bool          // the engine copies states by the codec
	calls       []*mapCall    // of a pipe's function, for the records at the head of the queue; the first is nil before it is called again
	took        time.Duration // the last commit; written before its outcome is sent
	pace        *pacing       // of the partition, over its ownerships
	outcome     chan error
	restored    time.Time // zero: not yet
	passed      int64     // records that the breaker has not counted
	blocked     time.Time // no record is folded before: the error policy asked for a pause

	cost    cost
	view    view
	calling atomic.Int32          // user functions under way
	doubt   atomic.Bool           // a transaction's outcome is unknown: nothing is folded (R5)
	flushed atomic.Bool           // everything folded is committed
	stopped atomic.Pointer[error] // why it stopped by itself, after a flush
	told    telling               // to hooks and log: the grant and the end
}

func newWorker(m *Member, o *fence.Ownership) *worker {
	w := &worker{
		m: m, own: o, position: -1, began: time.Now(), done: make(chan struct{}), outcome: make(chan error, 1),
		log:   m.log.With("partition", o.Partition().String(), "ownership", o.Number()),
		queue: queue{limit: m.cfg.QueueRecords, budget: m.budget, arrived: make(chan struct{}, 1)},
	}
	w.logStart.Store(-1)
	w.ctx, w.end = context.WithCancel(m.ctx)
	active, stopFolding := context.WithCancel(w.ctx)
	w.active = active
	m.wg.Go(func() {
		wait(w.ctx, o.Draining())
		stopFolding()
		wait(w.ctx, o.Gone())
		w.end()
		w.outputs.close() // at once: the worker may be in a user function that does not return
	})
	w.outputs.init(w)
	w.cost.keys.Store(-1)
	w.cost.first.Store(-1)
	w.view.next.Store(-1)
	return w
}

func wait(ctx context.Context, c <-chan struct{}) {
	select {
	case <-c:
	case <-ctx.Done():
	}
}

// run is the worker's goroutine. A user's function may end it.
func (w *worker) run() {
	var err error = stream.NewError(w.stage(), fmt.Errorf("%w: %w", stream.ErrFold, errExited)).At(w.own.Partition(), -1)
	defer func() {
		w.finish(err)
		w.queue.close()
	}()
	err = w.live()
}

// finish ends the ownership, unless it was drained and the callback does.
func (w *worker) finish(err error) {
	if w.own.State() == fence.Draining && err == nil {
		w.retain()
		close(w.done) // drained: the callback tears down
		wait(w.ctx, w.own.Gone())
		w.await()
		return
	}
	cause := err
	w.calm()
	if w.own.State() == fence.Gone {
		cause = w.own.Cause()
	}
	w.own.Lose(cause)
	w.teardown()
	w.await()
	close(w.done)
	never := w.neverTaken(cause)
	switch {
	case cause == nil, w.m.ctx.Err() != nil:
	case errors.Is(cause, errSpoiled):
		w.tellLost(stream.Released{Partition: w.own.Partition(), Ownership: w.own.Number(), Cause: cause})
		w.m.renewAfter(max(time.Until(w.blocked), 0), w)
	case never != nil:
		w.m.fail(never)
	case errors.Is(cause, stream.ErrOwnershipLost), passing(cause) && w.m.mayRenew(w.own.Partition()):
		w.tellLost(stream.Released{Partition: w.own.Partition(), Ownership: w.own.Number(), Cause: cause})
		w.m.renewLater(w)
	default:
		w.m.fail(w.priced(cause))
	}
}

// calm ends the count of renewals in a row for a partition that was restored and then folded for
// longer than any commit is tried. Its commits cannot: a partition without records makes none, and the
// passing faults of months would add up to a stop.
func (w *worker) calm() {
	attempts := 2 * max(w.m.cfg.TransactionTimeout, w.m.cfg.Session.RebalanceTimeout)
	if !w.restored.IsZero() && time.Since(w.restored) > 2*attempts {
		w.m.committedOnce(w.own.Partition())
	}
}

// passing reports whether an error of a restore may pass by itself: the brokers did not answer, or
// said that they cannot yet. Everything with a name of its own is for a person.
func passing(err error) bool {
	if _, stalled := errors.AsType[stalledError](err); stalled {
		return false // for minutes
	}
	for _, named := range []error{
		stream.ErrConfig, stream.ErrTopic, stream.ErrNotAuthenticated, stream.ErrNotAuthorized, stream.ErrBrokerTooOld,
		stream.ErrIDTaken, stream.ErrTooLarge, stream.ErrRestoreStalled, stream.ErrTruncated, stream.ErrOffsetMismatch, stream.ErrSnapshotsLost,
		stream.ErrOtherGroup, stream.ErrOtherComponent, stream.ErrOtherApplication, stream.ErrOtherProtocol, stream.ErrInstanceTaken, stream.ErrGroupFull, stream.ErrFlood, stream.ErrInputChanged, stream.ErrFoldVersion, stream.ErrCorruptSnapshot, stream.ErrFold, stream.ErrOutput,
		stream.ErrTooSlow,
		stream.ErrEncode, // of a codec, whose cause may be a deadline of its own
	} {
		if errors.Is(err, named) {
			return false
		}
	}
	// The client does not count a dial that was refused among what may be tried again, as it may be a wrong
	// address. Here the member has met its brokers before: one is being restarted, or the network is cut.
	_, network := errors.AsType[*net.OpError](err)
	return kerr.IsRetriable(err) || kgo.IsRetryableBrokerErr(err) || network || errors.Is(err, stream.ErrUnreachable) ||
		errors.Is(err, context.DeadlineExceeded)
}

// await takes the outcome of the commit that is under way, whose client teardown has closed.
func (w *worker) await() {
	if w.inflight != nil {
		<-w.outcome
		w.inflight = nil
	}
}

// live opens, restores and folds. It returns nil when what was folded is committed in a drain, and
// otherwise why the ownership cannot go on.
func (w *worker) live() error {
	if w.openErr != nil {
		return w.openErr
	}
	if w.store == nil {
		if err := w.open(w.active); err != nil {
			return w.unlessDraining(err)
		}
	}
	start, err := w.prepare(w.active)
	if err != nil {
		return w.unlessDraining(err)
	}
	w.doubt.Store(false) // of the commit that the start has made itself, whose outcome is known by now
	w.m.post(func() { w.m.begin(w, start) })
	err = w.loop()
	if stop := (*stopError)(nil); errors.As(err, &stop) {
		// What was folded before the record that stopped us is committed, nothing past it.
		flushErr := w.flush()
		if _, rejected := errors.AsType[*engine.Rejected](flushErr); rejected {
			return flushErr // an earlier record is at fault, and comes first
		}
		if flushErr != nil && !sameFailure(flushErr, stop.err) {
			return errors.Join(stop.err, flushErr)
		}
		w.stopped.Store(&stop.err)
		return stop.err
	}
	return err
}

// unlessDraining drops an error that only says that the revoke interrupted the restore: nothing was
// folded, so there is nothing to commit.
func (w *worker) unlessDraining(err error) error {
	if w.own.State() == fence.Draining {
		return nil
	}
	return err
}

// stopError stops the partition after a flush.
type stopError struct{ err error }

func (e *stopError) Error() string { return e.err.Error() }
func (e *stopError) Unwrap() error { return e.err }

// sameFailure reports whether a flush met what had stopped the partition: a key that cannot be written
// is no easier to write the second time, and need not be told twice.
func sameFailure(a, b error) bool {
	x, ok := errors.AsType[*stream.Error](a)
	y, okToo := errors.AsType[*stream.Error](b)
	return errors.Is(a, b) || ok && okToo && x.Op == y.Op && x.Offset == y.Offset && x.Key != nil && y.Key != nil && bytes.Equal(x.Key, y.Key)
}

// loop folds until the ownership is draining or something stops it.
func (w *worker) loop() error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		now := time.Now()
		w.publish(now, false)
		if err := w.commitIfDue(now); err != nil {
			return err
		}
		switch {
		case w.own.State() == fence.Gone:
			return w.own.Cause()
		case w.active.Err() != nil:
			return w.flush()
		}
		folded, err := w.foldNext(now)
		if err != nil {
			return err
		}
		if folded {
			select {
			case err := <-w.outcome:
				if err := w.settle(err); err != nil {
					return err
				}
			default:
			}
			continue
		}
		w.arm(timer, now)
		w.publish(now, true)
		select {
		case <-w.queue.arrived:
		case <-w.called(now):
		case <-timer.C:
		case <-w.active.Done():
		case <-w.outputs.failed: // nothing may come after it that would tell
			return &stopError{w.outputs.refusal()}
		case err := <-w.outcome:
			if err := w.settle(err); err != nil {
				return err
			}
		}
	}
}

// arm sets the timer to the next moment at which there is something to do without a record.
func (w *worker) arm(timer *time.Timer, now time.Time) {
	next := now.Add(time.Hour)
	if due, ok := w.engine.Due(); ok && w.inflight == nil && due.Before(next) {
		next = due
	}
	if w.blocked.After(now) && w.blocked.Before(next) {
		next = w.blocked
	}
	if look := w.lookIfIdle(now); !look.IsZero() && look.Before(next) {
		next = look
	}
	timer.Reset(max(next.Sub(now), 0))
}

// foldNext folds the next queued record, or reads on over what is none, if there is one and folding is allowed.
func (w *worker) foldNext(now time.Time) (bool, error) {
	if w.doubt.Load() || w.blocked.After(now) || w.engine.Full() || w.halted.Load() {
		return false, nil // a full batch waits for the one in flight
	}
	r, ok := w.queue.peek()
	if !ok {
		return false, nil
	}
	if readOnly(r) {
		w.engine.Read(r.Offset+1, r.LeaderEpoch)
		w.pop()
		return true, nil
	}
	if refusal, ok := intake.Refused(r); ok {
		return w.notRead(r, refusal)
	}
	record := fromKafka(r)
	result, ok := w.step(now, record)
	if !ok {
		return false, nil
	}
	if result.Outcome == engine.Failed {
		return w.failed(record, result)
	}
	w.pop()
	if len(result.Outputs) > 0 {
		if err := w.outputs.send(w.ctx, record, result.Outputs); err != nil {
			return false, err
		}
	}
	return true, nil
}

// step applies one record; ok is false while the call of a pipe's function is under way. A record
// whose step could not be committed is not applied again before the policy was asked about it.
func (w *worker) step(now time.Time, r stream.Record) (result engine.Result, ok bool) {
	if w.refusals { // else the records of a partition in health are not looked up one by one
		if failure := w.m.refusal(r); failure != nil {
			return engine.Result{Outcome: engine.Failed, Failure: failure}, true
		}
	}
	if w.m.cfg.Map == nil {
		w.copyStates()
		w.calling.Add(1)
		defer w.calling.Add(-1)
		return w.engine.Step(w.ctx, now, r), true
	}
	return w.mapped(r)
}

// pop takes the folded record off the queue, and has fetching go on when there is room again.
func (w *worker) pop() {
	w.passed++
	if len(w.calls) > 0 {
		w.calls = w.calls[1:]
	}
	if w.queue.pop() {
		w.m.post(func() { w.m.resume(w) })
	}
}

func fromKafka(r *kgo.Record) stream.Record {
	out := stream.Record{
		Topic: r.Topic, Partition: r.Partition, Offset: r.Offset, LeaderEpoch: r.LeaderEpoch,
		Timestamp: wire.Time(r.Timestamp), Key: r.Key, Value: r.Value,
	}
	if len(r.Headers) > 0 {
		out.Headers = make([]stream.Header, len(r.Headers))
		for i, h := range r.Headers {
			out.Headers[i] = stream.Header{Key: h.Key, Value: h.Value}
		}
	}
	return out
}

// drainWithin waits until the worker has committed what was folded, at most for budget.
func (w *worker) drainWithin(budget time.Duration) {
	limit := time.NewTimer(budget)
	defer limit.Stop()
	select {
	case <-w.done:
	case <-w.own.Gone():
	case <-limit.C:
		w.log.Warn("revoke budget is over before everything was committed: the next owner folds it again", "budget", budget)
	}
}

// teardown closes the clients: nothing can leave after it. It does not wait for a user function.
func (w *worker) teardown() {
	w.end()
	w.storeMu.Lock()
	st := w.store
	w.storeMu.Unlock()
	if st != nil {
		st.Close(w.ctx)
	}
	w.outputs.close()
}

// tellLost tells hooks and log, once: the worker finds the end as well as the group's callback.
func (w *worker) tellLost(e stream.Released) {
	w.told.last(func() {
		w.log.Warn("ownership lost", "cause", e.Cause)
		call(w.m.hooks, func(h stream.Hooks) func(stream.Released) { return h.Lost }, e)
	})
}
