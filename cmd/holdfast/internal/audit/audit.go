// Package audit reads what a run of the demo left behind, as anybody could who knows the three
// topics: it takes the events from the input, folds them with code of its own, and compares the
// result with the states in the snapshot topic and with the outputs. It shares no code with the
// library that wrote them.
package audit

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/holdfast-go/holdfast/kafka"
)

// Place names what is to be read.
type Place struct {
	Group, Input, Snapshots, Outputs string
}

// Report is what was found.
type Report struct {
	Events int // events in the input
	Keys   int // learners in the input

	// Lost are the events that the state or the outputs lack: Missing from a state, Unfolded because
	// the committed offset never passed them, Silent because no output was ever written for them, or
	// Forgotten by the state that an output shows.
	Lost                                 int
	Missing, Unfolded, Silent, Forgotten int
	// Repeated are the events that were folded twice, into the state that remained (Twice) or into
	// one that an output shows (Shown).
	Repeated     int
	Twice, Shown int
	// Disordered are states that hold the right events in another order or with another sum.
	Disordered int

	Outputs  int      // output records read; repeats are allowed
	Examples []string // some of what was found, in words
	Lag      []Lag    // partitions whose committed offset is not the end
}

// Lag is a partition that was not folded to its end.
type Lag struct {
	Partition      int32
	Committed, End int64
}

// Clean reports whether the state is exactly what the input gives.
func (r Report) Clean() bool { return r.Lost == 0 && r.Repeated == 0 && r.Disordered == 0 }

// Run reads everything and compares. It waits for transactions that are open in the snapshot topic,
// for as long as ctx lets it.
func Run(ctx context.Context, k kafka.Config, p Place) (Report, error) {
	cl, err := k.Client()
	if err != nil {
		return Report{}, err
	}
	defer cl.Close()
	adm := kadm.NewClient(cl)
	offsets, err := adm.FetchOffsets(ctx, p.Group)
	if err != nil {
		return Report{}, fmt.Errorf("audit: read the committed offsets of %s: %w", p.Group, err)
	}
	input, err := read(ctx, k, adm, p.Input, kgo.ReadUncommitted())
	if err != nil {
		return Report{}, err
	}
	snapshots, err := read(ctx, k, adm, p.Snapshots, kgo.ReadCommitted())
	if err != nil {
		return Report{}, err
	}
	outputs, err := read(ctx, k, adm, p.Outputs, kgo.ReadCommitted())
	if err != nil {
		return Report{}, err
	}
	c := newComparison(p.Input)
	if err := c.addInput(input); err != nil {
		return Report{}, err
	}
	if err := c.addStates(snapshots); err != nil {
		return Report{}, err
	}
	if err := c.addOutputs(outputs); err != nil {
		return Report{}, err
	}
	committed := func(partition int32) int64 {
		if o, ok := offsets.Lookup(p.Input, partition); ok && o.Err == nil {
			return o.At
		}
		return 0
	}
	return c.report(committed), nil
}

// read returns every record of a topic, in the order of each partition.
func read(ctx context.Context, k kafka.Config, adm *kadm.Client, topic string, level kgo.IsolationLevel) ([]*kgo.Record, error) {
	wrap := func(err error) error { return fmt.Errorf("audit: read %s: %w", topic, err) }
	ends, err := adm.ListEndOffsets(ctx, topic)
	if err == nil {
		err = ends.Error()
	}
	if err != nil {
		return nil, wrap(err)
	}
	starts := map[int32]kgo.Offset{}
	left := map[int32]int64{} // partition → offset of its last record or marker
	ends.Each(func(o kadm.ListedOffset) {
		if o.Offset > 0 {
			starts[o.Partition], left[o.Partition] = kgo.NewOffset().AtStart(), o.Offset-1
		}
	})
	if len(left) == 0 {
		return nil, nil
	}
	// Control records are asked for because a partition written by transactions ends in one: without
	// them the end would never be seen.
	cl, err := k.Client(kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: starts}),
		kgo.FetchIsolationLevel(level), kgo.KeepControlRecords(), kgo.FetchMaxWait(200*time.Millisecond))
	if err != nil {
		return nil, wrap(err)
	}
	defer cl.Close()
	var all []*kgo.Record
	for len(left) > 0 {
		fetches := cl.PollFetches(ctx)
		if err := ctx.Err(); err != nil {
			return nil, wrap(fmt.Errorf("%w with %d partitions not read to the end", context.Cause(ctx), len(left)))
		}
		if err := fetches.Err0(); err != nil {
			return nil, wrap(err)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			if last, ok := left[r.Partition]; ok && r.Offset >= last {
				delete(left, r.Partition)
			}
			if !r.Attrs.IsControl() {
				all = append(all, r)
			}
		})
	}
	slices.SortStableFunc(all, func(a, b *kgo.Record) int {
		if a.Partition != b.Partition {
			return int(a.Partition - b.Partition)
		}
		return int(a.Offset - b.Offset)
	})
	return all, nil
}

// list writes event numbers for people.
func list(events []int64) string {
	const most = 5
	text := make([]string, 0, most)
	for i, e := range events {
		if i == most {
			text = append(text, fmt.Sprintf("and %d more", len(events)-most))
			break
		}
		text = append(text, fmt.Sprint(e))
	}
	return strings.Join(text, ", ")
}
