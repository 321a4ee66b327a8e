package pipe_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/holdfast-go/holdfast/pipe"
	"github.com/holdfast-go/holdfast/stream"
)

// transaction writes n numbers to a topic in one transaction.
func (l *lab) transaction(topic string, n int, end kgo.TransactionEndTry) {
	l.t.Helper()
	cl, err := l.kafka.Client(kgo.TransactionalID("writer"))
	if err != nil {
		l.t.Fatal(err)
	}
	defer cl.Close()
	if err := cl.BeginTransaction(); err != nil {
		l.t.Fatal(err)
	}
	for i := range n {
		if err := cl.ProduceSync(l.ctx, &kgo.Record{Topic: topic, Key: fmt.Append(nil, i), Value: fmt.Append(nil, i)}).FirstErr(); err != nil {
			l.t.Fatal(err)
		}
	}
	if err := cl.EndTransaction(l.ctx, end); err != nil {
		l.t.Fatal(err)
	}
}

func (l *lab) end(topic string) int64 {
	l.t.Helper()
	ends, err := l.admin.ListEndOffsets(l.ctx, topic)
	if err != nil {
		l.t.Fatal(err)
	}
	e, _ := ends.Lookup(topic, 0)
	return e.Offset
}

// I7: markers and aborted records take up offsets between records whose calls are under way side by side.
func TestPipeCommitsTheEndOfAnIdleInput(t *testing.T) {
	t.Parallel()
	for _, concurrency := range []int{1, 4} {
		t.Run(fmt.Sprint(concurrency), func(t *testing.T) {
			t.Parallel()
			l := embedded(t, "in", "out")
			for range 5 {
				l.transaction("in", 3, kgo.TryCommit)
				l.transaction("in", 2, kgo.TryAbort)
			}
			c := l.config(func(_ context.Context, r stream.Record, out *pipe.Out) error { out.Forward("out"); return nil })
			c.Concurrency = concurrency
			r := l.start(t.Context(), c)
			r.untilCommitted("in", 0, l.end("in"))
			if err := r.stop(); err != nil {
				t.Fatal(err)
			}
			if got, want := values(l.read("out", kgo.ReadCommitted())), "0 1 2 0 1 2 0 1 2 0 1 2 0 1 2"; got != want {
				t.Errorf("I4: out has %s, want %s", got, want)
			}
		})
	}
}
