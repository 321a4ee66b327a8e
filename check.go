package holdfast

import (
	"context"

	"github.com/holdfast-go/holdfast/claim"
	"github.com/holdfast-go/holdfast/internal/preflight"
	"github.com/holdfast-go/holdfast/internal/wire"
)

// Report is what Check found.
type Report = claim.Report

// Finding is one fact of a Report.
type Finding = claim.Finding

// Check looks at the cluster without changing it: that it can be reached, that its brokers can fence,
// that input, snapshot and output topics are there and set up as the flow needs them, that it may use
// them, and that its group is not another component's. The error joins what is wrong, each part with
// its next step: ErrUnreachable, ErrNotAuthenticated, ErrNotAuthorized, ErrBrokerTooOld, ErrTopic,
// ErrOtherComponent, ErrConfig (a transaction timeout above the brokers' maximum). It may be called at
// any time, and by several goroutines.
func (f *Flow[S]) Check(ctx context.Context) (Report, error) {
	found, err := f.inspect(ctx, false)
	return found.Report, err
}

// inspect finds the facts and checks them. With create it makes a missing snapshot topic.
func (f *Flow[S]) inspect(ctx context.Context, create bool) (preflight.Found, error) {
	c := f.cfg
	job := preflight.Job{
		Kafka:     c.Kafka,
		Group:     c.Group,
		Component: claim.ComponentFlow,
		Inputs:    c.Inputs,
		Progress: preflight.ProgressTopic{
			Role: "snapshot", Topic: c.Snapshots.Topic, ConfigField: "Snapshots.Create",
		},
		Outputs:       c.Outputs,
		Transactional: c.Guarantee != Unfenced,
		Claims: func(transactionVersion int) []claim.Claim {
			return claim.Flow(c.Guarantee.String(), transactionVersion)
		},
	}
	if create := c.Snapshots.Create; create != nil {
		job.Progress.Create = &wire.TopicConfig{Replicas: create.Replicas, Configs: create.Configs}
	}
	if job.Transactional {
		job.TransactionTimeout = c.Member.TransactionTimeout
	}
	return preflight.Inspect(ctx, job, create)
}
