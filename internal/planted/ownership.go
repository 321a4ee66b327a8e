package planted

import "github.com/holdfast-go/holdfast/internal/rule"

const (
	ownership = "fence/ownership.go"
	group     = "fence/group.go"
)

// Who owns a partition, and until when, and whether the brokers refuse whoever does not.
var ownershipBugs = []Bug{
	{
		Name: "rejoin-not-seen", Rules: []string{"R2"},
		Off:      "member ids are not compared with the grant's: `grant-id`",
		Switches: []rule.Name{rule.GrantID},
		Test:     Test{Package: "fence", Name: "TestTokenAfterASilentRejoin"}, Invariant: "I3",
	},
	{
		Name: "epoch-zero", Rules: []string{"R2"},
		Off:   "the epoch of a member that only joins is a generation",
		Edits: []Edit{{"fence/session.go", "\tif s.serverSide || s.expectServerSide {\n\t\treturn 1\n", "\tif s.serverSide && s.expectServerSide {\n\t\treturn 0\n"}},
		Test:  Test{Package: "fence", Name: "TestNoTokenWithEpochZero"}, Invariant: "I8",
	},
	{
		Name: "rejoin-not-seen-in-callbacks", Rules: []string{"R2"},
		Off:   "the callbacks do not compare member ids",
		Edits: []Edit{{group, "\t\tif o.memberID != liveID || o.joins != joins {\n", "\t\tif o.memberID != liveID && o.joins != joins {\n"}},
		Test:  Test{Package: "fence", Name: "TestSilentRejoin"}, Invariant: "I3",
	},
	{
		Name: "owner-checked-before-token", Rules: []string{"R2"},
		Off: "the ownership is checked before the token is read",
		Edits: []Edit{
			{ownership, "\tliveID, generation := o.session.metadata()\n\tjoins := o.session.joinNumber()\n\to.mu.Lock()\n\tstate, drainToken := o.state, o.drainToken\n\to.mu.Unlock()\n", "\to.mu.Lock()\n\tstate, drainToken := o.state, o.drainToken\n\to.mu.Unlock()\n\tliveID, generation := o.session.metadata()\n\tjoins := o.session.joinNumber()\n"},
		},
		Test: Test{Package: "fence", Name: "TestTokenOrder"}, Invariant: "I3",
	},
	{
		Name: "not-granted-anew", Rules: []string{"R2"},
		Off:   "a partition that stayed assigned over a rejoin gets no new ownership",
		Edits: []Edit{{group, "\t\tcase g.owned[o.partition] != o:\n", "\t\tcase g.owned[o.partition] == o:\n"}},
		Test:  Test{Package: "fence", Name: "TestSilentRejoin"}, Invariant: "I7",
	},
	{
		Name: "teardown-after-the-callback", Rules: []string{"R3", "R13"}, Mistake: "teardown after the revoke returns",
		Off:      "the revoke callback returns while the ownership goes on: `revoke-teardown`",
		Switches: []rule.Name{rule.RevokeTeardown},
		Test:     Test{Package: "fence", Name: "TestRevokeDrainsThenEnds"}, Invariant: "I3",
	},
	{
		Name: "flush-after-a-loss", Rules: []string{"R13"},
		Off:   "a lost partition is drained as a revoked one is",
		Edits: []Edit{{group, "\t\to.Lose(fmt.Errorf(\"the membership ended,", "\t\to.drain(Token{MemberID: o.memberID, Generation: 1})\n\t\tg.released(o, false)\n\t\to.Lose(fmt.Errorf(\"the membership ended,"}},
		Test:  Test{Package: "fence", Name: "TestLostFlushesNothing"}, Invariant: "I3",
	},
	{
		Name: "id-without-lengths", Rules: []string{"R15"},
		Off:   "the transactional id of two partitions can be the same",
		Edits: []Edit{{"fence/config.go", "\tb.WriteString(strconv.Itoa(len(group)))\n\tb.WriteByte('-')\n", ""}},
		Test:  Test{Package: "fence", Name: "FuzzTransactionalID"}, Invariant: "I3",
	},
	{
		Name: "fence-on-trust", Rules: []string{"-"},
		Off:      "a fenced start does not find out whether the brokers refuse a stale generation: `fence-probe`",
		Switches: []rule.Name{rule.FenceProbe},
		Test:     Test{Package: "internal/preflight", Name: "TestProbeAnswers"}, Invariant: "I3",
	},
	{
		Name: "output-without-a-heartbeat", Rules: []string{"R16"},
		Off:      "an output does not wait for an answer within the session: `fresh-session`",
		Switches: []rule.Name{rule.FreshSession},
		Test:     Test{Package: "fence", Name: "TestFreshCountsFromTheSending"}, Invariant: "I4",
	},
	{
		Name: "fresh-by-the-answer", Rules: []string{"R16"},
		Off:   "a heartbeat counts from its answer, not from its sending",
		Edits: []Edit{{"fence/session.go", "s.now().Add(-e2e.DurationE2E())", "s.now()"}},
		Test:  Test{Package: "fence", Name: "TestFreshCountsFromTheSending"}, Invariant: "I4",
	},
	{
		Name: "closed-client-ends-nothing", Rules: []string{"R24"},
		Off:   "what the client has not taken back when it is closed stays held",
		Edits: []Edit{{"fence/ending.go", "{ e.g.endAll() }", "{ e.g.shut() }"}},
		Test:  Test{Package: "fence", Name: "TestClosedClientEndsWhatItHasNotTakenBack"}, Invariant: "I6",
	},
	{
		Name: "leaves-with-what-was-forgotten", Rules: []string{"R24"},
		Off:   "a member that leaves drains what its client still knows of, and no more",
		Edits: []Edit{{group, "\t\trevoked = append(revoked, g.takeAll()...) // a member", "\t\trevoked = append(revoked, g.take(removed)...) // a member"}},
		Test:  Test{Package: "fence", Name: "TestLeavingDrainsAllThatIsHeld"}, Invariant: "I6",
	},
	{
		Name: "lost-in-part", Rules: []string{"R24"},
		Off: "a membership that ended ends what the client names, and not all that is owned",
		Edits: []Edit{
			{group, "func (g *Group) onLost(context.Context, *kgo.Client, map[string][]int32) {", "func (g *Group) onLost(_ context.Context, _ *kgo.Client, named map[string][]int32) {"},
			{group, "\teach(g.takeAll(), func(o *Ownership) {\n\t\to.Lose(fmt.Errorf(\"the membership", "\teach(g.take(named), func(o *Ownership) {\n\t\to.Lose(fmt.Errorf(\"the membership"},
		},
		Test: Test{Package: "fence", Name: "TestLostMembershipEndsAllThatIsHeld"}, Invariant: "I6",
	},
	{
		Name: "granted-while-it-closes", Rules: []string{"R24"},
		Off:   "partitions are granted while the group closes",
		Edits: []Edit{{"fence/ending.go", "\tcase <-g.granting.Done():\n\t\treturn false\n", ""}},
		Test:  Test{Package: "fence", Name: "TestNothingIsGrantedAfterTheEnd"}, Invariant: "I6",
	},
	{
		Name: "closed-under-a-callback", Rules: []string{"R24"},
		Off:   "what a callback under way has granted is released before it is set up",
		Edits: []Edit{{"fence/ending.go", "\tg.calls.Wait() //", "\t//"}},
		Test:  Test{Package: "fence", Name: "TestCloseWaitsForACallbackUnderWay"}, Invariant: "I6",
	},
	{
		Name: "told-after-the-end", Rules: []string{"R24"},
		Off:   "hooks are told of a grant whose end they were told of before",
		Edits: []Edit{{"internal/member/telling.go", "\tt.over = last\n", "\tt.over = last && t.busy\n"}},
		Test:  Test{Package: "internal/member", Name: "TestNothingIsToldAfterTheEnd"}, Invariant: "I6",
	},
	{
		Name: "rebalances-between-poll-and-allow", Rules: []string{"R14"},
		Off:   "callbacks come between a poll and the tagging of what it returned",
		Edits: []Edit{{group, "\t\tkgo.BlockRebalanceOnPoll(),\n", ""}},
		Test:  Test{Package: "fence", Name: "TestNoRebalanceBetweenPollAndAllow"}, Invariant: "I2",
	},
}
