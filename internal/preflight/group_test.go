package preflight

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/holdfast-go/holdfast/kafka"
	"github.com/holdfast-go/holdfast/stream"
)

// withCoordinator is an inspection of a group whose coordinator answers each description with err.
func withCoordinator(t *testing.T, err *kerr.Error) *inspection {
	t.Helper()
	broker, startErr := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "in"))
	if startErr != nil {
		t.Fatal(startErr)
	}
	t.Cleanup(broker.Close)
	broker.ControlKey(int16(kmsg.DescribeGroups), func(req kmsg.Request) (kmsg.Response, error, bool) {
		broker.KeepControl()
		resp := req.ResponseKind().(*kmsg.DescribeGroupsResponse)
		g := kmsg.NewDescribeGroupsResponseGroup()
		g.Group, g.ErrorCode = "g", err.Code
		resp.Groups = append(resp.Groups, g)
		return resp, nil, true
	})
	job := pipe(broker.ListenAddrs(), "g", "in")
	client, startErr := kafka.Config{Brokers: broker.ListenAddrs()}.Client()
	if startErr != nil {
		t.Fatal(startErr)
	}
	t.Cleanup(client.Close)
	return &inspection{Job: job, client: client, patience: 300 * time.Millisecond}
}

// A coordinator that is loading or moving refuses no start, and what is not known is said; one that
// refuses does.
func TestCoordinatorDoesNotAnswer(t *testing.T) {
	t.Parallel()
	for _, passing := range []*kerr.Error{kerr.CoordinatorNotAvailable, kerr.CoordinatorLoadInProgress} {
		i := withCoordinator(t, passing)
		if err := i.group(t.Context()); err != nil {
			t.Errorf("%v refuses the start: %v", passing, err)
		}
		if text := i.found.Report.String(); !strings.Contains(text, "warn  group g: its coordinator did not answer: whether another program uses the group is not known") {
			t.Errorf("%v: report %s", passing, text)
		}
	}
	i := withCoordinator(t, kerr.GroupAuthorizationFailed)
	if err := i.group(t.Context()); !errors.Is(err, stream.ErrNotAuthorized) || !strings.Contains(err.Error(), "--operation Read --group g") {
		t.Errorf("not authorized: %v", err)
	}
}

// Who is asked to stop while the coordinator is waited for has not found that all is well.
func TestCoordinatorWaitEndsWithTheContext(t *testing.T) {
	t.Parallel()
	i := withCoordinator(t, kerr.CoordinatorLoadInProgress)
	i.patience = time.Hour
	ctx, cancel := context.WithCancelCause(t.Context())
	stop := errors.New("asked to stop")
	cancel(stop)
	if err := i.group(ctx); !errors.Is(err, stop) {
		t.Errorf("error %v, want %v", err, stop)
	}
}
