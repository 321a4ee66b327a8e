package engine

import (
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/stream"
)

// I6 and R27: a batch has as many steps as have left something. One step that does not fit, among others that
// leave nothing, is alone: it would come back as it is for ever, and never count.
func TestStepsThatLeaveNothingAreNone(t *testing.T) {
	t.Parallel()
	for name, fold := range map[string]func(c *Call[counts]){
		"a state":   func(c *Call[counts]) { c.Set(counts{"n": 1}) },
		"an output": func(c *Call[counts]) { c.Emit(outputsOf(1)[0]) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := mapEngine(func(c *Call[counts], r stream.Record) error {
				if string(r.Key) == "large" {
					fold(c)
				}
				return nil
			}, func(c *Config[counts]) {
				c.Whole, c.Outputs, c.CommitInterval = true, map[string]int{"out": 0}, time.Second
			})
			e.Bound(1)
			now := epoch0
			for i, key := range []string{"a", "b", "large"} {
				e.Step(t.Context(), now, rec(int64(i), key, ""))
			}
			b, err := e.Close(now.Add(time.Second), false)
			if err != nil || b == nil {
				t.Fatalf("batch %v, %v", b, err)
			}
			if again := e.Slow(now, b); again != Unchanged {
				t.Errorf("I6: a batch with one step that has left anything comes again by way %d, want as it is", again)
			}
		})
	}
}

// I2 and I6: a batch with a tombstone too many is given up while a later step has spoiled a state that it has. What
// is left cannot be committed without that state.
func TestSlowTombstonesAndASpoiledState(t *testing.T) {
	t.Parallel()
	e := rebuilt(t, 3, func(c *Config[counts]) { c.Whole = true })
	e.Step(t.Context(), epoch0, rec(0, "a", ""))
	b, err := e.Close(epoch0, false)
	if err != nil || len(b.Dropped) != 3 {
		t.Fatalf("%+v, %v", b, err)
	}
	if res := e.Step(t.Context(), epoch0, rec(1, "a", "fail")); !res.Tainted {
		t.Fatalf("%+v", res)
	}
	if again := e.Slow(epoch0, b); again == Unchanged {
		t.Fatalf("it comes again %d", again)
	}
	defer func() {
		if v := recover(); v != nil {
			t.Errorf("I2: %v", v)
		}
	}()
	if b, err := e.Close(epoch0, true); b != nil || err != nil {
		t.Errorf("I2: %+v, %v; want nothing, as the state of a is lost", b, err)
	}
}

// R30: a drain has little time, and writes no tombstones of a rebuild: the next owner finds them.
func TestDrainLeavesDroppedKeys(t *testing.T) {
	t.Parallel()
	e := rebuilt(t, 3, nil)
	e.Step(t.Context(), epoch0, rec(0, "a", ""))
	b, err := e.Close(epoch0, true)
	if err != nil || b == nil || len(b.Writes) != 1 || len(b.Dropped) != 0 {
		t.Fatalf("I6: %+v, %v; want the write alone", b, err)
	}
	e.Committed(epoch0, b)
	if b, err := e.Close(epoch0, true); b != nil || err != nil {
		t.Fatalf("I6: the drain has no end: %+v, %v", b, err)
	}
	if b, err := e.Close(epoch0, false); err != nil || len(b.names()) != 3 {
		t.Fatalf("I2: %q, %v; want three tombstones", b.names(), err)
	}
}

// I5 and R27: outputs ran out of time, and a later step has left a state: the memory is ahead, and the batch cannot
// be cut any more.
func TestSlowOutputsBeforeAState(t *testing.T) {
	t.Parallel()
	e := mapEngine(func(c *Call[counts], r stream.Record) error {
		if string(r.Key) == "state" {
			c.Set(counts{"n": 1})
		} else {
			c.Emit(outputsOf(1)[0])
		}
		return nil
	}, func(c *Config[counts]) { c.Whole, c.Outputs = true, map[string]int{"out": 0} })
	for i, key := range []string{"a", "b"} {
		e.Step(t.Context(), epoch0, rec(int64(i), key, ""))
	}
	b, err := e.Close(epoch0, false)
	if err != nil || len(b.Outputs) != 2 {
		t.Fatalf("%+v, %v", b, err)
	}
	e.Step(t.Context(), epoch0, rec(2, "state", ""))
	if again := e.Slow(epoch0, b); again != Restored {
		t.Errorf("I7: it comes again by way %d, want with the memory restored", again)
	}
}
