package engine

import (
	"context"
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
