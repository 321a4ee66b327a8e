package wire

import (
	"context"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/holdfast-go/holdfast/stream"
)

// GroupOffset is what a group has committed for one partition.
type GroupOffset struct {
	Next        int64 // -1: nothing is committed
	LeaderEpoch int32 // -1: unknown
	Metadata    string
}

// Member names the member that asks, for brokers that check it (KIP-848). The zero value asks as
// nobody.
type Member struct {
	ID         string
	Generation int32
	// Joined says that the one who asks is in the group, although it does not say who it is. A coordinator
	// that does not know the group has said nothing of its offsets then: kerr.GroupIDNotFound comes back.
	Joined bool
}

// FetchOffset returns the stable committed offset of p: one that no open transaction may change.
// While one may, the answer is kerr.UnstableOffsetCommit and the caller asks again. topicID is
// needed by brokers that know topics by id (version 10 of the request).
func FetchOffset(ctx context.Context, cl *kgo.Client, group string, m Member, p stream.Partition, topicID [16]byte) (GroupOffset, error) {
	return fetchOffset(ctx, cl, group, m, p, topicID, true)
}

// FetchUnstableOffset is FetchOffset without the wait for open transactions: the answer may be older
// than what a transaction that is being committed makes it.
func FetchUnstableOffset(ctx context.Context, cl *kgo.Client, group string, m Member, p stream.Partition, topicID [16]byte) (GroupOffset, error) {
	return fetchOffset(ctx, cl, group, m, p, topicID, false)
}

func fetchOffset(ctx context.Context, cl *kgo.Client, group string, m Member, p stream.Partition, topicID [16]byte, stable bool) (GroupOffset, error) {
	offsets, err := fetchOffsets(ctx, cl, group, m, p.Topic, topicID, []int32{p.Partition}, stable)
	if err != nil {
		return GroupOffset{}, err
	}
	return offsets[0], nil
}

// FetchUnstableOffsets is FetchUnstableOffset for the first partitions of a topic, in their order, as
// many as are asked for.
func FetchUnstableOffsets(ctx context.Context, cl *kgo.Client, group, topic string, topicID [16]byte, partitions int32) ([]GroupOffset, error) {
	wanted := make([]int32, partitions)
	for i := range wanted {
		wanted[i] = int32(i)
	}
	return fetchOffsets(ctx, cl, group, Member{}, topic, topicID, wanted, false)
}

func fetchOffsets(ctx context.Context, cl *kgo.Client, group string, m Member, topic string, topicID [16]byte, partitions []int32, stable bool) ([]GroupOffset, error) {
	req := kmsg.NewPtrOffsetFetchRequest()
	req.RequireStable = stable
	g := kmsg.NewOffsetFetchRequestGroup()
	g.Group = group
	if m.ID != "" {
		g.MemberID, g.MemberEpoch = &m.ID, m.Generation
	}
	t := kmsg.NewOffsetFetchRequestGroupTopic()
	t.Topic, t.TopicID, t.Partitions = topic, topicID, partitions
	g.Topics = append(g.Topics, t)
	req.Groups = append(req.Groups, g)
	resp, err := req.RequestWith(ctx, cl)
	if err != nil {
		return nil, fmt.Errorf("fetch offset: %w", err)
	}
	if len(resp.Groups) != 1 {
		return nil, fmt.Errorf("fetch offset: the answer has %d groups, not 1", len(resp.Groups))
	}
	err = kerr.ErrorForCode(resp.Groups[0].ErrorCode)
	if m.ID == "" && !m.Joined && errors.Is(err, kerr.GroupIDNotFound) { // some brokers answer so, others with -1
		none := make([]GroupOffset, len(partitions))
		for i := range none {
			none[i] = GroupOffset{Next: -1, LeaderEpoch: -1}
		}
		return none, nil
	}
	if err != nil {
		return nil, err
	}
	answers := map[int32]kmsg.OffsetFetchResponseGroupTopicPartition{}
	for _, t := range resp.Groups[0].Topics {
		for _, a := range t.Partitions {
			answers[a.Partition] = a
		}
	}
	return offsetsOf(answers, topic, partitions)
}

func offsetsOf(answers map[int32]kmsg.OffsetFetchResponseGroupTopicPartition, topic string, partitions []int32) ([]GroupOffset, error) {
	out := make([]GroupOffset, 0, len(partitions))
	for _, p := range partitions {
		a, ok := answers[p]
		if !ok {
			return nil, fmt.Errorf("fetch offset: the answer does not cover %s", stream.Partition{Topic: topic, Partition: p})
		}
		if err := kerr.ErrorForCode(a.ErrorCode); err != nil {
			return nil, err
		}
		o := GroupOffset{Next: a.Offset, LeaderEpoch: a.LeaderEpoch}
		if a.Metadata != nil {
			o.Metadata = *a.Metadata
		}
		out = append(out, o)
	}
	return out, nil
}

// TopicID returns the id of a topic. It returns stream.ErrTopic if there is no such topic.
func TopicID(ctx context.Context, cl *kgo.Client, topic string) ([16]byte, error) {
	f, err := topicShape(ctx, cl, topic)
	if err == nil && !f.Exists {
		err = topicError(topic, fmt.Errorf("%w: it does not exist", stream.ErrTopic))
	}
	return f.ID, err
}
