package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/kafka"
	"github.com/holdfast-go/holdfast/stream"
)

const writes = 300

// benchWrite writes one small snapshot a transaction, one after another, beside the same requests
// made by hand: begin, produce, TxnOffsetCommit, end. The hand-made one does not wait between
// transactions, which the fence does (see fence's pause).
func benchWrite(ctx context.Context, e *env) error {
	m, err := e.joinOne(ctx)
	if err != nil {
		return err
	}
	defer m.close()
	ours, bare, err := e.inTurns(
		func() (time.Duration, error) { return m.fenced(ctx, e) },
		func() (time.Duration, error) { return m.byHand(ctx, e) },
	)
	if err != nil {
		return err
	}
	e.row("one fenced write", ours/writes, bare/writes, fmt.Sprintf("mean of %d in a row, one snapshot and one offset each", writes))
	return nil
}

// membership is a group member that owns one partition and polls.
type membership struct {
	group, input string
	id           [16]byte
	client       *kgo.Client
	own          *fence.Ownership
	cancel       context.CancelFunc
	done         chan struct{}
}

func (e *env) joinOne(ctx context.Context) (*membership, error) {
	m := &membership{input: unique("bench-write"), done: make(chan struct{})}
	m.group = m.input + "-g"
	d, err := e.topic(ctx, m.input, 1, false)
	if err != nil {
		return nil, err
	}
	m.id = d.ID
	granted := make(chan *fence.Ownership, 1)
	g := fence.NewGroup(func(_ context.Context, o *fence.Ownership) { granted <- o }, func(*fence.Ownership, bool) {})
	m.client, err = g.NewClient(ctx, kafka.Config{Brokers: e.addrs}, fence.Session{Group: m.group},
		kgo.ConsumeTopics(m.input), kgo.ConsumeStartOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		return nil, err
	}
	ctx, m.cancel = context.WithCancel(ctx)
	go func() {
		defer close(m.done)
		for ctx.Err() == nil {
			m.client.PollFetches(ctx)
			m.client.AllowRebalance()
		}
	}()
	select {
	case m.own = <-granted:
		return m, nil
	case <-time.After(time.Minute):
		m.close()
		return nil, errors.New("no partition was assigned within a minute")
	}
}

func (m *membership) close() {
	m.cancel()
	<-m.done
	m.client.CloseAllowingRebalance()
}

func (m *membership) fenced(ctx context.Context, e *env) (time.Duration, error) {
	snapshots := unique("bench-snapshots")
	if _, err := e.topic(ctx, snapshots, 1, true); err != nil {
		return 0, err
	}
	w, _, err := fence.Open(ctx, fence.Config{
		Kafka: kafka.Config{Brokers: e.addrs}, Group: m.group, Ownership: m.own, InputTopicID: m.id,
		Input: stream.Partition{Topic: m.input}, Progress: stream.Partition{Topic: snapshots}, InputPartitions: 1,
	})
	if err != nil {
		return 0, err
	}
	defer w.Close(ctx)
	if err := w.Commit(ctx, fence.Offset{Next: 0, LeaderEpoch: -1}); err != nil { // warm-up
		return 0, err
	}
	began := time.Now()
	for i := range writes {
		if err := w.Write(ctx, stream.Message{Key: []byte("k" + strconv.Itoa(i)), Value: []byte("state")}); err != nil {
			return 0, err
		}
	}
	return time.Since(began), nil
}

func (m *membership) byHand(ctx context.Context, e *env) (time.Duration, error) {
	snapshots := unique("bench-byhand")
	if _, err := e.topic(ctx, snapshots, 1, true); err != nil {
		return 0, err
	}
	cl, err := e.client(kgo.TransactionalID(snapshots), kgo.ProducerLinger(0), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		return 0, err
	}
	defer cl.Close()
	if err := m.transaction(ctx, cl, snapshots, 0); err != nil {
		return 0, err
	}
	began := time.Now()
	for i := range writes {
		if err := m.transaction(ctx, cl, snapshots, i); err != nil {
			return 0, err
		}
	}
	return time.Since(began), nil
}

func (m *membership) transaction(ctx context.Context, cl *kgo.Client, snapshots string, i int) error {
	if err := cl.BeginTransaction(); err != nil {
		return err
	}
	r := &kgo.Record{Topic: snapshots, Key: []byte("k" + strconv.Itoa(i)), Value: []byte("state")}
	if err := cl.ProduceSync(ctx, r).FirstErr(); err != nil {
		return err
	}
	id, epoch, err := cl.ProducerID(ctx)
	if err != nil {
		return err
	}
	member, generation := m.client.GroupMetadata()
	req := kmsg.NewPtrTxnOffsetCommitRequest()
	req.TransactionalID, req.Group, req.ProducerID, req.ProducerEpoch = snapshots, m.group, id, epoch
	req.MemberID, req.Generation = member, generation
	p := kmsg.NewTxnOffsetCommitRequestTopicPartition()
	t := kmsg.NewTxnOffsetCommitRequestTopic()
	t.Topic, t.TopicID, t.Partitions = m.input, m.id, append(t.Partitions, p)
	req.Topics = append(req.Topics, t)
	resp, err := req.RequestWith(ctx, cl)
	if err != nil {
		return err
	}
	if code := resp.Topics[0].Partitions[0].ErrorCode; code != 0 {
		return fmt.Errorf("offset commit: code %d", code)
	}
	// The client may call its first commit done and not have sent it. That one is the warm-up, and is not timed.
	return cl.EndTransaction(ctx, kgo.TryCommit)
}
