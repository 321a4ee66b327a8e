package holdfast

import (
	"context"

	"github.com/holdfast-go/holdfast/claim"
)

// Report is what Check found.
type Report = claim.Report

// Finding is one fact of a Report.
type Finding = claim.Finding

// Level says what a Finding asks for.
type Level = claim.Level

// Check looks at the cluster: that it can be reached, that its brokers can fence, that input, snapshot and
// output topics are there and set up as the flow needs them, that it may use them, that its group is not
// another component's, that timeouts go with the brokers' limits, and whether keys are where Kafka's
// default partitioner puts them. Each finding of the report has a level and what mends it.
//
// Under a fenced guarantee it also makes a broker refuse a stale owner, in a group and under a
// transactional id that exist for this alone (docs/check.md says how); nothing that is live is changed. It
// takes some hundred milliseconds, and 3 s more where brokers have the default of
// group.initial.rebalance.delay.ms.
//
// The error joins what refuses a start, each part with its next step: ErrUnreachable,
// ErrNotAuthenticated, ErrNotAuthorized, ErrBrokerTooOld, ErrBrokerDoesNotFence, ErrTopic,
// ErrOtherComponent, ErrOtherGroup, ErrInputChanged (the snapshots are of another input),
// ErrOffsetMismatch (the group's offsets disagree with the snapshots),
// ErrConfig (a timeout that the brokers do not take). Warnings and advice are in the report alone. It may be called at any time, and by several goroutines.
func (f *Flow[S]) Check(ctx context.Context) (Report, error) { return f.job.Check(ctx) }
