package preflight

import (
	"context"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/holdfast-go/holdfast/claim"
	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/stream"
)

// layout refuses an input that has got partitions since the states were folded (R31). Those that were there before
// would find it out by their progress records. The one that was added has none, and a process that starts now knows
// no other layout: it would begin it as that of a new flow.
//
// The first progress record of the input that is found decides, since all of them are of one layout. What cannot be
// read within the coordinator's patience is passed over with a warning.
func (i *inspection) layout(parent context.Context) error {
	if i.Component != claim.ComponentFlow || len(i.found.Inputs) != 1 || !i.found.Inputs[0].Exists {
		return nil
	}
	ctx, cancel := context.WithTimeout(parent, i.patience)
	defer cancel()
	in, topic := i.found.Inputs[0], i.Progress.Topic
	told, err := wire.TopicLayout(ctx, i.client, topic)
	if err != nil || !told.Exists {
		return nil // it is said of the topic itself
	}
	ends, err := kadm.NewClient(i.client).ListEndOffsets(ctx, topic)
	for p := range min(told.Partitions, in.Partitions) {
		if end, ok := ends.Lookup(topic, p); err == nil && ok && end.Err == nil && end.Offset == 0 {
			continue
		}
		then, failed := newestProgress(ctx, wire.Log{Client: i.client, Topic: topic, TopicID: told.ID, Partition: p})
		if err = errors.Join(err, failed); ctx.Err() != nil {
			break
		}
		if then == nil || len(then.Inputs) != 1 || then.Inputs[0].TopicID != in.ID {
			continue
		}
		if then.Partitions >= in.Partitions {
			return nil
		}
		e := wire.KeysMoved(in.Topic, then.Partitions, in.Partitions).At(stream.Partition{Topic: in.Topic, Partition: -1}, -1)
		e.Group = i.Group
		return i.found.note("layout", "partitions of input topic "+in.Topic, "", e)
	}
	if parent.Err() == nil && err != nil {
		i.found.add(claim.Finding{
			ID: "layout", What: "partitions of input topic " + in.Topic, Fact: "were not compared with those that the states were folded from",
			Warning: fmt.Sprintf("if it has got more, a partition that was added begins with empty states (%v)", err), Fix: []string{"see that the snapshot topic can be read, then check again"},
		})
	}
	return nil
}

// progressTail is how many offsets at the end of a partition are read for its newest progress record, which every
// commit ends with.
const progressTail = 200

// newestProgress reads the newest progress record at the end of a partition, nil if there is none.
func newestProgress(ctx context.Context, log wire.Log) (newest *fence.Progress, err error) {
	start, _, stable, err := log.Ends(ctx)
	if err != nil {
		return nil, err
	}
	_, err = log.Read(ctx, wire.ReadOptions{From: max(start, stable-progressTail), To: stable, MaxBytes: sampledBytes, Committed: true}, func(r *kgo.Record) error {
		if !fence.IsProgressKey(r.Key) || r.Value == nil {
			return nil
		}
		if p, err := fence.DecodeProgress(r.Value); err == nil {
			newest = &p
		}
		return nil
	})
	return newest, err
}
