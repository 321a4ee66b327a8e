package preflight

import (
	"context"
	"fmt"

	"github.com/holdfast-go/holdfast/claim"
	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/kafka"
	"github.com/holdfast-go/holdfast/stream"
)

// protocol makes sure that the brokers serve groups of KIP-848 as this needs them, and finds the times that
// they have for the group. The client would fall back to a classic protocol without a word, so that nothing
// is left to it.
func (i *inspection) protocol(ctx context.Context) error {
	if !i.ServerSide || i.spoken.Least == nil { // else no broker has told anything, which is said already
		return nil
	}
	offered := i.spoken.ServerSide
	fact := fmt.Sprintf("KIP-848: group.version %d, ConsumerGroupHeartbeat v%d, brokers know metadata.version %d",
		offered.GroupVersion, offered.Heartbeat, offered.Metadata)
	if err := i.found.note("group-protocol", "group protocol", fact, unserved(offered)); err != nil {
		return err
	}
	timings, err := wire.LookupGroupTimings(ctx, i.client, i.Group)
	if err != nil {
		return i.found.note("group-timings", "group timings", "", kafka.Explain(err))
	}
	i.found.Timings = timings
	if timings.Session == 0 || timings.Heartbeat == 0 {
		fact := fmt.Sprintf("%s and %s are not known", wire.GroupSessionConfig, wire.GroupHeartbeatConfig)
		i.found.add(claim.Finding{
			ID: "group-timings", What: "group timings", Fact: fact,
			Warning: "the brokers' defaults are counted on, and a shorter session lets a process that wakes send outputs for longer",
			Fix:     []string{wire.GrantGroup(i.client, i.Group, "DescribeConfigs")},
		})
		return nil
	}
	return i.found.note("group-timings", "group timings", fmt.Sprintf("session %v (%s), heartbeat %v (%s)",
		timings.Session, wire.GroupSessionConfig, timings.Heartbeat, wire.GroupHeartbeatConfig), nil)
}

// unserved is the error of brokers that do not serve KIP-848, or not as this needs it.
func unserved(s wire.ServerSide) error {
	switch {
	case !s.Offered():
		return stream.NewError("check brokers", fmt.Errorf("%w: they do not serve groups of KIP-848 (group.version %d, ConsumerGroupHeartbeat up to version %d)",
			stream.ErrBrokerTooOld, s.GroupVersion, s.Heartbeat)).
			Hinted("leave Member.Protocol unset, or use Kafka 4.3 or newer with the feature group.version at 1 and with consumer among the brokers' group.coordinator.rebalance.protocols")
	case !s.Lenient():
		return stream.NewError("check brokers", fmt.Errorf("%w: a broker is older than Kafka 4.3 (it knows metadata.version up to %d), and refuses commits of KIP-848 members for partitions that have not moved",
			stream.ErrBrokerTooOld, s.Metadata)).
			Hinted("leave Member.Protocol unset, or upgrade all brokers to Kafka 4.3 or newer")
	}
	return nil
}
