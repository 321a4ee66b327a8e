package member

import (
	"testing"
	"time"
)

func TestSilenceOfAStoppedProcessDoesNotCount(t *testing.T) {
	t.Parallel()
	const look, limit = 10 * time.Second, time.Minute
	now := time.Now()
	answered := now
	w := newSilenceWatch(now, look)
	after := func(d time.Duration) time.Duration {
		now = now.Add(d)
		return w.heard(now, now.Sub(answered))
	}
	after(look)
	if got := after(time.Hour); got > limit {
		t.Errorf("it woke after an hour, and %v count as silence", got)
	}
	over := time.Duration(0)
	for over = look; after(look) <= limit && over < time.Hour; over += look {
	}
	if over <= limit || over > limit+2*look {
		t.Errorf("brokers that stay silent are found %v after it woke, the limit is %v", over, limit)
	}
}
