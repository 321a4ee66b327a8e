package engine

import (
	"errors"
	"flag"
	"testing"
)

var seeds = flag.Int("seeds", 400, "runs of the random test")

// TestRandomAgainstModel lets random things happen to an engine (steps that fail, aborts, refusals,
// crashes at any point, revokes that keep the states, compaction) and compares with a model that scans the whole input each time.
// To run one seed again: change from to it and -seeds to 1.
func TestRandomAgainstModel(t *testing.T) {
	t.Parallel()
	const from = 0
	retained, slowed := 0, [3]int{}
	for seed := uint64(from); seed < uint64(from+*seeds); seed++ {
		w := newWorld(seed, func(*Config[int64]) {})
		if err := w.run(400); err != nil {
			t.Fatalf("%v (seed %d)", err, seed)
		}
		retained += w.retained
		for i, n := range w.slowed {
			slowed[i] += n
		}
	}
	if retained < *seeds/4 {
		t.Errorf("the states were kept %d times in %d runs", retained, *seeds)
	}
	if slowed[Unchanged] == 0 || slowed[Smaller] == 0 {
		t.Errorf("batches that ran out of time came again so often: %v", slowed)
	}
	t.Logf("the states were kept %d times; batches that ran out of time came again so often: %v", retained, slowed)
}

// TestRandomWholeBatches is the same with whole batches: outputs and letters of exactly the records
// before the committed offset are committed, once and in order, whatever fails and crashes.
func TestRandomWholeBatches(t *testing.T) {
	t.Parallel()
	slowed := [3]int{}
	for seed := range uint64(*seeds) {
		w := newWorld(seed, whole)
		if err := w.run(400); err != nil {
			t.Fatalf("%v (seed %d)", err, seed)
		}
		for i, n := range w.slowed {
			slowed[i] += n
		}
	}
	if slowed[Unchanged] == 0 || slowed[Smaller] == 0 || slowed[Restored] == 0 {
		t.Errorf("batches that ran out of time came again so often: %v", slowed)
	}
}

func whole(c *Config[int64]) {
	c.Whole, c.KeepDirty, c.MaxWrites = true, false, 4*c.MaxWrites
}

// TestRulesMatter switches one rule off at a time and expects the random test to find what the rule
// prevents. It is the control of TestRandomAgainstModel: a test that finds nothing here is blind.
func TestRulesMatter(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		rule string
		off  func(*Config[int64])
		want string
	}{
		{"applied-skip", func(c *Config[int64]) { c.NoAppliedSkip = true }, "durable"},
		{"holds", func(c *Config[int64]) { c.NoHolds = true }, "durable"},
		{"two-write-delete", func(c *Config[int64]) { c.NoTwoWriteDelete = true }, "durable"},
	} {
		t.Run(c.rule, func(t *testing.T) {
			t.Parallel()
			for seed := range uint64(200) {
				err := newWorld(seed, c.off).run(400)
				var v violation
				if errors.As(err, &v) && v.name == c.want {
					t.Logf("seed %d: %v", seed, err)
					return
				}
				if err != nil && !errors.As(err, &v) {
					t.Fatalf("seed %d: got %v, want a violation of %q", seed, err, c.want)
				}
			}
			t.Error("no run found anything")
		})
	}
}
