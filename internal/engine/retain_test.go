package engine

import (
	"context"
	"maps"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/stream"
)

// drained commits everything that e has folded.
func drained[S any](t *testing.T, e *Engine[S], now time.Time) {
	t.Helper()
	b, err := e.Close(now, true)
	if err != nil {
		t.Fatal(err)
	}
	if b != nil {
		e.Committed(now, b)
	}
}

// A state that a failed step may have changed in place is nobody's to keep, though all that was
// committed is as it was.
func TestRetainRefusesATaintedState(t *testing.T) {
	t.Parallel()
	e := mapEngine(inPlace, nil)
	e.Step(context.Background(), epoch0, rec(0, "k", ""))
	drained(t, e, epoch0)
	if res := e.Step(context.Background(), epoch0, rec(1, "k", "fail")); !res.Tainted {
		t.Fatalf("got %+v", res)
	}
	if e.Retain() {
		t.Error("the state is kept")
	}
}

// What is in memory only, or only possibly committed, cannot be compared with Kafka later.
func TestRetainRefusesWhatIsNotCommitted(t *testing.T) {
	t.Parallel()
	e := mapEngine(inPlace, withClone)
	e.Step(context.Background(), epoch0, rec(0, "k", ""))
	if e.Retain() {
		t.Error("a dirty key is kept")
	}
	b, err := e.Close(epoch0, true)
	if err != nil {
		t.Fatal(err)
	}
	if e.Retain() {
		t.Error("a batch in flight is kept")
	}
	e.Aborted(epoch0, b)
	if e.Retain() {
		t.Error("an aborted batch is kept")
	}
	drained(t, e, epoch0)
	if !e.Retain() {
		t.Error("what is committed is not kept")
	}
	if e.Retain() {
		t.Error("it is kept twice")
	}
}

// The cooldown of Persist goes on over the time in between: a clock that began anew would put off what a
// fold asks for by as long as the engine had run before.
func TestRetainKeepsTheClock(t *testing.T) {
	t.Parallel()
	fold := func(c *Call[counts], r stream.Record) error {
		c.Set(counts{"n": int(r.Offset)})
		c.Persist()
		return nil
	}
	e := mapEngine(fold, func(c *Config[counts]) {
		c.PersistInterval, c.PersistCooldown, c.CommitInterval = time.Hour, time.Minute, time.Hour
	})
	now := epoch0.Add(24 * time.Hour)
	e.Step(context.Background(), now, rec(0, "k", ""))
	drained(t, e, now)
	if !e.Retain() {
		t.Fatal("it is not kept")
	}
	now = now.Add(time.Minute)
	e.Start(now, 1, 1, nil)
	e.Step(context.Background(), now, rec(1, "k", ""))
	if at, ok := e.Due(); !ok || at.After(now) {
		t.Errorf("due at %v, %v; now is %v", at, ok, now)
	}
}

// revoke takes the engine out of one ownership and into another one, if it can. What is kept is what a
// restore gives, deletions that wait for their tombstone included.
func (w *world) revoke() error {
	dirty := w.e.Stats().Dirty + w.e.Stats().Holds
	next, committed := w.e.Next(), w.e.CommittedOffset()
	kept := w.e.Retain()
	if kept && w.batch != nil {
		return broken("retained", "with a batch in flight, at %d", next)
	}
	if !kept {
		if dirty == 0 && w.batch == nil && next == committed && !w.e.tainted {
			return broken("retained", "a clean engine at %d is not kept", next)
		}
		return nil
	}
	if dirty > 0 || next != w.durable {
		return broken("retained", "next %d, committed %d, %d dirty", next, w.durable, dirty)
	}
	restored := New(w.cfg)
	for _, s := range w.log {
		if err := restored.Load(snapshot(s)); err != nil {
			return err
		}
	}
	restored.Start(w.now, w.durable, w.durable, nil)
	w.now = w.now.Add(time.Duration(w.rng.IntN(100)) * time.Second)
	w.e.Start(w.now, w.durable, w.durable, nil)
	if got, want := views(w.e), views(restored); !maps.Equal(got, want) {
		return broken("retained", "kept %v, a restore gives %v", got, want)
	}
	if got, want := w.e.Stats(), restored.Stats(); got != want {
		return broken("retained", "kept %+v, a restore gives %+v", got, want)
	}
	if at, ok := w.e.Due(); ok && at.Sub(w.now) > w.cfg.CommitInterval {
		return broken("due", "tombstones in %v", at.Sub(w.now))
	}
	if w.at > 0 && w.input[w.at-1].offset == w.durable-1 { // a fetch that was under way
		if res := w.e.Step(context.Background(), w.now, w.record(w.at-1)); res.Outcome != Dropped {
			return broken("dropped", "%d below %d was %v", w.input[w.at-1].offset, w.durable, res.Outcome)
		}
	}
	w.retained++
	return nil
}

func views(e *Engine[int64]) map[string]View[int64] {
	out := map[string]View[int64]{}
	for v := range e.All {
		out[v.Key] = v
	}
	return out
}
