package member_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/stream"
)

// ends keeps what the hooks told of failures and ends.
type ends struct {
	mu            sync.Mutex
	failed        []stream.Failed
	lost, revoked []stream.Released
}

func (e *ends) hooks() holdfast.Hooks {
	return holdfast.Hooks{
		Failed: func(f stream.Failed) {
			e.mu.Lock()
			defer e.mu.Unlock()
			e.failed = append(e.failed, f)
		},
		Lost: func(r stream.Released) {
			e.mu.Lock()
			defer e.mu.Unlock()
			e.lost = append(e.lost, r)
		},
		Revoked: func(r stream.Released) {
			e.mu.Lock()
			defer e.mu.Unlock()
			e.revoked = append(e.revoked, r)
		},
	}
}

// A policy that stops the flow has lost nothing: what was folded before the record is committed, and
// the end is told as a release with the cause.
func TestStopByPolicyIsNotALoss(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.produce("k", 3)
	c, told := p.config(), &ends{}
	no := errors.New("not a click")
	c.Fold = func(ctx context.Context, k *holdfast.Key[int], r stream.Record) error {
		if r.Offset == 2 {
			return no
		}
		return count(1)(ctx, k, r)
	}
	tries := 0
	c.OnError = func(context.Context, *stream.RecordError) stream.Action {
		if tries++; tries == 1 {
			return stream.Retry
		}
		return stream.Stop
	}
	c.Hooks = []holdfast.Hooks{told.hooks()}
	err := until(p, c, 3)
	if !errors.Is(err, stream.ErrFold) || !errors.Is(err, no) {
		t.Fatalf("run: %v, want %v", err, no)
	}
	for _, part := range []string{"step failed: not a click", "have OnError return another action than Stop", "the next run begins at this record"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("error %q does not say %q", err, part)
		}
	}
	if len(told.lost) != 0 || len(told.revoked) != 1 || !told.revoked[0].Flushed || !errors.Is(told.revoked[0].Cause, no) {
		t.Errorf("lost %+v, revoked %+v: want one release that was flushed, with the cause", told.lost, told.revoked)
	}
	var got []string
	for _, f := range told.failed {
		got = append(got, fmt.Sprintf("%s at %d, attempt %d: %s, %v", f.Partition, f.Offset, f.Attempt, f.Action, f.Err))
	}
	if want := "[in/0 at 2, attempt 1: retry, not a click in/0 at 2, attempt 2: stop, not a click]"; fmt.Sprint(got) != want {
		t.Errorf("failures %v, want %s", got, want)
	}
	p.wantStored(map[string]string{"k": "2"})
}

// Each cause has a remedy of its own.
func TestHintsOfAFailedStep(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		change func(*holdfast.Config[int])
		says   []string
	}{
		{"no key", func(c *holdfast.Config[int]) {
			c.Route = func(stream.Record) ([]byte, bool) { return nil, true }
		}, []string{"record has no key", "give the flow a Route"}},
		{"no topic", func(c *holdfast.Config[int]) {
			c.Fold = func(_ context.Context, k *holdfast.Key[int], _ stream.Record) error {
				k.Emit(stream.Message{})
				return nil
			}
		}, []string{"Message.Topic is empty", "correct the topic"}},
		{"panic", func(c *holdfast.Config[int]) {
			c.Fold = func(context.Context, *holdfast.Key[int], stream.Record) error { panic("boom") }
		}, []string{"panic: boom. Next: correct the fold", stream.StackMark + "github.com/holdfast-go/holdfast/internal/member_test.TestHints"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			p.produce("k", 1)
			conf := p.config()
			c.change(&conf)
			err := until(p, conf, 1)
			if !errors.Is(err, stream.ErrFold) {
				t.Fatalf("run: %v, want %v", err, stream.ErrFold)
			}
			for _, part := range c.says {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("error %q does not say %q", err, part)
				}
			}
			if n := strings.Count(err.Error(), "\n"); n > 40 {
				t.Errorf("the error has %d lines", n)
			}
		})
	}
}

// A state that cannot be written stops the flow, and the flush that follows meets it again: it is told once.
func TestUnwritableStateIsToldOnce(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.produce("k", 1)
	c := p.config()
	c.Codec = mute{}
	err := until(p, c, 1)
	if !errors.Is(err, stream.ErrEncode) || strings.Count(err.Error(), "cannot be encoded") != 1 {
		t.Errorf("run: %v, want %v, once", err, stream.ErrEncode)
	}
}

type mute struct{ tenfold }

func (mute) Append([]byte, int) ([]byte, error) { return nil, errors.New("no words") }
