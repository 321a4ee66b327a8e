package fence

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/holdfast-go/holdfast/internal/rule"
	"github.com/holdfast-go/holdfast/stream"
)

// callbacks is a Group without a client, driven by calls of its callbacks.
type callbacks struct {
	*Group
	s       *fakeSession
	mu      sync.Mutex
	granted []*Ownership
	ended   []release
	during  func(*Ownership, bool)
}

func newCallbacks(ctx context.Context) *callbacks {
	c := &callbacks{s: newFakeSession()}
	c.Group = NewGroup(func(_ context.Context, o *Ownership) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.granted = append(c.granted, o)
	}, func(o *Ownership, lost bool) {
		if c.during != nil {
			c.during(o, lost)
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		c.ended = append(c.ended, release{o, lost})
	})
	c.Group.session, c.Group.ctx = c.s.session, ctx
	close(c.ready)
	return c
}

func (c *callbacks) assign(ps ...int32) { c.onAssigned(c.ctx, nil, map[string][]int32{testInput: ps}) }
func (c *callbacks) revoke(ps ...int32) { c.onRevoked(c.ctx, nil, map[string][]int32{testInput: ps}) }
func (c *callbacks) lose(ps ...int32)   { c.onLost(c.ctx, nil, map[string][]int32{testInput: ps}) }
func (c *callbacks) of(p int32) *Ownership {
	return c.Owned(stream.Partition{Topic: testInput, Partition: p})
}

func TestRevokeDrainsThenEnds(t *testing.T) {
	t.Parallel()
	c := newCallbacks(t.Context())
	c.assign(0, 1)
	o, kept := c.of(0), c.of(1)
	c.s.set("member-1", 7)
	c.during = func(o *Ownership, lost bool) {
		if tok, err := o.Token(t.Context()); err != nil || lost || o.State() != Draining || tok.Generation != 7 {
			t.Errorf("in the callback: state %v, lost %v, token %+v, %v", o.State(), lost, tok, err)
		}
	}
	c.revoke(0)
	if o.State() != Gone || o.Cause() != nil || c.of(0) != nil {
		t.Errorf("I3: after the callback: %v, %v", o.State(), o.Cause())
	}
	if kept.State() != Held || len(c.ended) != 1 {
		t.Errorf("the kept partition is %v, %d ended", kept.State(), len(c.ended))
	}
}

// A commit without a generation is one that the broker does not check.
// Public case A12.
func TestRevokeWithoutAGenerationFlushesNothing(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		generation int32
		serverSide bool
	}{"classic": {-1, false}, "KIP-848": {0, true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := newCallbacks(t.Context())
			g.assign(0)
			o := g.of(0)
			g.s.serverSide = c.serverSide
			g.s.set("member-1", c.generation)
			g.during = func(o *Ownership, lost bool) {
				if tok, err := o.Token(t.Context()); err == nil || !lost {
					t.Errorf("in the callback: lost %v, token %+v, %v", lost, tok, err)
				}
			}
			g.revoke(0)
			if o.State() != Gone || !errors.Is(o.Cause(), stream.ErrOwnershipLost) || len(g.ended) != 1 {
				t.Errorf("after the callback: %v, %v, %d ended", o.State(), o.Cause(), len(g.ended))
			}
		})
	}
}

func TestLostFlushesNothing(t *testing.T) {
	t.Parallel()
	c := newCallbacks(t.Context())
	c.assign(0)
	o := c.of(0)
	c.during = func(o *Ownership, lost bool) {
		if _, err := o.Token(t.Context()); !lost || !errors.Is(err, stream.ErrOwnershipLost) {
			t.Errorf("I3: in the callback: lost %v, token %v", lost, err)
		}
	}
	c.lose(0)
	if o.State() != Gone || !errors.Is(o.Cause(), stream.ErrOwnershipLost) {
		t.Errorf("after the callback: %v, %v", o.State(), o.Cause())
	}
	c.assign(0) // the same member id comes back
	if next := c.of(0); next == o || next.State() != Held || next.Number() <= o.Number() || next.Nonce() == o.Nonce() {
		t.Error("the partition that came back has no ownership of its own")
	}
}

// kgo rejoins silently under the cooperative protocol: the only signs are an empty Assigned, or a
// Revoked under the new id.
// Public case E12.
func TestSilentRejoin(t *testing.T) {
	t.Parallel()
	t.Run("an empty Assigned: everything is granted anew", func(t *testing.T) {
		t.Parallel()
		c := newCallbacks(t.Context())
		c.assign(0, 1)
		a, b := c.of(0), c.of(1)
		c.s.set("member-2", 9)
		c.assign()
		for _, o := range []*Ownership{a, b} {
			if o.State() != Gone {
				t.Errorf("I3: ownership %d is %v", o.Number(), o.State())
			}
		}
		if len(c.ended) != 2 || !c.ended[0].lost || !c.ended[1].lost {
			t.Errorf("ended: %+v", c.ended)
		}
		if o := c.of(0); o == a || o.State() != Held || o.MemberID() != "member-2" {
			t.Error("I7: the partition that stayed has no grant under the new id")
		}
	})
	t.Run("a Revoked: as lost, and what stays is granted anew", func(t *testing.T) {
		t.Parallel()
		c := newCallbacks(t.Context())
		c.assign(0, 1)
		c.s.set("member-2", 9)
		c.revoke(0)
		if len(c.ended) != 2 || !c.ended[0].lost || !c.ended[1].lost {
			t.Errorf("ended: %+v", c.ended)
		}
		if c.of(0) != nil || c.of(1) == nil || c.of(1).MemberID() != "member-2" {
			t.Error("want partition 0 away and 1 granted anew")
		}
	})
	t.Run("with the rule off it is not seen", func(t *testing.T) {
		t.Parallel()
		c := newCallbacks(rule.Without(t.Context(), rule.GrantID))
		c.assign(0)
		o := c.of(0)
		c.s.set("member-2", 9)
		c.assign()
		if c.of(0) != o || o.State() != Held {
			t.Error("the rule makes no difference")
		}
	})
}

func TestRenew(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		before func(*callbacks, *Ownership)
		want   bool
		err    error
	}{
		{"gone, assigned, known", func(*callbacks, *Ownership) {}, true, nil},
		{"the group does not know the member", func(c *callbacks, _ *Ownership) { c.s.answer = kerr.UnknownMemberID }, false, nil},
		{"the member has another id", func(c *callbacks, _ *Ownership) { c.s.set("member-2", 3) }, false, nil},
		{"the membership ended", func(c *callbacks, _ *Ownership) { c.s.membershipEnded() }, false, nil},
		{"taken away", func(c *callbacks, _ *Ownership) { c.revoke(0) }, false, nil},
		{"not allowed", func(c *callbacks, _ *Ownership) { c.s.answer = kerr.GroupAuthorizationFailed }, false, stream.ErrNotAuthorized},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			g := newCallbacks(t.Context())
			g.assign(0)
			o := g.of(0)
			if renewed, err := g.Renew(t.Context(), o); renewed != nil || err != nil {
				t.Fatalf("a held ownership was renewed: %v, %v", renewed, err)
			}
			o.Lose(stream.ErrOwnershipLost)
			c.before(g, o)
			renewed, err := g.Renew(t.Context(), o)
			if (renewed != nil) != c.want || !errors.Is(err, c.err) {
				t.Fatalf("renewed %v, %v", renewed, err)
			}
			if renewed == nil {
				return
			}
			asked := g.s.asked
			if err := renewed.MayInit(t.Context()); err != nil || g.s.asked != asked+1 {
				t.Errorf("the first initialise of a renewed ownership: %v, asked %d times", err, g.s.asked-asked)
			}
			if renewed.MemberID() != o.MemberID() || g.of(0) != renewed {
				t.Error("it is not under the same member id, or not the one that is owned")
			}
		})
	}
}

func TestGroupRefusesReservedOptions(t *testing.T) {
	t.Parallel()
	none := func(context.Context, *kgo.Client, map[string][]int32) {}
	for name, opt := range map[string]kgo.Opt{
		"assigned": kgo.OnPartitionsAssigned(none),
		"revoked":  kgo.OnPartitionsRevoked(none),
		"lost":     kgo.OnPartitionsLost(none),
		"adjust": kgo.AdjustFetchOffsetsFn(func(_ context.Context, o map[string]map[int32]kgo.Offset) (map[string]map[int32]kgo.Offset, error) {
			return o, nil
		}),
	} {
		if err := refuseReserved([]kgo.Opt{opt}); !errors.Is(err, stream.ErrReservedOption) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := refuseReserved([]kgo.Opt{kgo.ConsumeTopics("t"), kgo.Balancers(kgo.RangeBalancer())}); err != nil {
		t.Errorf("harmless options: %v", err)
	}
}
