package holdfasttest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/stream"
)

// settleTime is how long Collect waits for transactions that are ending: the markers of a commit
// may come after the member was told of it. Those that are open then are taken as they are.
const settleTime = 5 * time.Second

// Collect reads the topics of m and the group's committed offsets, all of them to their ends as they
// are at the call. Call it when the members have stopped: of a group that runs it gives pieces of
// different moments. What others have written to the topics of outputs and snapshots is judged as well:
// a test has topics of its own. Logs of members are added as they are given. For a run that was
// interrupted early, set History.Unfinished before Check.
//
// It returns stream.ErrTopic for a topic that does not exist, stream.ErrNotAuthorized where reading is
// not allowed, and the cause of ctx when that ends first.
func Collect(ctx context.Context, m Model, members ...Member) (History, error) {
	cl, err := m.kafka.Client(kgo.MetadataMinAge(100 * time.Millisecond))
	if err != nil {
		return History{}, err
	}
	defer cl.Close()
	h := History{Members: members}
	for _, topic := range m.inputs {
		logs, err := readTopic(ctx, cl, topic)
		if err != nil {
			return h, err
		}
		h.Inputs = append(h.Inputs, logs...)
		offsets, err := readOffsets(ctx, cl, m.group, logs)
		if err != nil {
			return h, err
		}
		h.Offsets = append(h.Offsets, offsets...)
	}
	if h.Snapshots, err = readTopic(ctx, cl, m.progress); err != nil {
		return h, err
	}
	for _, topic := range m.outputs {
		logs, err := readTopic(ctx, cl, topic)
		if err != nil {
			return h, err
		}
		h.Outputs = append(h.Outputs, logs...)
	}
	if m.deadLetters != "" {
		h.DeadLetters, err = readTopic(ctx, cl, m.deadLetters)
	}
	return h, err
}

// readTopic reads every partition of a topic.
func readTopic(ctx context.Context, cl *kgo.Client, topic string) ([]Log, error) {
	topics, err := kadm.NewClient(cl).ListTopics(ctx, topic)
	if err == nil && errors.Is(topics[topic].Err, kerr.UnknownTopicOrPartition) {
		err = stream.ErrTopic
	}
	if err == nil {
		err = topics[topic].Err
	}
	if err != nil {
		return nil, stream.NewError("collect", err).At(stream.Partition{Topic: topic, Partition: -1}, -1)
	}
	logs := make([]Log, len(topics[topic].Partitions))
	for p := range logs {
		l := wire.Log{Client: cl, Topic: topic, TopicID: topics[topic].ID, Partition: int32(p)}
		if logs[p], err = readLog(ctx, l); err != nil {
			return nil, fmt.Errorf("collect: %w", err)
		}
	}
	return logs, nil
}

func readLog(ctx context.Context, l wire.Log) (Log, error) {
	log := Log{Partition: l.At()}
	end, err := settled(ctx, l, &log)
	if err != nil {
		return log, err
	}
	expected := log.Start
	_, err = l.View(ctx, wire.ViewOptions{From: log.Start, To: end}, func(e wire.Entry) error {
		if e.Record.Offset != expected {
			log.Compacted = true
		}
		expected = e.Record.Offset + 1
		if !e.Status.Control() {
			log.Records = append(log.Records, Record{Record: wire.Record(e.Record), Status: statusOf(e.Status)})
		}
		return nil
	})
	return log, err
}

// settled waits until no transaction is open below the high watermark, but not for long.
func settled(ctx context.Context, l wire.Log, log *Log) (end int64, err error) {
	until := time.NewTimer(settleTime)
	defer until.Stop()
	for {
		start, hw, lso, err := l.Ends(ctx)
		if err != nil {
			return 0, err
		}
		if log.End == 0 { // later records are not of this history
			log.Start, log.End = start, hw
		}
		if lso >= log.End {
			return log.End, nil
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-until.C:
			return log.End, nil
		case <-ctx.Done():
			return 0, context.Cause(ctx)
		}
	}
}

func statusOf(s wire.Status) Status {
	switch s {
	case wire.StatusPlain, wire.StatusCommitted:
		return Committed
	case wire.StatusAborted:
		return Aborted
	case wire.StatusOpen:
		return Open
	case wire.StatusCommitMarker, wire.StatusAbortMarker, wire.StatusControl:
	}
	return Unknown
}

// readOffsets reads the stable committed offsets of a topic's partitions.
func readOffsets(ctx context.Context, cl *kgo.Client, group string, logs []Log) ([]Offset, error) {
	if len(logs) == 0 {
		return nil, nil
	}
	id, err := wire.TopicID(ctx, cl, logs[0].Partition.Topic)
	if err != nil {
		return nil, err
	}
	var offsets []Offset
	for _, log := range logs {
		o, err := readOffset(ctx, cl, group, log.Partition, id)
		if err != nil {
			return nil, stream.NewError("collect offset", err).At(log.Partition, -1)
		}
		if o.Next >= 0 {
			offsets = append(offsets, o)
		}
	}
	return offsets, nil
}

func readOffset(ctx context.Context, cl *kgo.Client, group string, p stream.Partition, id [16]byte) (Offset, error) {
	for {
		o, err := wire.FetchOffset(ctx, cl, group, wire.Member{}, p, id)
		if err == nil {
			return Offset{Partition: p, Next: o.Next, Metadata: o.Metadata}, nil
		}
		if !kerr.IsRetriable(err) && !errors.Is(err, kerr.UnstableOffsetCommit) {
			return Offset{}, err
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			return Offset{}, fmt.Errorf("%w; the last attempt met: %w", context.Cause(ctx), err)
		}
	}
}
