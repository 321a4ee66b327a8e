package planted

const useful = "fence/useful.go"

// What is made of the answers of a group.
var answerBugs = []Bug{
	{
		Name: "full-group-tried-for-ever", Rules: []string{"R32"},
		Off:   "an answer that stays only past a session is taken for one that passes: a full group is asked for ever",
		Edits: []Edit{{"internal/member/answers.go", "if i < 0 || Answers[i].Lasts == Passes {", "if i < 0 || Answers[i].Lasts != Stays {"}},
		Test:  Test{Package: "internal/member", Name: "TestAnswersThatStay"}, Invariant: "I6",
	},
	{
		Name: "error-counts-as-answer", Rules: []string{"R32"},
		Off:   "any answer of the coordinator ends the silence of the group, one that it is not available too",
		Edits: []Edit{{useful, "\tif u.doubted {\n\t\treturn false\n\t}\n\tu.heard, u.waiting", "\tu.heard, u.waiting"}},
		Test:  Test{Package: "fence", Name: "TestSilenceEndsWithAUsefulAnswerOnly/a_coordinator_that_is_never_available"}, Invariant: "I6",
	},
	{
		Name: "error-keeps-outputs-going", Rules: []string{"R16", "R32"},
		Off:   "an answer of a coordinator that was deposed prolongs the session in which outputs may leave",
		Edits: []Edit{{"fence/session.go", "\t\tif fresh && trusted && sent", "\t\tif (trusted || !trusted) && fresh && sent"}},
		Test:  Test{Package: "fence", Name: "TestErrorsDoNotKeepASessionFresh"}, Invariant: "I3",
	},
	{
		Name: "let-in-again-counts", Rules: []string{"R32"},
		Off:   "a member that the group lets in, and expels at its first heartbeat, has been answered each time",
		Edits: []Edit{{useful, "\tif !u.failed {\n\t\tu.heard = now\n", "\tif u.seat {\n\t\tu.heard, u.proven = now, now\n"}},
		Test:  Test{Package: "fence", Name: "TestSilenceEndsWithAUsefulAnswerOnly/a_membership_that_never_lasts_to_its_first_heartbeat"}, Invariant: "I6",
	},
	{
		Name: "takeovers-tried-for-hours", Rules: []string{"R32"},
		Off:   "each takeover that fails is counted by itself, however many have failed before it",
		Edits: []Edit{{"internal/member/renew.go", "if began.Sub(u.ended) > forgotten {", "if began.Sub(u.ended) >= 0 {"}},
		Test:  Test{Package: "internal/member", Name: "TestTakeoversThatFailAddUp"}, Invariant: "I6",
	},
	{
		Name: "stall-not-told", Rules: []string{"R33"},
		Off:   "a stranger's open transaction on the input is waited for without a word",
		Edits: []Edit{{"internal/member/stall.go", "if e.stable < 0 || e.stable >= e.high {", "if e.stable >= 0 || e.stable >= e.high {"}},
		Test:  Test{Package: "internal/member", Name: "TestInputStallIsFound"}, Invariant: "I6",
	},
	{
		Name: "stall-of-several-transactions", Rules: []string{"R33"},
		Off:   "transactions that follow each other are taken for one that hangs",
		Edits: []Edit{{"internal/member/stall.go", "if s.since.IsZero() || s.stable != e.stable {", "if s.since.IsZero() {"}},
		Test:  Test{Package: "internal/member", Name: "TestInputStallIsFound"}, Invariant: "I6",
	},
	{
		Name: "end-of-a-stall-told-again", Rules: []string{"R33"},
		Off:   "an input that goes on is told to go on at each look",
		Edits: []Edit{{"internal/member/stall.go", "\ts.told = nil\n\tw.log.Info", "\tw.log.Info"}},
		Test:  Test{Package: "internal/member", Name: "TestEndOfAnInputStallIsToldOnce"}, Invariant: "I6",
	},
	{
		Name: "ended-transaction-named", Rules: []string{"R33"},
		Off:   "a check names a transaction that has ended between its two looks, with another one open behind it",
		Edits: []Edit{{"internal/preflight/transactions.go", "b.at == h.at && b.stable == h.stable", "b.at == h.at"}},
		Test:  Test{Package: "internal/preflight", Name: "TestEndedTransactionsAreNotNamed"}, Invariant: "I6",
	},
	{
		Name: "no-holder-named", Rules: []string{"R33"},
		Off:   "a check names a transaction that has ended before its producer is asked for",
		Edits: []Edit{{"internal/preflight/transactions.go", "case !ok: // it has", "case !ok && err != nil: // it has"}},
		Test:  Test{Package: "internal/preflight", Name: "TestEndedTransactionsAreNotNamed"}, Invariant: "I6",
	},
}
