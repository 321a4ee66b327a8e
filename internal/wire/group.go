package wire

import (
	"context"
	"fmt"

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
