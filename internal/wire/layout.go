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

// Layout is how many partitions a topic has, as one broker knows it. Of one topic id the number only rises, so
// that a lower one is that of a broker which has not caught up, and a higher one is true at one answer.
type Layout struct {
	ID         [16]byte
	Partitions int32
	Exists     bool
}

// TopicLayout asks a broker, any, for a topic's layout as it knows it now. A topic that it does not know is not an
// error.
func TopicLayout(ctx context.Context, cl *kgo.Client, topic string) (Layout, error) {
	req := kmsg.NewPtrMetadataRequest()
	rt := kmsg.NewMetadataRequestTopic()
	rt.Topic = &topic
	req.Topics = append(req.Topics, rt)
	resp, err := req.RequestWith(ctx, cl)
	if err == nil && len(resp.Topics) != 1 {
		err = fmt.Errorf("metadata answered %d topics instead of 1", len(resp.Topics))
	}
	if err == nil {
		err = kerr.ErrorForCode(resp.Topics[0].ErrorCode)
	}
	switch {
	case errors.Is(err, kerr.UnknownTopicOrPartition), errors.Is(err, kerr.UnknownTopicID):
		return Layout{}, nil
	case errors.Is(err, kerr.LeaderNotAvailable): // the topic is there, and told as far as it is known
	case Passes(err):
		return Layout{}, fmt.Errorf("describe %s: %w", topic, err)
	case err != nil:
		return Layout{}, Log{Client: cl, Topic: topic, Partition: -1}.named("describe", err)
	}
	t := &resp.Topics[0]
	return Layout{ID: t.TopicID, Partitions: int32(len(t.Partitions)), Exists: true}, nil
}

// errKeysMoved marks an input that has other partitions than those which its states were folded from.
var errKeysMoved = errors.New("keys have moved between partitions")

// KeysMoved is the error about it, for the caller to say where.
func KeysMoved(topic string, then, now int32) *stream.Error {
	return stream.NewError("check input", fmt.Errorf("the topic had %d partitions and has %d: %w: %w", then, now, errKeysMoved, stream.ErrInputChanged)).
		Hinted("no start policy mends that: a key that has moved has its records in two partitions, and would have two states. Make a topic with as many partitions as wanted, "+
			"copy %s into it with a pipe that forwards each record by its key, and fold that under a new group and snapshot topic. "+
			"Only where the producers place each key by hand, and none has moved, fold this topic under a new group and snapshot topic", topic)
}

// AreKeysMoved reports whether an error is one of KeysMoved.
func AreKeysMoved(err error) bool { return errors.Is(err, errKeysMoved) }
