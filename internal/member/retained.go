package member

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/internal/rule"
	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/stream"
)

// retained is the memory of one partition between two ownerships of this member. While it is kept
// nobody touches the engine: the worker of the ownership before has handed it over by the closing of
// its done channel, and the worker of the one to come takes it at the grant.
type retained struct {
	engine      Engine
	incarnation uint32
	last        fence.LastCommit // what is in memory is what this commit made
	since       time.Time
	bytes       int64
}

// keyBytes is what the engine is taken to need for a key beside key and state.
const keyBytes = 256

// retention holds what is retained. It is safe for concurrent use.
type retention struct {
	limit   int64 // bytes of all partitions together, as in retained; under 0: nothing is kept
	age     time.Duration
	changed chan struct{} // has one element if the next expiry may be another

	mu    sync.Mutex
	kept  map[stream.Partition]*retained
	bytes int64
	ended bool
}

func newRetention(limit int64, age time.Duration) *retention {
	return &retention{limit: limit, age: age, changed: make(chan struct{}, 1), kept: map[stream.Partition]*retained{}}
}

func (t *retention) off() bool { return t.limit < 0 || t.age < 0 }

// put keeps r, and drops what was kept first as far as the bound asks for it. It reports whether r is
// kept, and for which partitions memory was dropped.
func (t *retention) put(p stream.Partition, r *retained) (ok bool, dropped []stream.Partition) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ended || t.off() || r.bytes > t.limit || time.Since(r.since) >= t.age {
		return false, nil
	}
	t.removeLocked(p)
	for t.bytes+r.bytes > t.limit {
		oldest, _ := t.oldestLocked()
		t.removeLocked(oldest)
		dropped = append(dropped, oldest)
	}
	t.kept[p] = r
	t.bytes += r.bytes
	select {
	case t.changed <- struct{}{}:
	default:
	}
	return true, dropped
}

// take returns what is kept of a partition, nil if that is nothing, and keeps it no longer.
func (t *retention) take(p stream.Partition) *retained {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.removeLocked(p)
}

func (t *retention) removeLocked(p stream.Partition) *retained {
	r := t.kept[p]
	if r != nil {
		delete(t.kept, p)
		t.bytes -= r.bytes
	}
	return r
}

func (t *retention) oldestLocked() (oldest stream.Partition, r *retained) {
	for p, k := range t.kept {
		if r == nil || k.since.Before(r.since) {
			oldest, r = p, k
		}
	}
	return oldest, r
}

// expire drops what is too old, and returns how long it is until something will be, at most an hour.
func (t *retention) expire(now time.Time) (dropped []stream.Partition, next time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for {
		p, r := t.oldestLocked()
		if r == nil {
			return dropped, time.Hour
		}
		if left := r.since.Add(t.age).Sub(now); left > 0 {
			return dropped, left
		}
		t.removeLocked(p)
		dropped = append(dropped, p)
	}
}

// end drops everything and keeps nothing from here on.
func (t *retention) end() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ended, t.bytes = true, 0
	clear(t.kept)
}

// expireRetained drops what is retained for too long, until ctx ends.
func (m *Member) expireRetained(ctx context.Context) {
	defer m.retention.end()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
		case <-m.retention.changed:
		case <-ctx.Done():
			return
		}
		dropped, next := m.retention.expire(time.Now())
		for _, p := range dropped {
			m.log.Info("retained state is dropped", "partition", p.String(), "cause", "the partition did not come back in time")
		}
		timer.Reset(next)
	}
}

// retain keeps the memory of a partition whose ownership ends in a plain revoke, with everything that
// was folded known to be committed. It is called by the worker, as the last thing it does with its
// engine, and before it says that it has drained. Nothing is kept after any other end: a lost
// ownership, an outcome in doubt, a step that failed for good or tainted a state, a stop of the member.
//
// Unfenced has no LastCommit: its progress records carry no nonce, by which one's own could be told from a
// stale owner's. A pipe has no state.
func (w *worker) retain() {
	if w.m.retention.off() || w.m.cfg.Map != nil || w.m.ending.Load() || w.m.failed() != nil || w.doubt.Load() {
		return
	}
	r := w.kept
	w.kept = nil
	if r == nil { // else the revoke came before it was looked at, and nothing was written since
		if !w.flushed.Load() || w.engine == nil || w.restored.IsZero() {
			return
		}
		last, ok := w.store.LastCommit(w.ctx)
		if !ok || last.Next != w.engine.CommittedOffset() || !w.engine.Retain() {
			return
		}
		stats := w.engine.Stats()
		r = &retained{
			engine: w.engine, incarnation: w.incarnation, last: last, since: time.Now(),
			bytes: stats.Bytes + keyBytes*int64(stats.Keys+stats.Deleted),
		}
	}
	ok, dropped := w.m.retention.put(w.own.Partition(), r)
	for _, p := range dropped {
		w.m.log.Info("retained state is dropped", "partition", p.String(), "cause", "newer ones take its room")
	}
	if !ok {
		w.log.Info("state is not retained", "bytes", r.bytes, "limit", w.m.retention.limit)
		return
	}
	w.log.Info("state is retained", "bytes", r.bytes, "next", r.last.Next)
}

// resume goes on with what was retained, if there is something and it is unchanged. ok is false if the
// partition has to be restored.
func (w *worker) resume(ctx context.Context) (start int64, ok bool, err error) {
	r := w.kept
	if r == nil {
		return 0, false, nil
	}
	f, ok, err := w.unchanged(ctx, r)
	if err != nil {
		return 0, false, err
	}
	w.kept = nil // used or not, it is nobody's to keep any more
	if !ok {
		return 0, false, nil
	}
	w.engine, w.incarnation = r.engine, r.incarnation
	return w.committed.Next, true, w.ready(f, w.committed.Next)
}

// unchanged decides whether what was retained is what a restore would give, after the takeover and with
// one fetch. ok is false if it is not; the memory is dropped then, and Kafka is read. An error says that
// the ownership ends while the question is open.
//
// It holds because three things are compared that nobody can make equal again after a commit:
//
// Another owner was there and has committed:
//  1. We are revoked at offset 100, commit 7 of nonce a. Another owner takes over and commits.
//  2. It is revoked, the partition comes back, and we take over.
//  3. The committed offset is commit 1 of nonce b, even if it is 100 again: dropped.
//
// Another owner was there, and its transaction was aborted:
//  1. Revoked as above. The other one writes snapshots, and is killed before it ends the transaction.
//  2. We take over, which aborts that. Offset and newest committed progress record are ours.
//  3. Its records are in the log, and our progress record is not followed by our marker and the end:
//     dropped. A restore would have found the same states, but only a restore can tell that.
//
// The log was truncated by an unclean election, and has grown again:
//  1. Our commit is in offsets 40 to 50, the marker in 51. The log falls back to 45.
//  2. Something else is written: the high watermark is 52 once more.
//  3. What is at offset 50 is not our progress record: dropped. The topic made again is the same, and
//     is asked for by its id besides.
//
// The log was truncated to behind our progress record, whose transaction then has no end:
//  1. Our commit ends in a progress record at 50 and the marker in 51. The log falls back to 51.
//  2. The transaction hangs, and somebody aborts it by hand: the high watermark is 52 once more.
//  3. The marker at 51 is no commit: dropped. What was committed is not, and the restore says so.
//
// Somebody who has no ownership at all writes to the snapshot partition, in a transaction or not: the
// high watermark is not ours.
//
// Compaction has removed our progress record: it does so for a newer one only, which is another's. It
// never moves a record: what is at the offset is ours or gone.
//
// The offset was set by a person: its metadata has no nonce: dropped, and what it is worth is decided
// as after any restore.
//
// What it does not see is what comes after it, as the restore does not see what comes after the high
// watermark was captured: a stale owner that initialises the id late and commits. The first write of
// this ownership meets its epoch then, and what follows is R4's.
func (w *worker) unchanged(ctx context.Context, r *retained) (f found, ok bool, err error) {
	began := time.Now()
	f = found{progressAt: -1, furthest: fence.InputProgress{LeaderEpoch: -1}, incarnation: r.incarnation, retained: true}
	f.committed = w.committed
	difference := ""
	if rule.On(w.ctx, rule.RetainedCheck) {
		difference, err = w.compare(ctx, r, &f)
	} else {
		f.progress = &fence.Progress{
			Nonce: r.last.Nonce, Sequence: r.last.Sequence, Incarnation: r.incarnation,
			Inputs: []fence.InputProgress{{Next: r.last.Next, LeaderEpoch: w.committed.LeaderEpoch}},
		}
		f.progressAt = r.last.At
	}
	if ctx.Err() != nil {
		return f, false, context.Cause(ctx)
	}
	if err != nil {
		difference = fmt.Sprintf("it could not be looked at: %v", err)
	}
	if difference != "" {
		w.log.Info("retained state is dropped", "cause", difference)
		return f, false, nil
	}
	f.result.Took = time.Since(began)
	return f, true, nil
}

// checkPatience is for how long the end of the snapshot partition is asked for. A restore, which follows
// then, has more, and says what is wrong.
const checkPatience = 30 * time.Second

// compare names the first difference between what was retained and what Kafka has; "": there is none.
func (w *worker) compare(ctx context.Context, r *retained, f *found) (difference string, err error) {
	if age := time.Since(r.since); age >= w.m.retention.age { // the takeover took its time
		return fmt.Sprintf("it is %v old", age.Round(time.Second)), nil
	}
	if difference := offsetDiffers(w.committed, r.last); difference != "" {
		return difference, nil
	}
	bounded, cancel := context.WithTimeoutCause(ctx, checkPatience, errLateCheck)
	defer cancel()
	topic, at := w.m.cfg.Snapshots, w.m.progress(w.own.Partition())
	log := wire.Log{Client: w.m.admin, Topic: topic.Topic, TopicID: topic.ID, Partition: at.Partition}
	tail, err := log.Tail(bounded, r.last.At, 2)
	if err != nil {
		return "", err
	}
	if difference := tailDiffers(tail, r.last.At); difference != "" {
		return difference, nil
	}
	f.head.start, f.head.moves = tail.LogStart, topic.Embedded
	if err := w.witness(f, wire.Record(tail.Records[0])); err != nil {
		return "", err
	}
	p := f.progress
	if f.foreign != nil || f.moved != "" || p == nil || p.Nonce != r.last.Nonce || p.Sequence != r.last.Sequence ||
		p.Inputs[0].Next != r.last.Next || p.Incarnation != r.incarnation {
		return "the progress record at its offset is of another commit", nil
	}
	if f.headLost() {
		return fmt.Sprintf("the snapshot partition begins at %d, and began at %d", f.head.start, f.head.recorded), nil
	}
	if err := w.usable(ctx, *f); err != nil {
		return "", err // the restore meets it again, and decides by the start policy
	}
	return "", nil
}

var errLateCheck = errors.New("the snapshot partition's end could not be read in time")

// offsetDiffers says what the group's committed offset has other than the commit that made what was
// retained; "": nothing.
func offsetDiffers(c fence.Committed, last fence.LastCommit) string {
	if c.Next == last.Next && c.Nonce == last.Nonce && c.Sequence == last.Sequence {
		return ""
	}
	return fmt.Sprintf("the group has committed offset %d (%s), and it is of offset %d (%s)",
		c.Next, witnessName(c.Nonce, c.Sequence), last.Next, witnessName(last.Nonce, last.Sequence))
}

// tailDiffers says what the end of the log has other than a progress record at an offset and the one
// marker of its transaction; "": nothing.
func tailDiffers(t wire.Tail, at int64) string {
	progress := func(r *kgo.Record) bool { return fence.IsProgressKey(r.Key) && !r.Attrs.IsControl() }
	switch {
	case t.Outside:
		return fmt.Sprintf("the snapshot partition has no offset %d", at)
	case t.HighWatermark != at+2:
		return fmt.Sprintf("the snapshot partition ends at %d, and it was left at %d", t.HighWatermark, at+2)
	case len(t.Records) != 2 || t.Records[0].Offset != at || t.Records[1].Offset != at+1:
		return fmt.Sprintf("offset %d and the one after it are not both in the snapshot partition", at)
	case !progress(t.Records[0]) || !wire.IsCommitMarker(t.Records[1]):
		return fmt.Sprintf("offset %d of the snapshot partition is not a progress record with the commit of its transaction behind it", at)
	case t.Records[0].ProducerID != t.Records[1].ProducerID:
		return fmt.Sprintf("the transaction that ends behind offset %d of the snapshot partition is another's", at)
	}
	return ""
}
