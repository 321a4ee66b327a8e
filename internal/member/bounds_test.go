package member

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/internal/engine"
	"github.com/holdfast-go/holdfast/stream"
)

// R13: a revoke that waits for a fold longer than its budget costs the member all its partitions.
func TestDrainEndsWithTheBudget(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := &worker{own: &fence.Ownership{}, done: make(chan struct{}), log: slog.New(slog.DiscardHandler)}
		const budget = 5 * time.Second
		began := time.Now()
		w.drainWithin(budget) // the worker is in a fold that does not return
		if took := time.Since(began); took != budget {
			t.Errorf("I6: the revoke waited %v for a fold, its budget is %v", took, budget)
		}
		close(w.done)
		began = time.Now()
		w.drainWithin(budget)
		if took := time.Since(began); took != 0 {
			t.Errorf("it waited %v for a worker that was done", took)
		}
	})
}

// R13: a fold that never returns cannot keep Run, which says where it is.
func TestEndDoesNotWaitForAStuckFold(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := New(Config{Logger: slog.New(slog.DiscardHandler), Session: fence.Session{RebalanceTimeout: time.Minute}})
		w := &worker{own: &fence.Ownership{}}
		w.calling.Store(1)
		m.running[w] = true
		m.wg.Add(1)
		ended := make(chan struct{})
		go func() {
			m.awaitWorkers()
			close(ended)
		}()
		select {
		case <-ended:
		case <-time.After(2 * time.Minute):
			t.Error("I6: the end waits for a fold longer than the rebalance timeout")
		}
		if err := m.failed(); !errors.Is(err, stream.ErrFold) {
			t.Errorf("the member has ended with %v, want %v", err, stream.ErrFold)
		}
		m.wg.Done()
		<-ended
	})
}

// counting is an engine that counts steps.
type counting struct {
	Engine
	steps int
}

func (c *counting) Full() bool { return false }
func (c *counting) Step(context.Context, time.Time, stream.Record) engine.Result {
	c.steps++
	return engine.Result{Outcome: engine.Folded}
}

// R5: what would be folded while the outcome of a transaction is unknown may turn out to stand on states
// that were never committed.
func TestNothingIsFoldedInDoubt(t *testing.T) {
	t.Parallel()
	e := &counting{}
	w := &worker{
		m: &Member{}, own: &fence.Ownership{}, engine: e,
		queue: queue{limit: 10, arrived: make(chan struct{}, 1)},
	}
	w.queue.put([]*kgo.Record{{Offset: 7}}, 1<<20)
	w.doubt.Store(true)
	if folded, err := w.foldNext(time.Now()); folded || err != nil || e.steps != 0 {
		t.Errorf("I5: %d records were folded in doubt, %v", e.steps, err)
	}
	w.doubt.Store(false)
	if folded, err := w.foldNext(time.Now()); !folded || err != nil || e.steps != 1 {
		t.Errorf("%d records were folded after the doubt, %v", e.steps, err)
	}
}

// I6: the end does not wait for ever for user code that is no fold, as a hook or a codec: nothing tells of it
// but that its worker does not end.
func TestEndDoesNotWaitForAHook(t *testing.T) {
	t.Parallel()
	for name, calls := range map[string]int32{"a fold": 1, "a hook": 0} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				m := New(Config{Logger: slog.New(slog.DiscardHandler), Session: fence.Session{Group: "g", RebalanceTimeout: time.Minute}})
				ctx, cancel := context.WithCancel(t.Context())
				w := &worker{m: m, own: &fence.Ownership{}, done: make(chan struct{})}
				w.calling.Store(calls)
				m.running[w] = true
				m.wg.Go(func() { <-ctx.Done() })
				ended := make(chan struct{})
				go func() { m.awaitWorkers(); close(ended) }()
				select {
				case <-ended:
				case <-time.After(time.Hour):
					t.Error("I6: the end still waits after an hour")
				}
				if err := m.failed(); !errors.Is(err, stream.ErrFold) {
					t.Errorf("the end says %v", err)
				}
				cancel()
				<-ended
			})
		})
	}
}
