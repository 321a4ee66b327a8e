package wire

import (
	"errors"
	"fmt"
	"strings"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/holdfast-go/holdfast/stream"
)

// undecodable are the beginnings of the client's errors for a batch that it cannot take apart. They have
// no type of their own.
var undecodable = []string{
	"unable to decompress batch", "unable to read ", "unknown magic ", "unknown batch magic ", "unknown message magic ",
	"unknown attributes on message ", "encoded length ", "encoded crc ", "invalid record batch", "invalid compressed message set",
	"message set v1 has inner message with invalid magic",
}

// Undecodable returns the error for a batch that a fetch brought and the client could not take apart: of
// the partition p, where position is the next offset to be read. It returns nil for every other error.
//
// The bytes came over an intact connection, so that asking again brings the same ones; and the client
// goes on behind a batch of a format that it does not know. Whoever reads has to stop.
func Undecodable(p stream.Partition, position int64, err error) error {
	var large *kgo.ErrDecompressTooLarge
	if errors.As(err, &large) {
		return stream.NewError("fetch", fmt.Errorf("the batch of offsets %d to %d decompresses to more than the client allows: %w: %w",
			large.Offset, large.NextOffset-1, stream.ErrTooLarge, kgo.ErrMaxDecompress)).At(p, max(position, large.Offset)).
			Hinted("raise FetchBudget, of which one batch may take a quarter, if the batch is meant, "+
				"and find its writer if not; look at it with kafka-dump-log.sh --deep-iteration on the leader, or delete the records up to offset %d with kafka-delete-records.sh",
				large.NextOffset-1)
	}
	if err == nil {
		return nil
	}
	for _, begins := range undecodable {
		if strings.HasPrefix(err.Error(), begins) {
			return stream.NewError("fetch", fmt.Errorf("batch cannot be decoded: %w", err)).At(p, position).
				Hinted("the batch at this offset is damaged: dump it with kafka-dump-log.sh --deep-iteration on the leader")
		}
	}
	return nil
}

// decompressor returns the client's own. The batches that a read takes apart were opened before (intake.Budget.Open);
// this one is for formats before the present one.
func decompressor(cl *kgo.Client) kgo.Decompressor {
	if d, ok := cl.OptValue(kgo.WithDecompressor).(kgo.Decompressor); ok && d != nil {
		return d
	}
	return kgo.DefaultDecompressor()
}
