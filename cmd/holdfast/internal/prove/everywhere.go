package prove

import (
	"context"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// everywhere returns when each broker that answers shows the topic with its leaders, or when none does.
// A broker learns of a topic, and of its end, some time after the controller has answered, and which
// broker a client asks next is chance.
func everywhere(ctx context.Context, cl *kgo.Client, topic string, shown bool) error {
	meta := kmsg.NewPtrMetadataRequest()
	meta.Topics = []kmsg.MetadataRequestTopic{}
	cluster, err := meta.RequestWith(ctx, cl)
	if err != nil {
		return fmt.Errorf("list brokers: %w", err)
	}
	for _, b := range cluster.Brokers {
		for {
			shows, err := showsTopic(ctx, cl.Broker(int(b.NodeID)), topic)
			if shows == shown && err == nil {
				break
			}
			if _, answered := errors.AsType[*kerr.Error](err); err != nil && !answered && ctx.Err() == nil {
				break // a broker that is down shows nothing to anybody
			}
			if errors.Is(err, kerr.TopicAuthorizationFailed) {
				return fmt.Errorf("describe topic %s: %w", topic, err)
			}
			if cause := pause(ctx); cause != nil {
				return fmt.Errorf("broker %d does not know of it yet: %w", b.NodeID, errors.Join(cause, err))
			}
		}
	}
	return nil
}

// showsTopic reports whether a broker knows the topic and a leader for each partition.
func showsTopic(ctx context.Context, broker *kgo.Broker, topic string) (bool, error) {
	req := kmsg.NewPtrMetadataRequest()
	t := kmsg.NewMetadataRequestTopic()
	t.Topic = &topic
	req.Topics = append(req.Topics, t)
	resp, err := req.RequestWith(ctx, broker)
	if err != nil {
		return false, err
	}
	if len(resp.Topics) != 1 {
		return false, fmt.Errorf("metadata answered %d topics instead of 1", len(resp.Topics))
	}
	err = kerr.ErrorForCode(resp.Topics[0].ErrorCode)
	if errors.Is(err, kerr.UnknownTopicOrPartition) {
		return false, nil
	}
	led := err == nil && len(resp.Topics[0].Partitions) > 0
	for _, p := range resp.Topics[0].Partitions {
		led = led && p.Leader >= 0
	}
	return led, err
}
