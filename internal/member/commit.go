package member

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/internal/engine"
	"github.com/holdfast-go/holdfast/internal/rule"
	"github.com/holdfast-go/holdfast/snapshot"
	"github.com/holdfast-go/holdfast/stream"
)

// store persists what a worker has folded: a fence.Writer, or the unfenced store.
type store interface {
	// TransactionalID is the id that the store writes under; "" if it uses none.
	TransactionalID() string
	// Adopt tells the newest progress record that the restore found, and its offset.
	Adopt(p fence.Progress, at int64)
	// AdoptNone tells that the restore, which ended at end, found none.
	AdoptNone(end int64, incarnation uint32)
	// Applied tells how far states may have applied the input, for the progress records to come.
	Applied(a fence.Applied)
	// LogStart tells where the log of the progress partition begins, for the progress records to come.
	LogStart(start int64)
	// Commit writes records and the input offset. A *fence.Refusal names a record that the
	// broker refuses; nothing was committed then.
	Commit(ctx context.Context, next fence.Offset, rs ...stream.Message) error
	// Rebuild commits the offset, which may lie below the committed one, under an incarnation.
	Rebuild(ctx context.Context, incarnation uint32, next fence.Offset) error
	// Refetch reads the stable committed offset again.
	Refetch(ctx context.Context) (fence.Committed, error)
	// LastCommit is the newest commit that is known; ok is false if states cannot be kept by it.
	LastCommit(ctx context.Context) (c fence.LastCommit, ok bool)
	// Retake takes the transactional id over again.
	Retake(ctx context.Context) error
	Close(ctx context.Context) error
}

// commitIfDue closes a batch and starts its commit, if there is one to close and none under way.
func (w *worker) commitIfDue(now time.Time) error {
	if w.inflight != nil {
		return nil
	}
	due, ok := w.engine.Due()
	if !ok || due.After(now) {
		return nil
	}
	b, err := w.engine.Close(now, false)
	w.tellKept()
	if err != nil {
		return w.unwritten(err)
	}
	w.start(b)
	return nil
}

// tellKept tells of each key that could not be written and is kept in memory for it: the committed
// offset stays behind it, and only a person can make the state smaller or mend the codec.
func (w *worker) tellKept() {
	for _, err := range w.engine.Kept() {
		w.log.Warn("key could not be written and stays in memory", "error", err)
		call(w.hooks(), func(h stream.Hooks) func(stream.Refused) { return h.Refused },
			stream.Refused{Partition: w.own.Partition(), Cause: "record", Err: err})
	}
}

// start commits a batch on a goroutine of its own; the worker folds on meanwhile and takes the
// outcome from w.outcome.
func (w *worker) start(b *engine.Batch) {
	if b == nil {
		return
	}
	w.inflight = b
	if b.Folded > w.furthest.Next {
		w.furthest.Next, w.furthest.LeaderEpoch = b.Folded, b.FoldedEpoch
	}
	w.store.Applied(fence.Applied{Next: w.furthest.Next, LeaderEpoch: w.furthest.LeaderEpoch})
	go func() { w.outcome <- w.commit(b) }()
}

func (w *worker) commit(b *engine.Batch) error {
	if rule.On(w.ctx, rule.OutputsFirst) {
		if err := w.outputs.acked(w.ctx); err != nil {
			return err
		}
	}
	messages := make([]stream.Message, 0, len(b.Outputs)+len(b.Writes)+len(b.Dropped))
	for _, o := range b.Outputs { // in the order of their steps, which is that of a key's outputs
		if !rule.On(w.ctx, rule.OutputsInside) { // as a producer beside the transaction would
			if err := w.outputs.send(w.ctx, stream.Record{Offset: o.Offset}, []stream.Message{o.Message}); err != nil {
				return err
			}
			continue
		}
		messages = append(messages, o.Message)
	}
	if !rule.On(w.ctx, rule.OutputsInside) { // such a producer flushes, so that nothing is missing without a fault
		if err := w.outputs.acked(w.ctx); err != nil {
			return err
		}
	}
	for i, write := range b.Writes {
		m, err := snapshot.Encode(toSnapshot(write, w.incarnation))
		if err != nil { // as if the broker had refused it: it is this one record's fault, and nothing was sent
			return &fence.Refusal{
				Index: len(b.Outputs) + i, Message: stream.Message{Key: write.Key, Value: write.Value},
				Err: fmt.Errorf("%w: %w", stream.ErrEncode, err),
			}
		}
		messages = append(messages, m)
	}
	for _, key := range b.Dropped {
		m, err := snapshot.Encode(snapshot.Record{
			Key: key, Kind: snapshot.Tombstone, Header: snapshot.Header{Applied: []int64{-1}, Incarnation: uint64(w.incarnation)},
		})
		if err != nil {
			return err
		}
		messages = append(messages, m)
	}
	if err := w.m.layout.unchanged(w.ctx); err != nil { // after all of it was fetched
		return w.located(err)
	}
	began := time.Now()
	defer func() { w.took = time.Since(began) }()
	return w.store.Commit(w.ctx, fence.Offset{Next: b.Next, LeaderEpoch: b.LeaderEpoch}, messages...)
}

// settle takes the outcome of the batch under way.
func (w *worker) settle(err error) error {
	b := w.inflight
	w.inflight = nil
	w.doubt.Store(false)
	now := time.Now()
	refused := (*fence.Refusal)(nil)
	switch {
	case err == nil:
		w.engine.Committed(now, b)
		w.cost.keys.Store(int64(w.engine.Stats().Keys))
		w.m.forget(w.own.Partition(), b.Next)
		w.m.committedOnce(w.own.Partition())
		w.countPassed()
		w.fitted(b)
		w.publish(now, true)
		return nil
	case ranOut(err):
		return w.slow(now, b, err)
	case errors.As(err, &refused):
		rest, err := w.engine.Refused(now, b, refused.Index, err)
		w.tellKept()
		if err != nil {
			return w.unwritten(err)
		}
		w.start(rest)
		return nil
	}
	return err
}

// flush commits everything that was folded: at a revoke, or before the partition stops.
func (w *worker) flush() error {
	if err := w.commitAll(); err != nil {
		return err
	}
	w.flushed.Store(w.settled())
	return nil
}

// commitAll commits everything that was folded and can be committed.
func (w *worker) commitAll() error {
	for {
		if w.inflight != nil {
			select {
			case err := <-w.outcome:
				if err := w.settle(err); err != nil {
					return err
				}
			case <-w.own.Gone():
				return w.own.Cause()
			}
			continue
		}
		b, err := w.engine.Close(time.Now(), true)
		w.tellKept()
		if r, ok := errors.AsType[*engine.Rejected](err); ok {
			return w.rejected(r)
		}
		if err != nil {
			return err
		}
		if b == nil {
			return nil
		}
		w.start(b)
	}
}

// settled reports whether all that was folded is committed: a key that cannot be written keeps its
// hold, and after a batch that was refused there is nothing that may be.
func (w *worker) settled() bool {
	whole := w.m.cfg.Whole && w.engine.Next() > w.engine.CommittedOffset()
	return w.engine.Stats().Holds == 0 && !whole
}

func toSnapshot(write engine.Write, incarnation uint32) snapshot.Record {
	r := snapshot.Record{Key: write.Key, Value: write.Value}
	r.Applied, r.Steps, r.Incarnation = []int64{write.Applied}, write.Steps, uint64(incarnation)
	switch {
	case write.Tombstone:
		r.Kind, r.Value = snapshot.Tombstone, nil
	case write.Deleted:
		r.Kind = snapshot.Deleted
	case write.NoState:
		r.Kind = snapshot.NoState
	}
	return r
}
