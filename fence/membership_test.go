package fence

import "testing"

// A member has its partitions when an assigned callback is through, one that assigns nothing too, and has none once
// the membership ended, until the next one is.
func TestMembershipIsAssigned(t *testing.T) {
	t.Parallel()
	c := newCallbacks(t.Context())
	is := func(when string, want bool) {
		t.Helper()
		if m, _ := c.Membership(); m.Assigned != want {
			t.Errorf("I6: %s the membership is %+v, want assigned %v", when, m, want)
		}
	}
	c.s.set("member-1", 3)
	is("before a callback", false)
	_, changed := c.Membership()
	c.assign()
	select {
	case <-changed:
	default:
		t.Error("I6: nobody is told that the member has its partitions")
	}
	is("after a callback without partitions", true)
	c.assign(0)
	is("with a partition", true)
	if m, _ := c.Membership(); m.MemberID != "member-1" || m.Generation != 3 {
		t.Errorf("the membership is %+v, want member-1 of generation 3", m)
	}
	c.lose(0)
	is("after the end of the membership", false)
	c.s.set("member-2", 5)
	is("while it joins anew", false)
	c.assign()
	is("after it has joined anew", true)
	c.s.set("", -1)
	if m, _ := c.Membership(); m != (Membership{Generation: -1}) {
		t.Errorf("without a member id the membership is %+v", m)
	}
}
