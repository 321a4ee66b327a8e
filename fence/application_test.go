package fence

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
)

// A member is told of the applications beside it, and of none where the other members tell the same, or nothing, as
// those of an older version and of other clients do.
func TestOthers(t *testing.T) {
	t.Parallel()
	one, two := Application{"flow", "one"}, Application{"flow", "two"}
	for _, protocol := range []Protocol{Cooperative, Eager, ServerSide} {
		for name, c := range map[string]struct {
			beside Application
			want   []Application
		}{"the same": {one, nil}, "one that tells nothing": {Application{}, nil}, "another": {two, []Application{two}}} {
			t.Run(protocol.String()+"/"+name, func(t *testing.T) {
				t.Parallel()
				_, p := fakeCluster(t, kfake.SeedTopics(2, testInput, testProgress), kfake.BrokerConfigs(map[string]string{"group.consumer.heartbeat.interval.ms": "100", "group.consumer.min.heartbeat.interval.ms": "100"}))
				s := Session{Protocol: protocol, Application: c.beside, HeartbeatInterval: 50 * time.Millisecond}
				second := join(t, p, s)
				second.granted(t)
				s.Application = one
				first := join(t, p, s)
				o := first.granted(t)
				got, err := first.Others(testContext(t), o.MemberID())
				if err != nil || !slices.Equal(got, c.want) {
					t.Errorf("I2: beside %+v the member is told of %+v (%v), want %+v", c.beside, got, err, c.want)
				}
			})
		}
	}
}

// A look that does not show the asking member says nothing about who else is there.
func TestOthersWaitsForItself(t *testing.T) {
	t.Parallel()
	_, p := fakeCluster(t, kfake.SeedTopics(2, testInput, testProgress))
	m := join(t, p, Session{Application: Application{"flow", "one"}})
	m.granted(t)
	ctx, cancel := context.WithTimeoutCause(testContext(t), 200*time.Millisecond, errors.New("not seen"))
	defer cancel()
	if got, err := m.Others(ctx, "somebody"); err == nil || err.Error() != "not seen" {
		t.Errorf("I2: a group without the member that asks was taken for an answer: %v, %v", got, err)
	}
}

// The client id that a member of KIP-848 has is its own, with what it tells behind it.
func TestClientIDTells(t *testing.T) {
	t.Parallel()
	_, p := fakeCluster(t, kfake.SeedTopics(2, testInput, testProgress))
	m := join(t, p, Session{Protocol: ServerSide, Application: Application{"flow", "one"}}, kgo.ClientID("mine"))
	if id := m.client.OptValue(kgo.ClientID); id != "mine~holdfast~flow~one" {
		t.Errorf("client id %v", id)
	}
}
