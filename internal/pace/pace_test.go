package pace

import (
	"testing"
	"time"
)

const (
	full = 4 << 20
	had  = 30 * time.Second
)

func TestHalfAsMuchDownToNothing(t *testing.T) {
	t.Parallel()
	var p Pace
	if p.Limit(full) != full || p.Limit(0) != 0 {
		t.Errorf("limits %d and %d without anything learned", p.Limit(full), p.Limit(0))
	}
	bytes := int64(full)
	for range 60 {
		if stuck := p.RanOut(bytes, false); stuck != 0 {
			t.Fatalf("stuck %d times with what can be made smaller", stuck)
		}
		if got := p.Limit(full); got > max(bytes/2, 1) || got < 1 {
			t.Fatalf("I7: the bound is %d after %d bytes ran out of time", got, bytes)
		}
		bytes = p.Limit(full)
	}
	// A step that is larger than the bound says nothing of the bound that is known.
	if p.RanOut(1000, true); p.Limit(full) != 1 {
		t.Errorf("the bound rose to %d by a step that ran out of time", p.Limit(full))
	}
}

func TestStuckInARow(t *testing.T) {
	t.Parallel()
	var p Pace
	p.RanOut(10, false)
	for want := 1; want < 4; want++ {
		if got := p.RanOut(10, true); got != want {
			t.Errorf("stuck %d times, want %d", got, want)
		}
	}
	p.Wrote(10, had, had, full)
	if got := p.RanOut(10, true); got != 1 {
		t.Errorf("stuck %d times after a success, want 1", got)
	}
}

// The bound grows by what was written near it with time to spare, until it is none.
func TestGrowsAgain(t *testing.T) {
	t.Parallel()
	var p Pace
	p.RanOut(full, false)
	for _, c := range []struct {
		name  string
		bytes int64
		took  time.Duration
		grows bool
	}{
		{"in little time", full / 2, had / 3, true},
		{"in most of the time", full, had * 2 / 3, false},
		{"far below the bound", 1000, 0, false},
	} {
		before := p.Limit(full)
		if p.Wrote(c.bytes, c.took, had, 0); p.Limit(full) > before != c.grows {
			t.Errorf("I7: %s: the bound is %d and was %d", c.name, p.Limit(full), before)
		}
	}
	p.RanOut(1, false)
	commits := 0
	for ; p.Learned() > 0; commits++ {
		if commits == 100 {
			t.Fatalf("I7: the bound is %d after %d commits in no time", p.Learned(), commits)
		}
		p.Wrote(p.Limit(full), 0, had, full)
	}
	if commits < 20 {
		t.Errorf("the bound was forgotten after %d commits", commits)
	}
}

// What takes its time as its size keeps to what fits: it runs out of time once in a while, not each time.
func TestKeepsToWhatFits(t *testing.T) {
	t.Parallel()
	const rate = 60_000 // bytes a second
	var p Pace
	ran, written := 0, int64(0)
	for range 200 {
		bytes := p.Limit(full)
		took := time.Duration(bytes) * time.Second / rate
		if took > had {
			ran++
			p.RanOut(bytes, false)
			continue
		}
		written += bytes
		p.Wrote(bytes, took, had, full)
	}
	if ran > 3 || written < 190*rate*int64(had/time.Second)/4 {
		t.Errorf("I7: %d of 200 ran out of time, and %d bytes were written", ran, written)
	}
}
