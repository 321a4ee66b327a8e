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

// I7 and R27: what cannot be made smaller stops the member when it has run out of time both often and for long: with
// short transactions ten in a row are over before a leader is back, and with long ones five minutes are two attempts.
func TestSlowStopsAfterManyTimesAndLong(t *testing.T) {
	t.Parallel()
	const limit = 5 * time.Minute
	for _, c := range []struct {
		name    string
		timeout time.Duration
		want    int // the first time that stops it
	}{
		{"short transactions", 5 * time.Second, 60},
		{"of the limit and a tenth", 33 * time.Second, slowest},
		{"long transactions", 10 * time.Minute, slowest},
	} {
		p, now := &pacing{}, time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
		for i := 1; i <= c.want; i++ {
			now = now.Add(c.timeout)
			times, since := p.ranOut(now, 100, true, c.timeout, limit)
			if got := hopeless(times, since, limit); got != (i == c.want) {
				t.Errorf("I7: %s: after %d times of %v the member stops: %v, want it at the %dth", c.name, i, c.timeout, got, c.want)
			}
		}
	}
}
