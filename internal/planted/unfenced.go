package planted

const unfenced = "internal/member/unfenced.go"

var unfencedOrder = Test{Package: "internal/member", Name: "TestUnfencedOffsetIsTheLastWrite"}

// What the Unfenced guarantee writes, which nothing but its order binds together.
var unfencedBugs = []Bug{
	{
		Name: "unfenced-offset-first", Rules: []string{"R1"}, Mistake: "offsets before produce",
		Off: "under `Unfenced`, the offset is committed before the snapshots are written",
		Edits: []Edit{
			{unfenced, "\twritten := int64(0)\n", "\twritten := int64(0)\n\tif err := u.commitOffset(ctx, next); err != nil {\n\t\treturn err\n\t}\n"},
			{unfenced, "\tif err := u.commitOffset(ctx, next); err != nil {\n\t\treturn err\n\t}\n\tcall(", "\tcall("},
		},
		Test: unfencedOrder, Invariant: "I1",
	},
	{
		Name: "unfenced-progress-first", Rules: []string{"R1"},
		Off: "under `Unfenced`, the progress record is written before the snapshots are",
		Edits: []Edit{
			{unfenced, "\twritten := int64(0)\n", "\twritten := int64(0)\n\tif err := u.witness(ctx, next); err != nil {\n\t\treturn err\n\t}\n"},
			{unfenced, "\tif err := u.witness(ctx, next); err != nil {\n\t\treturn err\n\t}\n\tif err := u.commitOffset", "\tif err := u.commitOffset"},
		},
		Test: unfencedOrder, Invariant: "I1",
	},
	{
		Name: "unfenced-refusals-not-noticed", Rules: []string{"R1"},
		Off:   "under `Unfenced`, the answers of the brokers to snapshots and progress records are not looked at",
		Edits: []Edit{{unfenced, "\tcase err := <-answered:\n\t\treturn err\n", "\tcase <-answered:\n\t\treturn nil\n"}},
		Test:  unfencedOrder, Invariant: "I1",
	},
	{
		Name: "unfenced-generation-minus-one", Rules: []string{"R7"}, Mistake: "generation -1",
		Off:   "under `Unfenced`, an offset whose generation was refused goes again as nobody's, with generation -1, which a group without members takes",
		Edits: []Edit{{unfenced, "\t\t\ttoken, err = u.w.own.NextToken(ctx, token)\n", "\t\t\ttoken, err = fence.Token{Generation: -1}, nil\n"}},
		Test:  Test{Package: "internal/member", Name: "TestUnfencedTokenOnTheWire"}, Invariant: "I8",
	},
	{
		Name: "unfenced-waits-for-another-generation", Rules: []string{"R7"},
		Off:   "under `Unfenced`, an offset that comes in the middle of a rebalance waits for another generation than the one that is coming",
		Edits: []Edit{{unfenced, "\t\tcase errors.Is(err, kerr.IllegalGeneration):\n", "\t\tcase errors.Is(err, kerr.IllegalGeneration), errors.Is(err, kerr.RebalanceInProgress) && token.Generation > 0:\n"}},
		Test:  Test{Package: "internal/member", Name: "TestUnfencedCommitInARebalance"}, Invariant: "I7",
	},
}
