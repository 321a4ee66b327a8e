package planted

// What is read of the input, and what is made of it.
var positionBugs = []Bug{
	{
		Name: "markers-not-read", Rules: []string{"R25"},
		Off:   "the committed offset follows what is folded: markers and aborted records behind which nothing comes stay in front of it",
		Edits: []Edit{{"internal/member/member.go", "\t\tkgo.KeepControlRecords(), // what was read is more than what is folded (R25)\n", ""}},
		Test:  Test{Package: "internal/member", Name: "TestCommittedOffsetIsTheEndOfAnIdleInput/FencedState/aborted_transactions_alone"}, Invariant: "I7",
	},
	{
		Name: "gone-in-silence", Rules: []string{"R14"},
		Off:   "records that are gone are passed over whatever the start policy says",
		Edits: []Edit{{"internal/member/logstart.go", "start < first && (policy.LogStart || policy.AdoptEmpty && p < 0 || policy.AdoptRemaining && w.headLost()):\n", "start < first && (!policy.Rebuild || policy.AdoptEmpty && p < 0 || policy.AdoptRemaining && w.headLost()):\n"}},
		Test:  Test{Package: "internal/member", Name: "TestStartWithinTheLog/below_the_start"}, Invariant: "I2",
	},
	{
		Name: "hints-in-a-circle", Rules: []string{"-"},
		Off:   "where the offset is missing and what the snapshots go on with is gone, the hint leads to the snapshots' offset, and from there back",
		Edits: []Edit{{"internal/member/logstart.go", "p >= 0 && p < first && (c < 0 || c > p):\n", "p >= 0 && p < first && c > p:\n"}},
		Test:  Test{Package: "internal/member", Name: "TestEveryHintLeadsForward/flow/no_offset_and_records_are_gone"}, Invariant: "I7",
	},
	{
		Name: "cost-untold", Rules: []string{"-"},
		Off:   "a hint names `Rebuild` and does not say what it drops",
		Edits: []Edit{{"internal/member/cost.go", "\te.Hint += \". \" + costOf(", "\t_ = costOf("}},
		Test:  Test{Package: "internal/member", Name: "TestEveryHintLeadsForward/flow/reset_back"}, Invariant: "I2",
	},
	{
		Name: "gap-at-the-end-not-read", Rules: []string{"R25"},
		Off:   "nobody looks for what compaction has removed at the end of the input",
		Edits: []Edit{{"internal/member/position.go", "\t\tw.tail.stable.Store(math.MaxInt64)\n", "\t\tw.tail.stable.Store(math.MinInt64)\n"}},
		Test:  Test{Package: "internal/member", Name: "TestCompactionGapAtTheEnd"}, Invariant: "I7",
	},
	{
		Name: "gap-alone-not-read", Rules: []string{"R25"},
		Off:   "a batch of which compaction has left nothing wakes nobody, where nothing else comes",
		Edits: []Edit{{"internal/member/position.go", "\t\tw.queue.poke() // it may have nothing else to wake for\n", ""}},
		Test:  Test{Package: "internal/member", Name: "TestEmptiedBatchWakesTheWorker"}, Invariant: "I7",
	},
}
