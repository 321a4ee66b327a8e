package crash

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/holdfast-go/holdfast/holdfasttest"
	"github.com/holdfast-go/holdfast/internal/trial"
	"github.com/holdfast-go/holdfast/internal/wiretap"
)

// blow is what happens to the member.
type blow string

const (
	kill  blow = "kill"  // SIGKILL, and another member goes on
	cut   blow = "cut"   // it is cut off while another member goes on, and then comes back
	reset blow = "reset" // its connection is reset once: it goes on by itself, and another member after it
)

var blows = []blow{kill, cut, reset}

// point is a crash point: a place between two requests.
type point struct {
	found
	// lost: the first request was carried out, and its answer never comes. Else it was answered, and the
	// second never reaches a broker.
	lost bool
}

func (p point) String() string {
	if !p.lost {
		return p.Pair.String()
	}
	name := p.from.Name
	if p.from.N > 1 {
		name = fmt.Sprintf("%s #%d", name, p.from.N)
	}
	return fmt.Sprintf("%s: %s → (its answer is lost)", p.from.Phase, name)
}

// points returns both places of each pair. Pairs that begin with the same request share the place of its
// lost answer.
func points(pairs []found) (out []point) {
	shared := map[Step]bool{}
	for _, p := range pairs {
		out = append(out, point{p, false})
		if !shared[p.from] {
			shared[p.from] = true
			out = append(out, point{p, true})
		}
	}
	return out
}

// strike is one test: a blow at a point.
type strike struct {
	c     component
	point point
	blow  blow
	ready func(*run) // what has to have happened before the blow; nil: nothing more
}

func (s strike) String() string {
	return strings.NewReplacer("/", "-", ",", "", " ", "_").Replace(fmt.Sprintf("%s %v %s", s.c.name, s.point, s.blow))
}

// at returns the stage of the fault, and what it matches.
func (s strike) at(r *run) (stage int, match wiretap.Match) {
	is := func(g Sighting) bool { return g.To == s.point.from }
	stage = s.point.atFrom
	if !s.point.lost {
		stage = s.point.atTo
		is = s.ends
	}
	return stage, wiretap.First(1, func(q wiretap.Request) bool {
		for _, g := range r.tr.Of(idOf(q)) {
			if is(g) {
				return true
			}
		}
		return false
	})
}

// ends reports whether a request is the second of the pair. A pair without a first has any.
func (s strike) ends(g Sighting) bool {
	p, ok := g.Pair()
	if s.point.First == "" {
		p.First = ""
	}
	return ok && p == s.point.Pair
}

func (s strike) action() wiretap.Action {
	switch {
	case s.blow == reset && s.point.lost:
		return wiretap.CutOnResponse
	case s.blow == reset:
		return wiretap.CutOnRequest
	case s.point.lost:
		return wiretap.HoldResponse
	}
	return wiretap.HoldRequest
}

// test is a strike that has to leave everything right. It returns the outcome by its name.
func (s strike) test(t *testing.T) string {
	r, hit := s.run(t)
	r.f.Verify()
	return s.found(r, hit)
}

// run strikes, and has the other member go on until everything is folded.
func (s strike) run(t *testing.T) (*run, Sighting) {
	r := newRun(t, s.c)
	at, match := s.at(r)
	all := s.c.stages()
	for i, st := range all[:at] {
		r.begin(i, st)
		st.done(r)
	}
	fault := r.one.Hold(s.action(), match)
	r.begin(at, all[at])
	hit := s.landed(r, fault)
	if s.ready != nil {
		s.ready(r)
	}
	s.strike(r, fault)
	closing := at == len(all)-1
	running := slices.IndexFunc(all, func(s stage) bool { return s.name == joins })
	s.others(r, running >= 0 && at >= running, closing)
	if s.blow == kill {
		s.nothingSince(r, hit)
	}
	return r, hit
}

// landed waits for the fault, and asserts that it is where it was to be: the first request has been
// carried out, and the second has not reached a broker.
func (s strike) landed(r *run, fault *wiretap.Fault) Sighting {
	r.t.Helper()
	ctx, cancel := context.WithTimeoutCause(r.t.Context(), patience, fmt.Errorf("%v was not met within %v", s.point, patience))
	defer cancel()
	if err := fault.Await(ctx, 1); err != nil {
		r.t.Fatalf("the fault could not be placed: %v", err)
	}
	var hit Sighting
	for _, g := range r.tr.Of(idOf(fault.Caught()[0])) {
		if s.point.lost && g.To == s.point.from || !s.point.lost && s.ends(g) {
			hit = g
			break
		}
	}
	first := hit.To
	if !s.point.lost {
		first = *hit.From
		if r.tr.Done(hit.Lane, hit.To) {
			r.t.Errorf("%v: the second request was answered", s.point)
		}
	}
	r.wait("the answer to the first request", func() bool { return r.tr.Done(hit.Lane, first) })
	return hit
}

// strike deals the blow, with the requests where they are.
func (s strike) strike(r *run, fault *wiretap.Fault) {
	r.t.Helper()
	switch s.blow {
	case kill:
		r.one.Kill()
		r.one.Discard(fault)
	case cut:
		r.one.Tap.Refuse(true)
		r.one.Discard(fault)
	case reset:
		fault.Lift()
	}
	r.mark = r.f.Mark()
	for p := range r.seeded { // what the member commits when it is back is not the next owner's start
		r.acked[p] = r.tr.Committed(p, r.seeded[p])
	}
}

// nothingSince asserts that the dead process has not gone past the place where it was killed.
func (s strike) nothingSince(r *run, hit Sighting) {
	r.t.Helper()
	if last, _ := r.tr.Last(hit.Lane); last != hit.To {
		r.t.Errorf("the last request is %v, want %v", last, hit.To)
	}
	if !s.point.lost && r.tr.Done(hit.Lane, hit.To) {
		r.t.Errorf("%v has reached the broker", hit.To)
	}
}

// others has the other member go on, alone at the end.
func (s strike) others(r *run, running, closing bool) {
	r.t.Helper()
	if s.blow != reset {
		r.expel()
	}
	if !running {
		r.two.Start()
	}
	if s.blow == reset {
		r.leaves(closing, func() {
			restored := trial.Kinds(holdfasttest.EventRestored)
			if r.c.fresh { // there is one partition, and each rebalance of an eager group may give it to either
				r.f.Await("a partition that a member restores", 0, 1, restored)
				return
			}
			r.f.Await("a partition that the member restores", 0, 1, r.one.Is(restored))
			r.two.Owns()
		})
	}
	r.f.Send(10)
	r.f.CaughtUp()
	if s.blow != cut {
		return
	}
	mark, joined := r.f.Mark(), r.tr.Answers(r.joins())
	r.one.Tap.Refuse(false)
	r.f.Send(10)
	r.leaves(closing, func() {
		r.wait("the member in the group again", func() bool { return r.tr.Answers(r.joins()) > joined })
		if !r.c.fresh {
			r.f.Await("a new grant for the member that was cut off", mark, 1, r.one.Is(trial.Kinds(holdfasttest.EventRestored)))
		}
	})
	r.f.CaughtUp()
}

// leaves has the member end in order when it is back, unless it was asked to end before.
func (r *run) leaves(closing bool, back func()) {
	r.t.Helper()
	if closing {
		r.ended()
		return
	}
	back()
	r.one.Stop()
}

// ended waits for the end of a member whose close was disturbed: it may say so.
func (r *run) ended() {
	r.t.Helper()
	if err := r.one.Wait(); err != nil {
		r.t.Logf("the member that was to close ended with %v", err)
	}
}

// found compares the offset that the next owner has found with what brokers have acknowledged, and
// returns the outcome by its name.
func (s strike) found(r *run, hit Sighting) string {
	r.t.Helper()
	if s.blow == reset {
		for _, e := range r.f.Since(r.mark, r.one.Is(trial.Kinds(holdfasttest.EventCommitted))) {
			if e.ReadBack {
				return "read back"
			}
		}
		return "goes on"
	}
	for p := range r.c.partitions() {
		if hit.Lane != "group" && hit.Lane != "membership" && hit.Lane != "probe" && hit.Lane != fmt.Sprint(p) {
			continue
		}
		granted := func(e trial.Event) bool {
			return e.Member == r.two.Name && e.Kind == holdfasttest.EventAssigned && e.Partition == p
		}
		grants := r.f.Since(r.mark, granted)
		if len(grants) == 0 || len(r.f.Since(0, granted)) > len(grants) {
			continue // it had the partition already, and an eager one takes it over once more
		}
		if got, want := grants[0].Offset, r.acked[p]; got != want {
			r.t.Errorf("partition %d: the next owner begins at %d, and %d was acknowledged", p, got, want)
		}
	}
	if hit.Lane == "probe" {
		return "nothing open"
	}
	switch s.point.from.Name {
	case "EndTxn", "OffsetCommit":
		return "committed before"
	case "AddPartitionsToTxn", "Produce", "AddOffsetsToTxn", "TxnOffsetCommit":
		return "not committed"
	}
	return "nothing open"
}

// expel has the group forget the member, as it does by itself when the session is over.
func (r *run) expel() {
	r.t.Helper()
	if id := r.tr.Member(); id != "" {
		expel(r.t, r.f, id)
	}
}

// joins is the name of the step with whose answer the member is in the group.
func (r *run) joins() string {
	if r.f.App.Protocol == serverSide {
		return heartbeatJoin
	}
	return "SyncGroup"
}

func expel(t *testing.T, f *trial.Field, members ...string) {
	t.Helper()
	if f.App.Protocol == serverSide {
		for _, id := range members {
			bid(t, f, id)
		}
		return
	}
	req := kmsg.NewPtrLeaveGroupRequest()
	req.Group = f.App.Group
	for _, id := range members {
		leaving := kmsg.NewLeaveGroupRequestMember()
		leaving.MemberID = id
		req.Members = append(req.Members, leaving)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	resp, err := req.RequestWith(ctx, f.Client)
	if err == nil {
		err = kerr.ErrorForCode(resp.ErrorCode)
	}
	if err != nil {
		t.Fatalf("expel %v: %v", members, err)
	}
}

// bid has a group of KIP-848, which knows no other way, hear the last heartbeat of a member in its name. One that
// the group does not know is out of it.
func bid(t *testing.T, f *trial.Field, member string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	req := kmsg.NewPtrConsumerGroupHeartbeatRequest()
	req.Group, req.MemberID, req.MemberEpoch = f.App.Group, member, -1
	resp, err := req.RequestWith(ctx, f.Client)
	if err == nil {
		err = kerr.ErrorForCode(resp.ErrorCode)
	}
	if err != nil && !errors.Is(err, kerr.UnknownMemberID) {
		t.Fatalf("expel %s: %v", member, err)
	}
}

// expelAll has the group forget all members.
func expelAll(t *testing.T, f *trial.Field) {
	t.Helper()
	groups, err := f.Admin.DescribeGroups(t.Context(), f.App.Group)
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	for _, m := range groups[f.App.Group].Members {
		ids = append(ids, m.MemberID)
	}
	expel(t, f, ids...)
}
