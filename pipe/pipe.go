// Package pipe is stateless read-process-write: a function is called for each record of the input
// topics, and what it sends becomes visible together with the input's offset or not at all.
//
// A pipe is a member of a consumer group. Each of its input partitions has one owner, and each commit
// is one transaction of outputs, dead letters, a progress record and the offset, bound to the owner's
// generation: the broker refuses a stale owner, and the takeover by the next one aborts what it left
// open. The offset never goes through the consumer. The progress record, in a compacted topic of the
// pipe's own, keeps a transaction that only filters from being empty, and is what an unknown outcome
// is read back by.
//
// Readers of the outputs must set isolation.level=read_committed.
package pipe

import (
	"context"
	"log/slog"
	"slices"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/claim"
	"github.com/holdfast-go/holdfast/dlq"
	"github.com/holdfast-go/holdfast/internal/engine"
	"github.com/holdfast-go/holdfast/internal/job"
	"github.com/holdfast-go/holdfast/internal/member"
	"github.com/holdfast-go/holdfast/kafka"
	"github.com/holdfast-go/holdfast/stream"
)

// Config describes a pipe. The zero value of a field means its default; fields without a default are
// marked required. New copies it.
type Config struct {
	// Kafka is the connection. Required: at least one broker.
	Kafka kafka.Config
	// Group is the consumer group. Required, and of this pipe alone: offsets that a flow has committed
	// refuse the start. It also names the transactional ids.
	Group string
	// Inputs are the topics to read. Required. Their partitions are independent of each other. Append
	// another input at the end: the order lays out the progress topic.
	Inputs []string
	// Outputs are the only topics that Func may send to. Each is checked at start.
	Outputs []string
	// KeepPartition names those of Outputs whose records go to the partition with the number of their
	// input's, which needs as many partitions there as in each input. Records for the others go where
	// Kafka's default partitioner puts their key, by murmur2, as Java's clients do.
	KeepPartition []string
	// Progress is the compacted topic for the progress records, with one partition for each input
	// partition. "": the group's name with "-progress" appended; New refuses what Kafka would.
	Progress string
	// Create makes the progress topic at start if it is missing. nil: a missing one refuses the start.
	Create *holdfast.TopicConfig
	// Func is called for each record. Required. What it sends is dropped if it returns an error or
	// panics, and OnError decides then. Sending nothing filters the record. It must be a function of
	// the record alone: it is called again after a crash, and a write to another system cannot be part
	// of the transaction. The record's bytes may be kept, not changed. ctx ends with the ownership of
	// the partition.
	Func func(ctx context.Context, r stream.Record, out *Out) error
	// Concurrency is how many calls of Func may be under way for one partition; their outputs are
	// written in the order of the input all the same. Default 1. With more than one, and with several
	// partitions at any rate, Func must be safe for concurrent use.
	Concurrency int
	// OnError decides about a record for which Func failed, or whose outputs the broker did not take.
	// nil: stream.Stop. dlq.Classes makes one of rules per class of error.
	OnError func(ctx context.Context, e *stream.RecordError) stream.Action
	// DeadLetters says where records go for which OnError returns stream.DeadLetter or
	// stream.RetryThenDeadLetter, which it requires. nil: nowhere, and these stop the pipe.
	DeadLetters *dlq.Policy
	// Member sets the timings of the group membership.
	Member holdfast.Member
	// Start says where to begin without a committed offset. An offset that was committed by something
	// else than a pipe or a flow, as a person who resets the group or another client that is a member
	// of it, is where the pipe goes on.
	Start holdfast.Start
	// Restore bounds the reading of the progress partition at an assignment. A pipe has no states to
	// retain: RetainBytes and RetainFor do nothing.
	Restore holdfast.Restore
	// Commit sets when a batch is closed: Interval (default 100 ms), MaxWrites (default 10,000 records),
	// MaxBytes (default 4 MiB). What is about states has no meaning here and is refused.
	Commit holdfast.Commit
	// Logger receives log lines. nil: none.
	Logger *slog.Logger
	// Hooks are called as things happen; module prom returns one for Prometheus.
	Hooks []holdfast.Hooks
}

// Pipe is one member of a consumer group that copies and changes records. Several processes that run a
// pipe of the same group share its partitions.
type Pipe struct {
	job *job.Job
}

// New returns a pipe for c. It does not reach out to Kafka. The error joins every fault that was found
// in c, each matching holdfast.ErrConfig or holdfast.ErrReservedOption and naming the field.
func New(c Config) (*Pipe, error) {
	j, err := job.New(c.job(), c.faults())
	if err != nil {
		return nil, err
	}
	return &Pipe{job: j}, nil
}

// Run joins the group and processes records until ctx ends; then it commits what was processed, leaves
// the group, and returns nil. It returns an error, after the same tidy end, when the topics are not
// usable (see Check), when a record stops a partition (Func failed and the policy is to stop), or when
// the cluster refuses the pipe for good. Run may be called once.
func (p *Pipe) Run(ctx context.Context) error { return p.job.Run(ctx) }

// Check looks at the cluster, without changing anything live, as holdfast.Flow.Check does. It may be called at
// any time, and by several goroutines.
func (p *Pipe) Check(ctx context.Context) (holdfast.Report, error) { return p.job.Check(ctx) }

// Claims returns what the pipe promises, with crash and boundary. Check's report has the claims as this
// cluster allows them.
func (p *Pipe) Claims() []claim.Claim { return p.job.Claims() }

// Status says what the pipe is doing, as holdfast.Flow.Status does. A pipe has no keys, and what it restores are its
// progress records.
func (p *Pipe) Status() holdfast.Status { return p.job.Status() }

// Ready is closed when Status.Ready is true for the first time, as holdfast.Flow.Ready is.
func (p *Pipe) Ready() <-chan struct{} { return p.job.Ready() }

func (c Config) faults() (faults []error) {
	fault := func(format string, args ...any) { faults = append(faults, job.Fault(format, args...)) }
	if len(c.Inputs) == 0 {
		fault("Inputs must name at least one topic")
	}
	if c.Func == nil {
		fault("Func is required")
	}
	if c.Concurrency < 0 {
		fault("Concurrency %d is negative", c.Concurrency)
	}
	if len(c.Outputs) == 0 {
		fault("Outputs must name at least one topic: what a pipe may write to")
	}
	for _, topic := range c.KeepPartition {
		if !slices.Contains(c.Outputs, topic) {
			fault("KeepPartition names %q, which is not one of Outputs", topic)
		}
	}
	if c.Commit.PersistCooldown != 0 {
		fault("Commit.PersistCooldown %v has no meaning for a pipe: it has no state. Leave it unset", c.Commit.PersistCooldown)
	}
	if c.Start.Disagreement == holdfast.AdoptEmpty {
		fault("Start.Disagreement AdoptEmpty has no meaning for a pipe: it has no state")
	}
	return faults
}

func (c Config) job() job.Config {
	topic := c.Progress
	if topic == "" {
		topic = c.Group + "-progress"
	}
	out := job.Config{
		Kafka: c.Kafka, Component: claim.ComponentPipe, Group: c.Group,
		Inputs: c.Inputs, Outputs: c.Outputs, AsRead: c.KeepPartition,
		Progress:  job.Progress{Role: "progress", Topic: topic, TopicField: "Progress", CreateField: "Create"},
		Guarantee: job.FencedOutputs, OnError: c.OnError, DeadLetters: c.DeadLetters,
		Member: job.Member(c.Member), Restore: job.Restore(c.Restore),
		Start: job.Start{New: job.Position(c.Start.New), Time: c.Start.Time, Disagreement: job.Disagreement(c.Start.Disagreement)},
		Commit: job.Commit{
			Persist: c.Commit.Persist, Interval: c.Commit.Interval,
			MaxWrites: c.Commit.MaxWrites, MaxBytes: c.Commit.MaxBytes, RevokeBudget: c.Commit.RevokeBudget,
			OnPersistError: job.OnPersistError(c.Commit.OnPersistError),
		},
		Logger: c.Logger, Hooks: c.Hooks,
		Claims: func(transactionVersion int) []claim.Claim {
			claims := claim.Pipe(transactionVersion)
			if c.DeadLetters != nil {
				claims = append(claims, claim.DeadLetters(claim.ComponentPipe, "", transactionVersion)...)
			}
			return claims
		},
		NewEngine: func(s engine.Settings) member.Engine {
			return engine.New(engine.Config[struct{}]{Settings: s, Plain: true})
		},
		Map:         c.call,
		Concurrency: max(c.Concurrency, 1),
	}
	if c.Create != nil {
		out.Progress.Create = &job.Create{Replicas: c.Create.Replicas, Configs: c.Create.Configs}
	}
	return out
}

// call calls the user's function for one record.
func (c Config) call(ctx context.Context, r stream.Record) ([]stream.Message, error) {
	out := &Out{record: &r}
	err := c.Func(ctx, r, out)
	sent := out.sent
	out.record, out.sent = nil, nil
	return sent, err
}
