package wire

import (
	"context"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// ServerSide is what a cluster can do of KIP-848: the least over its brokers, since a coordinator can be
// any of them.
type ServerSide struct {
	// GroupVersion is the finalized feature group.version: from 1 on the cluster serves such groups.
	GroupVersion int16
	// Heartbeat is the newest version of ConsumerGroupHeartbeat that every broker speaks; -1: one has none.
	Heartbeat int16
	// Metadata is the newest metadata.version that every broker knows, which tells its release, whatever
	// the cluster has finalized; 0: one has not told.
	Metadata int16
}

// kafka43 is the first metadata.version of Kafka 4.3.
const kafka43 = 30

// Offered reports whether the brokers serve groups of KIP-848 at all. Version 0 of the heartbeat is that
// of the early access in Kafka 3.7 to 3.9.
func (s ServerSide) Offered() bool { return s.GroupVersion >= 1 && s.Heartbeat >= 1 }

// Lenient reports whether the brokers know since when a member owns a partition (KIP-1251, Kafka 4.3). Older
// ones compare the member's epoch alone, and answer STALE_MEMBER_EPOCH for a partition that has not moved.
func (s ServerSide) Lenient() bool { return s.Metadata >= kafka43 }

// serverSideOf is what all brokers that have answered can do. One that is down has no say: it must not
// hinder a start.
func serverSideOf(answers []*kmsg.ApiVersionsResponse) ServerSide {
	s := ServerSide{Heartbeat: math.MaxInt16, Metadata: math.MaxInt16, GroupVersion: finalized(answers, "group.version")}
	for _, a := range answers {
		s.Heartbeat = min(s.Heartbeat, maxVersion(a, kmsg.ConsumerGroupHeartbeat))
		s.Metadata = min(s.Metadata, knownLevel(a, "metadata.version"))
	}
	return s
}

// knownLevel is the newest level of a feature that a broker knows, 0 if none.
func knownLevel(a *kmsg.ApiVersionsResponse, feature string) int16 {
	for _, f := range a.SupportedFeatures {
		if f.Name == feature {
			return f.MaxVersion
		}
	}
	return 0
}

// The configurations of a group of KIP-848, which no client can ask for. The brokers' own have the prefix
// "group." and are the defaults.
const (
	GroupSessionConfig   = "consumer.session.timeout.ms"
	GroupHeartbeatConfig = "consumer.heartbeat.interval.ms"
)

// GroupTimings are the times that the brokers have for a group of KIP-848. 0: they have not told.
type GroupTimings struct {
	Session, Heartbeat time.Duration
}

// LookupGroupTimings asks for the group's configuration, which takes DescribeConfigs on the group, and
// where that is not told for the brokers' default, which takes it on the cluster. Any broker can be the
// group's coordinator, and their defaults may differ: of the sessions the shortest counts, of the heartbeats
// the longest. It fails if the brokers cannot be listed.
func LookupGroupTimings(ctx context.Context, cl *kgo.Client, group string) (GroupTimings, error) {
	meta := kmsg.NewPtrMetadataRequest()
	meta.Topics = []kmsg.MetadataRequestTopic{}
	brokers, err := meta.RequestWith(ctx, cl)
	if err != nil {
		return GroupTimings{}, fmt.Errorf("list brokers: %w", err)
	}
	of := kmsg.NewDescribeConfigsRequestResource()
	of.ResourceType, of.ResourceName = kmsg.ConfigResourceTypeGroupConfig, group
	told := make([]GroupTimings, len(brokers.Brokers))
	var asking sync.WaitGroup
	for i, b := range brokers.Brokers {
		ask := func(name string) time.Duration {
			broker := cl.Broker(int(b.NodeID))
			if d := timeOf(ctx, broker, of, name); d > 0 {
				return d
			}
			return timeOf(ctx, broker, brokerResource(b.NodeID), "group."+name)
		}
		asking.Go(func() { told[i] = GroupTimings{Session: ask(GroupSessionConfig), Heartbeat: ask(GroupHeartbeatConfig)} })
	}
	asking.Wait()
	var t GroupTimings
	for _, one := range told {
		if one.Session > 0 && (t.Session == 0 || one.Session < t.Session) {
			t.Session = one.Session
		}
		t.Heartbeat = max(t.Heartbeat, one.Heartbeat)
	}
	return t, nil
}
