package eos

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/stream"
)

// loop copies in a consumer loop of its own, with a fenced writer for each partition that it owns.
type loop struct {
	c      copierConfig
	hooks  stream.Hooks
	group  *fence.Group
	member *kgo.Client
	ready  chan struct{} // closed when member is set: callbacks may come before NewClient returns
	log    *slog.Logger

	mu    sync.Mutex
	owned map[int32]*copying
	gone  []*fence.Ownership // ended by an error, and maybe still assigned

	fail context.CancelCauseFunc // ends the loop, also while it polls
}

// copying is one owned partition.
type copying struct {
	own    *fence.Ownership
	writer *fence.Writer
}

// copyByFence is an engine over package fence alone.
func copyByFence(ctx context.Context, c copierConfig, hooks stream.Hooks) (err error) {
	l := &loop{c: c, hooks: hooks, ready: make(chan struct{}), owned: map[int32]*copying{}, log: logger()}
	running, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	l.fail = fail
	l.group = fence.NewGroup(l.assigned, l.released)
	l.member, err = l.group.NewClient(running, c.kafka(), c.session(), kgo.ConsumeTopics(c.Input), kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	if err != nil {
		return err
	}
	close(l.ready)
	defer l.member.CloseAllowingRebalance()
	for running.Err() == nil {
		fetches := l.member.PollRecords(running, 4*c.Records) // rebalances are blocked from here to AllowRebalance
		fetches.EachError(func(_ string, _ int32, err error) {
			var session *kgo.ErrGroupSession
			switch {
			case running.Err() != nil:
			case errors.As(err, &session): // the client joins again by itself
				l.log.Warn("the group does not answer", "err", err)
			default:
				fail(err)
			}
		})
		fetches.EachPartition(func(f kgo.FetchTopicPartition) { l.copy(f.Partition, f.Records) })
		l.renew(running)
		l.member.AllowRebalance()
	}
	if ctx.Err() != nil {
		return nil
	}
	return context.Cause(running)
}

// assigned takes the partition over and starts where the group has committed: there is no state that
// could be behind it.
func (l *loop) assigned(ctx context.Context, o *fence.Ownership) {
	<-l.ready
	w, found, err := l.open(ctx, o)
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case errors.Is(err, stream.ErrOwnershipLost):
		l.gone = append(l.gone, o)
		return
	case err != nil:
		l.fail(err)
		return
	}
	l.owned[o.Partition().Partition] = &copying{own: o, writer: w}
	l.member.SetOffsets(map[string]map[int32]kgo.EpochOffset{
		l.c.Input: {o.Partition().Partition: {Epoch: -1, Offset: max(found.Next, 0)}},
	})
	l.hooks.Assigned(stream.Assigned{Partition: o.Partition(), Ownership: o.Number(), TookOver: found.TookOver, Committed: found.Next})
}

func (l *loop) open(ctx context.Context, o *fence.Ownership) (*fence.Writer, fence.Committed, error) {
	progress := stream.Partition{Topic: l.c.Progress, Partition: o.Partition().Partition}
	w, found, err := fence.Open(ctx, fence.Config{
		Kafka: l.c.kafka(), Group: l.c.Group, Ownership: o, Input: o.Partition(), Progress: progress,
		TransactionTimeout: l.c.TransactionTimeout, Hooks: []stream.Hooks{l.hooks}, Logger: l.log,
	})
	if err != nil {
		return nil, found, err
	}
	for r, err := range fence.Restore(ctx, fence.RestoreConfig{Kafka: l.c.kafka(), Partition: progress}) {
		var p fence.Progress
		if err == nil {
			p, err = fence.DecodeProgress(r.Value)
		}
		if err != nil {
			return nil, found, errors.Join(err, w.Close(ctx))
		}
		w.Adopt(p, r.Offset)
	}
	return w, found, nil
}

func (l *loop) released(o *fence.Ownership, lost bool) {
	l.mu.Lock()
	c := l.owned[o.Partition().Partition]
	if c == nil || c.own != o {
		l.mu.Unlock()
		return
	}
	delete(l.owned, o.Partition().Partition)
	l.mu.Unlock()
	// What was polled is committed before the next poll, and this runs in between: nothing is in flight.
	if err := c.writer.Close(context.Background()); err != nil {
		l.fail(err)
	}
	if lost {
		l.hooks.Lost(stream.Released{Partition: o.Partition(), Cause: o.Cause()})
		return
	}
	l.hooks.Revoked(stream.Released{Partition: o.Partition()})
}

// copy commits what was fetched in transactions of at most Records records. A stop lets the
// transaction in flight end.
func (l *loop) copy(partition int32, rs []*kgo.Record) {
	for len(rs) > 0 {
		l.mu.Lock()
		c := l.owned[partition]
		l.mu.Unlock()
		if c == nil {
			return
		}
		n := min(len(rs), l.c.Records)
		var out []stream.Message
		for _, r := range rs[:n] {
			out = append(out, stream.Message{Topic: l.c.Output, Key: r.Key, Value: r.Value, Timestamp: r.Timestamp})
		}
		last := rs[n-1]
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		err := c.writer.Commit(ctx, fence.Offset{Next: last.Offset + 1, LeaderEpoch: last.LeaderEpoch}, out...)
		cancel()
		switch {
		case errors.Is(err, stream.ErrOwnershipLost):
			l.drop(partition, c, err)
			return
		case err != nil:
			l.fail(err)
			return
		}
		rs = rs[n:]
	}
}

// drop forgets a partition whose ownership an error has ended. The next owner copies it again.
func (l *loop) drop(partition int32, c *copying, cause error) {
	l.log.Warn("partition is dropped", "partition", partition, "err", cause)
	l.mu.Lock()
	l.gone = append(l.gone, c.own)
	delete(l.owned, partition)
	l.mu.Unlock()
	if err := c.writer.Close(context.Background()); err != nil {
		l.fail(err)
	}
	l.hooks.Lost(stream.Released{Partition: c.own.Partition(), Cause: cause})
}

// renew asks for partitions whose ownership ended while the group still assigns them to this member.
func (l *loop) renew(ctx context.Context) {
	l.mu.Lock()
	gone := l.gone
	l.gone = nil
	l.mu.Unlock()
	for _, o := range gone {
		again, err := l.group.Renew(ctx, o)
		if err != nil && ctx.Err() == nil {
			l.fail(err)
		}
		if again != nil {
			l.assigned(ctx, again)
		}
	}
}
