package wire

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Lone is the only member of a group that exists for it alone.
type Lone struct {
	Group      string
	MemberID   string
	Generation int32 // the member epoch in a group of the consumer protocol
	// Consumer has the group speak the consumer protocol (KIP-848), else the classic one.
	Consumer bool
}

// JoinAlone joins a group that nobody else uses and returns when the member has a generation and may
// commit. A classic group that was empty is held open for more members by the broker's
// group.initial.rebalance.delay.ms, 3 s unless it was changed. The member sends no heartbeats: what it
// is for has to be over within the session. The Lone has the member's id as soon as it is known, beside
// an error too, so that it can leave.
func JoinAlone(ctx context.Context, cl *kgo.Client, group, topic string, session time.Duration, consumer bool) (Lone, error) {
	l := Lone{Group: group, Consumer: consumer}
	if consumer {
		return l, l.heartbeat(ctx, cl, topic, session)
	}
	req := kmsg.NewPtrJoinGroupRequest()
	req.Group, req.ProtocolType = group, "consumer"
	req.SessionTimeoutMillis, req.RebalanceTimeoutMillis = int32(session.Milliseconds()), int32(session.Milliseconds())
	p := kmsg.NewJoinGroupRequestProtocol()
	// Version 0 of a consumer's subscription, to no topic: nothing is assigned.
	p.Name, p.Metadata = "holdfast-probe", []byte{0, 0, 0, 0, 0, 0, 0, 0, 0, 0}
	req.Protocols = append(req.Protocols, p)
	for {
		resp, err := req.RequestWith(ctx, cl)
		if err != nil {
			return l, fmt.Errorf("join group: %w", err)
		}
		err = kerr.ErrorForCode(resp.ErrorCode)
		if errors.Is(err, kerr.MemberIDRequired) && resp.MemberID != "" && req.MemberID == "" {
			l.MemberID, req.MemberID = resp.MemberID, resp.MemberID
			continue
		}
		if err != nil {
			return l, fmt.Errorf("join group: %w", err)
		}
		l.MemberID, l.Generation = resp.MemberID, resp.Generation
		return l, l.sync(ctx, cl)
	}
}

// sync ends the rebalance, before which the group takes no commit.
func (l *Lone) sync(ctx context.Context, cl *kgo.Client) error {
	req := kmsg.NewPtrSyncGroupRequest()
	req.Group, req.MemberID, req.Generation = l.Group, l.MemberID, l.Generation
	kind, name := "consumer", "holdfast-probe"
	req.ProtocolType, req.Protocol = &kind, &name
	mine := kmsg.NewSyncGroupRequestGroupAssignment()
	mine.MemberID, mine.MemberAssignment = l.MemberID, []byte{0, 0, 0, 0, 0, 0, 0, 0, 0, 0}
	req.GroupAssignment = append(req.GroupAssignment, mine)
	resp, err := req.RequestWith(ctx, cl)
	if err == nil {
		err = kerr.ErrorForCode(resp.ErrorCode)
	}
	if err != nil {
		return fmt.Errorf("sync group: %w", err)
	}
	return nil
}

// heartbeat joins a group of the consumer protocol.
func (l *Lone) heartbeat(ctx context.Context, cl *kgo.Client, topic string, session time.Duration) error {
	req := kmsg.NewPtrConsumerGroupHeartbeatRequest()
	l.MemberID = uniqueMember()
	req.Group, req.MemberID, req.RebalanceTimeoutMillis = l.Group, l.MemberID, int32(session.Milliseconds())
	req.SubscribedTopicNames = []string{topic}
	req.Topics = []kmsg.ConsumerGroupHeartbeatRequestTopic{}
	resp, err := req.RequestWith(ctx, cl)
	if err == nil {
		err = kerr.ErrorForCode(resp.ErrorCode)
	}
	if err != nil {
		return fmt.Errorf("join group: %w", err)
	}
	if resp.MemberID != nil {
		l.MemberID = *resp.MemberID
	}
	l.Generation = resp.MemberEpoch
	return nil
}

// Leave takes the member out of its group. One that never joined has nothing to leave.
func (l Lone) Leave(ctx context.Context, cl *kgo.Client) error {
	if l.MemberID == "" {
		return nil
	}
	err := l.leave(ctx, cl)
	if errors.Is(err, kerr.UnknownMemberID) || errors.Is(err, kerr.GroupIDNotFound) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("leave group: %w", err)
	}
	return nil
}

func (l Lone) leave(ctx context.Context, cl *kgo.Client) error {
	if l.Consumer {
		req := kmsg.NewPtrConsumerGroupHeartbeatRequest()
		req.Group, req.MemberID, req.MemberEpoch = l.Group, l.MemberID, -1
		resp, err := req.RequestWith(ctx, cl)
		if err != nil {
			return err
		}
		return kerr.ErrorForCode(resp.ErrorCode)
	}
	req := kmsg.NewPtrLeaveGroupRequest()
	req.Group, req.MemberID = l.Group, l.MemberID
	m := kmsg.NewLeaveGroupRequestMember()
	m.MemberID = l.MemberID
	req.Members = append(req.Members, m)
	resp, err := req.RequestWith(ctx, cl)
	if err != nil {
		return err
	}
	if len(resp.Members) == 1 && resp.ErrorCode == 0 {
		return kerr.ErrorForCode(resp.Members[0].ErrorCode)
	}
	return kerr.ErrorForCode(resp.ErrorCode)
}

// DeleteGroup deletes a group without members. One that does not exist is no error.
func DeleteGroup(ctx context.Context, cl *kgo.Client, group string) error {
	req := kmsg.NewPtrDeleteGroupsRequest()
	req.Groups = []string{group}
	resp, err := req.RequestWith(ctx, cl)
	if err == nil && len(resp.Groups) != 1 {
		err = fmt.Errorf("the answer has %d groups, not 1", len(resp.Groups))
	}
	if err == nil {
		err = kerr.ErrorForCode(resp.Groups[0].ErrorCode)
	}
	if err != nil && !errors.Is(err, kerr.GroupIDNotFound) {
		return fmt.Errorf("delete group: %w", err)
	}
	return nil
}

// InitProducer initialises a transactional id and returns its producer id and epoch.
func InitProducer(ctx context.Context, cl *kgo.Client, id string, timeout time.Duration) (producerID int64, epoch int16, err error) {
	req := kmsg.NewPtrInitProducerIDRequest()
	req.TransactionalID, req.TransactionTimeoutMillis = &id, int32(timeout.Milliseconds())
	req.ProducerID, req.ProducerEpoch = -1, -1
	err = patiently(ctx, func() error {
		resp, err := req.RequestWith(ctx, cl)
		if err != nil {
			return err
		}
		producerID, epoch = resp.ProducerID, resp.ProducerEpoch
		return kerr.ErrorForCode(resp.ErrorCode)
	})
	if err != nil {
		return 0, 0, &StepError{Step: StepInit, Err: err}
	}
	return producerID, epoch, nil
}

// Abort ends the transaction of a producer without committing anything of it.
func Abort(ctx context.Context, cl *kgo.Client, id string, producerID int64, epoch int16) error {
	req := kmsg.NewPtrEndTxnRequest()
	req.TransactionalID, req.ProducerID, req.ProducerEpoch, req.Commit = id, producerID, epoch, false
	err := patiently(ctx, func() error {
		resp, err := req.RequestWith(ctx, cl)
		if err != nil {
			return err
		}
		return kerr.ErrorForCode(resp.ErrorCode)
	})
	if err != nil {
		return &StepError{Step: StepEnd, Err: err}
	}
	return nil
}

// TryTransactionalID asks the coordinator for something that takes Describe and Write on a transactional
// id, Read on the group, and cannot be done: the group is to be added to the transaction of a producer
// that no id has. The permissions are looked at first, so that the answer tells of them, and nothing
// changes. nil: permitted.
func TryTransactionalID(ctx context.Context, cl *kgo.Client, id, group string) error {
	b := Binding{TransactionalID: id, Group: group, ProducerID: noProducer, ProducerEpoch: 0}
	err := patiently(ctx, func() error { return addOffsetsToTxn(ctx, cl, b) })
	for _, permitted := range []error{kerr.InvalidProducerIDMapping, kerr.InvalidProducerEpoch, kerr.ProducerFenced, kerr.InvalidTxnState, kerr.UnknownProducerID} {
		if errors.Is(err, permitted) {
			return nil
		}
	}
	return err
}

// noProducer is a producer id that brokers, which count from 0 on, will not reach.
const noProducer = math.MaxInt64

// uniqueMember returns a member id of the form that a member of the consumer protocol gives itself.
func uniqueMember() string {
	var id [16]byte
	_, _ = rand.Read(id[:]) // never fails: the program ends first
	return base64.RawURLEncoding.EncodeToString(id[:])
}
