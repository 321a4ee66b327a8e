package member

import (
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/dlq"
	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/internal/engine"
	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/stream"
)

// failed asks the error policy about a record whose step failed. It does not ask once the ownership
// is gone:
//
//  1. A fold waits for something; the ownership is lost, and the context of the fold ends.
//  2. The fold returns the end of the context. A policy that skips failures says Skip.
//  3. The skip is remembered. The partition comes back, and the record is never folded.
func (w *worker) failed(r stream.Record, result engine.Result) (bool, error) {
	if w.own.State() == fence.Gone {
		return false, w.own.Cause()
	}
	failure := result.Failure
	if w.m.refusal(r) != nil { // it was counted when it was refused
		if err := w.commitAll(); err != nil { // R29: what precedes it
			return false, err
		}
	} else {
		failure.Attempt = w.m.countFailure(w.own.Partition(), r.Offset)
	}
	action := w.decide(failure)
	w.log.Warn("step failed", "offset", r.Offset, "attempt", failure.Attempt, "action", action.String(), "error", failure.Err)
	call(w.m.hooks, func(h stream.Hooks) func(stream.Failed) { return h.Failed }, stream.Failed{
		Partition: w.own.Partition(), Offset: r.Offset, Attempt: failure.Attempt, Action: action, Err: failure.Err,
	})
	return w.carryOut(r, failure, action, result)
}

// decide asks the error policy. It has decided about a record whose letter was refused, and whatever it said now would
// let the offset pass a record that is nowhere:
//
//  1. A policy dead-letters a record. The topic does not take the letter, and the state goes back.
//  2. The record is folded again and fails again. The policy skips what it has seen before.
//  3. The offset passes the record, whose letter would have been taken without what was refused.
//
// A failure of the infrastructure is another one, and the policy is asked.
func (w *worker) decide(failure *stream.RecordError) stream.Action {
	if w.m.letterWithout(w.own.Partition(), failure.Record.Offset) > dlq.Nothing && dlq.Decide(stream.DeadLetter, failure) == stream.DeadLetter {
		return stream.DeadLetter
	}
	if w.m.cfg.OnError == nil {
		return stream.Stop
	}
	return w.decided(w.ask(failure), failure)
}

// errNoLetters is the error of a policy that needs a dead-letter topic where there is none.
var errNoLetters = errors.New("DeadLetters is not set")

// decided turns the policy's answer into what is done: one that needs a dead-letter topic stops the
// partition where there is none, and an attempt that is not the last is a retry.
func (w *worker) decided(action stream.Action, failure *stream.RecordError) stream.Action {
	if action != stream.DeadLetter && action != stream.RetryThenDeadLetter {
		return action
	}
	letters := w.m.cfg.DeadLetters
	if letters == nil {
		failure.Err = fmt.Errorf("OnError returned %s and %w: %w", action, errNoLetters, failure.Err)
		return stream.Stop
	}
	action = dlq.Decide(action, failure)
	if action == stream.RetryThenDeadLetter && failure.Attempt >= letters.Attempts {
		return stream.DeadLetter
	}
	return action
}

// stage is where a step fails, for the letter.
func (w *worker) stage() string {
	if w.m.cfg.Map != nil {
		return "pipe"
	}
	return "fold"
}

// rejected ends the ownership: a batch cannot be committed as a whole, for what the step of one record
// has made, and memory is ahead of what is committed (I5). The partition is granted anew and restored,
// and the policy is asked when that record comes again. Where one of several records of a key is at
// fault, they are committed one by one first, to find it. It is not asked about a dead letter that the
// broker does not take: it has decided already, and whatever it said then would let the offset pass a
// record that is nowhere, or write the same letter for ever. The letter is written without what was
// refused, under the next ownership; one that is refused however little it has stops the partition.
func (w *worker) rejected(r *engine.Rejected) error {
	p := w.own.Partition()
	refusal, ok := errors.AsType[*fence.Refusal](r.Err)
	if letters := w.m.cfg.DeadLetters; ok && letters != nil && refusal.Message.Topic == letters.Topic {
		if w.m.reduceLetter(p, r.Offset, refusal.Err) {
			return w.goesBack(r)
		}
		e := stream.NewError("dead-letter", r).At(p, r.Offset).Hinted("%s; the next run begins at the first record that is not committed",
			wire.Remedy(refusal.Err, "letter", letters.Topic))
		e.Key, e.Group = refusal.Message.Key, w.m.cfg.Session.Group
		return &stopError{e}
	}
	if ok && errors.Is(refusal, stream.ErrTopic) {
		// No record is at fault: a policy that skips those that fail would let every one pass.
		e := stream.NewError(w.stage(), fmt.Errorf("%w: %w", stream.ErrOutput, r)).At(p, r.Offset).Hinted("output topic %s is missing: "+
			"create it again; nothing of the batch is committed, and the next run begins at the first record that is not", refusal.Message.Topic)
		e.Key, e.Group = refusal.Message.Key, w.m.cfg.Session.Group
		return &stopError{e}
	}
	more := r.From < r.Offset && w.m.rememberKey(p, r.Key, r.Offset)
	if !more { // it is this record
		more = w.m.countFailure(p, r.Offset) == 1
		w.m.rememberRefusal(p, r.Offset, r.Err, false)
	}
	if more {
		w.m.committedOnce(p) // to know more is to come on
	}
	return w.goesBack(r)
}

// goesBack ends the ownership over a batch that was refused.
func (w *worker) goesBack(r *engine.Rejected) error {
	return stream.NewError("commit", fmt.Errorf("nothing of the batch is committed, and the state goes back: %w: %w", stream.ErrOwnershipLost, r)).
		At(w.own.Partition(), r.Offset)
}

// unwritten is what follows from an engine's error about a batch.
func (w *worker) unwritten(err error) error {
	if r, ok := errors.AsType[*engine.Rejected](err); ok {
		return w.rejected(r)
	}
	return &stopError{err}
}

// carryOut does what the policy decided.
func (w *worker) carryOut(r stream.Record, failure *stream.RecordError, action stream.Action, result engine.Result) (bool, error) {
	p := w.own.Partition()
	switch action {
	case stream.Skip:
		w.m.rememberSkip(p, r.Offset)
		if result.Tainted {
			return false, w.tainted(r.Offset, result)
		}
		w.engine.Skip(r)
		w.pop()
		return true, nil
	case stream.Retry, stream.RetryThenDeadLetter:
		pause := retryPause(failure.Attempt)
		if action == stream.RetryThenDeadLetter {
			pause = w.m.cfg.DeadLetters.Backoff(failure.Attempt)
		}
		w.m.forgetRefusal(p, r.Offset)
		w.blocked = time.Now().Add(pause)
		if result.Tainted {
			return false, w.tainted(r.Offset, result)
		}
		w.callAgain()
		return false, nil
	case stream.DeadLetter:
		if result.Tainted { // asked again about the same failure, with the state as it was
			w.m.rememberRefusal(p, r.Offset, failure.Err, failure.Panicked)
			return false, w.tainted(r.Offset, result)
		}
		return w.deadLetter(r, failure)
	case stream.Stop:
	}
	e := stream.NewError(w.stage(), fmt.Errorf("%w: %w", stream.ErrFold, failure.Err)).At(p, r.Offset).
		Hinted("%s; the next run begins at this record", w.remedy(failure.Err))
	e.Key, e.Group = r.Key, w.m.cfg.Session.Group
	return false, &stopError{e}
}

// remedy is the next step after a record whose failure stops the partition.
func (w *worker) remedy(err error) string {
	policy, function := "give an OnError policy that skips, retries or dead-letters such records", "fold"
	if w.m.cfg.OnError != nil {
		policy = "have OnError return another action than Stop for such records"
	}
	if w.m.cfg.Map != nil {
		function = "Func"
	}
	switch {
	case errors.Is(err, errNotRead):
		return "raise FetchBudget if the record is meant, or " + policy
	case errors.Is(err, errNoLetters):
		return "set DeadLetters, or have OnError return another action"
	case errors.Is(err, stream.ErrNoKey):
		return "give the flow a Route, or " + policy
	case errors.Is(err, stream.ErrUndeclaredOutput):
		return "correct the topic that the " + function + " writes to, or add it to Outputs"
	case errors.Is(err, stream.ErrOutput) && errors.Is(err, stream.ErrTooLarge):
		return "make the output smaller, raise max.message.bytes of its topic, or " + policy
	}
	if refusal, ok := errors.AsType[*fence.Refusal](err); ok && refusal.Message.Topic != "" {
		return wire.Remedy(refusal.Err, "output", refusal.Message.Topic) + ", or " + policy
	}
	return "correct the " + function + " or the record, or " + policy
}

// ask calls the error policy. One that panics has not decided: the partition stops with both errors.
func (w *worker) ask(failure *stream.RecordError) (action stream.Action) {
	w.calling.Add(1)
	defer w.calling.Add(-1)
	defer func() {
		if v := recover(); v != nil {
			failure.Err = fmt.Errorf("the error policy panicked: %v, about: %w", v, failure.Err)
			action = stream.Stop
		}
	}()
	return w.m.cfg.OnError(w.ctx, failure)
}

func retryPause(attempt int) time.Duration {
	return min(100*time.Millisecond<<min(attempt-1, 10), 30*time.Second)
}
