package demo

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"sync"

	"github.com/twmb/franz-go/pkg/kgo"
)

// snapshotSeen is the newest snapshot of a learner.
type snapshotSeen struct {
	learner   string
	partition int32
	offset    int64
	deleted   bool
	events    []int64
	newest    int64 // the highest event in any snapshot of the learner so far
}

func (s snapshotSeen) last() int64 {
	if len(s.events) == 0 {
		return 0
	}
	return s.events[len(s.events)-1]
}

// watch follows the snapshot topic, so that a fault can be made at the moment that it needs.
type watch struct {
	client *kgo.Client

	mu    sync.Mutex
	seen  map[string]snapshotSeen
	err   error
	grown chan struct{}
	done  chan struct{}
}

func newWatch(p *place) (*watch, error) {
	cl, err := p.kafka.Client(kgo.ConsumeTopics(p.Snapshots), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.FetchMaxWait(tickEvery))
	if err != nil {
		return nil, err
	}
	return &watch{client: cl, seen: map[string]snapshotSeen{}, grown: make(chan struct{}), done: make(chan struct{})}, nil
}

// run reads until ctx ends. It closes done.
func (w *watch) run(ctx context.Context) {
	defer close(w.done)
	defer w.client.Close()
	for ctx.Err() == nil {
		fetches := w.client.PollFetches(ctx)
		w.mu.Lock()
		fetches.EachRecord(w.addLocked)
		if fetches.NumRecords() > 0 {
			close(w.grown)
			w.grown = make(chan struct{})
		}
		w.mu.Unlock()
	}
}

func (w *watch) addLocked(r *kgo.Record) {
	if len(r.Key) == 0 || r.Key[0] == 0 {
		return
	}
	s := snapshotSeen{
		learner: string(r.Key), partition: r.Partition, offset: r.Offset,
		deleted: len(r.Value) == 0, newest: w.seen[string(r.Key)].newest,
	}
	if !s.deleted {
		var l Learner
		if err := json.Unmarshal(r.Value, &l); err != nil {
			w.err = fmt.Errorf("watch %s/%d offset %d: %w", r.Topic, r.Partition, r.Offset, err)
			return
		}
		s.events = l.Events
		s.newest = max(s.newest, s.last())
	}
	w.seen[s.learner] = s
}

// await calls look with the newest snapshots, at each change, until it returns true.
func (w *watch) await(ctx context.Context, what string, look func(map[string]snapshotSeen) (bool, error)) error {
	for {
		w.mu.Lock()
		seen, grown, err := maps.Clone(w.seen), w.grown, w.err
		w.mu.Unlock()
		if err != nil {
			return err
		}
		found, err := look(seen)
		if err != nil || found {
			return err
		}
		select {
		case <-grown:
		case <-ctx.Done():
			return fmt.Errorf("wait for %s: %w", what, context.Cause(ctx))
		}
	}
}
