package member

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/stream"
)

// unfenced is the store of the Unfenced guarantee: snapshots by an idempotent producer, then the
// progress record, then the offset through the group. Nothing binds them together: a stale owner's
// snapshots land although its offset is refused.
type unfenced struct {
	w      *worker
	client *kgo.Client

	closing once

	mu       sync.Mutex
	sequence uint64
	applied  fence.Applied
	logStart int64
}

func (m *Member) openStore(ctx context.Context, w *worker) (store, fence.Committed, error) {
	if m.cfg.Fenced {
		return m.openFenced(ctx, w)
	}
	opts := []kgo.Opt{kgo.ProducerLinger(0), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.UnknownTopicRetries(unknownTopicRetries)}
	if limit := m.cfg.Snapshots.MaxMessageBytes; limit > 0 { // the client's own limit may be lower than the topic's
		opts = append(opts, kgo.ProducerBatchMaxBytes(int32(min(max(limit, 512), 100<<20))))
	}
	client, err := m.cfg.Kafka.Client(opts...)
	if err != nil {
		return nil, fence.Committed{}, err
	}
	u := &unfenced{w: w, client: client}
	committed, err := u.Refetch(ctx)
	if err != nil {
		client.Close()
		return nil, fence.Committed{}, err
	}
	return u, committed, nil
}

func (u *unfenced) TransactionalID() string      { return "" }
func (u *unfenced) Retake(context.Context) error { return nil }

// LastCommit has no answer: what tells one commit from another is the nonce, and there is none here.
func (u *unfenced) LastCommit(context.Context) (fence.LastCommit, bool) {
	return fence.LastCommit{}, false
}

func (u *unfenced) Adopt(p fence.Progress, _ int64) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.sequence = p.Sequence
}

func (u *unfenced) AdoptNone(int64, uint32) {}

func (u *unfenced) Refetch(ctx context.Context) (fence.Committed, error) {
	p, m := u.w.own.Partition(), u.w.m
	for {
		o, err := wire.FetchOffset(ctx, m.admin, m.cfg.Session.Group, wire.Member{Joined: true}, p, m.input(p.Topic).ID)
		if err == nil {
			named, _ := wire.ParseWitness(o.Metadata)
			return fence.Committed{Next: o.Next, LeaderEpoch: o.LeaderEpoch, Kind: named.Kind}, nil
		}
		if errors.Is(err, kerr.GroupIDNotFound) { // of a group that this is a member of
			return fence.Committed{}, stream.NewError("fetch offset", fmt.Errorf("%w: %w", stream.ErrOwnershipLost, err)).At(p, -1)
		}
		if !kerr.IsRetriable(err) && !errors.Is(err, kerr.UnstableOffsetCommit) {
			return fence.Committed{}, stream.NewError("fetch offset", err).At(p, -1)
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
			return fence.Committed{}, context.Cause(ctx)
		}
	}
}

func (u *unfenced) Commit(ctx context.Context, next fence.Offset, rs ...stream.Message) error {
	began := time.Now()
	p := u.w.own.Partition()
	written := int64(0)
	for i, m := range rs {
		r := u.record(m)
		written += int64(len(r.Key) + len(r.Value))
		if err := u.produce(ctx, r); err != nil {
			if wire.OfRecord(err) {
				return &fence.Refusal{Index: i, Message: m, Err: err}
			}
			return stream.NewError("write snapshot", err).At(p, next.Next)
		}
	}
	if err := u.witness(ctx, next); err != nil {
		return err
	}
	if err := u.commitOffset(ctx, next); err != nil {
		return err
	}
	call(u.w.hooks(), func(h stream.Hooks) func(stream.Committed) { return h.Committed },
		stream.Committed{Partition: p, Next: next.Next, Writes: len(rs), Bytes: written, Took: time.Since(began)})
	return nil
}

func (u *unfenced) record(m stream.Message) *kgo.Record {
	r := toKafka(m)
	at := u.w.m.progress(u.w.own.Partition())
	r.Topic, r.Partition = at.Topic, at.Partition
	return r
}

func (u *unfenced) produce(ctx context.Context, r *kgo.Record) error {
	answered := make(chan error, 1)
	u.client.Produce(ctx, r, func(_ *kgo.Record, err error) { answered <- err })
	limit := time.NewTimer(u.w.m.tooSlow())
	defer limit.Stop()
	select {
	case err := <-answered:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-limit.C:
		return u.w.slowWrite("write snapshot", fmt.Errorf("a record of %d bytes was not acknowledged within %v: %w", len(r.Key)+len(r.Value), u.w.m.tooSlow(), stream.ErrTooSlow))
	}
}

// witness writes the progress record.
func (u *unfenced) witness(ctx context.Context, next fence.Offset) error {
	m := u.w.m
	input := m.input(u.w.own.Partition().Topic)
	u.mu.Lock()
	u.sequence++
	headers := append(fence.StartHeaders(u.logStart), u.applied.Headers(next.Next)...)
	p := fence.Progress{
		Inputs: []fence.InputProgress{{
			Topic: input.Topic, TopicID: input.ID, Next: next.Next, LeaderEpoch: next.LeaderEpoch,
		}},
		Partitions: input.Partitions, Group: m.cfg.Session.Group, MemberID: u.w.own.MemberID(),
		Incarnation: u.w.incarnation, Sequence: u.sequence, FoldVersion: m.cfg.FoldVersion, At: time.Now(),
	}
	u.mu.Unlock()
	key, value, err := p.Encode()
	if err == nil {
		err = u.produce(ctx, u.record(stream.Message{Key: key, Value: value, Headers: headers}))
	}
	if err != nil {
		return stream.NewError("write progress", err).At(u.w.own.Partition(), next.Next)
	}
	return nil
}

// commitOffset commits through the group, like any consumer. A refused generation is tried again
// with the next one, and in a rebalance with the live one; an unknown member has lost the partition. What may
// pass is tried until the ownership ends. Everything else stops the flow: granted anew, it would meet the same again.
func (u *unfenced) commitOffset(ctx context.Context, next fence.Offset) error {
	p, m := u.w.own.Partition(), u.w.m
	token, err := u.w.own.Token(ctx)
	for {
		if err != nil {
			return err
		}
		err = wire.CommitOffset(ctx, m.admin, wire.OffsetCommit{
			Group: m.cfg.Session.Group, MemberID: token.MemberID, Generation: token.Generation, InstanceID: token.InstanceID,
			Partition: p, TopicID: m.input(p.Topic).ID, Next: next.Next, LeaderEpoch: next.LeaderEpoch,
			Metadata: wire.Witness{Kind: m.cfg.Component}.Metadata(), // nobody's nonce: it names the kind alone
		})
		switch {
		case err == nil:
			return nil
		case errors.Is(err, kerr.IllegalGeneration):
			token, err = u.w.own.NextToken(ctx, token)
		case errors.Is(err, kerr.RebalanceInProgress), kerr.IsRetriable(err), codeless(err):
			// Of a rebalance the generation may be the right one already. Who waited for another one would
			// wait for the next rebalance:
			//
			//  1. The member joins, and is told the generation 5.
			//  2. It commits under 5. The group refuses that until the assignments are there.
			//  3. They are, and generation 5 stays.
			select {
			case <-time.After(100 * time.Millisecond):
				token, err = u.w.own.Token(ctx)
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		case errors.Is(err, kerr.UnknownMemberID), errors.Is(err, kerr.GroupIDNotFound), errors.Is(err, kerr.FencedInstanceID),
			errors.Is(err, kerr.FencedMemberEpoch), errors.Is(err, kerr.StaleMemberEpoch):
			return stream.NewError("commit offset", fmt.Errorf("%w: %w", stream.ErrOwnershipLost, err)).At(p, next.Next)
		case errors.Is(err, kerr.GroupAuthorizationFailed), errors.Is(err, kerr.TopicAuthorizationFailed):
			return stream.NewError("commit offset", fmt.Errorf("%w: %w", stream.ErrNotAuthorized, err)).At(p, next.Next).
				Hinted("allow READ on group %s and on topic %s", m.cfg.Session.Group, p.Topic)
		case errors.Is(err, kerr.UnknownTopicID), errors.Is(err, kerr.InconsistentTopicID):
			return stream.NewError("commit offset", fmt.Errorf("%w: %w", stream.ErrInputChanged, err)).At(p, next.Next).
				Hinted("choose Rebuild (Start.Disagreement) to fold the topic as it is, or use another group")
		default:
			return stream.NewError("commit offset", err).At(p, next.Next).Hinted("look the code up in the Kafka protocol guide")
		}
	}
}

// codeless reports whether no broker has said anything: the connection failed.
func codeless(err error) bool {
	_, answered := errors.AsType[*kerr.Error](err)
	return !answered && !errors.Is(err, kgo.ErrClientClosed)
}

func (u *unfenced) Applied(a fence.Applied) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.applied = a
}

func (u *unfenced) LogStart(start int64) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.logStart = start
}

func (u *unfenced) Rebuild(ctx context.Context, _ uint32, next fence.Offset) error {
	return u.Commit(ctx, next)
}

// Close returns to each of its callers after the client is closed.
func (u *unfenced) Close(context.Context) error {
	u.closing.do(u.client.Close)
	return nil
}
