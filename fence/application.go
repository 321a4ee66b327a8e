package fence

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/kafka"
	"github.com/holdfast-go/holdfast/stream"
)

// Application is what a member tells its group that it is. Members that tell the same share the partitions;
// those of two applications in one group would each process a part of the input. It must not change from one
// version of a program to the next. The zero value tells nothing.
type Application struct {
	Kind     string // of the component, as "flow"
	Progress string // the topic that its snapshots or progress records go to
}

// telling is an assignor whose member tells what it is.
type telling struct {
	kgo.GroupBalancer
	told Application
}

// JoinGroupMetadata implements kgo.GroupBalancer.
func (t telling) JoinGroupMetadata(topics []string, current map[string][]int32, generation int32) []byte {
	return wire.Application(t.told).Told(t.GroupBalancer.JoinGroupMetadata(topics, current, generation))
}

// by has assignors tell the group.
func (a Application) by(assignors ...kgo.GroupBalancer) []kgo.GroupBalancer {
	if a == (Application{}) {
		return assignors
	}
	for i, b := range assignors {
		assignors[i] = telling{b, a}
	}
	return assignors
}

// clientID is the option that puts what a member of KIP-848 tells behind the client id that it would have.
func (a Application) clientID(k kafka.Config, opts []kgo.Opt) ([]kgo.Opt, error) {
	if a == (Application{}) {
		return nil, nil
	}
	base, err := k.ClientOpts(nil)
	if err != nil {
		return nil, err
	}
	asked, err := kgo.NewClient(append(append(base, opts...), offline)...)
	if err != nil {
		return nil, stream.NewError("join group", fmt.Errorf("%w: %w", stream.ErrConfig, err))
	}
	defer asked.Close()
	id, _ := asked.OptValue(kgo.ClientID).(string)
	return []kgo.Opt{kgo.ClientID(wire.Application(a).ClientID(id))}, nil
}

// Beside returns ErrOtherComponent or ErrOtherApplication, with both named, for a member that is not of the same
// application; nil if it is, and where either tells nothing.
func (a Application) Beside(other Application) error {
	return wire.Application(a).Beside(wire.Application(other))
}

// Others returns the other applications whose members the group has, each once, as they tell it; one that
// tells nothing is left out, as those of another client are. Before it returns it has seen a group at rest that
// has the member memberID in it: who is granted a partition and asks then, under that grant's id, is told of
// every member that is told of it, as long as both are members.
//
// It waits while a classic group rebalances, and asks again while the coordinator does not answer, as long as
// ctx lasts. It returns the cause of ctx, ErrNotAuthorized without Describe on the group, which Read implies, and
// other answers of the coordinator that do not pass.
func (g *Group) Others(ctx context.Context, memberID string) ([]Application, error) {
	<-g.ready
	for pause := 20 * time.Millisecond; ; pause = min(2*pause, time.Second) {
		found, err := wire.LookupMembers(ctx, g.client, g.session.group)
		if err == nil && (found.Hidden || found.Settled && contains(found.Members, memberID)) {
			return g.others(found.Members), nil
		}
		if errors.Is(err, kerr.GroupAuthorizationFailed) {
			return nil, stream.NewError("look at the group", fmt.Errorf("%w: %w", stream.ErrNotAuthorized, err)).Hinted("allow READ on the group %s", g.session.group)
		}
		if err != nil && !wire.Passes(err) && ctx.Err() == nil {
			return nil, stream.NewError("look at the group", err)
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

func contains(members []wire.GroupMember, id string) bool {
	return slices.ContainsFunc(members, func(m wire.GroupMember) bool { return m.ID == id })
}

func (g *Group) others(members []wire.GroupMember) (others []Application) {
	for _, m := range members {
		if a := Application(m.Application); g.application.Beside(a) != nil && !slices.Contains(others, a) {
			others = append(others, a)
		}
	}
	return others
}
