package member

import (
	"testing"
	"time"
)

// I7 and R27: what cannot be made smaller is counted in a row. A partition that was another member's for a day has
// been written to meanwhile, and its first transaction that runs out of time is the first one.
func TestSlowCountDoesNotOutlastThePartition(t *testing.T) {
	t.Parallel()
	const timeout, forget = 30 * time.Second, 5 * time.Minute
	p, now := &pacing{}, time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for i := range slowest {
		now = now.Add(timeout)
		if times, since := p.ranOut(now, 100, true, timeout, forget); times != i+1 || since != time.Duration(i+1)*timeout {
			t.Fatalf("I6: %d times for %v, want %d", times, since, i+1)
		}
	}
	if times, _ := p.ranOut(now.Add(24*time.Hour), 100, true, timeout, forget); times != 1 {
		t.Errorf("I7: %d times in a row after a day", times)
	}
}
