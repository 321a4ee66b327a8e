package preflight

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/holdfast-go/holdfast/claim"
	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/stream"
)

// What is read of a topic: a look, not a proof.
const (
	sampledPartitions = 8
	sampledRecords    = 20
	sampledBytes      = 256 << 10
)

// records looks at the last records of the topics.
func (i *inspection) records(ctx context.Context) error {
	for _, in := range i.found.Inputs {
		i.partitioner(ctx, "input", in)
	}
	for _, topic := range i.Outputs {
		if out := i.found.Outputs[topic]; !slices.Contains(i.SamePartition, topic) {
			i.partitioner(ctx, "output", out)
		}
	}
	i.keys(ctx)
	return i.lastProgress(ctx)
}

// sample hands the last records of a partition to each.
func (i *inspection) sample(ctx context.Context, f wire.Facts, partition int32, each func(*kgo.Record)) error {
	log := wire.Log{Client: i.client, Topic: f.Topic, TopicID: f.ID, Partition: partition}
	start, end, _, err := log.Ends(ctx)
	if err != nil || start >= end {
		return err
	}
	_, err = log.Read(ctx, wire.ReadOptions{From: max(start, end-sampledRecords), To: end, MaxBytes: sampledBytes}, func(r *kgo.Record) error {
		each(r)
		return nil
	})
	return err
}

// partitioner says whether keyed records are where Kafka's default partitioner puts them. Where two
// programs put one key into different partitions, its state and its order are in two.
func (i *inspection) partitioner(ctx context.Context, role string, f wire.Facts) {
	if !f.Exists || f.Partitions < 2 {
		return
	}
	placed, other, looked := 0, 0, min(f.Partitions, sampledPartitions)
	murmur := kgo.StickyKeyPartitioner(nil).ForTopic(f.Topic)
	for p := range looked {
		err := i.sample(ctx, f, p, func(r *kgo.Record) {
			switch {
			case r.Key == nil:
			case murmur.Partition(r, int(f.Partitions)) == int(p):
				placed++
			default:
				other++
			}
		})
		if err != nil {
			i.found.add(claim.Finding{ID: "partitioner." + role, What: "keys of " + role + " topic " + f.Topic, Fact: "were not sampled", Advice: err.Error(), Fix: []string{"let the principal read the topic, then check again"}})
			return
		}
	}
	fact := fmt.Sprintf("%d of %d keyed records sampled (the last %d of %d partitions) are where murmur2 puts them", placed, placed+other, sampledRecords, looked)
	if placed+other == 0 {
		fact = fmt.Sprintf("the last %d records of %d partitions have no keyed one, so that nothing is known of the partitioner", sampledRecords, looked)
	}
	i.found.add(claim.Finding{ID: "partitioner." + role, What: "keys of " + role + " topic " + f.Topic, Fact: fact})
	const java = "librdkafka and its bindings: partitioner=murmur2_random; sarama: a partitioner with murmur2, not its default"
	switch {
	case other > 0 && placed > other/2:
		i.found.warn("two partitioners seem to write here, so that a key can be in two partitions: each then has a part of its records, out of order", java)
	case other > 0 && role == "output":
		i.found.warn("what the "+i.Component+" sends goes where murmur2 puts it, beside records that another partitioner put elsewhere", java)
	case other > 0:
		i.found.advise("another partitioner writes here: a topic that is to be read beside it, partition by partition, needs the same one", java)
	}
}

// lastProgress compares the newest progress records that a look finds with group and input: a start
// would be refused by them at the first assignment.
func (i *inspection) lastProgress(ctx context.Context) error {
	f := i.found.Progress
	if !f.Exists {
		return i.offsetsAlone(ctx)
	}
	tails := map[int32]tail{}
	var seen *fence.Progress
	var refused error
	for p := range min(f.Partitions, sampledPartitions) {
		t, err := i.tail(ctx, p)
		if err != nil {
			i.found.add(claim.Finding{ID: "progress", What: "progress in " + f.Topic, Fact: "was not read", Advice: err.Error(), Fix: []string{"let the principal read the topic, then check again"}})
			return nil
		}
		tails[p] = t
		if t.progress == nil {
			continue
		}
		seen = t.progress
		if refused = errors.Join(refused, i.otherGroup(*seen)); refused != nil {
			break
		}
	}
	switch {
	case seen == nil: // nothing was committed yet, or nothing of late
		return i.offsets(ctx, tails)
	case refused != nil:
		return i.found.note("progress", "progress in "+f.Topic, "", refused)
	}
	i.found.add(claim.Finding{ID: "progress", What: "progress in " + f.Topic, Fact: fmt.Sprintf("of this group, incarnation %d, last written %s", seen.Incarnation, seen.At.UTC().Format("2006-01-02 15:04:05Z"))})
	i.madeAgain(*seen)
	return i.offsets(ctx, tails)
}

// madeAgain says what a start does with an input that was deleted and created again: a rebuild begins anew with it.
// Else it stops, and the offsets' finding says so, if they could be asked for.
func (i *inspection) madeAgain(seen fence.Progress) {
	for _, then := range seen.Inputs {
		for _, in := range i.found.Inputs {
			switch {
			case in.Topic != then.Topic || !in.Exists || in.ID == then.TopicID:
			case i.Rebuilds:
				i.found.warn(fmt.Sprintf("input topic %s was deleted and created again since: its id was %x and is %x, and Start.Disagreement is Rebuild: the start drops all states, and what they have of the topic as it was does not come back", in.Topic, then.TopicID, in.ID),
					"keep a copy of the states if they are needed, before the start")
			case i.Refused == nil || i.committedOffsets[in.Topic] == nil:
				i.found.warn(fmt.Sprintf("input topic %s was deleted and created again since: its id was %x and is %x, and the start stops with %q", in.Topic, then.TopicID, in.ID, stream.ErrInputChanged),
					"Start.Disagreement: Rebuild, to begin with the input as it is, or another group; Rebuild drops all states, and what they have of the topic as it was does not come back")
			}
		}
	}
}

func (i *inspection) otherGroup(p fence.Progress) error {
	if p.Group == i.Group {
		return nil
	}
	e := stream.NewError("check "+i.Progress.Role+" topic", fmt.Errorf("%w: its progress records are of group %q", stream.ErrOtherGroup, p.Group)).
		At(stream.Partition{Topic: i.Progress.Topic, Partition: -1}, -1).Hinted("name another %s topic, which belongs to one group alone", i.Progress.Role)
	e.Group = i.Group
	return e
}
