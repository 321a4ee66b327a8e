package holdfast

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/holdfast-go/holdfast/claim"
	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/kafka"
	"github.com/holdfast-go/holdfast/stream"
)

// contactTimeout bounds the first contact with the cluster: after it a start or a check fails.
const contactTimeout = 30 * time.Second

// fencingOffsetCommit is the first version of TxnOffsetCommit that carries the member's generation
// (KIP-447, Kafka 2.5).
const fencingOffsetCommit = 3

// Report is what Check found.
type Report struct {
	// Findings are the facts that were checked, in order.
	Findings []Finding
	// Claims are what the flow promises on this cluster.
	Claims []claim.Claim
}

// Finding is one fact.
type Finding struct {
	What string // what was looked at, as "snapshot topic orders-snapshots"
	Fact string // what was found
	Err  error  // nil: nothing refuses the start
	// Warning says why the claims may not hold for it although the flow starts, as with a topic that
	// is not replicated. "": nothing.
	Warning string
}

// reportColumns is how wide String makes the claims.
const reportColumns = 100

// String returns the report as lines of text. Claims are left out where a finding refuses the start: a
// flow that does not run promises nothing.
func (r Report) String() string {
	var b strings.Builder
	refused := false
	for _, f := range r.Findings {
		mark, fact := "ok  ", f.Fact
		switch {
		case f.Err != nil:
			mark, refused = "FAIL", true
		case f.Warning != "":
			mark, fact = "warn", fact+": "+f.Warning
		}
		fmt.Fprintf(&b, "%s  %s: %s\n", mark, f.What, fact)
	}
	if refused {
		return b.String()
	}
	for _, c := range r.Claims {
		wrap(&b, "claim ", c.String())
	}
	return b.String()
}

// wrap writes text in lines of at most reportColumns, the first one behind head and the others indented
// as far.
func wrap(b *strings.Builder, head, text string) {
	indent := strings.Repeat(" ", len(head))
	line, used := head, 0
	for _, word := range strings.Fields(text) {
		if used > 0 && utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > reportColumns {
			b.WriteString(line + "\n")
			line, used = indent, 0
		}
		if used > 0 {
			line += " "
		}
		line += word
		used++
	}
	b.WriteString(line + "\n")
}

// Check looks at the cluster without changing it: that it can be reached, that its brokers can fence,
// and that input, snapshot and output topics are there and set up as the flow needs them. The error
// joins what is wrong, each part with its next step: ErrUnreachable, ErrNotAuthenticated,
// ErrNotAuthorized, ErrBrokerTooOld, ErrTopic. It may be called at any time, and by several
// goroutines.
func (f *Flow[S]) Check(ctx context.Context) (Report, error) {
	found, err := f.inspect(ctx, false)
	return found.report, err
}

// findings are the facts that a member is started with.
type findings struct {
	input, snapshots wire.Facts
	features         wire.Features
	outputBytes      int // the largest output record that a topic takes
	report           Report
}

func (f *findings) note(what, fact string, err error) error {
	if err != nil {
		fact = err.Error()
	}
	f.report.Findings = append(f.report.Findings, Finding{What: what, Fact: fact, Err: err})
	return err
}

// noteTopic notes a topic that is there, or why it is not usable.
func (f *findings) noteTopic(what string, facts wire.Facts, err error) error {
	err = f.note(what, shape(facts), err)
	if err == nil {
		f.report.Findings[len(f.report.Findings)-1].Warning = weakness(facts)
	}
	return err
}

// weakness says what of a topic the claims do not cover; "" if it is as they suppose.
func weakness(f wire.Facts) string {
	var weak []string
	if f.Replicas == 1 {
		weak = append(weak, "it is not replicated, so that the loss of one broker's disk loses acknowledged records")
	} else if f.MinISR < 2 {
		weak = append(weak, "min.insync.replicas 1 acknowledges records that one broker alone has")
	}
	if f.UncleanElection {
		weak = append(weak, "unclean.leader.election.enable is true, so that an election may lose acknowledged records")
	}
	if len(weak) == 0 {
		return ""
	}
	return strings.Join(weak, "; ") + "; the claims do not cover that"
}

// inspect finds the facts and checks them. With create it makes a missing snapshot topic, after
// everything else was found good: a start that is refused leaves nothing behind.
func (f *Flow[S]) inspect(ctx context.Context, create bool) (findings, error) {
	c := f.cfg
	ctx, cancel := context.WithTimeout(ctx, contactTimeout)
	defer cancel()
	var found findings
	if err := found.note("brokers", strings.Join(c.Kafka.Brokers, ", "), kafka.Ping(ctx, c.Kafka)); err != nil {
		return found, err
	}
	client, err := c.Kafka.Client()
	if err != nil {
		return found, err
	}
	defer client.Close()
	err = errors.Join(
		f.inspectFeatures(ctx, client, &found),
		f.inspectTopics(ctx, client, &found),
	)
	if err == nil && create && !found.snapshots.Exists {
		err = f.createSnapshots(ctx, client, &found)
	}
	return found, err
}

func (f *Flow[S]) inspectFeatures(ctx context.Context, client *kgo.Client, found *findings) error {
	features, err := wire.LookupFeatures(ctx, client)
	found.features = features
	if err == nil && f.cfg.Guarantee != Unfenced && features.TxnOffsetCommit < fencingOffsetCommit {
		err = stream.NewError("check brokers", fmt.Errorf("a broker speaks TxnOffsetCommit only up to version %d, which carries no generation: %w",
			features.TxnOffsetCommit, ErrBrokerTooOld)).Hinted("use Kafka 2.5 or newer (4.0 or newer for the full claim)")
	}
	if err == nil {
		found.report.Claims = claim.Flow(f.cfg.Guarantee.String(), int(features.TransactionVersion))
	}
	return found.note("broker features",
		fmt.Sprintf("transaction.version %d, TxnOffsetCommit v%d", features.TransactionVersion, features.TxnOffsetCommit),
		kafka.Explain(err))
}

func (f *Flow[S]) inspectTopics(ctx context.Context, client *kgo.Client, found *findings) error {
	c := f.cfg
	var errs []error
	input, err := existing(ctx, client, "input", c.Inputs[0])
	found.input = input
	errs = append(errs, found.noteTopic("input topic "+c.Inputs[0], input, err))
	if err == nil {
		snapshots, err := f.inspectSnapshots(ctx, client, input.Partitions)
		found.snapshots = snapshots
		what := "snapshot topic " + c.Snapshots.Topic
		if err == nil && !snapshots.Exists {
			err = found.note(what, "is missing and will be created at start", nil)
		} else {
			err = found.noteTopic(what, snapshots, err)
		}
		errs = append(errs, err)
	}
	for _, topic := range c.Outputs {
		output, err := existing(ctx, client, "output", topic)
		found.outputBytes = max(found.outputBytes, output.MaxMessageBytes)
		errs = append(errs, found.noteTopic("output topic "+topic, output, err))
	}
	return errors.Join(errs...)
}

func shape(f wire.Facts) string {
	return fmt.Sprintf("%d partitions, replication %d, cleanup.policy %s, min.insync.replicas %d",
		f.Partitions, f.Replicas, f.CleanupPolicy, f.MinISR)
}

func existing(ctx context.Context, client *kgo.Client, role, topic string) (wire.Facts, error) {
	facts, err := wire.TopicFacts(ctx, client, topic)
	if err == nil && !facts.Exists {
		err = stream.NewError("check topic", fmt.Errorf("%w: the %s topic does not exist", ErrTopic, role)).
			At(stream.Partition{Topic: topic, Partition: -1}, -1).
			Hinted("create it: kafka-topics.sh --bootstrap-server %s --create --topic %s --partitions N --replication-factor %d",
				wire.Bootstrap(client), topic, min(facts.Brokers, 3))
	}
	operation := "Read"
	if role == "output" {
		operation = "Write"
	}
	return facts, permitting(client, role, topic, err, operation, "DescribeConfigs")
}

// permitting has an error about a missing permission name all that the flow needs on the topic, so
// that one command grants it: the broker tells of one at a time.
func permitting(client *kgo.Client, role, topic string, err error, operations ...string) error {
	e := (*stream.Error)(nil)
	if errors.Is(err, ErrNotAuthorized) && errors.As(err, &e) {
		e.Hint = fmt.Sprintf("a flow needs %s on its %s topic: %s", strings.Join(operations, ", "), role, wire.GrantTopic(client, topic, operations...))
	}
	return kafka.Explain(err)
}

// operations are those that a flow needs on its snapshot topic.
func (c Snapshots) operations() []string {
	operations := []string{"Read", "Write", "DescribeConfigs"}
	if c.Create != nil {
		operations = append(operations, "Create")
	}
	return operations
}

// inspectSnapshots looks at the snapshot topic. One that is missing and can be created is no fault.
func (f *Flow[S]) inspectSnapshots(ctx context.Context, client *kgo.Client, partitions int32) (facts wire.Facts, err error) {
	c := f.cfg.Snapshots
	if c.Create != nil {
		facts, err = wire.TopicFacts(ctx, client, c.Topic)
	}
	switch {
	case err != nil:
	case c.Create == nil || facts.Exists:
		facts, err = wire.CheckSnapshotTopic(ctx, client, c.Topic, partitions, nil)
	case int(c.Create.Replicas) > facts.Brokers:
		err = stream.NewError("check topic", fmt.Errorf("%w: it does not exist, and a cluster of %d brokers cannot hold the %d replicas that "+
			"Snapshots.Create.Replicas asks for", ErrTopic, facts.Brokers, c.Create.Replicas)).
			At(stream.Partition{Topic: c.Topic, Partition: -1}, -1).
			Hinted("set Snapshots.Create.Replicas to %d or less, or start more brokers", facts.Brokers)
	}
	return facts, permitting(client, "snapshot", c.Topic, err, c.operations()...)
}

// createSnapshots makes the snapshot topic and notes what came of it.
func (f *Flow[S]) createSnapshots(ctx context.Context, client *kgo.Client, found *findings) error {
	c := f.cfg.Snapshots
	facts, err := wire.CheckSnapshotTopic(ctx, client, c.Topic, found.input.Partitions,
		&wire.TopicConfig{Replicas: c.Create.Replicas, Configs: c.Create.Configs})
	found.snapshots = facts
	return found.noteTopic("snapshot topic "+c.Topic, facts, permitting(client, "snapshot", c.Topic, err, c.operations()...))
}
