package accidents

import (
	"fmt"
	"strconv"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/holdfast-go/holdfast/internal/kafkatest"
	"github.com/holdfast-go/holdfast/stream"
)

// I7: an input that transactions write ends in a marker, or in what was aborted, and stays quiet past its
// retention. Everything was folded, so that the committed offset is the end of the log, and the next start goes on
// there. An offset behind the last record would lie before the start of the log, as if records had been lost.
// Public case C15.
func TestKafkaIdleInputOutlivesItsRetention(t *testing.T) {
	t.Parallel()
	for _, what := range everyKind {
		for _, tail := range []struct {
			name string
			end  kgo.TransactionEndTry
			last int64
		}{{"committed", kgo.TryCommit, 11}, {"aborted", kgo.TryAbort, 17}} {
			t.Run(string(what)+"/"+tail.name, func(t *testing.T) {
				t.Parallel()
				l := newShared(t, what, 1)
				l.transaction(kgo.TryCommit, 0, 10)
				first := l.start("before")
				first.committedTo(0, 11)
				if tail.end == kgo.TryAbort {
					l.transaction(tail.end, 10, 15)
				}
				first.committedTo(0, tail.last)
				first.end()
				if at := l.committed(0); at != tail.last {
					t.Fatalf("I7: the committed offset is %d, and the log ends at %d", at, tail.last)
				}
				l.verdict(nil, first)
				l.trim(l.input, tail.last)
				l.again(tail.last)
				l.transaction(kgo.TryCommit, 15, 16)
				next := l.start("after")
				if e := await(next, 0, any1[stream.Restored]); what != copies && e.Keys != 3 {
					t.Errorf("I2: it goes on with %d keys, want 3", e.Keys)
				}
				next.committedTo(0, tail.last+2)
				next.end()
			})
		}
	}
}

// I7: the output of a pipe is such an input. A second pipe has copied all of it; retention empties it over a quiet
// week; a restart of the second pipe goes on. Public case C15.
func TestKafkaIdleChainOutlivesItsRetention(t *testing.T) {
	t.Parallel()
	one := newShared(t, copies, 1)
	two := newShared(t, copies, 1)
	two.input = one.output
	one.produce(0, 0, 3)
	a, b := one.start("first"), two.start("second")
	a.committedTo(0, 3)
	a.end()
	end := one.endOf(one.output)
	b.committedTo(0, end)
	b.end()
	if at := two.committed(0); at != end {
		t.Fatalf("I7: the second pipe has committed %d, and its input ends at %d", at, end)
	}
	two.trim(two.input, end)
	two.again(end)
}

// transaction writes the numbers from..to-1 to partition 0 in one transaction of their own.
func (l *lab) transaction(end kgo.TransactionEndTry, from, to int) {
	l.t.Helper()
	cl := l.k.Client(l.t, kgo.TransactionalID(kafkatest.UniqueName("writer")), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err := cl.BeginTransaction(); err != nil {
		l.t.Fatal(err)
	}
	for i := from; i < to; i++ {
		if err := cl.ProduceSync(l.t.Context(), l.record(0, fmt.Sprintf("k0-%d", i%3), strconv.Itoa(i))).FirstErr(); err != nil {
			l.t.Fatal(err)
		}
	}
	if err := cl.EndTransaction(l.t.Context(), end); err != nil {
		l.t.Fatal(err)
	}
}

// endOf returns the end of partition 0 of a topic.
func (l *lab) endOf(topic string) int64 {
	l.t.Helper()
	ends, err := l.admin.ListEndOffsets(l.t.Context(), topic)
	if err != nil {
		l.t.Fatal(err)
	}
	e, _ := ends.Lookup(topic, 0)
	if e.Err != nil {
		l.t.Fatal(e.Err)
	}
	return e.Offset
}
