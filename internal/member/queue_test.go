package member

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
)

// A queue that is never empty, as in a backlog, keeps what it holds and no trace of what it held.
func TestQueueOfABacklogDoesNotGrow(t *testing.T) {
	t.Parallel()
	q := queue{limit: 100, arrived: make(chan struct{}, 1)}
	put, taken := int64(0), int64(0)
	fetch := func(n int) {
		rs := make([]*kgo.Record, n)
		for i := range rs {
			rs[i] = &kgo.Record{Offset: put}
			put++
		}
		q.put(rs, 1<<20)
	}
	fetch(60)
	for range 5_000 {
		fetch(40)
		for range 40 {
			r, ok := q.peek()
			if !ok || r.Offset != taken {
				t.Fatalf("peek after %d: %v, %v", taken, r, ok)
			}
			q.pop()
			taken++
		}
	}
	if got := cap(q.records); got > 1000 {
		t.Errorf("room for %d records, with at most 100 in the queue", got)
	}
	for _, r := range q.records[:cap(q.records)][len(q.records):] {
		if r != nil {
			t.Fatal("a record behind the end is kept")
		}
	}
}
