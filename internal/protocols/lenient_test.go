package protocols

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/holdfast-go/holdfast/internal/kafkatest"
	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/stream"
)

// beating is a member of a group of KIP-848 that says what the test has it say.
type beating struct {
	t     *testing.T
	cl    *kgo.Client
	group string
	topic string
	id    [16]byte
	name  string
	epoch int32
	has   []int32
}

// beat sends a heartbeat that tells what the member has, and takes what it is given. The first one joins.
func (m *beating) beat() {
	m.t.Helper()
	req := kmsg.NewPtrConsumerGroupHeartbeatRequest()
	req.Group, req.MemberID, req.MemberEpoch, req.RebalanceTimeoutMillis = m.group, m.name, m.epoch, 60_000
	req.SubscribedTopicNames, req.Topics = []string{m.topic}, []kmsg.ConsumerGroupHeartbeatRequestTopic{}
	if len(m.has) > 0 {
		req.Topics = append(req.Topics, kmsg.ConsumerGroupHeartbeatRequestTopic{TopicID: m.id, Partitions: m.has})
	}
	ctx, cancel := context.WithTimeout(m.t.Context(), time.Minute)
	defer cancel()
	var resp *kmsg.ConsumerGroupHeartbeatResponse
	for {
		var err error
		if resp, err = req.RequestWith(ctx, m.cl); err == nil {
			err = kerr.ErrorForCode(resp.ErrorCode)
		}
		if err == nil {
			break
		}
		if !kerr.IsRetriable(err) || ctx.Err() != nil { // a broker that has just started has no coordinator yet
			m.t.Fatalf("heartbeat of %s: %v", m.name, err)
		}
	}
	m.epoch = resp.MemberEpoch
	if resp.Assignment == nil {
		return
	}
	m.has = nil
	for _, topic := range resp.Assignment.Topics {
		m.has = append(m.has, topic.Partitions...)
	}
}

// until has the members send heartbeats, one after the other, until they have as many partitions as named.
func until(t *testing.T, want map[*beating]int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for ctx.Err() == nil {
		done := true
		for m, n := range want {
			m.beat()
			done = done && len(m.has) == n
		}
		if done {
			for m := range want {
				m.beat() // it tells that it has them, and the group answers with the epoch for that
			}
			return
		}
	}
	t.Fatal("the group does not share its partitions out")
}

// A member's epoch rises with each rebalance, and a transaction that is on its way carries the one before. From 4.3 on
// the brokers know since when a member owns each partition (KIP-1251): they take such an offset for a partition that
// has stayed, so that a rebalance costs the owner of what stays nothing, and refuse it for one that has moved.
func TestKafkaLaggingEpochOfAPartitionThatStays(t *testing.T) {
	serves(t, serverSide)
	t.Parallel()
	c := kafkatest.Start(t)
	cl := c.Client(t)
	topic := c.CreateTopic(t, kafkatest.UniqueName("lenient"), 2, nil)
	facts, err := wire.TopicFacts(t.Context(), cl, topic)
	if err != nil {
		t.Fatal(err)
	}
	member := func(name string) *beating {
		return &beating{t: t, cl: cl, group: topic + "-group", topic: topic, id: facts.ID, name: name}
	}
	one, two := member("one"), member("two")
	until(t, map[*beating]int{one: 2})
	before := one.epoch
	until(t, map[*beating]int{one: 1, two: 1})
	if one.epoch <= before {
		t.Fatalf("the epoch went from %d to %d in a rebalance", before, one.epoch)
	}
	stayed, moved := one.has[0], two.has[0]
	if !slices.Equal([]int32{min(stayed, moved), max(stayed, moved)}, []int32{0, 1}) {
		t.Fatalf("one has %v, two has %v", one.has, two.has)
	}

	id := topic + "-id"
	producerID, producerEpoch, err := wire.InitProducer(t.Context(), cl, id, 10*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	bind := func(partition, epoch int32) error {
		return wire.BindOffset(t.Context(), cl, wire.Binding{
			TransactionalID: id, ProducerID: producerID, ProducerEpoch: producerEpoch, Group: one.group, MemberID: one.name, Generation: epoch,
			Input: stream.Partition{Topic: topic, Partition: partition}, TopicID: facts.ID, Next: 0, LeaderEpoch: -1,
		}, false)
	}
	if err := bind(stayed, before); err != nil {
		t.Errorf("I7: an offset of the epoch before, for a partition that stays, is refused: %v", err)
	}
	if err := bind(moved, before); !errors.Is(err, kerr.StaleMemberEpoch) {
		t.Errorf("I3: an offset of the epoch before, for a partition that has moved, is answered with %v, want STALE_MEMBER_EPOCH", err)
	}
	if err := wire.Abort(t.Context(), cl, id, producerID, producerEpoch); err != nil {
		t.Error(err)
	}
}
