package wire

import (
	"context"

	"github.com/twmb/franz-go/pkg/kgo"
)

// TopicShape is TopicFacts without the topic's configuration, which takes the permission to describe
// the topic and no more. The fields of Facts that come from the configuration are zero.
func TopicShape(ctx context.Context, cl *kgo.Client, topic string) (Facts, error) {
	return topicShape(ctx, cl, topic)
}
