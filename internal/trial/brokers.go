package trial

import (
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/holdfast-go/holdfast/internal/kafkatest"
)

// Coordination is a kind of coordinator.
type Coordination string

// The kinds of coordinators, each with the internal topic whose leaders they are.
const (
	OfGroup       Coordination = "__consumer_offsets"
	OfTransaction Coordination = "__transaction_state"
)

// DeleteTopics deletes the application's topics, so that those of a run that is over do not burden the
// brokers of the next one.
func (f *Field) DeleteTopics() {
	f.TB.Helper()
	_, err := f.Admin.DeleteTopics(f.TB.Context(), f.App.Input, f.App.Output, f.App.Progress())
	if err != nil {
		f.TB.Error(err)
	}
}

// until asks again and again, since a cluster tells of a change some time after it.
func (f *Field) until(what string, done func(ctx context.Context) (bool, error)) {
	f.TB.Helper()
	ctx, cancel := context.WithTimeout(f.TB.Context(), f.Patience)
	defer cancel()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		ok, err := done(ctx)
		if ok && err == nil {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			f.TB.Fatalf("%s: not within %v (%v)", what, f.Patience, err)
		}
	}
}

// Coordinator returns the broker that coordinates a group or a transactional id.
func (f *Field) Coordinator(of Coordination, name string) (b *kafkatest.Broker) {
	f.TB.Helper()
	f.until("the coordinator of "+name, func(ctx context.Context) (bool, error) {
		id, err := f.coordinator(ctx, of, name)
		if err != nil {
			return false, err
		}
		for _, one := range f.Cluster.Brokers {
			if one.ID == id {
				b = one
			}
		}
		return b != nil, nil
	})
	return b
}

// OtherCoordinator waits until another broker than from coordinates a group or a transactional id, as
// clients are told, and returns it.
func (f *Field) OtherCoordinator(of Coordination, name string, from int32) (to int32) {
	f.TB.Helper()
	f.until("another coordinator of "+name, func(ctx context.Context) (bool, error) {
		var err error
		to, err = f.coordinator(ctx, of, name)
		return to != from, err
	})
	return to
}

func (f *Field) coordinator(ctx context.Context, of Coordination, name string) (int32, error) {
	find := f.Admin.FindGroupCoordinators
	if of == OfTransaction {
		find = f.Admin.FindTxnCoordinators
	}
	found := find(ctx, name)[name]
	return found.NodeID, found.Err
}

// MoveCoordinator has another broker coordinate a group or a transactional id, without an end of the one
// that did, and returns when clients are told so.
func (f *Field) MoveCoordinator(of Coordination, name string) (from, to int32) {
	f.TB.Helper()
	topic := string(of)
	from = f.Coordinator(of, name).ID
	var partition int32
	f.until("another leader of "+topic, func(ctx context.Context) (bool, error) {
		m, err := f.Admin.Metadata(ctx, topic)
		if err != nil {
			return false, err
		}
		partition = hashOf(name) % int32(len(m.Topics[topic].Partitions))
		var order []int32
		for _, id := range m.Topics[topic].Partitions[partition].Replicas {
			if id != from {
				order = append(order, id)
			}
		}
		var req kadm.AlterPartitionAssignmentsReq
		req.Assign(topic, partition, append(order, from))
		answers, err := f.Admin.AlterPartitionAssignments(ctx, req)
		if err == nil {
			err = answers.Error()
		}
		return err == nil, err
	})
	f.until("another coordinator of "+name, func(ctx context.Context) (bool, error) {
		var set kadm.TopicsSet
		set.Add(topic, partition)
		// An election is refused while the replicas are changed, and where the first of them leads.
		_, err := f.Admin.ElectLeaders(ctx, kadm.ElectPreferredReplica, set)
		if err != nil {
			return false, err
		}
		to, err = f.coordinator(ctx, of, name)
		return to != from, err
	})
	return from, to
}

// hashOf is String.hashCode of Java, without the sign as Kafka takes it.
func hashOf(name string) int32 {
	var h int32
	for _, c := range []byte(name) { // names of groups and ids in tests are ASCII
		h = 31*h + int32(c)
	}
	if h < 0 {
		h = -h
	}
	return max(h, 0) // of the least number there is no positive one
}

// InSync waits until every replica of every topic is in sync: with one behind, the next broker that goes
// would leave partitions without a leader that may write.
func (f *Field) InSync() {
	f.TB.Helper()
	f.until("replicas in sync", func(ctx context.Context) (bool, error) {
		m, err := f.Admin.Metadata(ctx)
		if err != nil {
			return false, err
		}
		for _, topic := range m.Topics {
			for _, p := range topic.Partitions {
				if p.Err != nil || len(p.ISR) < len(p.Replicas) {
					return false, fmt.Errorf("%s/%d has %v of %v (%w)", p.Topic, p.Partition, p.ISR, p.Replicas, p.Err)
				}
			}
		}
		return true, nil
	})
}
