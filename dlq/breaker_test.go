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
	b := NewBreaker(Policy{MaxPerMinute: 3})
	for _, c := range []struct {
		after time.Duration
		ok    bool
	}{
		{0, true}, {30 * time.Second, true}, {59 * time.Second, true},
		{59*time.Second + 999*time.Millisecond, false},
		{time.Minute, false},      // its second is over only now
		{61 * time.Second, true},  // the first has left the window
		{62 * time.Second, false}, // a fixed minute would have begun to count anew
		{90 * time.Second, false}, // refused letters are not counted, so this is about the second one
		{91 * time.Second, true},
	} {
		err := b.Allow(start.Add(c.after))
		if (err == nil) != c.ok {
			t.Fatalf("after %v: %v, want ok %v", c.after, err, c.ok)
		}
		if err != nil && (!errors.Is(err, stream.ErrFlood) || !strings.Contains(err.Error(), "number 4 within a minute of 4 records, and the policy allows 3")) {
			t.Fatalf("after %v: %v", c.after, err)
		}
	}
}

func TestBreakerDefault(t *testing.T) {
	t.Parallel()
	b, now := NewBreaker(Policy{}), time.Now()
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
	b, now := NewBreaker(Policy{MaxPerMinute: limit}), time.Now()
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

// A share of the records that fail is no flood, however many there are; one more is.
func TestBreakerCountsAShare(t *testing.T) {
	t.Parallel()
	b, now := NewBreaker(Policy{MaxPerMinute: 10, MaxShare: 0.05}), time.Now()
	b.Passed(now, 1000)
	for i := range 50 {
		if err := b.Allow(now); err != nil {
			t.Fatalf("letter %d of 1000 records: %v", i+1, err)
		}
	}
	err := b.Allow(now)
	if !errors.Is(err, stream.ErrFlood) || !strings.Contains(err.Error(), "number 51 within a minute of 1000 records") ||
		!strings.Contains(err.Error(), "DeadLetters.MaxShare above 0.051") {
		t.Errorf("letter 51: %v", err)
	}
	if err := b.Allow(now.Add(62 * time.Second)); err != nil {
		t.Errorf("after the minute: %v", err)
	}
	for i := range 9 {
		if err := b.Allow(now.Add(62 * time.Second)); err != nil {
			t.Fatalf("letter %d of the next minute: %v", i+2, err)
		}
	}
	if err := b.Allow(now.Add(62 * time.Second)); !errors.Is(err, stream.ErrFlood) {
		t.Errorf("the records of a minute ago count: %v", err)
	}
}

// Letters of an earlier run count as long as they would have there, with the records between them.
func TestBreakerRecalls(t *testing.T) {
	t.Parallel()
	now := time.UnixMilli(1_800_000_000_000)
	for name, c := range map[string]struct {
		age     time.Duration
		records int64
		after   time.Duration
		ok      bool
	}{
		"just now":             {0, 1, 0, false},
		"50 s ago":             {50 * time.Second, 1, 0, false},
		"50 s ago, and 12 on":  {50 * time.Second, 1, 12 * time.Second, true},
		"a minute ago":         {time.Minute, 1, 0, true},
		"a clock that is fast": {-time.Hour, 1, 0, false},
		"among many records":   {10 * time.Second, 1000, 0, true},
	} {
		b := NewBreaker(Policy{MaxPerMinute: 3})
		for range 3 {
			b.Recall(now, now.Add(-c.age), c.records)
		}
		if err := b.Allow(now.Add(c.after)); (err == nil) != c.ok {
			t.Errorf("%s: %v, want ok %v", name, err, c.ok)
		}
	}
}
