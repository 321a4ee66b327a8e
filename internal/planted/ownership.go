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
		Edits: []Edit{{group, "\t\tif g.owned[o.partition] == o {\n\t\t\tgranted", "\t\tif g.owned[o.partition] != o {\n\t\t\tgranted"}},
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
}
