package preflight

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/holdfast-go/holdfast/claim"
	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/snapshot"
)

// What is read of the snapshots to find keys that stand in two partitions, at the end of each.
const (
	keyPartitions = 64
	keyRecords    = 2000
	keyBytes      = 1 << 20
)

// keys says whether a key has states in two partitions of the snapshot topic: each of them has a part of the key's
// records. Of a partition the newest incarnation counts, and of a key there its newest record.
func (i *inspection) keys(ctx context.Context) {
	f := i.found.Progress
	if !f.Exists || f.Partitions < 2 || i.Progress.Role != "snapshot" {
		return
	}
	what := "keys of snapshot topic " + f.Topic
	at, twice, looked := map[string]int32{}, 0, min(f.Partitions, keyPartitions)
	var example [2]int32
	for p := range looked {
		states, err := i.states(ctx, f, p)
		if err != nil {
			i.found.add(claim.Finding{ID: "keys", What: what, Fact: "were not sampled", Advice: err.Error(), Fix: []string{"let the principal read the topic, then check again"}})
			return
		}
		for key := range states {
			if other, ok := at[key]; ok {
				twice++
				example = [2]int32{other, p}
			}
			at[key] = p
		}
	}
	i.found.add(claim.Finding{ID: "keys", What: what, Fact: fmt.Sprintf("%d keys sampled (at the end of %d partitions), %d of them have states in two partitions", len(at), looked, twice)})
	if twice > 0 {
		i.found.warn(fmt.Sprintf("keys have moved, as between partitions %d and %d, because the input got partitions or two partitioners write it: each of a key's states has a part of its records", example[0], example[1]),
			"make a topic with as many partitions as wanted, copy the input into it with a pipe that forwards each record by its key, and fold that under a new group and snapshot topic")
	}
}

// states are the keys at the end of a partition that have a state.
func (i *inspection) states(ctx context.Context, f wire.Facts, partition int32) (map[string]bool, error) {
	log := wire.Log{Client: i.client, Topic: f.Topic, TopicID: f.ID, Partition: partition}
	start, _, stable, err := log.Ends(ctx)
	if err != nil {
		return nil, err
	}
	live, newest := map[string]bool{}, uint64(0)
	_, err = log.Read(ctx, wire.ReadOptions{From: max(start, stable-keyRecords), To: stable, MaxBytes: keyBytes, Committed: true}, func(r *kgo.Record) error {
		if snapshot.Reserved(r.Key) {
			return nil
		}
		s, err := snapshot.Decode(wire.Record(r))
		if err != nil {
			return nil // it is told by the restore that meets it
		}
		if s.Kind == snapshot.Tombstone {
			delete(live, string(s.Key))
			return nil
		}
		if s.Incarnation > newest {
			newest = s.Incarnation
			clear(live)
		}
		if live[string(s.Key)] = s.Kind != snapshot.Deleted && s.Incarnation == newest; !live[string(s.Key)] {
			delete(live, string(s.Key))
		}
		return nil
	})
	return live, err
}
