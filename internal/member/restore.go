package member

import (
	"context"
	"errors"
	"fmt"

	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/internal/engine"
	"github.com/holdfast-go/holdfast/snapshot"
	"github.com/holdfast-go/holdfast/stream"
)

// found is what a restore has found.
type found struct {
	witnesses
	progressAt  int64
	furthest    fence.InputProgress // how far the states may have applied the input
	foreign     *fence.Progress     // the last one that another group wrote
	moved       string              // the input partition that the newest one names, if that is another; "" none
	result      snapshot.Result
	corrupt     error  // a state of the present incarnation cannot be decoded
	incarnation uint32 // the highest of any snapshot or progress record
	retained    bool   // nothing was read: the states were kept in memory
}

// restore reads the snapshot partition into an engine of its own.
func (w *worker) restore(ctx context.Context) (found, error) {
	p := w.own.Partition()
	f := found{progressAt: -1, furthest: fence.InputProgress{LeaderEpoch: -1}}
	w.engine = w.m.cfg.NewEngine(p)
	w.incarnation = 0
	corrupt := map[uint32]error{} // the first of each incarnation
	each := func(r stream.Record) error {
		if fence.IsProgressKey(r.Key) {
			return w.witness(&f, r)
		}
		s, err := snapshot.Decode(r)
		if err != nil {
			return err
		}
		f.incarnation = max(f.incarnation, uint32(s.Incarnation))
		// Which incarnation counts is known at the end of the log. States of one before it may be
		// such as the codec never could, or cannot any more, read.
		if err := w.load(s, r); err != nil && corrupt[uint32(s.Incarnation)] == nil {
			corrupt[uint32(s.Incarnation)] = err
		}
		return nil
	}
	topic, from := w.m.cfg.Snapshots, w.m.progress(p)
	result, err := snapshot.Restore(ctx, snapshot.RestoreConfig{
		Client: w.m.admin, Topic: topic.Topic, TopicID: topic.ID, Partition: from.Partition,
		TransactionalID: w.store.TransactionalID(), Retake: w.store.Retake,
		StallTimeout: w.m.cfg.StallTimeout, Each: each,
		Progress: func(e stream.Restoring) {
			e.Partition = p
			call(w.m.hooks, func(h stream.Hooks) func(stream.Restoring) { return h.Restoring }, e)
		},
		Stalled: func(e stream.Stalled) {
			e.Partition = p
			call(w.m.hooks, func(h stream.Hooks) func(stream.Stalled) { return h.Stalled }, e)
		},
		Logger: w.m.cfg.Logger.With("ownership", w.own.Number()), // it adds the partition that it reads
	})
	if err != nil {
		return f, err
	}
	f.result, f.snapshotEmpty = result, result.Records == 0 && result.Keyless == 0
	if f.progress != nil {
		w.incarnation = f.progress.Incarnation
		w.engine.RaiseIncarnation(w.incarnation)
	}
	for incarnation, err := range corrupt {
		if incarnation >= w.incarnation {
			f.corrupt = err
		}
	}
	return f, nil
}

// witness takes a progress record. The newest one counts.
func (w *worker) witness(f *found, r stream.Record) error {
	if r.Value == nil { // somebody empties the topic with tombstones: there is no witness any more
		f.progress, f.foreign, f.moved, f.progressAt, f.furthest = nil, nil, "", -1, fence.InputProgress{LeaderEpoch: -1}
		return nil
	}
	progress, err := fence.DecodeProgress(r.Value)
	if err == nil && len(progress.Inputs) != 1 {
		err = fmt.Errorf("progress record of %d inputs, the flow has 1", len(progress.Inputs))
	}
	if err != nil {
		if !errors.Is(err, stream.ErrCorruptSnapshot) {
			err = fmt.Errorf("%w: %w", stream.ErrCorruptSnapshot, err)
		}
		return w.corrupt(r, err)
	}
	f.progress, f.progressAt, f.moved, f.furthest = &progress, r.Offset, "", progress.Inputs[0]
	if a, ok := fence.ProgressApplied(r); ok {
		f.furthest.Next, f.furthest.LeaderEpoch = a.Next, a.LeaderEpoch
	}
	if input, ok := fence.ProgressInput(r); ok && input != w.own.Partition().String() {
		f.moved = input
	}
	f.incarnation = max(f.incarnation, progress.Incarnation)
	if progress.Group != w.m.cfg.Session.Group {
		f.foreign = f.progress
	}
	return nil
}

func (w *worker) load(s snapshot.Record, r stream.Record) error {
	e := engine.Snapshot{
		Key: s.Key, Value: s.Value, Steps: s.Steps, Incarnation: uint32(s.Incarnation),
		Deleted: s.Kind == snapshot.Deleted, NoState: s.Kind == snapshot.NoState, Tombstone: s.Kind == snapshot.Tombstone,
	}
	if !e.Tombstone {
		if len(s.Applied) != 1 {
			return w.corrupt(r, fmt.Errorf("%w: it has applied offsets of %d inputs, the flow has 1", stream.ErrCorruptSnapshot, len(s.Applied)))
		}
		e.Applied = s.Applied[0]
	}
	if err := w.engine.Load(e); err != nil {
		return w.corrupt(r, err)
	}
	return nil
}

func (w *worker) corrupt(r stream.Record, err error) error {
	if inner := (*stream.Error)(nil); errors.As(err, &inner) {
		err = inner.Err // the engine does not know where the record was read, and this error does
	}
	e := stream.NewError("restore", err).At(stream.Partition{Topic: r.Topic, Partition: r.Partition}, r.Offset).
		Hinted("the codec cannot read what it wrote before: give a codec that reads old states (codec.Versioned), or choose Rebuild (Start.Disagreement) to fold the input again")
	e.Key = r.Key
	return e
}
