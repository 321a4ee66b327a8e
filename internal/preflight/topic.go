package preflight

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/holdfast-go/holdfast/dlq"
	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/kafka"
	"github.com/holdfast-go/holdfast/stream"
)

func (i *inspection) topics(ctx context.Context) error {
	var errs []error
	for _, topic := range i.Inputs {
		facts, err := i.existing(ctx, "input", topic, "Read")
		i.found.Inputs = append(i.found.Inputs, facts)
		err = i.noteTopic("input", topic, facts, err)
		errs = append(errs, err)
		if err == nil {
			i.retention(facts)
		}
	}
	if errors.Join(errs...) == nil {
		err := i.layout(ctx)
		if err == nil { // else to make the topic wider would be of no use
			err = i.progress(ctx)
		}
		errs = append(errs, err)
	}
	for _, topic := range i.Outputs {
		errs = append(errs, i.output(ctx, "output", topic))
	}
	if i.DeadLetters != "" {
		errs = append(errs, i.output(ctx, "dead-letter", i.DeadLetters))
	}
	return errors.Join(errs...)
}

// existing looks at a topic that must be there. need is what the component does with its records.
func (i *inspection) existing(ctx context.Context, role, topic, need string) (wire.Facts, error) {
	facts, err := i.lookFor(ctx, topic)
	if err == nil && !facts.Exists {
		err = i.unusable(topic, "the %s topic does not exist", role).
			Hinted("correct the name, or create it: kafka-topics.sh --bootstrap-server %s --create --topic %s --partitions %s --replication-factor %d",
				wire.Bootstrap(i.client), topic, i.wanted(topic), min(facts.Brokers, 3))
	}
	if err == nil {
		err = refusal(facts, role, need)
	}
	return facts, i.permitting(role, topic, err, need, "DescribeConfigs")
}

// absences is how often a topic has to be told to be absent before that is believed, each time by the broker whose turn
// it is: one that has just started, or that has not heard of a topic which was created a moment ago, tells so too
// (R28).
const absences = 3

// lookFor asks for the facts of a topic.
func (i *inspection) lookFor(ctx context.Context, topic string) (facts wire.Facts, err error) {
	for range absences {
		facts, err = wire.TopicFacts(ctx, i.client, topic)
		if err != nil || facts.Exists {
			break
		}
		select {
		case <-time.After(coordinatorPause):
		case <-ctx.Done():
			return facts, nil
		}
	}
	return facts, err
}

// wanted is the number of partitions that a missing topic is to be created with.
func (i *inspection) wanted(topic string) string {
	if slices.Contains(i.SamePartition, topic) && len(i.found.Inputs) > 0 && i.found.Inputs[0].Exists {
		return fmt.Sprint(i.found.Inputs[0].Partitions)
	}
	return "N"
}

func (i *inspection) unusable(topic, format string, args ...any) *stream.Error {
	return stream.NewError("check topic", fmt.Errorf("%w: "+format, append([]any{stream.ErrTopic}, args...)...)).
		At(stream.Partition{Topic: topic, Partition: -1}, -1)
}

func (i *inspection) output(ctx context.Context, role, topic string) error {
	facts, err := i.existing(ctx, role, topic, "Write")
	i.found.Outputs[topic] = facts
	letters := topic == i.DeadLetters
	switch {
	case err != nil:
	case slices.Contains(i.SamePartition, topic):
		err = i.samePartitions(role, facts)
	case letters && strings.Contains(facts.CleanupPolicy, "compact"):
		err = i.unusable(topic, "the dead-letter topic has cleanup.policy %s: of two letters with one key compaction removes the first", facts.CleanupPolicy).
			Hinted("%s", i.alter(topic, "cleanup.policy=delete"))
	}
	err = i.noteTopic(role, topic, facts, err)
	switch {
	case err != nil:
	case letters:
		i.letterWarnings(facts)
	default:
		i.outputTimes(facts)
	}
	return err
}

// letterWarnings says how letters may be lost, or not be written, although the topic is usable.
func (i *inspection) letterWarnings(letters wire.Facts) {
	if letters.Retention >= 0 && !letters.AppendTime && strings.Contains(letters.CleanupPolicy, "delete") {
		i.found.warn(fmt.Sprintf("letters keep the timestamps of their records, and retention.ms (%v) counts from these: "+
			"the letter of an older record is deleted soon; set message.timestamp.type=LogAppendTime or retention.ms=-1", letters.Retention),
			i.alter(letters.Topic, "message.timestamp.type=LogAppendTime"))
	}
	if letters.Permitted.Refuses(operations["Read"]) {
		i.found.advise("the principal may not read the dead-letter topic: the breaker of DeadLetters does not count the letters of an earlier run, "+
			"so that a process that is killed and started again may write MaxPerMinute of them each time",
			wire.GrantTopic(i.client, letters.Topic, "Read"))
	}
	for _, in := range i.found.Inputs {
		if in.Exists && !in.AppendTime && !letters.AppendTime && narrower(letters, in) {
			i.found.advise(fmt.Sprintf("it takes timestamps %s the brokers' clock, and input topic %s takes them %s: a letter of a time beyond that has the time "+
				"of writing, and its own in the header %s", limitsOf(letters), in.Topic, limitsOf(in), dlq.HeaderTimestamp),
				i.alter(letters.Topic, asWide(in)))
		}
		if in.Exists && letters.MaxMessageBytes < in.MaxMessageBytes+dlq.MaxOverhead {
			i.found.warn(fmt.Sprintf("max.message.bytes %d is not above the %d of input topic %s by the %d bytes that a letter may have more: "+
				"the letter of a record that large says where it stands, and does not have it", letters.MaxMessageBytes, in.MaxMessageBytes, in.Topic, dlq.MaxOverhead),
				i.alter(letters.Topic, fmt.Sprintf("max.message.bytes=%d", in.MaxMessageBytes+dlq.MaxOverhead)))
		}
	}
}

// outputTimes compares the time limits of an output topic with the inputs': what is forwarded keeps its timestamp.
func (i *inspection) outputTimes(output wire.Facts) {
	for _, in := range i.found.Inputs {
		if in.Exists && !in.AppendTime && !output.AppendTime && narrower(output, in) {
			i.found.advise(fmt.Sprintf("it takes timestamps %s the brokers' clock, and input topic %s takes them %s: an output that keeps the timestamp of "+
				"a record beyond that is refused, which is the record's failure", limitsOf(output), in.Topic, limitsOf(in)), i.alter(output.Topic, asWide(in)))
		}
	}
}

// narrower reports whether a topic takes fewer timestamps than another one.
func narrower(f, than wire.Facts) bool {
	less := func(a, b time.Duration) bool { return a > 0 && (b == 0 || a < b) }
	return less(f.TimeBefore, than.TimeBefore) || less(f.TimeAfter, than.TimeAfter)
}

func limitsOf(f wire.Facts) string {
	limit := func(d time.Duration) string {
		if d == 0 {
			return "without a limit"
		}
		return "up to " + d.String()
	}
	return fmt.Sprintf("%s before and %s after", limit(f.TimeBefore), limit(f.TimeAfter))
}

// asWide is the setting of a topic that takes all timestamps that an input takes.
func asWide(in wire.Facts) string {
	ms := func(d time.Duration) int64 {
		if d == 0 {
			return math.MaxInt64
		}
		return d.Milliseconds()
	}
	return fmt.Sprintf("message.timestamp.before.max.ms=%d,message.timestamp.after.max.ms=%d", ms(in.TimeBefore), ms(in.TimeAfter))
}

// alter is the command that sets a topic's configuration.
func (i *inspection) alter(topic, setting string) string {
	return fmt.Sprintf("kafka-configs.sh --bootstrap-server %s --alter --entity-type topics --entity-name %s --add-config %s", wire.Bootstrap(i.client), topic, setting)
}

// samePartitions makes sure that a record of any input partition finds the one with its number.
func (i *inspection) samePartitions(role string, output wire.Facts) error {
	for _, in := range i.found.Inputs {
		if !in.Exists || in.Partitions == output.Partitions {
			continue
		}
		err := i.unusable(output.Topic, "the %s topic has %d partitions and input topic %s has %d: records that keep their partition need equal numbers",
			role, output.Partitions, in.Topic, in.Partitions)
		if output.Partitions < in.Partitions {
			return err.Hinted("kafka-topics.sh --bootstrap-server %s --alter --topic %s --partitions %d, or have its records spread by key",
				wire.Bootstrap(i.client), output.Topic, in.Partitions)
		}
		return err.Hinted("have its records spread by key, or name another topic with %d partitions", in.Partitions)
	}
	return nil
}

// operations that the broker may say are refused, by their names in Kafka's commands.
var operations = map[string]kmsg.ACLOperation{
	"Read": kmsg.ACLOperationRead, "Write": kmsg.ACLOperationWrite,
}

// refusal is the error for an operation that the broker says is not permitted. Without it a missing
// Write would be found at the first record.
func refusal(facts wire.Facts, role string, needs ...string) error {
	for _, need := range needs {
		if facts.Permitted.Refuses(operations[need]) {
			return stream.NewError("check topic", fmt.Errorf("%w: the principal may not %s the %s topic", stream.ErrNotAuthorized, strings.ToLower(need), role)).
				At(stream.Partition{Topic: facts.Topic, Partition: -1}, -1)
		}
	}
	return nil
}

// permitting has an error about a missing permission name all that the component needs on the topic,
// so that one command grants it: the broker tells of one at a time.
func (i *inspection) permitting(role, topic string, err error, operations ...string) error {
	e := (*stream.Error)(nil)
	if errors.Is(err, stream.ErrNotAuthorized) && errors.As(err, &e) {
		e.Hint = fmt.Sprintf("a %s needs %s on its %s topic: %s", i.Component, strings.Join(operations, ", "), role,
			wire.GrantTopic(i.client, topic, operations...))
	}
	return kafka.Explain(err)
}

func (i *inspection) compacted(create *wire.TopicConfig) wire.Compacted {
	return wire.Compacted{
		Component: i.Component, Role: i.Progress.Role, Topic: i.Progress.Topic, Partitions: i.found.partitions(), Inputs: len(i.Inputs),
		Create: create, Field: i.Progress.ConfigField,
	}
}

// progress looks at the compacted topic. One that is missing and can be created is no fault.
func (i *inspection) progress(ctx context.Context) (err error) {
	c := i.Progress
	var facts wire.Facts
	if c.Create != nil {
		facts, err = wire.TopicFacts(ctx, i.client, c.Topic)
	}
	switch {
	case err != nil:
	case c.Create == nil || facts.Exists:
		facts, err = i.compacted(nil).Check(ctx, i.client)
	case int(c.Create.Replicas) > facts.Brokers:
		field := c.ConfigField + ".Replicas"
		err = i.unusable(c.Topic, "it does not exist, and a cluster of %d brokers cannot hold the %d replicas that %s asks for",
			facts.Brokers, c.Create.Replicas, field).Hinted("set %s to %d or less, or start more brokers", field, facts.Brokers)
	}
	if err == nil && facts.Exists {
		err = refusal(facts, c.Role, "Read", "Write")
	}
	i.found.Progress = facts
	err = i.permitting(c.Role, c.Topic, err, c.operations()...)
	if err == nil && !facts.Exists {
		return i.found.note("topic."+c.Role, c.Role+" topic "+c.Topic, "is missing and will be created at start", nil)
	}
	return i.noteTopic(c.Role, c.Topic, facts, err)
}

// operations are those that a component needs on its compacted topic.
func (c ProgressTopic) operations() []string {
	operations := []string{"Read", "Write", "DescribeConfigs"}
	if c.Create != nil {
		operations = append(operations, "Create")
	}
	return operations
}

// createProgress makes the compacted topic and notes what came of it.
func (i *inspection) createProgress(ctx context.Context) error {
	c := i.Progress
	facts, err := i.compacted(c.Create).Check(ctx, i.client)
	if err == nil {
		err = refusal(facts, c.Role, "Read", "Write")
	}
	i.found.Progress = facts
	return i.noteTopic(c.Role, c.Topic, facts, i.permitting(c.Role, c.Topic, err, c.operations()...))
}

func shape(f wire.Facts) string {
	return fmt.Sprintf("%d partitions, replication %d, cleanup.policy %s, min.insync.replicas %d",
		f.Partitions, f.Replicas, f.CleanupPolicy, f.MinISR)
}

// noteTopic notes a topic that is there, or why it is not usable, and what of it the claims do not cover.
func (i *inspection) noteTopic(role, topic string, facts wire.Facts, err error) error {
	if err = i.found.note("topic."+role, role+" topic "+topic, shape(facts), err); err != nil {
		return err
	}
	i.weakness(topic, facts)
	if role == i.Progress.Role {
		i.tombstones(facts)
		i.oldVersions(facts)
		if n := i.found.partitions(); facts.Partitions > n {
			i.found.advise(fmt.Sprintf("it has %d partitions and the input has %d: the last ones are not used", facts.Partitions, n),
				"leave it as it is: do not add partitions to an input to match, which moves its keys")
		}
	}
	return nil
}

// retention says what a rebuild, which is asked for, would not find any more.
func (i *inspection) retention(input wire.Facts) {
	if !i.Rebuilds || !strings.Contains(input.CleanupPolicy, "delete") || input.Retention < 0 && input.RetentionBytes < 0 {
		return
	}
	i.found.advise(fmt.Sprintf("records are deleted from it (retention.ms %d, retention.bytes %d), and Start.Disagreement is Rebuild: a rebuild folds what is left, and drops the states of all that is not",
		input.Retention.Milliseconds(), input.RetentionBytes), "set Start.Disagreement to Rebuild for the one start that needs it, or keep the input: "+i.alter(input.Topic, "retention.ms=-1,retention.bytes=-1"))
}

// uncovered ends each warning of a weakness.
const uncovered = ", which the claims do not cover"

// weakness says what of a topic is not as the claims suppose.
func (i *inspection) weakness(topic string, f wire.Facts) {
	if f.Replicas == 1 {
		fix := "create it again with --replication-factor 3, or raise it: kafka-reassign-partitions.sh"
		if f.Brokers < 2 {
			fix = "run three brokers, and create it with --replication-factor 3: a cluster of one broker is for development"
		}
		i.found.warn("it is not replicated, so that the loss of one broker's disk loses acknowledged records"+uncovered, fix)
	} else if f.MinISR < 2 {
		i.found.warn("min.insync.replicas 1 acknowledges records that one broker alone has"+uncovered, i.alter(topic, "min.insync.replicas=2"))
	} else if f.MinISR >= int(f.Replicas) {
		i.found.advise(fmt.Sprintf("min.insync.replicas %d of %d replicas stops all writes while one broker is down", f.MinISR, f.Replicas),
			i.alter(topic, fmt.Sprintf("min.insync.replicas=%d", max(2, f.Replicas-1))))
	}
	if f.UncleanElection {
		i.found.warn("unclean.leader.election.enable is true, so that an election may lose acknowledged records"+uncovered,
			i.alter(topic, "unclean.leader.election.enable=false"))
	}
}

// oldVersions compares the topic with those that are created: a restore reads all that compaction has not removed.
func (i *inspection) oldVersions(f wire.Facts) {
	if f.Embedded || f.SegmentBytes <= 2*wire.ChangelogSegment || f.CompactionLag <= 24*time.Hour {
		return
	}
	i.found.advise(fmt.Sprintf("segment.bytes is %d and max.compaction.lag.ms has no bound to speak of: compaction leaves the newest segment alone, "+
		"so that a restore may read that many bytes of versions that count no more", f.SegmentBytes),
		i.alter(f.Topic, fmt.Sprintf("segment.bytes=%d,max.compaction.lag.ms=%d", wire.ChangelogSegment, wire.ChangelogLag.Milliseconds())))
}

// shortTombstones is a delete.retention.ms below which a long restore is in danger.
const shortTombstones = time.Hour

// tombstones compares how long a delete stays readable with how long a restore may take: a restore that
// has read a key's state and takes longer than that does not see its delete any more.
func (i *inspection) tombstones(f wire.Facts) {
	if i.Progress.Role == "snapshot" && f.DeleteRetention < shortTombstones {
		i.found.advise(fmt.Sprintf("delete.retention.ms is %v: a restore that takes longer may bring a deleted key back", f.DeleteRetention),
			i.alter(f.Topic, "delete.retention.ms=86400000"))
	}
}
