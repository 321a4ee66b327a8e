package member

import (
	"sync"

	"github.com/twmb/franz-go/pkg/kgo"
)

// queue holds fetched records of one ownership until they are folded. The polling goroutine fills
// it and never waits: above the limit it pauses fetching. The worker empties it.
type queue struct {
	limit   int
	arrived chan struct{} // has one element if there may be a record

	mu      sync.Mutex
	records []*kgo.Record
	head    int
	full    bool
}

// put appends records and reports whether fetching is to be paused.
func (q *queue) put(records []*kgo.Record) (pause bool) {
	q.mu.Lock()
	// In a backlog the queue is never empty: the places before its head are used again when they are half
	// of it, which moves each record once on average.
	if q.head > 0 && q.head >= len(q.records)-q.head {
		n := copy(q.records, q.records[q.head:])
		clear(q.records[n:])
		q.records, q.head = q.records[:n], 0
	}
	q.records = append(q.records, records...)
	if len(q.records)-q.head >= q.limit && !q.full {
		q.full, pause = true, true
	}
	q.mu.Unlock()
	q.poke()
	return pause
}

// poke has the worker look, whether there is a record or not.
func (q *queue) poke() {
	select {
	case q.arrived <- struct{}{}:
	default:
	}
}

// peek returns the oldest record and leaves it in place.
func (q *queue) peek() (*kgo.Record, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.head == len(q.records) {
		return nil, false
	}
	return q.records[q.head], true
}

// from returns the records from place i on, counted from the oldest, up to place n.
func (q *queue) from(i, n int) []*kgo.Record {
	q.mu.Lock()
	defer q.mu.Unlock()
	n = min(n, len(q.records)-q.head)
	if i >= n {
		return nil
	}
	return append([]*kgo.Record(nil), q.records[q.head+i:q.head+n]...)
}

// pop removes the oldest record and reports whether fetching is to go on.
func (q *queue) pop() (resume bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.records[q.head] = nil
	q.head++
	if q.full && len(q.records)-q.head <= q.limit/2 {
		q.full, resume = false, true
	}
	return resume
}
