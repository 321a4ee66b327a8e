package dlq

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/stream"
)

func TestPolicyDefaults(t *testing.T) {
	t.Parallel()
	p := Policy{Topic: "t"}.WithDefaults()
	if p.Attempts != 3 || p.MaxPerMinute != 60 || p.Topic != "t" {
		t.Errorf("got %+v", p)
	}
	for attempt, want := range map[int]time.Duration{
		-1: 100 * time.Millisecond, 0: 100 * time.Millisecond, 1: 100 * time.Millisecond, 2: 200 * time.Millisecond,
		9: 25600 * time.Millisecond, 10: 30 * time.Second, 11: 30 * time.Second, 1 << 40: 30 * time.Second,
	} {
		if got := p.Backoff(attempt); got != want {
			t.Errorf("pause after attempt %d is %v, want %v", attempt, got, want)
		}
	}
	given := Policy{Attempts: 7, MaxPerMinute: 8, Backoff: func(int) time.Duration { return 9 }}.WithDefaults()
	if given.Attempts != 7 || given.MaxPerMinute != 8 || given.Backoff(1) != 9 {
		t.Errorf("given values were changed: %+v", given)
	}
}

func TestPolicyFaults(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		policy Policy
		says   []string // nil: valid
	}{
		{"defaults", Policy{Topic: "orders.dlq"}, nil},
		{"longest name", Policy{Topic: strings.Repeat("a", 249)}, nil},
		{"no topic", Policy{}, []string{"Topic is empty"}},
		{"bad name", Policy{Topic: "a b"}, []string{`"a b"`, "249"}},
		{"two dots", Policy{Topic: ".."}, []string{`".."`}},
		{"too long", Policy{Topic: strings.Repeat("a", 250)}, []string{"249"}},
		{"everything", Policy{Attempts: -1, MaxPerMinute: -2}, []string{"Topic is empty", "Attempts is -1", "MaxPerMinute is -2"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			err := c.policy.Validate()
			if (err == nil) != (c.says == nil) || err != nil && !errors.Is(err, stream.ErrConfig) {
				t.Fatalf("got %v", err)
			}
			for _, want := range c.says {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%q is missing in %q", want, err)
				}
			}
		})
	}
}
