package prove

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/stream"
)

// member is the one member of a group of this run, with the one partition of its input.
type member struct {
	cl    *kgo.Client
	own   *fence.Ownership
	group string
	input stream.Partition
	id    [16]byte // of the input topic
}

// join makes a topic and a group, joins it as the components do, and waits for the grant. Nothing is
// fetched: the exercises choose their offsets, and the cluster takes any.
func (w *world) join(ctx context.Context, groupEnd, inputEnd string) (*member, error) {
	input, err := w.topic(ctx, inputEnd, nil)
	if err != nil {
		return nil, err
	}
	m := &member{input: stream.Partition{Topic: input}}
	if m.id, err = wire.TopicID(ctx, w.cl, input); err != nil {
		return nil, err
	}
	if m.group, err = w.group(ctx, groupEnd); err != nil {
		return nil, err
	}
	granted := make(chan *fence.Ownership, 8) // of one partition, of which there is one grant
	waiting, arrived := context.WithCancel(ctx)
	defer arrived()
	g := fence.NewGroup(func(_ context.Context, o *fence.Ownership) { granted <- o; arrived() }, func(*fence.Ownership, bool) {})
	m.cl, err = g.NewClient(ctx, w.o.Kafka, fence.Session{Group: m.group, HeartbeatInterval: time.Second}, kgo.ConsumeTopics(input))
	if err != nil {
		return nil, err
	}
	m.cl.PauseFetchTopics(input)
	w.o.note("    joining group %s (its first rebalance can take the broker some seconds)", m.group)
	for {
		fetches := m.cl.PollFetches(waiting) // the client tries for ever, and says here why
		m.cl.AllowRebalance()
		select {
		case m.own = <-granted:
			return m, nil
		default:
		}
		err := context.Cause(ctx)
		if err == nil {
			if err = forbidden(fetches); err != nil { // there is no group then that could be removed
				w.made.groups = slices.DeleteFunc(w.made.groups, func(g string) bool { return g == m.group })
			}
		}
		if err != nil {
			m.leave(ctx)
			return nil, fmt.Errorf("join group %s: %w", m.group, err)
		}
	}
}

// forbidden returns the error of a poll that says that the group may not be joined, nil if there is none.
func forbidden(fetches kgo.Fetches) error {
	for _, f := range fetches.Errors() {
		if errors.Is(f.Err, kerr.GroupAuthorizationFailed) || errors.Is(f.Err, kerr.TopicAuthorizationFailed) {
			return f.Err
		}
	}
	return nil
}

// leave ends the membership, so that the group can be deleted. An error would show there.
func (m *member) leave(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stepLimit)
	defer cancel()
	m.cl.AllowRebalance()
	_ = m.cl.LeaveGroupContext(ctx)
	m.cl.CloseAllowingRebalance()
}

// rebalance makes the group begin a new generation and returns the token before it and after it, both
// of this same member.
func (m *member) rebalance(ctx context.Context) (old, live fence.Token, err error) {
	if old, err = m.own.Token(ctx); err != nil {
		return old, live, err
	}
	m.cl.ForceRebalance()
	live, err = m.own.NextToken(ctx, old)
	return old, live, err
}

// bind adds an offset of the input to the transaction of cl, bound to a token.
func (m *member) bind(ctx context.Context, w *world, cl *kgo.Client, id string, t fence.Token, next int64) error {
	pid, epoch, err := cl.ProducerID(ctx)
	if err != nil {
		return err
	}
	return wire.BindOffset(ctx, cl, wire.Binding{
		TransactionalID: id, ProducerID: pid, ProducerEpoch: epoch, Group: m.group,
		MemberID: t.MemberID, Generation: t.Generation, Input: m.input, TopicID: m.id, Next: next, LeaderEpoch: -1,
	}, w.features.AddOffsets())
}

// commit commits an offset under the live token, together with a record, in a transaction of its own.
func (m *member) commit(ctx context.Context, w *world, id string, next int64, r *kgo.Record) error {
	cl, err := w.transactional(ctx, id)
	if err != nil {
		return err
	}
	defer cl.Close()
	t, err := m.own.Token(ctx)
	if err != nil {
		return err
	}
	if err := cl.BeginTransaction(); err != nil {
		return err
	}
	if err := write(ctx, cl, r); err != nil {
		return err
	}
	if err := m.bind(ctx, w, cl, id, t, next); err != nil {
		return err
	}
	return cl.EndTransaction(ctx, kgo.TryCommit)
}
