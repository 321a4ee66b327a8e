package preflight

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
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
	InputID              [16]byte         // as it is
	Named                string           // the input partition that the header of Progress names
	ProgressAt           stream.Partition // where Progress is
	Features             wire.Features
}

// tail is what a look at the end of a partition of the progress topic has found.
type tail struct {
	progress *fence.Progress // the newest that is committed; nil: none in the tail
	whole    bool            // the tail is all that the partition has
	empty    bool
	start    int64  // of the log
	recorded int64  // by progress; -1: it does not say
	named    string // the input partition that progress names; "": none
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
			t.progress, t.named = nil, ""
			return nil
		}
		if progress, err := fence.DecodeProgress(r.Value); err == nil {
			t.progress, t.recorded = &progress, -1
			if start, ok := fence.ProgressLogStart(wire.Record(r)); ok {
				t.recorded = start
			}
			t.named, _ = fence.ProgressInput(wire.Record(r))
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
			if !i.found.Progress.Exists {
				break
			}
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

// offsetsAlone looks at the group's offsets where the snapshot topic is missing. What the start makes, or somebody else,
// is empty: offsets that are there stop it then.
func (i *inspection) offsetsAlone(ctx context.Context) error {
	committed := false
	tails := map[int32]tail{}
	for p := range min(i.found.partitions(), sampledPartitions) {
		tails[p] = tail{whole: true, empty: true, recorded: -1}
	}
	for _, offsets := range i.committedOffsets {
		committed = committed || slices.ContainsFunc(offsets, func(o wire.GroupOffset) bool { return o.Next >= 0 })
	}
	if !committed {
		return nil
	}
	told, err := i.lookFor(ctx, i.Progress.Topic)
	if err != nil || told.Exists {
		return nil // it is said of the topic itself, or it was made just now
	}
	at := slices.IndexFunc(i.found.Report.Findings, func(f claim.Finding) bool { return f.ID == "topic."+i.Progress.Role })
	before := len(i.found.Report.Findings)
	err = i.offsets(ctx, tails)
	if err != nil && at >= 0 && i.found.Report.Findings[at].Err != nil {
		f := &i.found.Report.Findings[at]
		f.Fix = append(f.Fix, i.found.Report.Findings[before].Fix...)
	}
	return err
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
				InputStart: -1, InputID: in.ID, Named: t.named,
				ProgressAt: stream.Partition{Topic: i.Progress.Topic, Partition: before + int32(p)},
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
			if err := i.Refused(w); err != nil && (!underWay || errors.Is(err, stream.ErrSnapshotsLost) || errors.Is(err, stream.ErrInputChanged)) {
				refused = append(refused, err)
			}
		}
		before += in.Partitions
	}
	return looked, refused
}

func (i *inspection) noteOffsets(looked int, refused []error) error {
	what := "offsets of group " + i.Group
	if of := slices.DeleteFunc(slices.Clone(refused), func(err error) bool { return !errors.Is(err, stream.ErrInputChanged) }); len(of) > 0 {
		refused = of // by no commit that is under way, and of another log the offsets say nothing
	} else if i.members > 0 && len(refused) > 0 {
		text, fix := several(refused)
		i.found.add(claim.Finding{
			ID: "offsets", What: what, Fact: fmt.Sprintf("disagree with the %s topic in %d of %d partitions that were looked at", i.Progress.Role, len(refused), looked),
			Warning: "while members run: the next owner of such a partition would stop:\n" + text, Fix: fix,
		})
		return nil
	}
	switch {
	case looked == 0:
		return nil
	case len(refused) == 0:
		i.found.add(claim.Finding{ID: "offsets", What: what, Fact: fmt.Sprintf("agree with the %s topic in the %d partitions that were looked at", i.Progress.Role, looked)})
		return nil
	}
	text, fix := several(refused)
	err := errors.Join(refused...)
	i.found.add(claim.Finding{ID: "offsets", What: what, Fact: text, Err: err, Fix: fix})
	return err
}

// toldPartitions is how many partitions of those that are refused are told of one by one.
const toldPartitions = 3

// several tells of errors about partitions, a line each, and of one fix for all of them: that of the first one, where
// the others have the same with numbers of their own.
func several(errs []error) (text string, fix []string) {
	var lines, hints []string
	for _, err := range errs {
		e := (*stream.Error)(nil)
		if !errors.As(err, &e) {
			lines = append(lines, err.Error())
			continue
		}
		bare := *e
		bare.Hint = ""
		lines, hints = append(lines, bare.Error()), append(hints, e.Hint)
	}
	if more := len(lines) - toldPartitions; more > 0 {
		lines = append(lines[:toldPartitions], fmt.Sprintf("and %d more", more))
	}
	switch {
	case len(hints) == 0 || hints[0] == "":
	case !slices.ContainsFunc(hints, func(h string) bool { return h != hints[0] }):
		fix = hints[:1]
	default:
		fix = []string{"for the first one, and so for each of the others with numbers of its own: " + hints[0]}
	}
	return strings.Join(lines, "\n"), fix
}
