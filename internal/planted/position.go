package planted

// What is read of the input, and what is made of it.
var positionBugs = []Bug{
	{
		Name: "markers-not-read", Rules: []string{"R25"},
		Off:   "the committed offset follows what is folded: markers and aborted records at the end of the input stay in front of it",
		Edits: []Edit{{"internal/member/member.go", "\t\tkgo.KeepControlRecords(), // what was read is more than what is folded (R25)\n", ""}},
		Test:  Test{Package: "internal/member", Name: "TestCommittedOffsetIsTheEndOfAnIdleInput/FencedState/a_marker"}, Invariant: "I7",
	},
	{
		Name: "gap-at-the-end-not-read", Rules: []string{"R25"},
		Off:   "nobody looks for what compaction has removed at the end of the input",
		Edits: []Edit{{"internal/member/position.go", "\t\tw.tail.stable.Store(math.MaxInt64)\n", "\t\tw.tail.stable.Store(math.MinInt64)\n"}},
		Test:  Test{Package: "internal/member", Name: "TestCompactionGapAtTheEnd"}, Invariant: "I7",
	},
}
