// Package wire makes the requests that franz-go's high-level interface does not offer or hides too
// much of: reads of one partition by position, the last stable offset and who holds it, and the
// checks of topics. Everything works on a *kgo.Client that the caller owns and may share.
package wire

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/holdfast-go/holdfast/stream"
)

// Log is one partition of one topic. Its methods are safe for concurrent use; many Logs may share
// one Client, which must not be a member of a group on their account.
type Log struct {
	Client    *kgo.Client
	Topic     string
	TopicID   [16]byte // zero: the topic is taken as it is found by name
	Partition int32
}

// At returns the partition's name.
func (l Log) At() stream.Partition {
	return stream.Partition{Topic: l.Topic, Partition: l.Partition}
}

// The back-off between attempts that wait for a leader doubles from retryMin to retryMax.
const (
	retryMin = 50 * time.Millisecond
	retryMax = time.Second
)

// gonePatience is for how long the cluster has to say that a topic does not exist before it is
// believed: a broker that has just started answers from metadata that it has not caught up with, and
// one that leads a partition of a topic made a moment ago may not have heard of it.
const gonePatience = 10 * time.Second

// leader is where a partition is led, as the metadata told.
type leader struct {
	broker  int32
	epoch   int32
	topicID [16]byte
}

var errUnknownPartition = errors.New("the topic has no such partition")

// lookup finds out who leads the partition: from the client's cache, which many Logs of one topic
// share, or freshly from the cluster. Errors of the Kafka protocol come back as they are; another
// topic id than the Log's is kerr.InconsistentTopicID.
func (l Log) lookup(ctx context.Context, fresh bool) (leader, error) {
	req := kmsg.NewPtrMetadataRequest()
	rt := kmsg.NewMetadataRequestTopic()
	rt.Topic = kmsg.StringPtr(l.Topic)
	req.Topics = append(req.Topics, rt)
	var resp *kmsg.MetadataResponse
	var err error
	if fresh {
		resp, err = req.RequestWith(ctx, l.Client)
	} else {
		resp, err = l.Client.RequestCachedMetadata(ctx, req, 0)
	}
	if err != nil {
		return leader{}, err
	}
	if len(resp.Topics) != 1 {
		return leader{}, fmt.Errorf("metadata answered %d topics instead of 1", len(resp.Topics))
	}
	t := &resp.Topics[0]
	if err := kerr.ErrorForCode(t.ErrorCode); err != nil {
		return leader{}, err
	}
	if l.TopicID != ([16]byte{}) && t.TopicID != ([16]byte{}) && t.TopicID != l.TopicID {
		return leader{}, kerr.InconsistentTopicID
	}
	for i := range t.Partitions {
		p := &t.Partitions[i]
		if p.Partition != l.Partition {
			continue
		}
		// A leader is named beside an error such as REPLICA_NOT_AVAILABLE, which tells about a
		// follower and does not hinder a read.
		if p.Leader < 0 {
			return leader{}, kerr.LeaderNotAvailable
		}
		return leader{broker: p.Leader, epoch: p.LeaderEpoch, topicID: t.TopicID}, nil
	}
	return leader{}, errUnknownPartition
}

// retry runs attempt until it succeeds, fails for good or ctx ends. Attempts are told the leader;
// it is looked up again after each failure, because most failures that pass mean that it moved.
func (l Log) retry(ctx context.Context, op string, known *leader, onRetry func(error), attempt func(leader) error) error {
	var gone time.Time // since when it is, zero: it is not
	fresh := false     // the first lookup may come from the cache; a failure shows that it may be stale
	for pause := retryMin; ; pause = min(2*pause, retryMax) {
		var err error
		if known.broker < 0 {
			*known, err = l.lookup(ctx, fresh)
			if err != nil {
				known.broker = -1
			}
		}
		if err == nil {
			err = attempt(*known)
		}
		if err == nil {
			return nil
		}
		if !IsThrottled(err) { // which is an answer of the leader
			known.broker, fresh = -1, true
		}
		if errors.Is(err, kerr.UnknownTopicOrPartition) || errors.Is(err, errUnknownPartition) {
			if gone.IsZero() {
				gone = time.Now()
			}
		} else {
			gone = time.Time{}
		}
		if !gone.IsZero() && time.Since(gone) >= gonePatience || fatal(err) {
			return l.named(op, err)
		}
		if ctx.Err() == nil && onRetry != nil {
			onRetry(err)
		}
		if ctx.Err() != nil || !sleep(ctx, pause) {
			return gaveUp(ctx, err)
		}
	}
}

// gaveUp says why the retries ended, and what the last attempt met where that tells more.
func gaveUp(ctx context.Context, last error) error {
	cause := context.Cause(ctx)
	if errors.Is(last, context.Canceled) || errors.Is(last, context.DeadlineExceeded) {
		return cause
	}
	return fmt.Errorf("%w; the last attempt met: %w", cause, last)
}

// sleep waits for d and reports whether it did; false means that ctx ended first.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// The timestamps that ListOffsets understands as places.
const (
	latestOffset   = -1
	earliestOffset = -2
)

// Ends returns the partition's first offset, its high watermark and its last stable offset, each
// asked of the leader in this order. It waits for a leader as long as ctx lasts. The last stable
// offset is below the high watermark exactly when a transaction is open in between.
func (l Log) Ends(ctx context.Context) (start, highWatermark, lastStable int64, err error) {
	return l.ends(ctx, nil)
}

func (l Log) ends(ctx context.Context, onRetry func(error)) (start, highWatermark, lastStable int64, err error) {
	known := leader{broker: -1}
	ask := func(into *int64, at int64, isolation int8) error {
		return l.retry(ctx, "list offsets", &known, onRetry, func(on leader) (err error) {
			*into, err = l.listOffset(ctx, on, at, isolation)
			return err
		})
	}
	err = ask(&start, earliestOffset, 0)
	if err == nil {
		err = ask(&highWatermark, latestOffset, 0)
	}
	if err == nil {
		err = ask(&lastStable, latestOffset, 1)
	}
	if err != nil {
		return 0, 0, 0, err
	}
	return start, highWatermark, lastStable, nil
}

// Start returns the partition's first offset, as Ends does.
func (l Log) Start(ctx context.Context) (start int64, err error) {
	known := leader{broker: -1}
	err = l.retry(ctx, "list offsets", &known, nil, func(on leader) (err error) {
		start, err = l.listOffset(ctx, on, earliestOffset, 0)
		return err
	})
	return start, err
}

func (l Log) listOffset(ctx context.Context, on leader, at int64, isolation int8) (int64, error) {
	req := kmsg.NewPtrListOffsetsRequest()
	req.ReplicaID, req.IsolationLevel = -1, isolation
	rt := kmsg.NewListOffsetsRequestTopic()
	rt.Topic = l.Topic
	rp := kmsg.NewListOffsetsRequestTopicPartition()
	rp.Partition, rp.Timestamp, rp.CurrentLeaderEpoch = l.Partition, at, on.epoch
	rt.Partitions = append(rt.Partitions, rp)
	req.Topics = append(req.Topics, rt)
	resp, err := req.RequestWith(ctx, l.Client.Broker(int(on.broker)))
	if err != nil {
		return 0, err
	}
	if len(resp.Topics) != 1 || len(resp.Topics[0].Partitions) != 1 {
		return 0, errors.New("the broker answered another number of partitions than was asked")
	}
	p := &resp.Topics[0].Partitions[0]
	if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
		return 0, err
	}
	if p.Offset < 0 {
		return 0, fmt.Errorf("the broker answered offset %d", p.Offset)
	}
	return p.Offset, nil
}
