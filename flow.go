package holdfast

import (
	"context"
	"reflect"

	"github.com/holdfast-go/holdfast/claim"
	"github.com/holdfast-go/holdfast/internal/engine"
	"github.com/holdfast-go/holdfast/internal/job"
	"github.com/holdfast-go/holdfast/internal/member"
	"github.com/holdfast-go/holdfast/stream"
)

// Flow is one member of a consumer group that folds an input topic into one state per key. Several
// processes that run a flow of the same group share its partitions.
type Flow[S any] struct {
	job *job.Job
}

// New returns a flow for c. It does not reach out to Kafka. The error joins every fault that was
// found in c, each matching ErrConfig or ErrReservedOption and naming the field. It logs a warning
// where S holds references and there is no Clone.
func New[S any](c Config[S]) (*Flow[S], error) {
	j, err := job.New(c.job(), c.faults())
	if err != nil {
		return nil, err
	}
	if c.Logger != nil && c.Clone == nil && engine.HoldsReferences[S]() {
		c.Logger.Warn("the state holds references and there is no Clone", "group", c.Group, "state", reflect.TypeFor[S]().String())
	}
	return &Flow[S]{job: j}, nil
}

// Run joins the group and folds until ctx ends; then it commits what was folded, leaves the group,
// and returns nil. It returns an error, after the same tidy end, when the topics are not usable
// (see Check), when a partition stops (a step failed and the policy is to stop, a state cannot be
// written, the restore stalled), or when the cluster refuses the flow for good. Run may be called
// once.
func (f *Flow[S]) Run(ctx context.Context) error { return f.job.Run(ctx) }

// Claims returns what the flow promises: hop by hop, with crash and boundary. Check's report has the
// claims as this cluster allows them.
func (f *Flow[S]) Claims() []claim.Claim { return f.job.Claims() }

// job is the part of c that does not depend on the type of the states.
func (c Config[S]) job() job.Config {
	topic := c.Snapshots.Topic
	if topic == "" {
		topic = c.Group + "-snapshots"
	}
	out := job.Config{
		Kafka: c.Kafka, Component: claim.ComponentFlow, Group: c.Group, Inputs: c.Inputs, Outputs: c.Outputs,
		Progress: job.Progress{
			Role: "snapshot", Topic: topic, TopicField: "Snapshots.Topic", CreateField: "Snapshots.Create",
		},
		FoldVersion: c.FoldVersion, Guarantee: job.Guarantee(c.Guarantee),
		OnError: c.OnError, DeadLetters: c.DeadLetters,
		Member: job.Member(c.Member), Restore: job.Restore(c.Restore),
		Start: job.Start{New: job.Position(c.Start.New), Time: c.Start.Time, Disagreement: job.Disagreement(c.Start.Disagreement)},
		Commit: job.Commit{
			Persist: c.Commit.Persist, PersistCooldown: c.Commit.PersistCooldown, Interval: c.Commit.Interval,
			MaxWrites: c.Commit.MaxWrites, MaxBytes: c.Commit.MaxBytes, RevokeBudget: c.Commit.RevokeBudget,
			OnPersistError: job.OnPersistError(c.Commit.OnPersistError),
		},
		Logger: c.Logger, Hooks: c.Hooks,
		Claims: func(transactionVersion int) []claim.Claim {
			claims := claim.Flow(c.Guarantee.String(), transactionVersion)
			if c.DeadLetters != nil {
				claims = append(claims, claim.DeadLetters(claim.ComponentFlow, c.Guarantee.String(), transactionVersion)...)
			}
			return claims
		},
		NewEngine: c.newEngine,
	}
	if create := c.Snapshots.Create; create != nil {
		out.Progress.Create = &job.Create{Replicas: create.Replicas, Configs: create.Configs}
	}
	return out
}

func (c Config[S]) newEngine(s engine.Settings) member.Engine {
	return engine.New(engine.Config[S]{
		Settings: s,
		Fold: func(ctx context.Context, call *engine.Call[S], r stream.Record) error {
			return c.Fold(ctx, &Key[S]{call}, r)
		},
		Route:  c.Route,
		Encode: c.Codec.Append,
		Decode: c.Codec.Decode,
		Clone:  c.Clone,
		Plain:  !engine.HoldsReferences[S](),
	})
}
