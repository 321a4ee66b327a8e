package holdfast

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/claim"
	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/internal/engine"
	"github.com/holdfast-go/holdfast/internal/member"
	"github.com/holdfast-go/holdfast/internal/preflight"
	"github.com/holdfast-go/holdfast/internal/rule"
	"github.com/holdfast-go/holdfast/stream"
)

// Flow is one member of a consumer group that folds an input topic into one state per key. Several
// processes that run a flow of the same group share its partitions.
type Flow[S any] struct {
	cfg Config[S]
	ran atomic.Bool
}

// New returns a flow for c. It does not reach out to Kafka. The error joins every fault that was
// found in c, each matching ErrConfig or ErrReservedOption and naming the field.
func New[S any](c Config[S]) (*Flow[S], error) {
	c = c.withDefaults()
	if err := c.validate(); err != nil {
		return nil, err
	}
	return &Flow[S]{cfg: c}, nil
}

// Run joins the group and folds until ctx ends; then it commits what was folded, leaves the group,
// and returns nil. It returns an error, after the same tidy end, when the topics are not usable
// (see Check), when a partition stops (a step failed and the policy is to stop, a state cannot be
// written, the restore stalled), or when the cluster refuses the flow for good. Run may be called
// once.
func (f *Flow[S]) Run(ctx context.Context) error {
	if f.ran.Swap(true) {
		return stream.NewError("run", errors.Join(ErrConfig, errors.New("the flow was run before"))).
			Hinted("make another flow with New")
	}
	found, err := f.inspect(ctx, f.cfg.Snapshots.Create != nil)
	if err != nil {
		if ctx.Err() != nil {
			return nil // asked to stop before it began
		}
		return err
	}
	return member.New(f.memberConfig(ctx, found)).Run(ctx)
}

// Claims returns what the flow promises: hop by hop, with crash and boundary. Check's report has the
// claims as this cluster allows them.
func (f *Flow[S]) Claims() []claim.Claim {
	return claim.Flow(f.cfg.Guarantee.String(), 2)
}

func (f *Flow[S]) memberConfig(ctx context.Context, found preflight.Found) member.Config {
	c := f.cfg
	return member.Config{
		Kafka: c.Kafka,
		Session: fence.Session{
			Group: c.Group, InstanceID: c.Member.InstanceID, SessionTimeout: c.Member.SessionTimeout,
			RebalanceTimeout: c.Member.RebalanceTimeout, HeartbeatInterval: c.Member.HeartbeatInterval,
		},
		TransactionTimeout: c.Member.TransactionTimeout,
		Input:              found.Inputs[0],
		Snapshots:          found.Progress,
		Features:           found.Features,
		Fenced:             c.Guarantee != Unfenced,
		FoldVersion:        c.FoldVersion,
		Start: member.Start{
			Latest:     c.Start.New == Latest,
			AtTime:     c.startTime(),
			Resume:     c.Start.Disagreement == ResumeAtProgress,
			AdoptEmpty: c.Start.Disagreement == AdoptEmpty,
			Rebuild:    c.Start.Disagreement == Rebuild,
		},
		SilenceLimit:   c.Member.UnreachableTimeout,
		StallTimeout:   c.Restore.StallTimeout,
		RevokeBudget:   c.Commit.RevokeBudget,
		QueueRecords:   c.Member.QueueRecords,
		MaxOutputBytes: found.MaxOutputBytes(),
		MaxWrites:      c.Commit.MaxWrites,
		MaxBytes:       c.Commit.MaxBytes,
		NewEngine:      f.engines(ctx, found),
		OnError:        c.OnError,
		Logger:         c.Logger,
		Hooks:          c.Hooks,
	}
}

func (c Config[S]) startTime() time.Time {
	if c.Start.New == AtTime {
		return c.Start.Time
	}
	return time.Time{}
}

// engines returns the maker of the partitions' engines.
func (f *Flow[S]) engines(ctx context.Context, found preflight.Found) func(stream.Partition) member.Engine {
	c := f.cfg
	plain := !engine.HoldsReferences[S]()
	return func(p stream.Partition) member.Engine {
		return engine.New(engine.Config[S]{
			Partition: p,
			Fold: func(ctx context.Context, call *engine.Call[S], r stream.Record) error {
				return c.Fold(ctx, &Key[S]{call}, r)
			},
			Route:            c.Route,
			Encode:           c.Codec.Append,
			Decode:           c.Codec.Decode,
			Clone:            c.Clone,
			Plain:            plain,
			Outputs:          c.Outputs,
			PersistInterval:  c.Commit.Persist,
			PersistCooldown:  c.Commit.PersistCooldown,
			CommitInterval:   c.Commit.Interval,
			MaxWrites:        c.Commit.MaxWrites,
			MaxBytes:         c.Commit.MaxBytes,
			MaxRecordBytes:   found.Progress.MaxMessageBytes,
			KeepDirty:        c.Commit.OnPersistError == KeepDirty,
			NoAppliedSkip:    !rule.On(ctx, rule.AppliedSkip),
			NoHolds:          !rule.On(ctx, rule.Holds),
			NoTwoWriteDelete: !rule.On(ctx, rule.TwoWriteDelete),
		})
	}
}
