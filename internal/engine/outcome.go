package engine

import (
	"errors"
	"time"

	"github.com/holdfast-go/holdfast/stream"
)

func (e *Engine[S]) inFlight(b *Batch) {
	if b == nil || b != e.batch {
		violated(OneBatch, "the outcome of a batch that is not in flight")
	}
}

// Committed tells that b is known to be committed.
//
// # Deletes
//
// The deletion D(N) of a key, "deleted at N", is written first and replaced by a tombstone only
// after the committed offset is known to be past N. A tombstone at once would lose data:
//
//  1. Another key holds offset h < N, and K is folded at a < h and deleted at N.
//  2. The tombstone is committed together with the offset h.
//  3. Crash. The next owner finds no K, and replays from h: N, which deleted K, is folded into a
//     key without a state, and so is every record of K between h and N. Where the fold
//     counts down to zero and deletes, K comes back with -1.
//
// With D(N) restored, the replay skips K up to N.
//
// A key that was never persisted is treated the same, although nothing of it is in the log. To drop
// it together with its hold is the same mistake without a tombstone:
//
//  1. Another key holds h. K is created at a < h, never persisted, and deleted at N > h.
//  2. K is forgotten, and its hold at a with it. The offset h is committed.
//  3. Crash. The replay from h does not see a, and folds N into a key without a state.
//
// So the hold at a may go only when the offset N + 1 is committed, or when D(N) is persisted. The
// first needs holds that depend on other holds. D(N) is one small write and needs nothing else.
func (e *Engine[S]) Committed(now time.Time, b *Batch) {
	e.inFlight(b)
	if b.Next < e.committed {
		violated(CommittedRises, "committed %d, was %d", b.Next, e.committed)
	}
	for i, f := range e.flying {
		e.land(f.entry, b.Writes[i])
	}
	e.committed = b.Next
	e.dropped = e.dropped[b.passed:]
	e.settle()
	e.exhume(e.at(now))
}

// land takes note that w, the newest write of x, is committed.
func (e *Engine[S]) land(x *entry[S], w Write) {
	x.flying, x.refused = false, 0
	if x.flight != nil {
		e.holds.remove(x.flight)
		x.flight = nil
	}
	if w.Applied < x.persisted {
		violated(AppliedRises, "committed a write at %d, persisted %d", w.Applied, x.persisted)
	}
	// Steps tell whether the key was folded while the write was in flight.
	unchanged := x.steps == w.Steps
	switch {
	case w.Tombstone && unchanged:
		e.forget(x)
		return
	case w.Tombstone:
		x.persisted = -1
	default:
		x.persisted = w.Applied
	}
	e.resize(x, len(w.Key)+len(w.Value))
	if w.Deleted && unchanged {
		e.graves.push(x, x.applied, 0)
	}
}

// exhume moves the deletions that the committed offset has passed to where Close finds them.
func (e *Engine[S]) exhume(now int64) {
	for x := e.graves.top(); x != nil && x.applied < e.committed; x = e.graves.top() {
		e.graves.remove(x)
		e.ready.push(x, now+int64(e.cfg.CommitInterval), x.applied)
	}
}

// settle ends the flight.
func (e *Engine[S]) settle() {
	clear(e.flying)
	e.batch, e.flying = nil, e.flying[:0]
}

// Aborted tells that b is known not to be committed and will not be sent again as it is. Its keys
// are due as they were before Close, and what they hold is held again.
func (e *Engine[S]) Aborted(now time.Time, b *Batch) {
	e.inFlight(b)
	for _, f := range e.flying {
		e.bounce(f, f.rank)
	}
	e.outputs = append(b.Outputs[:len(b.Outputs):len(b.Outputs)], e.outputs...)
	e.wholeBytes, e.wholeSteps = e.wholeBytes+b.Size, e.wholeSteps+b.steps
	e.closedAt = b.closedBefore
	e.settle()
}

// bounce puts one key of the batch back as it was, due at rank.
func (e *Engine[S]) bounce(f flown[S], rank int64) {
	x := f.entry
	x.flying = false
	if x.flight != nil {
		// The older hold covers what the fresh one does.
		if x.fresh != nil {
			e.holds.remove(x.fresh)
		}
		x.fresh, x.flight = x.flight, nil
		x.fresh.cleared = false
	}
	switch {
	case x.tainted: // what the batch had of it is lost, and with Whole nothing may be committed without it
		e.spoiled = e.cfg.Whole
	case x.in == &e.due:
		if f.from == &e.due {
			e.due.move(x, rank)
		}
	default:
		f.from.push(x, rank, f.tie)
	}
}

// hintRefused is the next step after a record that was refused, by its cause.
func hintRefused(err error) string {
	switch {
	case errors.Is(err, stream.ErrTooLarge):
		return "make the state smaller, or raise max.message.bytes of the snapshot topic"
	case errors.Is(err, stream.ErrEncode):
		return "report this as a bug, with the text of the error: the state is well, and its record could not be made"
	}
	return "mend what the broker's error names"
}

// Refused tells that record i of b was refused for what it is, counted over its outputs, then its
// writes and then its tombstones, and that b was aborted. With Whole the error is a *Rejected and no step is possible any more.
// Without
// KeepDirty it returns err, with the key, and the partition must stop. With it the key stays dirty
// and is due after a back-off, and the rest of b, with the offset computed again, is the batch that
// is in flight; nil if nothing is left to commit.
func (e *Engine[S]) Refused(now time.Time, b *Batch, i int, err error) (*Batch, error) {
	e.inFlight(b)
	if i >= len(b.Outputs)+len(b.Writes) {
		e.Aborted(now, b)
		return nil, e.undropped(b.Dropped[i-len(b.Outputs)-len(b.Writes)], err)
	}
	if e.cfg.Whole {
		r := &Rejected{From: b.origin(i), Offset: b.origin(i), Err: err}
		if w := i - len(b.Outputs); w >= 0 {
			r.From, r.Key = e.flying[w].entry.flight.from(r.Offset), b.Writes[w].Key
		}
		e.Aborted(now, b)
		e.tainted, e.spoiled = true, true
		return nil, r
	}
	f := e.flying[i]
	if !e.cfg.KeepDirty {
		e.Aborted(now, b)
		return nil, e.unwritable(f.entry, err, hintRefused(err))
	}
	e.kept = append(e.kept, e.unwritable(f.entry, err, hintRefused(err)))
	rest := &Batch{Next: b.Next, LeaderEpoch: b.LeaderEpoch, Folded: b.Folded, FoldedEpoch: b.FoldedEpoch, Full: b.Full, Dropped: b.Dropped, passed: b.passed, closedBefore: b.closedBefore}
	rest.Bytes = b.Bytes - int64(recordBytes(b.Writes[i]))
	rest.Size = rest.Bytes
	rest.Writes = append(append(make([]Write, 0, len(b.Writes)-1), b.Writes[:i]...), b.Writes[i+1:]...)
	e.flying = append(e.flying[:i], e.flying[i+1:]...)

	e.bounce(f, e.at(now)+int64(f.entry.backoff()))
	// What was folded since Close may allow a higher offset, but its outputs were not waited for
	// when the batch was closed: the offset can only fall here, to the hold that has come back.
	if h := f.entry.fresh; h != nil && h.offset < rest.Next && !e.cfg.NoHolds {
		rest.Next, rest.LeaderEpoch = h.offset, h.epochBefore
	}
	if rest.Next < e.committed {
		violated(CommittedRises, "batch at %d, committed %d", rest.Next, e.committed)
	}
	e.batch = rest
	if len(rest.Writes) == 0 && len(rest.Dropped) == 0 && rest.Next == e.committed {
		e.settle()
		return nil, nil
	}
	return rest, nil
}

// origin is the offset of the input record that record i of b came from.
func (b *Batch) origin(i int) int64 {
	if i < len(b.Outputs) {
		return b.Outputs[i].Offset
	}
	return b.Writes[i-len(b.Outputs)].Applied
}

// Next returns the next offset to fold.
func (e *Engine[S]) Next() int64 { return e.next }

// CommittedOffset returns the known committed offset, -1 if there is none.
func (e *Engine[S]) CommittedOffset() int64 { return e.committed }

// Stats is a count of what the engine has in memory.
type Stats struct {
	Keys       int   // keys, without the deleted ones
	Deleted    int   // keys remembered as deleted
	Dirty      int   // keys with something that no batch has
	InFlight   int   // writes in flight
	Holds      int   // holds, at most two a key
	OldestHold int64 // offset of the oldest hold, -1 none
	Bytes      int64 // keys and their states as last encoded
}

// Stats returns the counts. It costs the same however many keys there are.
func (e *Engine[S]) Stats() Stats {
	s := Stats{
		Keys: len(e.keys) - e.dead, Deleted: e.dead, Dirty: len(e.due.items), InFlight: len(e.flying),
		Holds: e.holds.len, OldestHold: -1, Bytes: e.bytes,
	}
	if h := e.holds.front; h != nil {
		s.OldestHold = h.offset
	}
	return s
}

// View is one key as the engine has it in memory.
type View[S any] struct {
	Key       string
	State     S
	Has       bool  // the key has a state
	Deleted   bool  // the key was deleted at Applied
	Applied   int64 // last offset folded into it
	Persisted int64 // applied offset of its newest committed snapshot, -1 none
	Steps     uint64
}

// Clean reports whether the newest committed snapshot is what View shows.
func (v View[S]) Clean() bool { return v.Persisted == v.Applied }

func (x *entry[S]) view() View[S] {
	return View[S]{
		Key: x.key, State: x.state, Has: x.has, Deleted: x.deleted,
		Applied: x.applied, Persisted: x.persisted, Steps: x.steps,
	}
}

// Get returns a key. ok is false if the engine does not know it. A key that is known may be deleted.
func (e *Engine[S]) Get(key []byte) (v View[S], ok bool) {
	x := e.keys[string(key)]
	if x == nil {
		return v, false
	}
	return x.view(), true
}

// All calls yield for each known key, deleted ones included, in no order.
func (e *Engine[S]) All(yield func(View[S]) bool) {
	for _, x := range e.keys {
		if !yield(x.view()) {
			return
		}
	}
}
