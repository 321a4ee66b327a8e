package planted

// What becomes of writes that run out of time.
var slowBugs = []Bug{
	{
		Name: "slow-never-smaller", Rules: []string{"R27"},
		Off:   "what ran out of time comes again as large as it was",
		Edits: []Edit{{"internal/pace/pace.go", "p.most = max(bytes/2, 1)", "p.most = max(bytes, 1)"}},
		Test:  Test{Package: "internal/pace", Name: "TestHalfAsMuchDownToNothing"}, Invariant: "I7",
	},
	{
		Name: "slow-for-a-moment", Rules: []string{"R27"},
		Off:   "ten transactions in a row that run out of time stop the member, however short they are",
		Edits: []Edit{{"internal/member/slow.go", "return times >= slowest && since >= limit", "return times >= slowest"}},
		Test:  Test{Package: "internal/member", Name: "TestSlowStopsAfterManyTimesAndLong"}, Invariant: "I7",
	},
	{
		Name: "slow-never-grows", Rules: []string{"R27"},
		Off:   "batches stay as small as they became, however quick the brokers are",
		Edits: []Edit{{"internal/pace/pace.go", "\tp.most += p.most/4 + 1\n", ""}},
		Test:  Test{Package: "internal/pace", Name: "TestGrowsAgain"}, Invariant: "I7",
	},
	{
		Name: "slow-batch-not-cut", Rules: []string{"R27"},
		Off:   "a pipe's batch that ran out of time is put together again with what came behind it",
		Edits: []Edit{{"internal/engine/slow.go", "if e.bound > 0 && len(b.Writes) == 0 &&", "if e.bound < 0 && len(b.Writes) == 0 &&"}},
		Test:  Test{Package: "internal/engine", Name: "TestSlowPipe"}, Invariant: "I7",
	},
	{
		Name: "slow-batch-cut-in-a-step", Rules: []string{"R27"},
		Off:   "a batch is cut at its bound, and not between two steps",
		Edits: []Edit{{"internal/engine/slow.go", "\t\tif i > 0 && o.Offset != e.outputs[i-1].Offset {\n\t\t\tstep = i\n", "\t\tif i > 0 {\n\t\t\tstep = i\n"}},
		Test:  Test{Package: "internal/engine", Name: "TestSlowPipe"}, Invariant: "I4",
	},
	{
		Name: "slow-counts-empty-steps", Rules: []string{"R27"},
		Off:   "steps that leave nothing are counted: one that is too slow, among them, comes again for ever",
		Edits: []Edit{{engineStep, "\tif state || len(outputs) > 0 {\n", "\tif state || len(outputs) >= 0 {\n"}},
		Test:  Test{Package: "internal/engine", Name: "TestStepsThatLeaveNothingAreNone"}, Invariant: "I6",
	},
	{
		Name: "slow-forgets-a-spoiled-state", Rules: []string{"R27", "R19"},
		Off:   "a whole batch comes again smaller, without the state that a later step has spoiled",
		Edits: []Edit{{engineOutcome, "\t\te.spoiled = e.cfg.Whole\n", ""}},
		Test:  Test{Package: "internal/engine", Name: "TestSlowTombstonesAndASpoiledState"}, Invariant: "I2",
	},
	{
		Name: "slow-before-the-read-back", Rules: []string{"R27", "R5"},
		Off:   "a commit whose transaction is old, and whose outcome is unknown, counts as having run out of time before it is read back",
		Edits: []Edit{{"fence/slow.go", "\tcase c == classUnknown:\n\t\tb.ranOut = err\n", ""}},
		Test:  Test{Package: "fence", Name: "TestTimedOutByTheBroker"}, Invariant: "I6",
	},
	{
		Name: "slow-while-in-doubt", Rules: []string{"R27", "R5"},
		Off:   "a takeover that fails while it is to read a commit back makes that one run out of time, as it is old",
		Edits: []Edit{{"fence/readback.go", "\tb.begun = time.Time{}\n", ""}},
		Test:  Test{Package: "fence", Name: "TestDoubtDoesNotRunOutOfTime"}, Invariant: "I1",
	},
	{
		Name: "slow-is-unreachable", Rules: []string{"R27"},
		Off:   "a transaction that ran out of time is tried again as it is, until the brokers count as unreachable",
		Edits: []Edit{{"fence/slow.go", "\tdefault:\n\t\treturn classSlow\n", ""}},
		Test:  Test{Package: "fence", Name: "TestSlowCallAlone"}, Invariant: "I6",
	},
	{
		Name: "throttle-not-told", Rules: []string{"R27"},
		Off:   "nobody is told that a broker throttles",
		Edits: []Edit{{"internal/member/member.go", "\tm.throttle.Tell = m.throttled\n", ""}},
		Test:  Test{Package: "internal/member", Name: "TestThrottleIsTold"}, Invariant: "I6",
	},
	{
		Name: "window-never-shrinks", Rules: []string{"R27"},
		Off:   "the window of outputs beside a transaction stays as large as it was, however late their acknowledgements come",
		Edits: []Edit{{"internal/member/window.go", "\t\tw.most = max(w.most/2, windowLeast)\n", ""}},
		Test:  Test{Package: "internal/member", Name: "TestWindowKeepsToTheLink"}, Invariant: "I7",
	},
}
