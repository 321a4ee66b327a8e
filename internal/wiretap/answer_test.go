package wiretap

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// FirstCode passes over what succeeded, and reads an answer's own code before those in it.
func TestFirstCode(t *testing.T) {
	t.Parallel()
	produce := &kmsg.ProduceResponse{Topics: []kmsg.ProduceResponseTopic{
		{Partitions: []kmsg.ProduceResponseTopicPartition{{}, {ErrorCode: kerr.InvalidProducerEpoch.Code}, {ErrorCode: kerr.InvalidRecord.Code}}},
	}}
	group := &kmsg.OffsetFetchResponse{Groups: []kmsg.OffsetFetchResponseGroup{{ErrorCode: kerr.StaleMemberEpoch.Code}}}
	partition := &kmsg.OffsetFetchResponse{Groups: []kmsg.OffsetFetchResponseGroup{{Topics: []kmsg.OffsetFetchResponseGroupTopic{
		{Partitions: []kmsg.OffsetFetchResponseGroupTopicPartition{{ErrorCode: kerr.UnstableOffsetCommit.Code}}},
	}}}}
	batched := &kmsg.AddPartitionsToTxnResponse{Transactions: []kmsg.AddPartitionsToTxnResponseTransaction{{Topics: []kmsg.AddPartitionsToTxnResponseTransactionTopic{
		{Partitions: []kmsg.AddPartitionsToTxnResponseTransactionTopicPartition{{ErrorCode: kerr.ProducerFenced.Code}}},
	}}}}
	for _, c := range []struct {
		resp kmsg.Response
		want int16
	}{
		{&kmsg.EndTxnResponse{ErrorCode: kerr.InvalidTxnState.Code}, kerr.InvalidTxnState.Code},
		{&kmsg.EndTxnResponse{}, 0},
		{produce, kerr.InvalidProducerEpoch.Code},
		{group, kerr.StaleMemberEpoch.Code},
		{partition, kerr.UnstableOffsetCommit.Code},
		{batched, kerr.ProducerFenced.Code},
		{&kmsg.MetadataResponse{}, 0},
	} {
		if got := FirstCode(c.resp); got != c.want {
			t.Errorf("%T: code %d, want %d", c.resp, got, c.want)
		}
	}
}
