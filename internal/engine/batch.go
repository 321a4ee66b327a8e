package engine

import (
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/stream"
)

// Batch is what goes into one transaction: encoded bytes, never live state, so that it can be sent
// again unchanged. It must not be changed.
type Batch struct {
	Next        int64 // the offset to commit
	LeaderEpoch int32 // a leader epoch whose log reaches up to Next: as a rule that of the record before; -1 if unknown
	// Folded is the next offset to fold, and FoldedEpoch the leader epoch of the record before it. It is above
	// Next where a hold keeps that back: snapshots, of this batch and others, may have records from there applied.
	Folded      int64
	FoldedEpoch int32
	// Outputs are what the steps since the batch before have emitted, and the dead letters of records
	// among them, in the order of the records. They come with Whole only.
	Outputs []Output
	Writes  []Write
	Dropped [][]byte // keys from before a rebuild, whose tombstones are written
	Bytes   int64    // of all writes and tombstones, with their overhead
	Size    int64    // of these and of all outputs
	Full    bool     // more was due than had room: close another batch as soon as this one is done

	passed       int   // of Engine.dropped
	closedBefore int64 // when the batch before this one was closed, in case this one is aborted
	steps        int   // with Whole: how many steps it has that have left something
}

// OutputTopics returns the topics of its outputs, each once.
func (b *Batch) OutputTopics() (topics []string) {
	for _, o := range b.Outputs {
		if !slices.Contains(topics, o.Message.Topic) {
			topics = append(topics, o.Message.Topic)
		}
	}
	return topics
}

// Write is one snapshot record.
type Write struct {
	Key       []byte
	Value     []byte // nil for a tombstone only
	Applied   int64
	Steps     uint64
	Deleted   bool // the key was deleted at Applied
	NoState   bool // the key exists but has no state
	Tombstone bool // the key is gone
}

// Output is one record for an output or dead-letter topic.
type Output struct {
	Message stream.Message
	Offset  int64 // of the input record that it came from
	Epoch   int32 // leader epoch of that record
}

// Rejected is the error of a batch that cannot be committed as a whole: the step of a record from From
// to Offset, the last one that touched what cannot be written, is at fault. They are the same for an
// output. If they are not, Key is the one whose steps are to be committed one by one (Singly), to find
// the record. The memory of the partition is ahead of what can be committed, and must be dropped.
type Rejected struct {
	From, Offset int64
	Key          []byte // of the state that cannot be written; nil: it is an output
	Err          error
}

func (r *Rejected) Error() string { return r.Err.Error() }

// Unwrap returns why it cannot be written.
func (r *Rejected) Unwrap() error { return r.Err }

// flown is what the engine keeps about a write in flight, to put its key back if it is aborted.
type flown[S any] struct {
	entry     *entry[S]
	from      *queue[S]
	rank, tie int64
}

// Due returns when Close will have something to do. ok is false if there is nothing to wait for:
// nothing is dirty and the offset has not moved, or a batch is in flight.
func (e *Engine[S]) Due() (at time.Time, ok bool) {
	if e.batch != nil || !e.started {
		return time.Time{}, false
	}
	rank, ok := e.commitAt()
	if x := e.due.top(); x != nil && !e.cfg.Whole && (!ok || x.rank < rank) {
		rank, ok = x.rank, true
	}
	if !ok {
		return time.Time{}, false
	}
	return e.base.Add(time.Duration(rank)), true
}

// commitAt returns when a batch is to be closed though no key is due.
func (e *Engine[S]) commitAt() (at int64, ok bool) {
	at = e.closedAt + int64(e.cfg.CommitInterval)
	if len(e.dropped) > 0 {
		return e.closedAt, true
	}
	if e.cfg.Whole {
		if e.hurried || e.Full() {
			at = e.closedAt
		}
		return at, e.next > e.committed || len(e.ready.items) > 0
	}
	next, _ := e.committable()
	return at, next > e.committed || len(e.ready.items) > 0
}

// Full reports whether the batch that would be closed next has reached a bound. With Whole no record
// is to be folded then before it is closed.
func (e *Engine[S]) Full() bool {
	c := &e.cfg
	return c.Whole && (e.alone || c.MaxWrites > 0 && len(e.outputs)+len(e.due.items) >= c.MaxWrites ||
		e.maxBytes() > 0 && e.wholeBytes >= e.maxBytes())
}

// maxBytes is the bound of a batch: MaxBytes, or what Bound has set below it. 0: none.
func (e *Engine[S]) maxBytes() int64 {
	if e.bound > 0 && (e.cfg.MaxBytes <= 0 || e.bound < e.cfg.MaxBytes) {
		return e.bound
	}
	return e.cfg.MaxBytes
}

// committable returns the least hold that the batch in flight does not clear, else the next offset
// to fold, with the leader epoch of the record before it.
func (e *Engine[S]) committable() (offset int64, epoch int32) {
	if h := e.holds.least(); h != nil && !e.cfg.NoHolds {
		return h.offset, h.epochBefore
	}
	return e.next, e.epoch
}

// Close builds a batch of the keys that are due, oldest first, and of tombstones as far as there is
// room. It returns nil if there is nothing to commit. drain makes every dirty key due, but for those
// that were refused and whose pause has not passed. No batch may
// be in flight. After an error nothing has changed: the error names a key whose snapshot cannot be
// written (stream.ErrTooLarge, stream.ErrEncode), and the partition must stop; with Whole it is a
// *Rejected.
func (e *Engine[S]) Close(now time.Time, drain bool) (*Batch, error) {
	if !e.started || e.batch != nil {
		violated(OneBatch, "Close before Start or with a batch in flight")
	}
	ns := e.at(now)
	if !e.wanted(ns, drain) || e.spoiled {
		return nil, nil
	}
	b := &Batch{closedBefore: e.closedAt}
	if err := e.fill(b, ns, drain); err != nil {
		return nil, err
	}
	e.depart()
	b.Next, b.LeaderEpoch = e.committable()
	b.Folded, b.FoldedEpoch = e.next, e.epoch
	if b.Next < e.committed {
		violated(CommittedRises, "batch at %d, committed %d", b.Next, e.committed)
	}
	if e.cfg.Whole {
		if b.Next != e.next {
			violated(WholeBatches, "batch at %d, folded up to %d", b.Next, e.next)
		}
		e.takeOutputs(b)
	}
	if len(b.Writes) > 0 {
		e.meanWrite = b.Bytes / int64(len(b.Writes))
	}
	if !drain { // that has little time: the next owner finds them
		e.drop(b)
	}
	b.Size += b.Bytes
	if len(b.Writes) == 0 && len(b.Dropped) == 0 && b.Next == e.committed {
		return nil, nil
	}
	e.batch, e.closedAt = b, ns
	return b, nil
}

// Kept returns, and forgets, why keys could not be written that stay dirty for it (KeepDirty): one
// error for each try since the last call, with the key. Call it after Close and after Refused.
func (e *Engine[S]) Kept() []error {
	kept := e.kept
	e.kept = nil
	return kept
}

// wanted reports whether there is reason for a batch. Tombstones alone are none for a drain, which
// has little time: the next owner writes them.
func (e *Engine[S]) wanted(now int64, drain bool) bool {
	if top := e.due.top(); top != nil && (drain || top.rank <= now && !e.cfg.Whole) {
		return true
	}
	if next, _ := e.committable(); drain && (next > e.committed || e.cfg.Whole && e.next > e.committed) {
		return true
	}
	at, ok := e.commitAt()
	return ok && at <= now
}

// fill encodes what goes into b and takes it out of the queues. If it fails it puts all back.
func (e *Engine[S]) fill(b *Batch, now int64, drain bool) error {
	drain = drain || e.cfg.Whole
	maxWrites, maxBytes := e.cfg.MaxWrites, e.maxBytes()
	if e.cfg.Whole {
		maxWrites, maxBytes = 0, 0 // states are never split
	}
	if len(e.dropped) > 0 {
		maxWrites, maxBytes = maxWrites-maxWrites/4, maxBytes-maxBytes/4
	}
	due := func(x *entry[S]) bool { return x.rank <= now || drain && x.in == &e.due }
	var later, waiting []*entry[S]
	defer func() {
		for _, x := range waiting {
			e.due.push(x, x.rank, x.tie)
		}
	}()
	e.flying = e.flying[:0]
	for {
		x := e.pick(now, drain)
		if x == nil {
			break
		}
		if x.in == &e.due && x.backsOff(now) {
			x.in.remove(x)
			waiting = append(waiting, x)
			continue
		}
		if maxWrites > 0 && len(b.Writes) == maxWrites {
			b.Full = due(x)
			break
		}
		w, err := e.encode(x)
		if err != nil && !e.cfg.KeepDirty {
			for _, f := range e.flying {
				f.from.push(f.entry, f.rank, f.tie)
			}
			e.flying = e.flying[:0]
			return err
		}
		if err != nil {
			e.kept = append(e.kept, err)
			x.in.remove(x)
			later = append(later, x)
			continue
		}
		size := int64(recordBytes(w))
		if maxBytes > 0 && len(b.Writes) > 0 && b.Bytes+size > maxBytes {
			b.Full = due(x)
			break
		}
		b.Bytes += size
		b.Writes = append(b.Writes, w)
		e.flying = append(e.flying, flown[S]{entry: x, from: x.in, rank: x.rank, tie: x.tie})
		x.in.remove(x)
	}
	e.requeue(later, now)
	return nil
}

// pick returns the key that goes into the batch next: the one that was due first, whether it waits
// for its snapshot or for its tombstone. Tombstones that are not due ride along after all due keys;
// in a drain all do.
func (e *Engine[S]) pick(now int64, drain bool) *entry[S] {
	due, ready := e.due.top(), e.ready.top()
	switch {
	case due == nil || (!drain && due.rank > now):
		return ready
	case ready == nil || drain || due.rank <= ready.rank:
		return due
	}
	return ready
}

// requeue puts keys that could not be written back among the dirty ones, with a back-off.
func (e *Engine[S]) requeue(xs []*entry[S], now int64) {
	for _, x := range xs {
		e.due.push(x, now+int64(x.backoff()), x.applied)
	}
}

// backsOff reports whether x was refused and its pause has not passed. A drain does not cut that
// pause short, or it would not end: it goes on until there is nothing left that it can write.
func (x *entry[S]) backsOff(now int64) bool { return x.refused > 0 && x.rank > now }

// backoff returns the pause before the next try, and makes the one after it longer.
func (x *entry[S]) backoff() time.Duration {
	d := min(backoffMin<<min(x.refused, 6), backoffMax)
	x.refused = min(x.refused+1, 7)
	return d
}

func recordBytes(w Write) int { return len(w.Key) + len(w.Value) + RecordOverheadBytes }

// encode turns the state of x into a write. The bytes of one batch share memory with nothing else.
func (e *Engine[S]) encode(x *entry[S]) (Write, error) {
	w := Write{Applied: x.applied, Steps: x.steps}
	w.Key = e.room(len(x.key))
	copy(w.Key, x.key)
	switch {
	case x.in == &e.ready:
		if !x.deleted || x.flying || x.fresh != nil || x.persisted != x.applied || x.applied >= e.committed {
			violated(TombstoneClean, "tombstone for a key at %d, persisted %d, committed %d", x.applied, x.persisted, e.committed)
		}
		w.Tombstone = true
	case x.deleted && (e.cfg.NoTwoWriteDelete || e.cfg.Whole): // with Whole the offset passes N in the same batch
		w.Tombstone = true
	case x.deleted, !x.has:
		w.Deleted, w.NoState, w.Value = x.deleted, !x.deleted, []byte{}
	default:
		var err error
		if w.Value, err = e.encodeState(x.state); err != nil {
			return w, e.unwritable(x, fmt.Errorf("%w: %w", stream.ErrEncode, err),
				"mend the codec, or the fold that built the state")
		}
	}
	if w.Applied < x.persisted {
		violated(AppliedRises, "write at %d, persisted %d", w.Applied, x.persisted)
	}
	if size, limit := recordBytes(w), e.cfg.MaxRecordBytes; limit > 0 && size > limit {
		return w, e.unwritable(x, fmt.Errorf("%w: %d bytes with overhead, the limit is %d", stream.ErrTooLarge, size, limit),
			"make the state smaller, or raise max.message.bytes of the snapshot topic")
	}
	return w, nil
}

func (e *Engine[S]) unwritable(x *entry[S], err error, hint string) error {
	out := stream.NewError("persist", err).At(e.cfg.Partition, x.applied)
	out.Key = []byte(x.key)
	out.Hinted("%s", hint)
	if e.cfg.Whole {
		return &Rejected{From: x.fresh.from(x.applied), Offset: x.applied, Key: out.Key, Err: out}
	}
	return out
}

// arenaBytes is the size of the pieces that small snapshots are encoded into.
const arenaBytes = 32 << 10

// room returns n bytes that nothing else uses. None are not nil: an empty key is a key, and nil is none.
func (e *Engine[S]) room(n int) []byte {
	if e.arena == nil || cap(e.arena)-len(e.arena) < n {
		e.arena = make([]byte, 0, max(arenaBytes, n))
	}
	used := len(e.arena)
	e.arena = e.arena[:used+n]
	return e.arena[used : used+n : used+n]
}

// encodeState lets the codec append to spare room. A result that did not fit, or that the codec
// made elsewhere, is taken as it is.
func (e *Engine[S]) encodeState(s S) ([]byte, error) {
	used := len(e.arena)
	spare := e.arena[used:used:cap(e.arena)]
	out, err := e.encodeInto(spare, s)
	if err != nil {
		return nil, err
	}
	if len(out) == 0 {
		return []byte{}, nil // not nil: that would be a tombstone
	}
	if cap(spare) > 0 && &out[0] == &spare[:1][0] {
		e.arena = e.arena[:used+len(out)]
	}
	return out[:len(out):len(out)], nil
}

// encodeInto calls the codec.
func (e *Engine[S]) encodeInto(dst []byte, s S) (out []byte, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = panicked(v)
		}
	}()
	return e.cfg.Encode(dst, s)
}

// depart marks the keys of the batch as in flight.
func (e *Engine[S]) depart() {
	for _, f := range e.flying {
		x := f.entry
		x.flying = true
		if x.flight, x.fresh = x.fresh, nil; x.flight != nil {
			x.flight.cleared = true
		}
	}
}
