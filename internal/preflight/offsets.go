package preflight

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/holdfast-go/holdfast/claim"
	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/stream"
)

// Witnesses are what a start decides by, of one partition.
type Witnesses struct {
	Input         stream.Partition
	Committed     fence.Committed
	Progress      *fence.Progress // nil: none
	SnapshotEmpty bool
	LogStart      int64
	RecordedStart int64 // by Progress; -1: it does not say
	StartMoves    bool  // the brokers' compaction moves it
	// InputStart and InputEnd are the first offset and the end of the input; InputStart -1: they are not known.
	InputStart, InputEnd int64
	Features             wire.Features
}

// tail is what a look at the end of a partition of the progress topic has found.
type tail struct {
	progress *fence.Progress // the newest that is committed; nil: none in the tail
	whole    bool            // the tail is all that the partition has
	empty    bool
	start    int64 // of the log
	recorded int64 // by progress; -1: it does not say
}

// tail reads the last records of a partition of the progress topic that are committed. Where a transaction is
// open it is no whole one: what it will have is not known.
func (i *inspection) tail(ctx context.Context, partition int32) (t tail, err error) {
	f := i.found.Progress
	log := wire.Log{Client: i.client, Topic: f.Topic, TopicID: f.ID, Partition: partition}
	start, end, stable, err := log.Ends(ctx)
	if err != nil {
		return tail{}, err
	}
	t.start, t.recorded = start, -1
	from := max(start, stable-sampledRecords)
	t.empty, t.whole = start >= end, from == start && stable == end
	if from >= stable {
		return t, nil
	}
	_, err = log.Read(ctx, wire.ReadOptions{From: from, To: stable, MaxBytes: sampledBytes, Committed: true}, func(r *kgo.Record) error {
		switch {
		case !fence.IsProgressKey(r.Key):
			return nil
		case r.Value == nil: // there is no witness any more, as a start has it
			t.progress = nil
			return nil
		}
		if progress, err := fence.DecodeProgress(r.Value); err == nil {
			t.progress, t.recorded = &progress, -1
			if start, ok := fence.ProgressLogStart(wire.Record(r)); ok {
				t.recorded = start
			}
		}
		return nil
	})
	return t, err
}

// inputEnds asks what the inputs have. Where it is not told, nothing is said of it: a start asks again.
func (i *inspection) inputEnds(ctx context.Context) (starts, ends kadm.ListedOffsets) {
	admin := kadm.NewClient(i.client)
	starts, err := admin.ListStartOffsets(ctx, i.Inputs...)
	if err == nil {
		ends, err = admin.ListEndOffsets(ctx, i.Inputs...)
	}
	if err != nil {
		return nil, nil
	}
	return starts, ends
}

// secondLook is how long after the first one a disagreement is looked at again: one answer may be as of before, of
// a broker that was cut off (R28).
const secondLook = 500 * time.Millisecond

// offsets compares what the group has committed with the newest progress records, as a start does at the first
// assignment: what is refused is looked at once more.
func (i *inspection) offsets(ctx context.Context, tails map[int32]tail) error {
	if i.Refused == nil {
		return nil
	}
	looked, refused := i.disagreements(ctx, tails)
	if len(refused) > 0 {
		select {
		case <-time.After(secondLook):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		if _, _, err := i.committed(ctx); err != nil {
			return i.groupError(err)
		}
		for p := range tails {
			t, err := i.tail(ctx, p)
			if err != nil {
				return err
			}
			tails[p] = t
		}
		looked, refused = i.disagreements(ctx, tails)
	}
	return i.noteOffsets(looked, refused)
}

// disagreements are the partitions that a start would refuse, and how many were looked at. Of a group with members
// only that is told which no commit under way explains: the offsets were asked for before, so that they can be older
// than the progress and not newer.
func (i *inspection) disagreements(ctx context.Context, tails map[int32]tail) (looked int, refused []error) {
	before := int32(0)
	starts, ends := i.inputEnds(ctx)
	for _, in := range i.found.Inputs {
		for p, o := range i.committedOffsets[in.Topic] {
			t, ok := tails[before+int32(p)]
			if !ok || t.progress == nil && !t.whole {
				continue
			}
			looked++
			w := Witnesses{
				Input: stream.Partition{Topic: in.Topic, Partition: int32(p)}, Committed: fence.Committed{Next: o.Next},
				Progress: t.progress, SnapshotEmpty: t.empty, Features: i.found.Features,
				LogStart: t.start, RecordedStart: t.recorded, StartMoves: i.found.Progress.Embedded,
				InputStart: -1,
			}
			first, known := starts.Lookup(in.Topic, int32(p))
			if last, ok := ends.Lookup(in.Topic, int32(p)); ok && known && first.Err == nil && last.Err == nil {
				w.InputStart, w.InputEnd = first.Offset, last.Offset
			}
			if witness, ours := wire.ParseWitness(o.Metadata); ours {
				w.Committed.Nonce, w.Committed.Sequence, w.Committed.Kind = witness.Nonce, witness.Sequence, witness.Kind
			}
			if w.Committed.Kind != "" && w.Committed.Kind != i.Component {
				continue // another component's: what to do about its offsets is said of the group
			}
			underWay := i.members > 0 && (o.Next < 0 || t.progress != nil && o.Next <= t.progress.Inputs[0].Next)
			if err := i.Refused(w); err != nil && (!underWay || errors.Is(err, stream.ErrSnapshotsLost)) {
				refused = append(refused, err)
			}
		}
		before += in.Partitions
	}
	return looked, refused
}

func (i *inspection) noteOffsets(looked int, refused []error) error {
	what := "offsets of group " + i.Group
	switch {
	case looked == 0:
		return nil
	case len(refused) == 0:
		i.found.add(claim.Finding{ID: "offsets", What: what, Fact: fmt.Sprintf("agree with the %s topic in the %d partitions that were looked at", i.Progress.Role, looked)})
		return nil
	case i.members > 0:
		e := (*stream.Error)(nil)
		fix := ""
		if errors.As(refused[0], &e) {
			fix = e.Hint
		}
		i.found.add(claim.Finding{
			ID: "offsets", What: what, Fact: fmt.Sprintf("disagree with the %s topic in %d of %d partitions that were looked at", i.Progress.Role, len(refused), looked),
			Warning: "while members run: the next owner of such a partition would stop. The first one: " + refused[0].Error(), Fix: []string{fix},
		})
		return nil
	}
	return i.found.note("offsets", what, "", errors.Join(refused...))
}
