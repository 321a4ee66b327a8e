package dlq

import (
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/stream"
)

func TestBreakerCountsASlidingMinute(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 1, 2, 3, 4, 0, 0, time.UTC)
	b := NewBreaker(3)
	for _, c := range []struct {
		after time.Duration
		ok    bool
	}{
		{0, true}, {30 * time.Second, true}, {59 * time.Second, true},
		{59*time.Second + 999*time.Millisecond, false},
		{time.Minute, true},       // the first has left the minute
		{time.Minute + 1, false},  // a fixed minute would have begun to count anew
		{89 * time.Second, false}, // refused letters are not counted, so this is about the second one
		{90 * time.Second, true},
	} {
		err := b.Allow(start.Add(c.after))
		if (err == nil) != c.ok {
			t.Fatalf("after %v: %v, want ok %v", c.after, err, c.ok)
		}
		if err != nil && (!errors.Is(err, stream.ErrFlood) || !strings.Contains(err.Error(), "number 4 within a minute, and the policy allows 3")) {
			t.Fatalf("after %v: %v", c.after, err)
		}
	}
}

func TestBreakerDefault(t *testing.T) {
	t.Parallel()
	b, now := NewBreaker(0), time.Now()
	for i := range DefaultMaxPerMinute {
		if err := b.Allow(now); err != nil {
			t.Fatalf("letter %d: %v", i, err)
		}
	}
	if err := b.Allow(now); !errors.Is(err, stream.ErrFlood) {
		t.Fatalf("got %v, want ErrFlood", err)
	}
}

func TestBreakerIsSharedSafely(t *testing.T) {
	t.Parallel()
	const limit, each, users = 100, 50, 8
	b, now := NewBreaker(limit), time.Now()
	var allowed [users]int
	var wg sync.WaitGroup
	for u := range users {
		wg.Go(func() {
			for range each {
				if b.Allow(now) == nil {
					allowed[u]++
				}
			}
		})
	}
	wg.Wait()
	sum := 0
	for _, n := range allowed {
		sum += n
	}
	if sum != limit {
		t.Errorf("%d letters were allowed, want %d", sum, limit)
	}
}
