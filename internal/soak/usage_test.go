package soak

import (
	"cmp"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/holdfasttest"
	"github.com/holdfast-go/holdfast/internal/trial"
)

// settles is how long after a change of its partitions a process is not looked at: it restores, and what
// it had for others goes.
const settles = 3 * time.Second

// The bounds of growth from the first third of a process's samples to the last one.
const (
	heapShare   = 0.3     // of the heap in the first third
	heapBytes   = 1 << 20 // and so many bytes
	goroutines  = 6
	descriptors = 6
)

// sample is what a process uses, and for how many partitions.
type sample struct {
	at    time.Time
	owned int
	trial.Stats
}

// samples returns those of one process in order, in the midst of an ownership.
func samples(events []trial.Event, member string, life int) (out []sample) {
	owned := map[int32]bool{}
	var changed time.Time
	for _, e := range events {
		if e.Member != member || e.Life != life {
			continue
		}
		switch e.Kind {
		case holdfasttest.EventAssigned:
			owned[e.Partition], changed = true, e.At
		case holdfasttest.EventRestored:
			changed = e.At
		case holdfasttest.EventRevoked, holdfasttest.EventLost:
			delete(owned, e.Partition)
			changed = e.At
		case trial.EventStats:
			if e.At.Sub(changed) >= settles {
				out = append(out, sample{at: e.At, owned: len(owned), Stats: *e.Stats})
			}
		}
	}
	return out
}

// growth compares the first third of a process's samples with the last one, each of the number of
// partitions that most of the samples are of: with another number a process uses another amount.
type growth struct {
	owned, samples int
	span           time.Duration
	first, last    trial.Stats // the means
}

// grown returns false where there are too few samples to say anything.
func grown(list []sample) (g growth, ok bool) {
	count := map[int]int{}
	for _, s := range list {
		count[s.owned]++
	}
	for owned, n := range count {
		if n > count[g.owned] || n == count[g.owned] && owned < g.owned {
			g.owned = owned
		}
	}
	list = slices.DeleteFunc(slices.Clone(list), func(s sample) bool { return s.owned != g.owned })
	g.samples = len(list)
	if len(list) < 12 { // a third of a few samples is an accident
		return g, false
	}
	third := len(list) / 3
	g.first, g.last = mean(list[:third]), mean(list[len(list)-third:])
	g.span = list[len(list)-1].at.Sub(list[0].at)
	return g, true
}

func mean(list []sample) (m trial.Stats) {
	for _, s := range list {
		m.Heap += s.Heap
		m.Goroutines += s.Goroutines
		m.Descriptors += s.Descriptors
	}
	n := len(list)
	return trial.Stats{Heap: m.Heap / uint64(n), Goroutines: m.Goroutines / n, Descriptors: m.Descriptors / n}
}

// faults says what grows past its bound.
func (g growth) faults() (out []string) {
	if most := float64(g.first.Heap)*(1+heapShare) + heapBytes; float64(g.last.Heap) > most {
		out = append(out, fmt.Sprintf("the heap grows from %d to %d bytes", g.first.Heap, g.last.Heap))
	}
	if g.last.Goroutines > g.first.Goroutines+goroutines {
		out = append(out, fmt.Sprintf("goroutines grow from %d to %d", g.first.Goroutines, g.last.Goroutines))
	}
	if g.last.Descriptors > g.first.Descriptors+descriptors {
		out = append(out, fmt.Sprintf("descriptors grow from %d to %d", g.first.Descriptors, g.last.Descriptors))
	}
	return out
}

func (g growth) String() string {
	change := func(format string, first, last float64) string {
		text := fmt.Sprintf(format+" to "+format, first, last)
		if g.span < 2*time.Minute {
			return text // of so short a time an hour's change says nothing
		}
		return text + fmt.Sprintf(" (%+.1f an hour)", (last-first)/(g.span*2/3).Hours()) // between the middles of the thirds
	}
	const mib = 1 << 20
	return fmt.Sprintf("heap %s MiB, goroutines %s, descriptors %s; %d samples with %d partitions over %v",
		change("%.2f", float64(g.first.Heap)/mib, float64(g.last.Heap)/mib), change("%.0f", float64(g.first.Goroutines), float64(g.last.Goroutines)),
		change("%.0f", float64(g.first.Descriptors), float64(g.last.Descriptors)), g.samples, g.owned, g.span.Round(time.Second))
}

// What leaks is seen, and what a process uses for more partitions is not taken for a leak.
func TestGrowth(t *testing.T) {
	t.Parallel()
	begin := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	steady := func(i int) trial.Stats { return trial.Stats{Heap: 5 << 20, Goroutines: 40, Descriptors: 20} }
	for _, c := range []struct {
		name  string
		stats func(i int) trial.Stats
		owned func(i int) int
		want  int
	}{
		{"steady", steady, func(int) int { return 2 }, 0},
		{"the heap", func(i int) trial.Stats { s := steady(i); s.Heap += uint64(i) << 18; return s }, func(int) int { return 2 }, 1},
		{"goroutines", func(i int) trial.Stats { s := steady(i); s.Goroutines += i / 4; return s }, func(int) int { return 2 }, 1},
		{"descriptors", func(i int) trial.Stats { s := steady(i); s.Descriptors += i / 4; return s }, func(int) int { return 2 }, 1},
		{"more partitions", func(i int) trial.Stats {
			s := steady(i)
			if i >= 60 {
				s.Goroutines += 30
			}
			return s
		}, func(i int) int { return 2 + i/60*2 }, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			events := []trial.Event{{Member: "one", Life: 1, At: begin.Add(-time.Minute), Kind: holdfasttest.EventAssigned, Partition: 0}}
			for i := range 100 {
				at := begin.Add(time.Duration(i) * 10 * time.Second)
				for p := 1; p < c.owned(i); p++ {
					events = append(events, trial.Event{Member: "one", Life: 1, At: at.Add(-settles), Kind: holdfasttest.EventAssigned, Partition: int32(p)})
				}
				s := c.stats(i)
				events = append(events, trial.Event{Member: "one", Life: 1, At: at, Kind: trial.EventStats, Stats: &s})
			}
			g, ok := grown(samples(events, "one", 1))
			if got := g.faults(); !ok || len(got) != c.want {
				t.Errorf("%v (%t): %v, want %d faults", g, ok, got, c.want)
			}
		})
	}
}

// processes are all that have told what they use, with the number of the life.
func processes(events []trial.Event) (out []trial.Event) {
	for _, e := range events {
		if e.Kind != trial.EventStats {
			continue
		}
		same := func(o trial.Event) bool { return o.Member == e.Member && o.Life == e.Life }
		if !slices.ContainsFunc(out, same) {
			out = append(out, e)
		}
	}
	slices.SortFunc(out, func(a, b trial.Event) int { return cmp.Or(cmp.Compare(a.Member, b.Member), a.Life-b.Life) })
	return out
}
