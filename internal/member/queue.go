package member

import (
	"sync"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/holdfast-go/holdfast/internal/intake"
)

// queue holds fetched records of one ownership until they are folded. The polling goroutine fills
// it and never waits: above a limit it pauses fetching. The worker empties it.
//
// Records come in chunks, each with bytes of its own (see chunkOf). A chunk is in memory as long as one of its records
// is in the queue, and so long it is counted in the budget.
type queue struct {
	limit   int
	budget  *intake.Budget // nil: nothing is counted
	arrived chan struct{}  // has one element if there may be a record

	mu      sync.Mutex
	records []*kgo.Record
	head    int
	chunks  []chunk // that the records are of, the oldest first
	bytes   int64   // of all chunks
	room    int64   // in bytes, when the last one came
	full    bool
	closed  bool
}

// chunk is what one fetch has brought of a partition.
type chunk struct {
	records int // that are still in the queue
	cost    int64
}

// put appends records and reports whether fetching is to be paused. room is how many bytes the queue may hold;
// it takes whatever comes, and pauses fetching then.
func (q *queue) put(records []*kgo.Record, room int64) (pause bool) {
	q.mu.Lock()
	if q.closed {
		q.mu.Unlock()
		return true
	}
	// In a backlog the queue is never empty: the places before its head are used again when they are half
	// of it, which moves each record once on average.
	if q.head > 0 && q.head >= len(q.records)-q.head {
		n := copy(q.records, q.records[q.head:])
		clear(q.records[n:])
		q.records, q.head = q.records[:n], 0
	}
	q.records = append(q.records, records...)
	q.count(records)
	q.room = room
	if (len(q.records)-q.head >= q.limit || q.bytes > room) && !q.full {
		q.full, pause = true, true
	}
	q.mu.Unlock()
	q.poke()
	return pause
}

// count is called with the lock held.
func (q *queue) count(records []*kgo.Record) {
	if q.budget == nil || len(records) == 0 {
		return
	}
	c := chunk{records: len(records)}
	for _, r := range records {
		c.cost += intake.Cost(r)
	}
	q.chunks = append(q.chunks, c)
	q.bytes += c.cost
	q.budget.Hold(c.cost)
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
	if len(q.chunks) > 0 {
		if q.chunks[0].records--; q.chunks[0].records == 0 {
			q.bytes -= q.chunks[0].cost
			q.budget.Release(q.chunks[0].cost)
			q.chunks = q.chunks[1:]
		}
	}
	if q.full && len(q.records)-q.head <= q.limit/2 && q.bytes <= q.room/2 {
		q.full, resume = false, true
	}
	return resume
}

// close drops what is queued, once nobody folds any more. What comes later is not kept.
func (q *queue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return
	}
	q.closed = true
	if q.budget != nil {
		q.budget.Release(q.bytes)
	}
	q.records, q.head, q.chunks, q.bytes = nil, 0, nil, 0
}
