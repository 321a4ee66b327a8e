package member

import (
	"context"
	"errors"
	"math"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/stream"
)

// The committed offset follows what was read, not what was folded (R25). Three things take up offsets and are
// nothing to fold:
//
//   - markers of transactions. The client hands them over (kgo.KeepControlRecords), and the worker reads on over them;
//   - records of aborted transactions. They come before the marker that aborts them;
//   - what compaction has removed. The client passes over it without a word. Where it is the end of the log, the
//     worker looks for itself (look).
//
// Each comes to the worker through its queue, behind the records before it.

// nothing marks a place in the queue up to which there is nothing to fold, where no record of the log does.
var nothing = context.WithValue(context.Background(), nothingKey{}, true)

type nothingKey struct{}

// upTo is the entry of a queue that says that there is nothing to fold below next.
func upTo(p stream.Partition, next int64, epoch int32) *kgo.Record {
	return &kgo.Record{Topic: p.Topic, Partition: p.Partition, Offset: next - 1, LeaderEpoch: epoch, Context: nothing}
}

// readOnly reports whether an entry of the queue is read and never folded.
func readOnly(r *kgo.Record) bool { return r.Attrs.IsControl() || r.Context == nothing }

// tail is what is known of the end of the partition, for the look.
type tail struct {
	stable atomic.Int64 // what a reader is given ends here, as last heard; math.MaxInt64: it may end anywhere
	told   atomic.Int64 // the last stable offset that was last heard of, one more than it; 0: none

	// Of the worker's goroutine.
	at time.Time // when to look; zero: there is nothing to look for
}

// heard notes a last stable offset that came with records or a look.
func (t *tail) heard(stable int64) {
	t.stable.Store(stable)
	t.note(stable)
}

// note notes one that a look need not come of.
func (t *tail) note(stable int64) { t.told.Store(stable + 1) }

// lookAfter is how long nothing may come of what a partition is known to have before the worker looks, and
// lookAgainAfter how long after a look the next one is.
const (
	lookAfter      = time.Second
	lookAgainAfter = 10 * time.Second
)

// emptied is a hook of the client: it tells of batches that compaction has left nothing of.
type emptied struct{ m *Member }

// OnFetchBatchRead is called by the client.
func (e emptied) OnFetchBatchRead(_ kgo.BrokerMetadata, topic string, partition int32, b kgo.FetchBatchMetrics) {
	if b.NumRecords > 0 {
		return
	}
	if w := e.m.worker(stream.Partition{Topic: topic, Partition: partition}); w != nil {
		w.tail.stable.Store(math.MaxInt64)
		w.queue.poke() // it may have nothing else to wake for
	}
}

// lookIfIdle has the end of the partition looked at when the queue stays empty although there is more below the
// end, and says when to come again; zero: not before the next record.
func (w *worker) lookIfIdle(now time.Time) time.Time {
	_, queued := w.queue.peek()
	switch {
	case queued || w.tail.stable.Load() <= w.engine.Next():
		w.tail.at = time.Time{}
	case w.tail.at.IsZero():
		w.tail.at = now.Add(lookAfter)
	case !w.tail.at.After(now):
		w.tail.at = now.Add(lookAgainAfter)
		from := w.engine.Next()
		w.m.wg.Go(func() { w.look(w.active, from) })
	}
	return w.tail.at
}

// errRecord ends a look: there is something to fold, which the client will bring.
var errRecord = errors.New("a record is next")

// look finds out whether there is anything to fold between an offset and the end of the partition. What cannot be
// asked for now is asked for again, and errors about the partition come from the client's own fetch.
func (w *worker) look(ctx context.Context, from int64) {
	first, _, end, err := w.input().Ends(ctx)
	if err != nil || first > from { // what is below the start may have been records: see logstart.go
		return
	}
	w.tail.heard(end)
	to, err := w.input().Read(ctx, wire.ReadOptions{From: from, To: end, MaxBytes: 64 << 10, Committed: true}, func(*kgo.Record) error { return errRecord })
	if err != nil && !errors.Is(err, errRecord) || to <= from {
		return
	}
	// A read begins at the start of the log where that is above what was asked for.
	if first, _, _, err = w.input().Ends(ctx); err != nil || first > from {
		return
	}
	w.m.post(func() { w.m.readOn(w, to) })
}

// readOn has the worker read on up to next, where the log has nothing to fold before that. It runs between polls.
func (m *Member) readOn(w *worker, next int64) {
	if p := w.own.Partition(); m.group.Owned(p) == w.own {
		m.enqueue(w, []*kgo.Record{upTo(p, next, -1)})
	}
}
