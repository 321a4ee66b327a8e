package fence

import (
	"context"
	"errors"
	"iter"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/kafka"
	"github.com/holdfast-go/holdfast/stream"
)

// RestoreConfig says what Restore reads.
type RestoreConfig struct {
	Kafka     kafka.Config
	Partition stream.Partition // the partition that the writers of this one write to
	From      int64            // first offset wanted; 0: all of it
	// Position, if not nil, is told the next offset to be read and the target, after each fetch.
	Position func(next, target int64)
}

var errStopped = errors.New("the caller stopped the restore")

// Restore returns the committed records of a partition in offset order, up to the high watermark
// captured when the iteration starts. Call it after Open: the takeover has ended every transaction
// below that point, so that nothing committed is missing and nothing aborted is seen. Records under
// the reserved progress key are among them: see IsProgressKey and DecodeProgress, and tell the newest
// to Writer.Adopt.
//
// The target is the high watermark and not the last stable offset: that one stands below an open
// transaction, and a restore to it would leave out what was committed above. The iteration waits for
// such a transaction until ctx ends; see Writer.Retake. It ends after the first error, which is the
// cause of ctx, ErrTruncated, ErrTopic, ErrNotAuthorized or one of a record that cannot be decoded.
//
// Use it under a consumer loop of your own, whatever the records are. snapshot.Restore is for records in
// the format of package snapshot: it also bounds a stall, says what causes it, and retakes the id itself.
func Restore(ctx context.Context, c RestoreConfig) iter.Seq2[stream.Record, error] {
	return func(yield func(stream.Record, error) bool) {
		cl, err := c.Kafka.Client()
		if err != nil {
			yield(stream.Record{}, err)
			return
		}
		defer cl.Close()
		log := wire.Log{Client: cl, Topic: c.Partition.Topic, Partition: c.Partition.Partition}
		_, target, _, err := log.Ends(ctx)
		if err != nil {
			yield(stream.Record{}, err)
			return
		}
		o := wire.ReadOptions{From: c.From, To: target, Committed: true}
		if c.Position != nil {
			o.OnPosition = func(next int64) { c.Position(next, target) }
		}
		_, err = log.Read(ctx, o, func(r *kgo.Record) error {
			if !yield(wire.Record(r), nil) {
				return errStopped
			}
			return nil
		})
		if err != nil && !errors.Is(err, errStopped) {
			yield(stream.Record{}, err)
		}
	}
}
