package preflight

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/holdfast-go/holdfast/claim"
	"github.com/holdfast-go/holdfast/internal/rule"
	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/kafka"
	"github.com/holdfast-go/holdfast/stream"
)

// contactTimeout bounds the first contact with the cluster: after it a start or a check fails.
const contactTimeout = 30 * time.Second

// fencingOffsetCommit is the first version of TxnOffsetCommit that carries the member's generation
// (KIP-447, Kafka 2.5).
const fencingOffsetCommit = 3

// inspection is one look at the cluster.
type inspection struct {
	Job
	client   *kgo.Client
	contact  time.Duration // what all but the probe may take
	patience time.Duration // with the group's coordinator
	probing  time.Duration // what the fence probe may take
	spoken   wire.Versions
	found    Found

	members          int                           // of the group
	otherAssignor    string                        // what is to be said of the one that they use; "": nothing
	committedOffsets map[string][]wire.GroupOffset // by input topic, in the order of its partitions
}

// Inspect finds the facts and checks them. With Mode.Create it makes a missing compacted topic of the
// component's own, after everything else was found good: a start that is refused leaves nothing behind.
// The error joins what is wrong, each part with its next step; Found.Report has it too.
func Inspect(ctx context.Context, job Job, mode Mode) (Found, error) {
	i := &inspection{
		Job: job, contact: contactTimeout, patience: coordinatorPatience, probing: probePatience, found: Found{Outputs: map[string]wire.Facts{}},
	}
	return i.inspect(ctx, mode)
}

func (i *inspection) inspect(parent context.Context, mode Mode) (Found, error) {
	ctx, cancel := context.WithTimeout(parent, i.contact)
	defer cancel()
	job := i.Job
	if err := i.found.note("brokers", "brokers", strings.Join(job.Kafka.Brokers, ", "), kafka.Ping(ctx, job.Kafka)); err != nil {
		return i.found, err
	}
	client, err := job.Kafka.Client()
	if err != nil {
		return i.found, err
	}
	defer client.Close()
	i.client = client
	err = errors.Join(i.features(ctx), i.versions(), i.protocol(ctx), i.timeout(ctx), i.topics(ctx), i.group(ctx), i.transactionalIDs(ctx))
	if mode.Deep {
		err = errors.Join(err, i.deep(ctx))
	}
	switch {
	case mode.Probe && err == nil:
		err = i.probe(parent) // it has a bound of its own: what the rest has taken must not cut it to nothing, and refuse the start
	case mode.Probe && i.Transactional && rule.On(ctx, rule.FenceProbe): // a start that is refused needs none
		i.found.add(claim.Finding{ID: ProbeID, What: "fence", Fact: "was not probed", Advice: "it is looked at where nothing else refuses a start: mend the faults, then check again"})
	}
	if err == nil && mode.Create && !i.found.Progress.Exists {
		creating, cancel := context.WithTimeout(parent, i.contact)
		defer cancel()
		err = i.createProgress(creating)
	}
	return i.found, err
}

func (i *inspection) features(ctx context.Context) error {
	features, versions, err := wire.LookupVersions(ctx, i.client)
	i.spoken = versions
	i.found.Features = features
	if err == nil && i.Transactional && features.TxnOffsetCommit < fencingOffsetCommit {
		err = stream.NewError("check brokers", fmt.Errorf("a broker speaks TxnOffsetCommit only up to version %d, which carries no generation: %w",
			features.TxnOffsetCommit, stream.ErrBrokerTooOld)).
			Hinted("use Kafka 2.5 or newer (4.0 or newer for the full claim)")
	}
	if err == nil && i.Claims != nil {
		i.found.Report.Claims = i.Claims(int(features.TransactionVersion))
	}
	err = i.found.note("broker-features", "broker features",
		fmt.Sprintf("transaction.version %d, TxnOffsetCommit v%d", features.TransactionVersion, features.TxnOffsetCommit),
		kafka.Explain(err))
	if err == nil && i.Transactional && !features.Fenced() {
		i.found.warn("below transaction.version 2 a delayed request of one transaction can act on the next one: the claim is weaker",
			fmt.Sprintf("on brokers 4.0 or newer: kafka-features.sh --bootstrap-server %s upgrade --feature transaction.version=2", wire.Bootstrap(i.client)))
	}
	return err
}

// timeout compares the transaction timeout with the brokers' maximum. Where that is not told, which
// takes DescribeConfigs on the cluster, nothing is noted: the start is refused by the broker then.
func (i *inspection) timeout(ctx context.Context) error {
	if !i.Transactional || i.TransactionTimeout == 0 {
		return nil
	}
	limit, err := wire.MaxTransactionTimeout(ctx, i.client)
	if err != nil || limit == 0 {
		return kafka.Explain(err)
	}
	if i.TransactionTimeout > limit {
		err = stream.NewError("check brokers", fmt.Errorf("%w: the transaction timeout is %v, and a broker allows at most %v",
			stream.ErrConfig, i.TransactionTimeout, limit)).
			Hinted("lower Member.TransactionTimeout to %v or less, or raise transaction.max.timeout.ms of the brokers to %d or more",
				limit, i.TransactionTimeout.Milliseconds())
	}
	return i.found.note("transaction-timeout", "transaction timeout", fmt.Sprintf("%v, the brokers allow %v", i.TransactionTimeout, limit), err)
}
