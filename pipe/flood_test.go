package pipe_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/holdfast-go/holdfast/dlq"
	"github.com/holdfast-go/holdfast/pipe"
	"github.com/holdfast-go/holdfast/stream"
)

// A flood of failures stops the pipe before it has drained the topic into the dead letters.
func TestFlood(t *testing.T) {
	t.Parallel()
	l := embedded(t, "in", "out", "dead")
	l.numbers("in", 50)
	c := l.config(func(context.Context, stream.Record, *pipe.Out) error { return errBad })
	c.OnError = func(context.Context, *stream.RecordError) stream.Action { return stream.DeadLetter }
	c.DeadLetters = &dlq.Policy{Topic: "dead", MaxPerMinute: 5, RestartDelay: -1}
	r := l.start(t.Context(), c)
	if err := r.wait(); !errors.Is(err, stream.ErrFlood) {
		t.Errorf("Run returned %v, want ErrFlood", err)
	}
	if n, o := len(l.read("dead", kgo.ReadCommitted())), l.committed("copy", "in", 0).At; n != 5 || o != 5 {
		t.Errorf("%d letters, committed %d, want 5 and 5", n, o)
	}
}

// What starts a pipe that drowns in failures again and again does not have it write as many letters each time: those of
// the last minute count.
func TestFloodIsOneOverRestarts(t *testing.T) {
	t.Parallel()
	l := embedded(t, "in", "out", "dead")
	l.numbers("in", 50)
	c := l.config(func(context.Context, stream.Record, *pipe.Out) error { return errBad })
	c.OnError = func(context.Context, *stream.RecordError) stream.Action { return stream.DeadLetter }
	c.DeadLetters = &dlq.Policy{Topic: "dead", MaxPerMinute: 5, RestartDelay: -1}
	for run := range 3 {
		if err := l.start(t.Context(), c).wait(); !errors.Is(err, stream.ErrFlood) {
			t.Errorf("I6: run %d returned %v, want ErrFlood", run, err)
		}
		if n := len(l.read("dead", kgo.ReadCommitted())); n != 5 {
			t.Fatalf("I6: %d letters after run %d, want 5", n, run)
		}
	}
}

// Letters that earlier runs wrote of records that they did not commit count once for each record, and not again when the
// records come again.
func TestRepeatedLettersAreOneRecord(t *testing.T) {
	t.Parallel()
	l := embedded(t, "in", "out", "dead")
	l.numbers("in", 50)
	for i := range int64(10) {
		m := dlq.New(stream.Record{Topic: "in", Offset: i % 5}, dlq.Cause{Topic: "dead", Err: errBad, Attempt: 1, Group: "copy", Now: time.Now()})
		r := &kgo.Record{Topic: m.Topic, Value: m.Value}
		for _, h := range m.Headers {
			r.Headers = append(r.Headers, kgo.RecordHeader(h))
		}
		l.produce(r)
	}
	c := l.config(func(context.Context, stream.Record, *pipe.Out) error { return errBad })
	c.OnError = func(context.Context, *stream.RecordError) stream.Action { return stream.DeadLetter }
	c.DeadLetters = &dlq.Policy{Topic: "dead", MaxPerMinute: 7, RestartDelay: -1}
	if err := l.start(t.Context(), c).wait(); !errors.Is(err, stream.ErrFlood) {
		t.Errorf("I6: Run returned %v, want ErrFlood", err)
	}
	if o := l.committed("copy", "in", 0).At; o != 7 {
		t.Errorf("I6: committed %d, want the 5 records that have letters and 2 more", o)
	}
}

// A pipe that drowns in failures leaves its group, and returns when the delay is over or its context ends.
func TestFloodHoldsBackTheEnd(t *testing.T) {
	t.Parallel()
	l := embedded(t, "in", "out", "dead")
	l.numbers("in", 50)
	c := l.config(func(context.Context, stream.Record, *pipe.Out) error { return errBad })
	c.OnError = func(context.Context, *stream.RecordError) stream.Action { return stream.DeadLetter }
	c.DeadLetters = &dlq.Policy{Topic: "dead", MaxPerMinute: 5, RestartDelay: time.Hour}
	waits := make(chan string, 100)
	c.Logger = slog.New(slog.NewTextHandler(lines(waits), nil))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	r := l.start(ctx, c)
	for waiting := false; !waiting; {
		select {
		case line := <-waits:
			waiting = strings.Contains(line, "waiting before the end")
		case <-r.done:
			t.Fatal("I6: Run has returned before its delay")
		}
	}
	cancel()
	if err := r.wait(); !errors.Is(err, stream.ErrFlood) {
		t.Errorf("I6: Run returned %v, want ErrFlood", err)
	}
}

// lines is a writer of whole lines; those that nobody waits for are dropped.
type lines chan<- string

func (l lines) Write(p []byte) (int, error) {
	select {
	case l <- string(p):
	default:
	}
	return len(p), nil
}
