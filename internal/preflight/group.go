package preflight

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/holdfast-go/holdfast/claim"
	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/kafka"
	"github.com/holdfast-go/holdfast/stream"
)

// coordinatorPatience bounds the wait for the group's coordinator, which on a cluster that was just
// started makes the offsets' topic first, and after a restart reads it.
const coordinatorPatience = 10 * time.Second

// coordinatorPause is the time between two attempts.
const coordinatorPause = 100 * time.Millisecond

// group makes sure that the group can be joined, and that what it has committed is not another kind of
// component's: it would begin at offsets that mean something else, and take over nothing of its own.
//
// A coordinator that does not answer refuses no start: the member waits for it as it does in every
// outage, and a rolling restart must not end those that start meanwhile.
func (i *inspection) group(parent context.Context) error {
	ctx, cancel := context.WithTimeout(parent, i.patience)
	defer cancel()
	fact, err := i.inspectGroup(ctx)
	for wire.Passes(err) && ctx.Err() == nil {
		select {
		case <-time.After(coordinatorPause):
			fact, err = i.inspectGroup(ctx)
		case <-ctx.Done():
		}
	}
	if parent.Err() != nil {
		return context.Cause(parent)
	}
	if !wire.Passes(err) {
		err := i.found.note("group", "group "+i.Group, fact, kafka.Explain(err))
		if err == nil && i.otherAssignor != "" {
			i.found.warn(i.otherAssignor, "choose the Member.Protocol of the running members, or stop all of them before it is changed")
		}
		return err
	}
	i.found.add(claim.Finding{
		ID: "group", What: "group " + i.Group, Fact: "its coordinator did not answer",
		Warning: fmt.Sprintf("whether another program uses the group is not known (%v)", err),
		Fix:     []string{"wait until the brokers are up, then check again"},
	})
	return nil
}

// inspectGroup returns what is to be said of the group, a *stream.Error that refuses the start, or an
// error that passes.
func (i *inspection) inspectGroup(ctx context.Context) (string, error) {
	g, err := wire.DescribeGroup(ctx, i.client, i.Group)
	if err == nil && g.Permitted.Refuses(kmsg.ACLOperationRead) {
		err = kerr.GroupAuthorizationFailed
	}
	if err != nil {
		return "", i.groupError(err)
	}
	// The coordinator turns a group of consumers from one protocol to the other, and none of another type.
	if g.Type != "" && g.Type != "classic" && g.Type != "consumer" {
		return "", i.taken(fmt.Errorf("%w: it is a %s group, which takes no consumers", stream.ErrOtherComponent, g.Type))
	}
	// A group without members takes any protocol with the first one that joins.
	if g.Members > 0 && g.ProtocolType != "" && g.ProtocolType != "consumer" {
		return "", i.taken(fmt.Errorf("%w: its %d members are not consumers, they speak the protocol %q",
			stream.ErrOtherComponent, g.Members, g.ProtocolType))
	}
	i.members, i.otherAssignor = g.Members, ""
	if g.Members > 0 && g.Assignor != "" && i.Assignors != nil && !slices.Contains(i.Assignors, g.Assignor) {
		i.otherAssignor = fmt.Sprintf("its members share the partitions by %q, and a member with this Member.Protocol offers %q: it is refused with %q, unless all of them offer one of these as well",
			g.Assignor, i.Assignors, stream.ErrOtherProtocol)
	}
	if err := i.others(ctx, g); err != nil {
		return "", err
	}
	committed, kinds, err := i.committed(ctx)
	if err != nil {
		return "", i.groupError(err)
	}
	for _, kind := range kinds {
		if kind != i.Component {
			return "", i.taken(fmt.Errorf("%w: its offsets were committed by a %s, and this is a %s", stream.ErrOtherComponent, kind, i.Component))
		}
	}
	fact := fmt.Sprintf("%d members, offsets of %d of %d partitions", g.Members, committed, i.found.partitions())
	if committed > 0 && len(kinds) == 0 {
		fact += ", committed by another program"
	}
	return fact, nil
}

// others refuses a group that has a member of another application now. What the members are that come later is
// looked at after the join.
func (i *inspection) others(ctx context.Context, g wire.GroupFacts) error {
	if g.Members == 0 && g.Type == "" {
		return nil
	}
	found, err := wire.LookupMembers(ctx, i.client, i.Group)
	if err != nil {
		return i.groupError(err)
	}
	own := wire.Application{Kind: i.Component, Progress: i.Progress.Topic}
	for _, m := range found.Members {
		if err := own.Beside(m.Application); err != nil {
			return i.taken(err)
		}
	}
	return nil
}

// committed counts the partitions of the inputs that have a committed offset, and finds the kinds of
// the components that committed them. An offset without a witness has no kind: the start compares it
// with the progress and decides.
func (i *inspection) committed(ctx context.Context) (count int, kinds []string, err error) {
	i.committedOffsets = map[string][]wire.GroupOffset{}
	for _, in := range i.found.Inputs {
		if !in.Exists {
			continue
		}
		offsets, err := wire.FetchUnstableOffsets(ctx, i.client, i.Group, in.Topic, in.ID, in.Partitions)
		if err != nil {
			return 0, nil, err
		}
		i.committedOffsets[in.Topic] = offsets
		for _, o := range offsets {
			if o.Next >= 0 {
				count++
			}
			if w, ok := wire.ParseWitness(o.Metadata); ok && !slices.Contains(kinds, w.Kind) {
				kinds = append(kinds, w.Kind)
			}
		}
	}
	return count, kinds, nil
}

func (i *inspection) taken(err error) error {
	e := stream.NewError("check", err).Hinted("give this %s a group of its own", i.Component)
	e.Group = i.Group
	return e
}

// groupError makes an error that stays one that says what to do; one that passes is left as it is.
func (i *inspection) groupError(err error) error {
	if wire.Passes(err) {
		return err
	}
	e := stream.NewError("check", err)
	e.Group = i.Group
	if errors.Is(err, kerr.GroupAuthorizationFailed) {
		e.Err = fmt.Errorf("%w: %w", stream.ErrNotAuthorized, err)
		return e.Hinted("a %s needs Read on its group: %s", i.Component, wire.GrantGroup(i.client, i.Group, "Read"))
	}
	return e
}
