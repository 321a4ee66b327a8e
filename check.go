package holdfast

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

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
	Err  error  // nil: as it should be
}

// String returns the report as lines of text.
func (r Report) String() string {
	var b strings.Builder
	for _, f := range r.Findings {
		mark := "ok  "
		if f.Err != nil {
			mark = "FAIL"
		}
		fmt.Fprintf(&b, "%s  %s: %s\n", mark, f.What, f.Fact)
	}
	for _, c := range r.Claims {
		fmt.Fprintf(&b, "claim %s\n", c)
	}
	return b.String()
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

// inspect finds the facts and checks them. With create it makes a missing snapshot topic.
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
	return found, errors.Join(
		f.inspectFeatures(ctx, client, &found),
		f.inspectTopics(ctx, client, &found, create),
	)
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

func (f *Flow[S]) inspectTopics(ctx context.Context, client *kgo.Client, found *findings, create bool) error {
	c := f.cfg
	var errs []error
	input, err := existing(ctx, client, "input", c.Inputs[0])
	found.input = input
	errs = append(errs, found.note("input topic "+c.Inputs[0], shape(input), err))
	if err == nil {
		snapshots, err := f.inspectSnapshots(ctx, client, input.Partitions, create)
		found.snapshots = snapshots
		fact := shape(snapshots)
		if err == nil && !snapshots.Exists {
			fact = "is missing and will be created at start"
		}
		errs = append(errs, found.note("snapshot topic "+c.Snapshots.Topic, fact, err))
	}
	for _, topic := range c.Outputs {
		output, err := existing(ctx, client, "output", topic)
		found.outputBytes = max(found.outputBytes, output.MaxMessageBytes)
		errs = append(errs, found.note("output topic "+topic, shape(output), err))
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
		err = stream.NewError("check topic", fmt.Errorf("the %s topic does not exist: %w", role, ErrTopic)).
			At(stream.Partition{Topic: topic, Partition: -1}, -1).
			Hinted("create it: kafka-topics.sh --bootstrap-server %s --create --topic %s --partitions N --replication-factor 3",
				wire.Bootstrap(client), topic)
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

func (f *Flow[S]) inspectSnapshots(ctx context.Context, client *kgo.Client, partitions int32, create bool) (wire.Facts, error) {
	c := f.cfg.Snapshots
	operations := []string{"Read", "Write", "DescribeConfigs"}
	var config *wire.TopicConfig
	if c.Create != nil {
		operations = append(operations, "Create")
		if create {
			config = &wire.TopicConfig{Replicas: c.Create.Replicas, Configs: c.Create.Configs}
		}
	}
	facts, err := wire.Facts{}, error(nil)
	if c.Create != nil && !create {
		facts, err = wire.TopicFacts(ctx, client, c.Topic)
	}
	if err == nil && (c.Create == nil || create || facts.Exists) {
		facts, err = wire.CheckSnapshotTopic(ctx, client, c.Topic, partitions, config)
	}
	return facts, permitting(client, "snapshot", c.Topic, err, operations...)
}
