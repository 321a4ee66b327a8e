package crash

import (
	"fmt"
	"hash/fnv"
	"os"
	"slices"
	"sync"
	"testing"

	"github.com/holdfast-go/holdfast/internal/kafkatest"
	"github.com/holdfast-go/holdfast/internal/trial"
)

// shards is how many parts the sweep has: a commit is tested with one of them, a night with all.
const shards = 40

// recordAll watches all components, side by side, and returns their crash points.
func recordAll(t *testing.T) map[string][]found {
	t.Helper()
	var mu sync.Mutex
	pairs := map[string][]found{}
	t.Run("record", func(t *testing.T) {
		for _, c := range components {
			t.Run(c.name, func(t *testing.T) {
				t.Parallel()
				found := record(t, c)
				mu.Lock()
				defer mu.Unlock()
				pairs[c.name] = found
			})
		}
	})
	own := map[string][]found{}
	for i, c := range components {
		if len(pairs[c.name]) == 0 {
			t.Fatalf("no pairs of %s", c.name)
		}
		own[c.name] = slices.DeleteFunc(slices.Clone(pairs[c.name]), func(p found) bool {
			if p.Phase == Probe && i > 0 && slices.ContainsFunc(pairs[components[0].name], func(o found) bool { return o.Pair == p.Pair }) {
				return true // the probe is the same for all
			}
			return slices.ContainsFunc(c.like, func(other string) bool {
				return slices.ContainsFunc(pairs[other], func(o found) bool { return o.Pair == p.Pair })
			})
		})
	}
	return own
}

// strikes are all tests that the pairs call for.
func strikes(pairs map[string][]found) (out []strike) {
	for _, c := range components {
		for _, p := range points(pairs[c.name]) {
			for _, b := range blows {
				// A stale owner without a fence overwrites what is newer: that is what the guarantee lacks.
				if c.unfenced() && b == cut {
					continue
				}
				out = append(out, strike{c: c, point: p, blow: b})
			}
		}
	}
	return out
}

// The sweep: every crash point that the recorder sees is struck. In a night, or when all of it is asked
// for, all are; else the part that belongs to the commit.
// Public case B13.
func TestKafkaCrashSteps(t *testing.T) {
	pairs := recordAll(t)
	if t.Failed() {
		return
	}
	list := strikes(pairs)
	chosen := list
	if !everything() {
		chosen = shard(t, list)
	}
	b := newBook(t, list)
	t.Run("strike", func(t *testing.T) {
		for _, s := range chosen {
			t.Run(s.String(), func(t *testing.T) {
				t.Parallel()
				outcome := s.test(t)
				if !t.Failed() {
					b.note(s, outcome)
				}
			})
		}
	})
	t.Logf("crash steps: tested %d/%d (of %d in all) on Kafka %s", b.tested(), len(chosen), len(list), kafkatest.Version())
	if b.tested() != len(chosen) {
		t.Errorf("%d of %d were not tested, or failed", len(chosen)-b.tested(), len(chosen))
	}
	t.Run("a rule is off", func(t *testing.T) { sabotage(t, pairs) })
	b.write(t)
}

// everything reports whether the whole sweep is asked for.
func everything() bool {
	return os.Getenv("HOLDFAST_NIGHTLY") != "" || os.Getenv("HOLDFAST_CRASH_STEPS") == "all"
}

// shard is the part of the sweep that the present commit is tested with.
func shard(t *testing.T, list []strike) []strike {
	t.Helper()
	mine := hash(trial.Commit(t)) % shards
	return slices.DeleteFunc(slices.Clone(list), func(s strike) bool { return hash(s.String())%shards != mine })
}

func hash(s string) uint32 {
	h := fnv.New32a()
	fmt.Fprint(h, s)
	return h.Sum32()
}
