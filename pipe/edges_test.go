package pipe_test

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/dlq"
	"github.com/holdfast-go/holdfast/pipe"
	"github.com/holdfast-go/holdfast/stream"
)

// The pause of a retry is before the next call, not after it, however many calls are made ahead: what
// failed is to have the time to heal.
func TestRetryPausesBeforeTheCall(t *testing.T) {
	t.Parallel()
	const pause = 300 * time.Millisecond
	for name, side := range map[string]int{"one call at a time": 1, "calls side by side": 4} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := embedded(t, "in", "out", "dead")
			l.numbers("in", 6)
			var mu sync.Mutex
			var decided, called time.Time
			c := l.config(func(_ context.Context, r stream.Record, out *pipe.Out) error {
				mu.Lock()
				defer mu.Unlock()
				if number(r) == 2 && decided.IsZero() {
					return errBad
				}
				if number(r) == 2 {
					called = time.Now()
				}
				out.Forward("out")
				return nil
			})
			c.Concurrency = side
			c.OnError = func(context.Context, *stream.RecordError) stream.Action {
				mu.Lock()
				defer mu.Unlock()
				decided = time.Now()
				return stream.RetryThenDeadLetter
			}
			c.DeadLetters = &dlq.Policy{Topic: "dead", Backoff: func(int) time.Duration { return pause }}
			l.start(t.Context(), c).untilCommitted("in", 0, 6)
			mu.Lock()
			defer mu.Unlock()
			if waited := called.Sub(decided); waited < pause {
				t.Errorf("called again %v after the failure, want a pause of %v", waited, pause)
			}
		})
	}
}

// A call that ends its goroutine has not returned: its record is not one that was filtered.
func TestCallThatEndsItsGoroutine(t *testing.T) {
	t.Parallel()
	for name, side := range map[string]int{"one call at a time": 1, "calls side by side": 4} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := embedded(t, "in", "out")
			l.numbers("in", 6)
			c := l.config(func(_ context.Context, r stream.Record, out *pipe.Out) error {
				if number(r) == 2 {
					runtime.Goexit()
				}
				out.Forward("out")
				return nil
			})
			c.Concurrency = side
			err := l.start(t.Context(), c).wait()
			if o := l.committed("copy", "in", 0).At; !errors.Is(err, stream.ErrFold) || o > 2 {
				t.Errorf("committed %d, and Run returned %v, want at most 2 and ErrFold", o, err)
			}
		})
	}
}

// A progress topic that was made again stops the pipe with a remedy that a pipe can take.
func TestProgressTopicIsMadeAgain(t *testing.T) {
	t.Parallel()
	l := embedded(t, "in", "out")
	l.numbers("in", 3)
	c := l.config(func(_ context.Context, _ stream.Record, out *pipe.Out) error { out.Forward("out"); return nil })
	r := l.start(t.Context(), c)
	r.untilCommitted("in", 0, 3)
	if err := r.stop(); err != nil {
		t.Fatal(err)
	}
	if _, err := l.admin.DeleteTopics(l.ctx, "copy-progress"); err != nil {
		t.Fatal(err)
	}
	err := l.start(t.Context(), c).wait()
	if err == nil || strings.Contains(err.Error(), "AdoptEmpty") || strings.Contains(err.Error(), "snapshot") {
		t.Errorf("the hint names what a pipe refuses or does not have: %v", err)
	}
	l.reset("copy", "in", 3)
	l.numbers("in", 1)
	l.start(t.Context(), c).untilCommitted("in", 0, 4)
}

// The offsets of an Unfenced flow are a flow's as well.
func TestGroupOfAnUnfencedFlow(t *testing.T) {
	t.Parallel()
	l := embedded(t, "in", "out")
	l.numbers("in", 3)
	ctx, cancel := context.WithCancel(l.ctx)
	defer cancel()
	f, err := holdfast.New(holdfast.Config[string]{
		Kafka: l.kafka, Group: "copy", Inputs: []string{"in"}, Snapshots: holdfast.Snapshots{Create: &holdfast.TopicConfig{}},
		Guarantee: holdfast.Unfenced, Codec: text{},
		Fold:   func(_ context.Context, k *holdfast.Key[string], _ stream.Record) error { k.Set("x"); return nil },
		Commit: holdfast.Commit{Persist: time.Millisecond, Interval: time.Millisecond},
		Hooks: []holdfast.Hooks{{Committed: func(e stream.Committed) {
			if e.Next == 3 {
				cancel()
			}
		}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Run(ctx); err != nil || l.committed("copy", "in", 0).At != 3 {
		t.Fatalf("the flow ended with %v", err)
	}
	p, err := pipe.New(l.config(func(context.Context, stream.Record, *pipe.Out) error { return nil }))
	if err != nil {
		t.Fatal(err)
	}
	if report, err := p.Check(l.ctx); !errors.Is(err, stream.ErrOtherComponent) {
		t.Errorf("a pipe in a flow's group is told %v: %+v", err, report)
	}
}

// The end of a partition whose last batch was refused is not told as flushed.
func TestRefusedBatchIsNotFlushed(t *testing.T) {
	t.Parallel()
	l := embedded(t, "in", "out", "dead")
	released := make(chan stream.Released, 8)
	c := l.config(func(_ context.Context, r stream.Record, out *pipe.Out) error {
		if number(r) == 2 {
			return errBad
		}
		out.Forward("out")
		return nil
	})
	c.OnError = func(context.Context, *stream.RecordError) stream.Action { return stream.DeadLetter }
	c.DeadLetters = &dlq.Policy{Topic: "dead"}
	c.Hooks = []holdfast.Hooks{{
		Revoked: func(e stream.Released) { released <- e }, Lost: func(e stream.Released) { released <- e },
	}}
	r := l.start(t.Context(), c)
	l.numbers("in", 1)
	r.untilCommitted("in", 0, 1)
	limit := "100"
	if _, err := l.admin.AlterTopicConfigs(l.ctx, []kadm.AlterConfig{{Op: kadm.SetConfig, Name: "max.message.bytes", Value: &limit}}, "dead"); err != nil {
		t.Fatal(err)
	}
	l.produce(&kgo.Record{Topic: "in", Value: []byte("1")}, &kgo.Record{Topic: "in", Value: []byte("2")})
	if err := r.wait(); err == nil {
		t.Fatal("the pipe ended in order, though its letter was refused")
	}
	if o := l.committed("copy", "in", 0).At; o > 2 {
		t.Fatalf("committed %d, past the letter", o)
	}
	if e := <-released; e.Flushed {
		t.Errorf("told as flushed: %+v", e)
	}
}
