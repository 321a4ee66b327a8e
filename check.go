package holdfast

import (
	"context"

	"github.com/holdfast-go/holdfast/claim"
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
func (f *Flow[S]) Check(ctx context.Context) (Report, error) { return f.job.Check(ctx) }
