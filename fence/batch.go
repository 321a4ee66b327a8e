package fence

import (
	"time"

	"github.com/holdfast-go/holdfast/stream"
)

// batch is what goes into one transaction: the calls that share it and the offset.
type batch struct {
	waiters  []*waiter
	next     Offset
	witness  witness
	most     int  // records that are sent at once, 0: all. The topic takes each of them, but not all in one batch
	doubt    bool // the outcome of an attempt is unknown and must be read back
	readBack bool // the outcome was unknown once
	attempts int
	began    time.Time
	begun    time.Time // when the transaction of the last attempt did
	wrote    time.Time // when all of its records were acknowledged; zero: not yet
	ranOut   error     // why the last attempt did not commit, if its time ran out and its outcome is to be read back first
	bytes    int64     // of all records
	token    Token     // of the last attempt
}

// drain takes the next batch off the queue: from the front, up to MaxWrites records and MaxBytes, or what was
// learned to fit into one transaction, but one call at least. A call without records counts as nothing. It never looks past a call that
// does not fit, so that an offset never overtakes the records that were queued before it. It returns
// nil if there is nothing to do.
func (w *Writer) drain() *batch {
	w.mu.Lock()
	defer w.mu.Unlock()
	b := &batch{next: w.last, began: time.Now()}
	records, size, most := 0, int64(0), w.pace.Limit(w.c.MaxBytes)
	for len(w.queue) > 0 {
		q := w.queue[0]
		full := records+len(q.messages) > w.c.MaxWrites || size+q.bytes > most
		if full && records > 0 && len(q.messages) > 0 {
			break
		}
		w.queue = w.queue[1:]
		if q.offset != nil {
			b.next = *q.offset
		}
		if b.next.Next < 0 { // the Commit that this one stood behind has failed or was withdrawn
			q.done <- stream.NewError("write", stream.ErrNoOffset).At(w.c.Input, -1)
			continue
		}
		records += len(q.messages)
		size += q.bytes
		b.waiters = append(b.waiters, q)
	}
	if len(b.waiters) == 0 {
		return nil
	}
	w.flying, b.bytes = &b.next, size
	b.witness = witness{w.own.nonce, w.sequence + 1}
	return b
}

// messages returns the records of b in the order of the calls.
func (b *batch) messages() []stream.Message {
	n := 1 // the progress record, which the caller adds
	for _, q := range b.waiters {
		n += len(q.messages)
	}
	ms := make([]stream.Message, 0, n)
	for _, q := range b.waiters {
		ms = append(ms, q.messages...)
	}
	return ms
}

// count notes how much of b is for the progress partition and how much for other topics.
func (b *batch) count(event *stream.Committed) {
	for _, q := range b.waiters {
		for i := range q.messages {
			if m := &q.messages[i]; m.Topic == "" {
				event.Writes++
				event.Bytes += m.BatchBytes()
			} else {
				event.Outputs++
				event.OutputBytes += m.BatchBytes()
			}
		}
	}
}

// owner returns the call and the index in it of the i-th record of b.
func (b *batch) owner(i int) (*waiter, int) {
	for _, q := range b.waiters {
		if i < len(q.messages) {
			return q, i
		}
		i -= len(q.messages)
	}
	return nil, -1
}

// answer tells every waiter the outcome.
func (b *batch) answer(err error) {
	for _, q := range b.waiters {
		q.done <- err
	}
	b.waiters = nil
}

// withoutLocked takes refused out of b and answers it with err. If it carried an offset, the calls
// behind it that carry one go out as well, from b and from the queue. The offset of b, which other
// goroutines read as the floor, changes in one step:
//
//  1. b has Commit(10), and a write that is refused; 5 is committed.
//  2. The offset of b is set back to 5, to be computed again.
//  3. Commit(7) sees the floor 5 and is queued.
//  4. b commits 10, and the committed offset would fall to 7.
func (w *Writer) withoutLocked(b *batch, refused *waiter, err error) {
	kept, behind := b.waiters[:0:0], false
	next := w.last
	for _, q := range b.waiters {
		switch {
		case q == refused:
			behind = q.offset != nil
			q.done <- err
		case behind && q.offset != nil:
			q.done <- w.behind(*q.offset, err)
		default:
			if q.offset != nil {
				next = *q.offset
			}
			kept = append(kept, q)
		}
	}
	if behind {
		w.refuseBehindLocked(0, err)
	}
	b.waiters, b.next = kept, next
	if next.Next < 0 {
		b.answer(stream.NewError("write", stream.ErrNoOffset).At(w.c.Input, -1))
	}
}

// failed answers every waiter of b with err. The calls that were queued behind an offset of b fail
// with it.
func (w *Writer) failed(b *batch, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, q := range b.waiters {
		if q.offset != nil {
			w.refuseBehindLocked(0, err)
			break
		}
	}
	b.answer(err)
}
