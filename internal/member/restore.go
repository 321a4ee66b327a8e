package member

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

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
	corrupt     error            // a state of the present incarnation cannot be decoded, or is nobody's of this flow
	raised      place            // the first state of the highest incarnation
	ahead       map[uint32]place // the state with the highest applied offset, of each incarnation
	incarnation uint32           // the highest of any snapshot or progress record
	toldStore   bool             // the store knows of the progress record, or that there is none
	retained    bool             // nothing was read: the states were kept in memory
}

// place is a record of the snapshot partition, and what of it is looked at when all have been read.
type place struct {
	offset      int64
	key         []byte
	applied     int64
	incarnation uint32
}

// restore reads the snapshot partition into an engine of its own.
func (w *worker) restore(ctx context.Context) (found, error) {
	p := w.own.Partition()
	f := found{witnesses: witnesses{head: head{recorded: -1, moves: w.m.cfg.Snapshots.Embedded}}, progressAt: -1, furthest: fence.InputProgress{LeaderEpoch: -1}, ahead: map[uint32]place{}}
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
		if err := w.plausible(s, r); err != nil {
			return err
		}
		f.saw(s, r)
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
			call(w.hooks(), func(h stream.Hooks) func(stream.Restoring) { return h.Restoring }, e)
		},
		Stalled: func(e stream.Stalled) {
			e.Partition = p
			if told := w.m.throttle.Since(time.Now().Add(-e.For)); told != "" {
				e.Diagnosis = strings.TrimSuffix(told+"; "+e.Diagnosis, "; ")
			}
			call(w.hooks(), func(h stream.Hooks) func(stream.Stalled) { return h.Stalled }, e)
		},
		Logger: w.m.log.With("ownership", w.own.Number()), // it adds the partition that it reads
	})
	if err != nil {
		if told := w.m.throttle.Since(time.Now().Add(-w.m.cfg.StallTimeout)); told != "" {
			err = fmt.Errorf("%s: %w", told, err)
		}
		return f, err
	}
	if f.head.start, err = w.logBegins(ctx); err != nil {
		return f, err
	}
	f.head.start, f.head.keys = max(f.head.start, result.Start), w.engine.Stats().Keys
	f.result, f.snapshotEmpty = result, result.Records == 0 && result.Keyless == 0
	// Where the progress record is lost, and a policy goes on with the states, these are of the newest that there is.
	if w.incarnation = f.raised.incarnation; f.progress != nil {
		w.incarnation = f.progress.Incarnation
	}
	w.engine.RaiseIncarnation(w.incarnation)
	for incarnation, err := range corrupt {
		if incarnation >= w.incarnation {
			f.corrupt = err
		}
	}
	if f.progress != nil && f.raised.incarnation > w.incarnation {
		f.corrupt = w.strange(f.raised, "it is of incarnation %d, and the last progress record of %d", f.raised.incarnation, w.incarnation)
	}
	return f, nil
}

// saw keeps what can be judged only when all records were read.
func (f *found) saw(s snapshot.Record, r stream.Record) {
	if s.Kind == snapshot.Tombstone || len(s.Applied) != 1 {
		return
	}
	incarnation := uint32(s.Incarnation)
	at := place{offset: r.Offset, key: r.Key, applied: s.Applied[0], incarnation: incarnation}
	f.incarnation = max(f.incarnation, incarnation)
	if incarnation > f.raised.incarnation {
		f.raised = at
	}
	if before, ok := f.ahead[incarnation]; !ok || at.applied > before.applied {
		f.ahead[incarnation] = at
	}
}

// plausible refuses a state whose incarnation is none: they are counted in 32 bits.
func (w *worker) plausible(s snapshot.Record, r stream.Record) error {
	if s.Kind == snapshot.Tombstone || s.Incarnation <= math.MaxUint32 {
		return nil
	}
	return w.strange(place{offset: r.Offset, key: r.Key}, "it is of incarnation %d", s.Incarnation)
}

// checkApplied makes sure that no state has folded records that the input does not have yet: they would
// be skipped when they come. The offsets of a state may be above the committed one, which is held back by
// other keys, and never above the end. One answer does not show where that is:
//
//  1. A broker that leads the input is stopped for longer than its session. Another one leads, and what it
//     takes is folded and persisted.
//  2. The first one wakes. Until it hears of its successor it answers as the leader that it was, with the end
//     of its own log.
func (w *worker) checkApplied(ctx context.Context, f found) error {
	last, ok := f.ahead[w.incarnation]
	if !ok || f.progress != nil && last.applied < f.progress.Inputs[0].Next {
		return nil
	}
	end := int64(-1)
	for look := 1; look <= looks; look++ {
		if err := pauseBefore(ctx, look-1); err != nil {
			return err
		}
		var err error
		if _, end, _, err = w.input().Ends(ctx); err != nil {
			return w.located(stream.NewError("check input", err).Hinted("the next assignment tries again"))
		}
		if last.applied < end {
			return nil
		}
	}
	return w.strange(last, "it has folded the input up to offset %d, and the input ends at %d", last.applied, end)
}

// strange is the error about a record that is in our format and cannot be ours.
func (w *worker) strange(at place, format string, args ...any) error {
	p := w.m.progress(w.own.Partition())
	e := stream.NewError("restore", fmt.Errorf(format+": %w", append(args, stream.ErrCorruptSnapshot)...)).
		At(stream.Partition{Topic: w.m.cfg.Snapshots.Topic, Partition: p.Partition}, at.offset).
		Hinted("find the writer of this record and keep it from this topic, which one flow alone may write; then choose Rebuild (Start.Disagreement) to fold the input again, " +
			"as it is also to be done where the input has lost records that were folded")
	e.Key = at.key
	return e
}

// witness takes a progress record. The newest one counts.
func (w *worker) witness(f *found, r stream.Record) error {
	if r.Value == nil { // somebody empties the topic with tombstones: there is no witness any more
		f.head.recorded = -1
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
	if before := f.progress; before != nil && progress.Nonce != 0 && progress.Nonce == before.Nonce && progress.Sequence == before.Sequence &&
		(progress.Incarnation != before.Incarnation || progress.Inputs[0] != before.Inputs[0]) {
		return w.strange(place{offset: r.Offset, key: r.Key}, "it is another record of the commit that the progress record at offset %d is of", f.progressAt)
	}
	f.progress, f.progressAt, f.moved, f.furthest = &progress, r.Offset, "", progress.Inputs[0]
	f.head.recorded = -1
	if start, ok := fence.ProgressLogStart(r); ok {
		f.head.recorded = start
	}
	if a, ok := fence.ProgressApplied(r); ok {
		f.furthest.Next, f.furthest.LeaderEpoch = a.Next, a.LeaderEpoch
	}
	named, _ := fence.ProgressInput(r)
	f.moved = movedFrom(&progress, named, w.own.Partition())
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
