package member

import (
	"testing"
	"time"
)

// TestWindowKeepsToTheLink fills windows over links of different widths, whose client gives up a batch that
// takes longer than its time limit: what waits fits the narrowest, and a wide one is not held back for long.
func TestWindowKeepsToTheLink(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		rate        int64 // bytes a second
		least, most int64 // of the window after a while
	}{
		"2 kB a second":    {2_000, windowLeast, 16_000},
		"60 kB a second":   {60_000, 32_000, 240_000},
		"100 MB a second":  {100_000_000, 32 << 20, 1 << 30},
		"10 kB, then idle": {10_000, windowLeast, 64_000},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, now := window{most: windowFirst}, time.Now()
			for range 200 {
				sent, n := now, int64(0)
				for w.fits(1000) {
					w.waiting += 1000
					n++
				}
				took := time.Duration(n*1000) * time.Second / time.Duration(c.rate)
				if took > 10*time.Second {
					t.Fatalf("I7: %d bytes take %v, and the client gives up after 10 s", n*1000, took)
				}
				now = now.Add(took)
				for range n {
					w.answered(1000, sent, now)
				}
			}
			if w.most < c.least || w.most > c.most || w.waiting != 0 {
				t.Errorf("I7: the window is %d, want %d to %d; %d bytes wait", w.most, c.least, c.most, w.waiting)
			}
		})
	}
}

// A record that is larger than the window goes alone.
func TestWindowTakesALargeRecordAlone(t *testing.T) {
	t.Parallel()
	w := window{most: windowFirst}
	if !w.fits(1 << 20) {
		t.Error("I6: a large record waits for ever")
	}
	w.waiting += 1 << 20
	if w.fits(1) {
		t.Error("another one goes with it")
	}
}

// What was sent together is one slow answer, and not as many as there are records.
func TestWindowShrinksOnceForWhatWasSentTogether(t *testing.T) {
	t.Parallel()
	w, sent := window{most: 64 << 10}, time.Now()
	const n = 60
	for range n {
		w.waiting += 1000
	}
	for range n {
		w.answered(1000, sent, sent.Add(2*windowSlow))
	}
	if w.most != 32<<10 || w.waiting != 0 {
		t.Errorf("I7: the window is %d, want half of what it was, %d; %d bytes wait", w.most, 32<<10, w.waiting)
	}
}
