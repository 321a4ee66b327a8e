package wire

import (
	"context"

	"github.com/twmb/franz-go/pkg/kgo"
)

// Compacted is a topic that a component keeps its snapshots or its progress in: it has a partition for
// each one of the inputs, and it is compacted and nothing else.
type Compacted struct {
	Component  string // that it belongs to, as "flow"
	Role       string // "snapshot" or "progress"
	Topic      string
	Partitions int32 // of all inputs together
	Inputs     int   // how many input topics these are
	// Create makes the topic if it is missing. nil: a missing topic is a fault.
	Create *TopicConfig
	// Field is what of the configuration asks for that, as "Snapshots.Create", for the hint.
	Field string
}

// Check makes sure that the topic exists, has as many partitions as it needs, and is compacted and
// nothing else. Beside one input it may have more: partitions cannot be taken away, and the last ones stay empty. If it is missing and Create is not nil, it is created first; losing that race to
// another process is fine. Faults are stream.ErrTopic with the command that mends them.
func (c Compacted) Check(ctx context.Context, cl *kgo.Client) (Facts, error) {
	f, err := TopicFacts(ctx, cl, c.Topic)
	if err == nil && !f.Exists && c.Create != nil {
		if err = createCompacted(ctx, cl, c.Topic, c.Partitions, *c.Create); err == nil {
			f, err = awaitLeaders(ctx, cl, c.Topic)
		}
	}
	if err != nil {
		return f, err
	}
	switch {
	case !f.Exists:
		return f, unusable(c.Topic, "it does not exist").Hinted("create it: %s (a %s does it by itself with %s)",
			createCommand(cl, c.Topic, c.Partitions, int16(min(f.Brokers, 3)), compacted(f.Brokers)), c.Component, c.Field)
	case f.CleanupPolicy != "compact":
		return f, NotCompacted(cl, f, c.kept())
	case f.Partitions < c.Partitions, f.Partitions > c.Partitions && c.Inputs > 1:
		return f, c.miscounted(cl, f.Partitions)
	}
	return f, nil
}

// NotCompacted is the error about a topic whose records Kafka deletes; kept is what would be lost.
func NotCompacted(cl *kgo.Client, f Facts, kept string) error {
	return unusable(f.Topic, "its cleanup.policy is %q, and Kafka would delete %s", f.CleanupPolicy, kept).
		Hinted("kafka-configs.sh --bootstrap-server %s --alter --entity-type topics --entity-name %s --add-config cleanup.policy=compact "+
			"(then start again, which finds out whether anything was deleted before)", Bootstrap(cl), f.Topic)
}

// kept is what would be lost by deletion.
func (c Compacted) kept() string {
	if c.Role == "snapshot" {
		return "snapshots of keys that do not change"
	}
	return "the " + c.Role + " of partitions without input"
}

func (c Compacted) miscounted(cl *kgo.Client, has int32) error {
	var err = unusable(c.Topic, "it has %d partitions and the input has %d: each of these needs one", has, c.Partitions)
	if c.Inputs > 1 {
		err = unusable(c.Topic, "it has %d partitions and the %d inputs have %d together: the numbers must be equal", has, c.Inputs, c.Partitions)
	}
	if c.Inputs > 1 {
		// With several inputs a partition's place depends on the counts before it, so that adding
		// partitions at the end would give progress to inputs that it is not of.
		return err.Hinted("name another %s topic, or if this one holds no %s that is needed: kafka-topics.sh --bootstrap-server %s --delete --topic %s",
			c.Role, c.needed(), Bootstrap(cl), c.Topic)
	}
	return err.Hinted("kafka-topics.sh --bootstrap-server %s --alter --topic %s --partitions %d", Bootstrap(cl), c.Topic, c.Partitions)
}

func (c Compacted) needed() string {
	if c.Role == "snapshot" {
		return "state"
	}
	return c.Role
}
