package devbroker

import (
	"context"
	"errors"
	"fmt"
	"maps"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/holdfast-go/holdfast/stream"
)

const cleanupPolicy = "cleanup.policy"

// createTopics creates the configured topics, and checks those that are there already.
func (b *Broker) createTopics(ctx context.Context) error {
	if len(b.cfg.Topics) == 0 {
		return nil
	}
	cl, err := b.local().Client()
	if err != nil {
		return err
	}
	defer cl.Close()
	adm := kadm.NewClient(cl)
	for _, t := range b.cfg.Topics {
		_, err := adm.CreateTopic(ctx, t.Partitions, 1, t.settings(), t.Name)
		switch {
		case errors.Is(err, kerr.TopicAlreadyExists):
			if err := checkTopic(ctx, adm, t); err != nil {
				return err
			}
		case err != nil:
			return topicFault(t, err, "correct its name, partitions or settings")
		}
	}
	return nil
}

// settings returns the topic's settings as Kafka takes them.
func (t Topic) settings() map[string]*string {
	all := maps.Clone(t.Config)
	if all == nil {
		all = map[string]string{}
	}
	if t.Compact {
		all[cleanupPolicy] = "compact"
	}
	out := make(map[string]*string, len(all))
	for k, v := range all {
		out[k] = &v
	}
	return out
}

// checkTopic compares a topic that is there with the one that is wanted.
func checkTopic(ctx context.Context, adm *kadm.Client, t Topic) error {
	topics, err := adm.ListTopics(ctx, t.Name)
	if err != nil {
		return topicFault(t, err, "look at the cause")
	}
	if n := len(topics[t.Name].Partitions); n != int(t.Partitions) {
		return topicFault(t, fmt.Errorf("it exists with %d partitions, and %d were asked for", n, t.Partitions),
			"ask for as many as it has, or start with an empty data directory")
	}
	configs, err := adm.DescribeTopicConfigs(ctx, t.Name)
	if err != nil {
		return topicFault(t, err, "look at the cause")
	}
	got, err := configs.On(t.Name, nil)
	if err != nil {
		return topicFault(t, err, "look at the cause")
	}
	want := "delete"
	if v := t.settings()[cleanupPolicy]; v != nil {
		want = *v
	}
	for _, c := range got.Configs {
		if c.Key == cleanupPolicy && c.MaybeValue() != want {
			return topicFault(t, fmt.Errorf("it exists with %s=%s, and %s was asked for", cleanupPolicy, c.MaybeValue(), want),
				"ask for the policy that it has, or start with an empty data directory")
		}
	}
	return nil
}

func topicFault(t Topic, err error, hint string) error {
	e := stream.NewError("start development broker", fmt.Errorf("%w: %w", stream.ErrTopic, err))
	e.Topic = t.Name
	return e.Hinted("%s", hint)
}
