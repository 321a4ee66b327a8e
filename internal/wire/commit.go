package wire

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/holdfast-go/holdfast/stream"
)

// OffsetCommit is a plain commit of one offset, outside any transaction.
type OffsetCommit struct {
	Group, MemberID, InstanceID string
	Generation                  int32
	Partition                   stream.Partition
	TopicID                     [16]byte
	Next                        int64
	LeaderEpoch                 int32
	Metadata                    string
}

// CommitOffset commits an offset as a consumer does and returns the broker's answer (kerr) or a
// transport error.
func CommitOffset(ctx context.Context, cl *kgo.Client, c OffsetCommit) error {
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Group, req.MemberID, req.Generation = c.Group, c.MemberID, c.Generation
	if c.InstanceID != "" {
		req.InstanceID = &c.InstanceID
	}
	p := kmsg.NewOffsetCommitRequestTopicPartition()
	p.Partition, p.Offset, p.LeaderEpoch, p.Metadata = c.Partition.Partition, c.Next, c.LeaderEpoch, &c.Metadata
	t := kmsg.NewOffsetCommitRequestTopic()
	t.Topic, t.TopicID, t.Partitions = c.Partition.Topic, c.TopicID, append(t.Partitions, p)
	req.Topics = append(req.Topics, t)
	resp, err := req.RequestWith(ctx, cl)
	if err != nil {
		return fmt.Errorf("commit offset: %w", err)
	}
	if len(resp.Topics) != 1 || len(resp.Topics[0].Partitions) != 1 {
		return fmt.Errorf("commit offset: the answer does not cover %s", c.Partition)
	}
	return kerr.ErrorForCode(resp.Topics[0].Partitions[0].ErrorCode)
}
