package fence

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/holdfast-go/holdfast/internal/rule"
	"github.com/holdfast-go/holdfast/stream"
)

// callbacks is a Group whose client the test plays.
type callbacks struct {
	*Group
	f *fakeSession

	mu  sync.Mutex
	log []string
}

func newCallbacks(ctx context.Context) *callbacks {
	c := &callbacks{f: newFakeSession()}
	c.Group = NewGroup(
		func(_ context.Context, o *Ownership) {
			c.note("grant %d %d under %s", o.partition.Partition, o.number, o.memberID)
		},
		func(o *Ownership, lost bool) {
			c.note("release %d %d %v lost %v", o.partition.Partition, o.number, o.State(), lost)
		},
	)
	c.session, c.ctx = c.f.session, ctx
	close(c.ready)
	return c
}

func (c *callbacks) note(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.log = append(c.log, fmt.Sprintf(format, args...))
}

func inputs(ps ...int32) map[string][]int32 { return map[string][]int32{testInput: ps} }

func TestGroupCallbacks(t *testing.T) {
	t.Parallel()
	assign := func(c *callbacks, ps ...int32) { c.onAssigned(c.ctx, nil, inputs(ps...)) }
	revoke := func(c *callbacks, ps ...int32) { c.onRevoked(c.ctx, nil, inputs(ps...)) }
	lose := func(c *callbacks, ps ...int32) { c.onLost(c.ctx, nil, inputs(ps...)) }
	for _, c := range []struct {
		name string
		off  []rule.Name
		do   func(c *callbacks)
		want []string
		held []int32 // whose ownership is held in the end
	}{
		{"a revoke drains, and ends what is revoked", nil, func(c *callbacks) { assign(c, 0); assign(c, 1); revoke(c, 0) },
			[]string{"grant 0 1 under member-1", "grant 1 2 under member-1", "release 0 1 draining lost false"}, []int32{1}},
		{"a revoke with the teardown off leaves it as it was", []rule.Name{rule.RevokeTeardown}, func(c *callbacks) { assign(c, 0); revoke(c, 0) },
			[]string{"grant 0 1 under member-1"}, nil},
		{"a loss flushes nothing", nil, func(c *callbacks) { assign(c, 0); lose(c, 0) },
			[]string{"grant 0 1 under member-1", "release 0 1 gone lost true"}, nil},
		{"a silent rejoin, the partition kept: an empty assignment", nil, func(c *callbacks) { assign(c, 0); c.f.set("member-2", 3); assign(c) },
			[]string{"grant 0 1 under member-1", "release 0 1 gone lost true", "grant 0 2 under member-2"}, []int32{0}},
		{"a silent rejoin with the rule off", []rule.Name{rule.GrantID}, func(c *callbacks) { assign(c, 0); c.f.set("member-2", 3); assign(c) },
			[]string{"grant 0 1 under member-1"}, []int32{0}},
		{"a silent rejoin, the partition revoked: as lost", nil, func(c *callbacks) { assign(c, 0); c.f.set("member-2", 3); revoke(c, 0) },
			[]string{"grant 0 1 under member-1", "release 0 1 gone lost true"}, nil},
		{"a silent rejoin, another partition revoked", nil, func(c *callbacks) { assign(c, 0); c.f.set("member-2", 3); revoke(c, 7) },
			[]string{"grant 0 1 under member-1", "release 0 1 gone lost true", "grant 0 2 under member-2"}, []int32{0}},
		{"the same id after a loss", nil, func(c *callbacks) { assign(c, 0); lose(c); assign(c) },
			[]string{"grant 0 1 under member-1", "release 0 1 gone lost true", "grant 0 2 under member-1"}, []int32{0}},
		{"assigned again without a word in between", nil, func(c *callbacks) { assign(c, 0); assign(c, 0) },
			[]string{"grant 0 1 under member-1", "release 0 1 gone lost true", "grant 0 2 under member-1"}, []int32{0}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			g := newCallbacks(rule.Without(t.Context(), c.off...))
			c.do(g)
			if !slices.Equal(g.log, c.want) {
				t.Errorf("calls %q, want %q", g.log, c.want)
			}
			var held []int32
			for n := range int32(2) {
				if o := g.Owned(stream.Partition{Topic: testInput, Partition: n}); o != nil && o.State() == Held {
					held = append(held, n)
				}
			}
			if !slices.Equal(held, c.held) {
				t.Errorf("held %v, want %v", held, c.held)
			}
		})
	}
}

// A partition whose ownership is gone is granted anew only while it is still this member's, and after
// the group has answered.
func TestRenew(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		do   func(*callbacks, *Ownership)
		want string
	}{
		{"gone and still assigned", func(_ *callbacks, o *Ownership) { o.Lose(nil) }, "member-1"},
		{"held", func(*callbacks, *Ownership) {}, ""},
		{"taken away", func(c *callbacks, _ *Ownership) { c.onRevoked(c.ctx, nil, inputs(0)) }, ""},
		{"under another id", func(c *callbacks, o *Ownership) { o.Lose(nil); c.f.set("member-2", 2) }, ""},
		{"after a loss under the same id", func(c *callbacks, o *Ownership) { o.Lose(nil); c.onLost(c.ctx, nil, nil) }, ""},
		{"granted anew already", func(c *callbacks, o *Ownership) { o.Lose(nil); c.onAssigned(c.ctx, nil, inputs(0)) }, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			g := newCallbacks(t.Context())
			g.onAssigned(g.ctx, nil, inputs(0))
			old := g.Owned(stream.Partition{Topic: testInput})
			c.do(g, old)
			o, err := g.Renew(t.Context(), old)
			if err != nil || (o != nil) != (c.want != "") {
				t.Fatalf("renewed %v, error %v", o, err)
			}
			if o != nil && (o.memberID != c.want || o.number == old.number || o.nonce == old.nonce || g.f.asked != 1) {
				t.Errorf("renewed as %d under %s, asked %d times", o.number, o.memberID, g.f.asked)
			}
		})
	}
}
