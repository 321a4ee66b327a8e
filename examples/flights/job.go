package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/codec"
	"github.com/holdfast-go/holdfast/kafka"
	"github.com/holdfast-go/holdfast/stream"
)

const partitions = 4

// job is one run, with topics of its own.
type job struct {
	cluster          kafka.Config
	client           *kgo.Client
	input, snapshots string

	mu        sync.Mutex
	produced  [partitions]int64 // next offset
	committed [partitions]int64
	owner     [partitions]int
	changed   chan struct{} // holds one element if something changed
}

func newJob(ctx context.Context, cluster kafka.Config) (*job, error) {
	name := fmt.Sprintf("flights-%d", time.Now().UnixMilli())
	client, err := cluster.Client()
	if err != nil {
		return nil, err
	}
	j := &job{cluster: cluster, client: client, input: name, snapshots: name + "-airports", changed: make(chan struct{}, 1)}
	if _, err := kadm.NewClient(client).CreateTopic(ctx, partitions, -1, nil, j.input); err != nil {
		client.Close()
		return nil, kafka.Explain(err)
	}
	return j, nil
}

// close deletes the topics: on a cluster that is used for other things nothing is left behind.
func (j *job) close() {
	defer j.client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if _, err := kadm.NewClient(j.client).DeleteTopics(ctx, j.input, j.snapshots); err != nil {
		fmt.Printf("the topics %s and %s are left behind: %v\n", j.input, j.snapshots, err)
	}
}

// fold has one member fold the first half of the flights, and two the second.
func (j *job) fold(ctx context.Context, out io.Writer, flights []flight) error {
	ctx, stop := context.WithCancelCause(ctx)
	var members sync.WaitGroup
	defer members.Wait()
	defer stop(nil)
	var folded [3]atomic.Int64
	start := func(number int) {
		members.Go(func() {
			if err := j.member(ctx, number, &folded[number]); err != nil {
				stop(fmt.Errorf("member %d: %w", number, err))
			}
		})
	}
	half := len(flights) / 2
	start(1)
	if err := errors.Join(j.produce(ctx, flights[:half]), j.wait(ctx, j.caughtUp)); err != nil {
		return err
	}
	start(2)
	if err := errors.Join(j.wait(ctx, j.shared), j.produce(ctx, flights[half:]), j.wait(ctx, j.caughtUp)); err != nil {
		return err
	}
	stop(nil)
	members.Wait()
	fmt.Fprintf(out, "%d flights folded: %d by member 1, %d by member 2, which joined half-way\n",
		len(flights), folded[1].Load(), folded[2].Load())
	return nil
}

// member runs one flow until ctx ends.
func (j *job) member(ctx context.Context, number int, folded *atomic.Int64) error {
	flow, err := holdfast.New(holdfast.Config[airport]{
		Kafka:     j.cluster,
		Group:     j.input,
		Inputs:    []string{j.input},
		Snapshots: holdfast.Snapshots{Topic: j.snapshots, Create: &holdfast.TopicConfig{}},
		Codec:     codec.JSON[airport](),
		Fold: func(_ context.Context, k *holdfast.Key[airport], r stream.Record) error {
			var f flight
			if err := json.Unmarshal(r.Value, &f); err != nil {
				return err
			}
			a, _ := k.State()
			k.Set(a.add(f))
			folded.Add(1)
			return nil
		},
		Member: holdfast.Member{HeartbeatInterval: time.Second}, // by which a member learns that another has joined
		Commit: holdfast.Commit{Persist: 200 * time.Millisecond},
		Hooks: []holdfast.Hooks{{
			Assigned:  func(e stream.Assigned) { j.note(func() { j.owner[e.Partition.Partition] = number }) },
			Committed: func(e stream.Committed) { j.note(func() { j.committed[e.Partition.Partition] = e.Next }) },
		}},
	})
	if err != nil {
		return err
	}
	return flow.Run(ctx)
}

func (j *job) note(change func()) {
	j.mu.Lock()
	change()
	j.mu.Unlock()
	select {
	case j.changed <- struct{}{}:
	default: // whoever waits looks again anyway
	}
}

// caughtUp reports whether all that was produced is committed. It is called with mu held.
func (j *job) caughtUp() bool { return j.committed == j.produced }

// shared reports whether both members own partitions. It is called with mu held.
func (j *job) shared() bool {
	var owned [3]bool
	for _, number := range j.owner {
		owned[number] = true
	}
	return owned[1] && owned[2]
}

func (j *job) wait(ctx context.Context, until func() bool) error {
	for {
		j.mu.Lock()
		done := until()
		j.mu.Unlock()
		if done {
			return nil
		}
		select {
		case <-j.changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func (j *job) produce(ctx context.Context, flights []flight) error {
	rs := make([]*kgo.Record, len(flights))
	for i, f := range flights {
		rs[i] = &kgo.Record{Topic: j.input, Key: []byte(f.Origin), Value: f.line}
	}
	for _, result := range j.client.ProduceSync(ctx, rs...) {
		if result.Err != nil {
			return result.Err
		}
		j.note(func() {
			p := &j.produced[result.Record.Partition]
			*p = max(*p, result.Record.Offset+1)
		})
	}
	return nil
}

// readStates reads the snapshot topic as any consumer can: the last value of a key is its state.
func (j *job) readStates(ctx context.Context) (map[string]airport, error) {
	ends, err := kadm.NewClient(j.client).ListEndOffsets(ctx, j.snapshots)
	if err == nil {
		err = ends.Error()
	}
	if err != nil {
		return nil, err
	}
	reader, err := j.cluster.Client(
		kgo.ConsumeTopics(j.snapshots), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.KeepControlRecords(), // the last offset of a partition is often that of a transaction's end
	)
	if err != nil {
		return nil, err
	}
	defer reader.Close()
	states, open := map[string]airport{}, map[int32]bool{}
	ends.Each(func(o kadm.ListedOffset) { open[o.Partition] = o.Offset > 0 })
	for {
		left := 0
		for _, isOpen := range open {
			if isOpen {
				left++
			}
		}
		if left == 0 {
			return states, nil
		}
		fetches := reader.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return nil, err
		}
		for r := range fetches.RecordsAll() {
			end, _ := ends.Lookup(j.snapshots, r.Partition)
			open[r.Partition] = open[r.Partition] && r.Offset+1 < end.Offset
			// Keys that begin with byte 0 are Holdfast's own: the progress of the partition.
			if r.Attrs.IsControl() || strings.HasPrefix(string(r.Key), "\x00") {
				continue
			}
			var a airport
			if err := json.Unmarshal(r.Value, &a); err != nil {
				return nil, fmt.Errorf("state of %s: %w", r.Key, err)
			}
			states[string(r.Key)] = a
		}
	}
}
