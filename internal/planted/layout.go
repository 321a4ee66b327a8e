package planted

// One group has one application, and an input one layout.
var layoutBugs = []Bug{
	{
		Name: "two-applications", Rules: []string{"R31"},
		Off:   "a member does not look whether another application is in its group before it begins a partition",
		Edits: []Edit{{"internal/member/application.go", "\tfor _, other := range others {\n\t\treturn w.located", "\tfor _, other := range others[:0] {\n\t\treturn w.located"}},
		Test:  Test{Package: "internal/member", Name: "TestTwoApplicationsInOneGroup"}, Invariant: "I2",
	},
	{
		Name: "silent-member", Rules: []string{"R31"},
		Off:   "a member does not tell its group which application it is",
		Edits: []Edit{{"fence/application.go", "wire.Application(t.told).Told(", "wire.Application{}.Told("}},
		Test:  Test{Package: "fence", Name: "TestOthers/Eager/another"}, Invariant: "I2",
	},
	{
		Name: "input-of-other-partitions", Rules: []string{"R21", "R31"},
		Off:   "the count of input partitions is not compared before the first fold",
		Edits: []Edit{{memberPrepare, "\tcase facts.Partitions > partitions:\n", "\tcase facts.Partitions > partitions && partitions < 0:\n"}},
		Test:  Test{Package: "internal/member", Name: "TestLayoutIsComparedBeforeTheFirstFold"}, Invariant: "I2",
	},
	{
		Name: "commit-without-a-look", Rules: []string{"R31"},
		Off:   "a commit does not look whether the input has got partitions since its records were fetched",
		Edits: []Edit{{"internal/member/commit.go", "\tif err := w.m.layout.unchanged(w.ctx); err != nil {", "\tif err := w.m.layout.unchanged(w.ctx); err != nil && b == nil {"}},
		Test:  Test{Package: "internal/member", Name: "TestKeysThatMovedAreNotCommitted"}, Invariant: "I2",
	},
	{
		Name: "look-before-the-fetch", Rules: []string{"R31"},
		Off:   "a look at the partitions counts for who comes while it is under way",
		Edits: []Edit{{"internal/member/layout.go", "\tif l.next == nil {\n", "\tif l.running != nil {\n\t\treturn l.running\n\t}\n\tif l.next == nil {\n"}},
		Test:  Test{Package: "internal/member", Name: "TestLookBeginsAfterTheCall"}, Invariant: "I2",
	},
	{
		Name: "layout-not-watched", Rules: []string{"R31"},
		Off:   "a member that commits nothing does not look at the partitions of the input",
		Edits: []Edit{{"internal/member/layout.go", "\tif m.layout == nil {\n\t\treturn\n", "\tif m.layout != nil {\n\t\treturn\n"}},
		Test:  Test{Package: "internal/member", Name: "TestAddedPartitionIsSeenByAnIdleMember"}, Invariant: "I6",
	},
	{
		Name: "added-partition-begun", Rules: []string{"R31"},
		Off:   "a start does not compare the input with the layout that the states were folded from",
		Edits: []Edit{{"internal/preflight/layout.go", "\tif i.Component != claim.ComponentFlow ||", "\tif i.Component != \"\" ||"}},
		Test:  Test{Package: "internal/member", Name: "TestAddedPartitionIsNotBegun"}, Invariant: "I2",
	},
	{
		Name: "moved-keys-rebuilt", Rules: []string{"R31"},
		Off: "`Rebuild` folds an input again whose keys have moved, and the start does not look either",
		Edits: []Edit{
			{"internal/preflight/layout.go", "\tif i.Component != claim.ComponentFlow ||", "\tif i.Component != \"\" ||"},
			{memberPrepare, "stream.ErrInputChanged) && !wire.AreKeysMoved(err) && ", "stream.ErrInputChanged) && "},
		},
		Test: Test{Package: "internal/member", Name: "TestRebuildDoesNotCureMovedKeys"}, Invariant: "I2",
	},
	{
		Name: "anothers-states-rebuilt", Rules: []string{"R31"},
		Off:   "`Rebuild` folds over the states of another flow of the group, which reads another input",
		Edits: []Edit{{memberPrepare, " && !errors.Is(err, errOtherInput) ||", " ||"}},
		Test:  Test{Package: "internal/member", Name: "TestCopiedFlowKeepsOffTheStates/rebuild"}, Invariant: "I2",
	},
	{
		Name: "input-not-checked", Rules: []string{"R21", "R31"},
		Off:   "`Check` does not compare the input of the progress records",
		Edits: []Edit{{"internal/member/start.go", "\tif w.Progress == nil || len(w.Progress.Inputs) != 1 {\n", "\tif w.Progress == nil || len(w.Progress.Inputs) == 1 {\n"}},
		Test:  Test{Package: "internal/member", Name: "TestEveryHintLeadsForward/flow/the_input_was_made_again"}, Invariant: "I7",
	},
	{
		Name: "missing-snapshots-agree", Rules: []string{"R31"},
		Off:   "`Check` does not compare the group's offsets with a snapshot topic that the start has to make",
		Edits: []Edit{{"internal/preflight/sample.go", "\t\treturn i.offsetsAlone(ctx)\n", "\t\treturn nil\n"}},
		Test:  Test{Package: ".", Name: "TestCheckOfMissingSnapshots/offsets_are_there"}, Invariant: "I7",
	},
}
