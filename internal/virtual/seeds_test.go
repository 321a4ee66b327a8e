//go:build synctests

package virtual

import (
	"flag"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

var (
	oneSeed   = flag.Uint64("seed", 0, "run this seed alone")
	seedCount = flag.Uint64("seeds", 200, "run as many seeds")
	firstSeed = flag.Uint64("from", 1, "the first seed")
	repeats   = flag.Int("repeat", 1, "run each seed as often")
	demand    = flag.Bool("sometimes", false, "fail if a rare state was never reached")
)

// totals adds the runs up.
type totals struct {
	mu      sync.Mutex
	runs    int
	failed  int
	virtual time.Duration
	bitten  map[string]int
}

func (s *totals) add(r result) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.runs++
	s.virtual += r.virtual
	if len(r.found) > 0 {
		s.failed++
	}
	for name, n := range r.bitten {
		s.bitten[name] += n
	}
}

// requests returns a line for each kind of request, with how often which fault met one.
func (s *totals) requests() (lines []string) {
	last := ""
	for _, name := range slices.Sorted(maps.Keys(s.bitten)) {
		request, fault, _ := strings.Cut(name, " ")
		if request != last {
			lines = append(lines, fmt.Sprintf("  %-22s", request))
			last = request
		} else {
			lines[len(lines)-1] += ","
		}
		lines[len(lines)-1] += fmt.Sprintf(" %d %s", s.bitten[name], fault)
	}
	return lines
}

// TestSeeds runs the schedules of many seeds. A run that is found wrong prints the command that runs its
// seed alone; the order of goroutines is another one each time, so that it may take some repeats.
func TestSeeds(t *testing.T) {
	first, last := *firstSeed, *firstSeed+*seedCount-1
	if *oneSeed > 0 {
		first, last = *oneSeed, *oneSeed
	}
	seen, sum := newStates(), &totals{bitten: map[string]int{}}
	began := time.Now()
	t.Run("all", func(t *testing.T) {
		for seed := first; seed <= last; seed++ {
			for i := range *repeats {
				name := fmt.Sprint(seed)
				if i > 0 {
					name += fmt.Sprintf(" again %d", i)
				}
				t.Run(name, func(t *testing.T) {
					t.Parallel()
					p := planOf(seed)
					watch := watchdog(seed)
					res := runPlan(t, p, seen)
					watch.Stop()
					sum.add(res)
					if len(res.found) > 0 {
						report(t, p, res)
					}
				})
			}
		}
	})
	lines, never := seen.report()
	t.Logf("%d runs in %v, %v of virtual time, %d found wrong\nrare states:\n%s\nfaults of single requests:\n%s", sum.runs,
		time.Since(began).Round(time.Millisecond), sum.virtual.Round(time.Second), sum.failed, strings.Join(lines, "\n"), strings.Join(sum.requests(), "\n"))
	if *demand && len(never) > 0 {
		t.Errorf("never reached: %s", strings.Join(never, ", "))
	}
}

// watchdog ends the process when a run takes too long by the machine's clock: virtual time stands still
// while a goroutine spins.
func watchdog(seed uint64) *time.Timer {
	const limit = 5 * time.Minute // a run takes half a second of a core
	return time.AfterFunc(limit, func() {
		panic(fmt.Sprintf("a run has not ended within %v: %s", limit, command(seed)))
	})
}

// command runs one seed alone.
func command(seed uint64) string {
	return fmt.Sprintf("go test -tags synctests ./internal/virtual -run 'TestSeeds$' -seed %d", seed)
}

func report(t *testing.T, p plan, res result) {
	t.Helper()
	for _, v := range res.found {
		t.Error(v)
	}
	t.Logf("again: %s (add -repeat 20: the order of goroutines differs)\n%s\nwhat the members told:\n%s",
		command(p.seed), strings.Join(p.lines(), "\n"), strings.Join(res.trace, "\n"))
}
