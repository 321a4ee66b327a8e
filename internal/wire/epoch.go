package wire

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/holdfast-go/holdfast/stream"
)

// EpochEnd returns the offset after the last record of the newest leader epoch of p that is not
// above epoch, or -1 if the leader does not know. An end below an offset that was read under that
// epoch tells that the log was truncated (KIP-320).
func EpochEnd(ctx context.Context, cl *kgo.Client, p stream.Partition, epoch int32) (int64, error) {
	var req kadm.OffsetForLeaderEpochRequest
	req.Add(p.Topic, p.Partition, epoch)
	answers, err := kadm.NewClient(cl).OffsetForLeaderEpoch(ctx, req)
	if err != nil {
		return 0, fmt.Errorf("end of leader epoch %d: %w", epoch, err)
	}
	a, ok := answers[p.Topic][p.Partition]
	if !ok {
		return 0, fmt.Errorf("end of leader epoch %d: the answer does not cover %s", epoch, p)
	}
	if a.Err != nil {
		return 0, fmt.Errorf("end of leader epoch %d: %w", epoch, a.Err)
	}
	return a.EndOffset, nil
}
