package member

import (
	"errors"
	"time"

	"github.com/holdfast-go/holdfast/internal/engine"
	"github.com/holdfast-go/holdfast/internal/intake"
	"github.com/holdfast-go/holdfast/stream"
)

// mapCall is one call of a pipe's function, made before the record's turn has come.
type mapCall struct {
	done    chan struct{} // closed when it has returned
	outputs []stream.Message
	err     error
}

// callAhead starts calls for the records at the head of the queue that have none, so that up to
// Concurrency are under way or wait for their turn. The member waits for their goroutines.
func (w *worker) callAhead() {
	if len(w.calls) >= w.m.cfg.Concurrency {
		return
	}
	for _, r := range w.queue.from(len(w.calls), w.m.cfg.Concurrency) {
		call := noCall
		if _, refused := intake.Refused(r); !refused && !readOnly(r) {
			call = w.startCall(fromKafka(r))
		}
		w.calls = append(w.calls, call)
	}
}

// noCall has the place of the call for what is in the queue and no record.
var noCall = func() *mapCall {
	c := &mapCall{done: make(chan struct{})}
	close(c.done)
	return c
}()

// errExited is the error of a user's function that has neither returned nor panicked.
var errExited = errors.New("the function ended its goroutine (runtime.Goexit, as a test's FailNow does) and has not returned")

func (w *worker) startCall(r stream.Record) *mapCall {
	c := &mapCall{done: make(chan struct{}), err: errExited}
	w.calling.Add(1)
	w.m.wg.Go(func() {
		defer w.m.left(w)
		defer w.calling.Add(-1)
		defer close(c.done)
		c.outputs, c.err = engine.Protect(func() ([]stream.Message, error) { return w.m.cfg.Map(w.ctx, r) })
	})
	return c
}

// mapped takes the call of the record at the head of the queue if it has returned. Where one call at a
// time is allowed it is made here: a goroutine for each record would cost more than most functions do.
func (w *worker) mapped(r stream.Record) (result engine.Result, ok bool) {
	if w.m.cfg.Concurrency <= 1 {
		w.calling.Add(1)
		defer w.calling.Add(-1)
		outputs, err := engine.Protect(func() ([]stream.Message, error) { return w.m.cfg.Map(w.ctx, r) })
		return w.engine.Mapped(r, outputs, err), true
	}
	w.callAhead()
	if w.calls[0] == nil {
		w.calls[0] = w.startCall(r)
	}
	c := w.calls[0]
	select {
	case <-c.done:
		return w.engine.Mapped(r, c.outputs, c.err), true
	default:
		return engine.Result{}, false
	}
}

// callAgain drops the result of the record at the head of the queue: it is called again when its turn
// comes, which is after the pause of the policy.
func (w *worker) callAgain() {
	if len(w.calls) > 0 {
		w.calls[0] = nil
	}
}

// called is closed when the call of the record at the head of the queue has returned; nil while there
// is none, or its record may not be applied yet.
func (w *worker) called(now time.Time) <-chan struct{} {
	if len(w.calls) == 0 || w.calls[0] == nil || w.doubt.Load() || w.engine.Full() || w.blocked.After(now) {
		return nil
	}
	return w.calls[0].done
}
