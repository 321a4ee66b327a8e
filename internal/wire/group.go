package wire

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Heartbeat asks the group's coordinator whether it knows the member, and returns its answer: nil,
// or the Kafka error (kerr), or a transport error. REBALANCE_IN_PROGRESS and ILLEGAL_GENERATION are
// answers about a member that the group knows.
func Heartbeat(ctx context.Context, cl *kgo.Client, group, member, instance string, generation int32) error {
	req := kmsg.NewPtrHeartbeatRequest()
	req.Group, req.MemberID, req.Generation = group, member, generation
	if instance != "" {
		req.InstanceID = &instance
	}
	resp, err := req.RequestWith(ctx, cl)
	if err != nil {
		return fmt.Errorf("heartbeat: %w", err)
	}
	return kerr.ErrorForCode(resp.ErrorCode)
}

// staticLeave is the epoch by which a static member of KIP-848 says that it goes and will come back.
const staticLeave = -2

// LeaveStatic tells a group of KIP-848 that a static member goes, and will come back within its session: the
// group keeps its partitions for it, and lets another process join under its instance id.
func LeaveStatic(ctx context.Context, cl *kgo.Client, group, member, instance string) error {
	req := kmsg.NewPtrConsumerGroupHeartbeatRequest()
	req.Group, req.MemberID, req.MemberEpoch, req.InstanceID = group, member, staticLeave, &instance
	resp, err := req.RequestWith(ctx, cl)
	if err != nil {
		return fmt.Errorf("leave group: %w", err)
	}
	return kerr.ErrorForCode(resp.ErrorCode)
}

// GroupFacts is what a component has to know about a group before it joins it.
type GroupFacts struct {
	State        string // "Dead" if there is no such group, or none of the classic protocol
	ProtocolType string // of the members, "consumer" for consumers; "" for a group that never had one
	Members      int
	// Assignor is the one that the members of a classic group have agreed on; "": none yet, or not told.
	Assignor string
	// Type is what kind of group it is if it is not of the classic protocol, as "consumer" or "share".
	// "": it is, or it does not exist, or the broker has not told.
	Type      string
	Permitted Operations
}

// notClassic is what brokers from 4.0 on say of a group of another protocol, under the same error code
// as of a group that does not exist.
const notClassic = "not a classic group"

// DescribeGroup asks the group's coordinator about it. A group that does not exist is not an error.
func DescribeGroup(ctx context.Context, cl *kgo.Client, group string) (GroupFacts, error) {
	req := kmsg.NewPtrDescribeGroupsRequest()
	req.Groups, req.IncludeAuthorizedOperations = []string{group}, true
	resp, err := req.RequestWith(ctx, cl)
	if err != nil {
		return GroupFacts{}, fmt.Errorf("describe group: %w", err)
	}
	if len(resp.Groups) != 1 {
		return GroupFacts{}, fmt.Errorf("describe group: the answer has %d groups, not 1", len(resp.Groups))
	}
	g := &resp.Groups[0]
	f := GroupFacts{State: g.State, ProtocolType: g.ProtocolType, Members: len(g.Members), Assignor: g.Protocol, Permitted: operationsOf(g.AuthorizedOperations)}
	switch err := kerr.ErrorForCode(g.ErrorCode); {
	case errors.Is(err, kerr.GroupIDNotFound): // from version 6 on; below, the state is "Dead"
		f.State = "Dead"
		if g.ErrorMessage != nil && strings.Contains(*g.ErrorMessage, notClassic) {
			f.Type, err = groupType(ctx, cl, group)
			return f, err
		}
	case err != nil:
		return f, fmt.Errorf("describe group: %w", err)
	}
	return f, nil
}

// groupType finds a group in the list of all, which alone tells the types of all kinds.
func groupType(ctx context.Context, cl *kgo.Client, group string) (string, error) {
	groups, err := kadm.NewClient(cl).ListGroups(ctx)
	if err != nil {
		return "", fmt.Errorf("list groups: %w", err)
	}
	return groups[group].GroupType, nil
}
