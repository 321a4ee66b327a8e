package planted

import "github.com/holdfast-go/holdfast/internal/rule"

// How an owner takes over, what it reads back, and what it restores.
var takeoverBugs = []Bug{
	{
		Name: "group-not-asked", Rules: []string{"R4"},
		Off:      "the id is initialised again without an answer of the group: `group-probe`",
		Switches: []rule.Name{rule.Probe},
		Test:     Test{Package: "fence", Name: "TestMayInitAsksTheGroup"}, Invariant: "I7",
	},
	{
		Name: "init-while-draining", Rules: []string{"R4"},
		Off:   "the id is initialised while the partition is given up",
		Edits: []Edit{{ownership, "\tif state != Held {\n\t\treturn o.lost(\"no transactional id is initialised while %s\", state)\n\t}\n\tif first", "\tif state == Gone {\n\t\treturn o.lost(\"no transactional id is initialised while %s\", state)\n\t}\n\tif first"}},
		Test:  Test{Package: "fence", Name: "TestMayInitOnlyWhileHeld"}, Invariant: "I3",
	},
	{
		Name: "nothing-read-back", Rules: []string{"R4"},
		Off:   "after a takeover within an ownership nothing is read back",
		Edits: []Edit{{"fence/readback.go", "\tv, err := w.readBack(ctx, b)\n", "\tv, err := aborted, error(nil)\n"}},
		Test:  Test{Package: "fence", Name: "TestReadBackFindsAnotherOwner"}, Invariant: "I3",
	},
	{
		Name: "offset-alone-decides", Rules: []string{"R4"},
		Off:   "the offset in doubt is read back as a commit while the progress record is as it was",
		Edits: []Edit{{"fence/readback.go", "\tcase offsetDoubt && progressDoubt:\n", "\tcase offsetDoubt:\n"}},
		Test:  Test{Package: "fence", Name: "TestReadBackWaitsForBothWitnesses"}, Invariant: "I1",
	},
	{
		Name: "progress-alone-decides", Rules: []string{"R4"},
		Off:   "a progress record as it was is read back as an abort while the offset is the one in doubt",
		Edits: []Edit{{"fence/readback.go", "\tcase offsetKnown && progressKnown:\n", "\tcase progressKnown:\n"}},
		Test:  Test{Package: "fence", Name: "TestReadBackWaitsForBothWitnesses"}, Invariant: "I3",
	},
	{
		Name: "old-epoch-is-known", Rules: []string{"R4"},
		Off:   "STALE_MEMBER_EPOCH counts as an answer of a group that knows the member",
		Edits: []Edit{{ownership, "errors.Is(err, kerr.IllegalGeneration), errors.Is(err, kerr.UnstableOffsetCommit):\n\t\t\treturn nil", "errors.Is(err, kerr.IllegalGeneration), errors.Is(err, kerr.UnstableOffsetCommit), errors.Is(err, kerr.StaleMemberEpoch):\n\t\t\treturn nil"}},
		Test:  Test{Package: "fence", Name: "TestMayInitNotUnderAnOldEpoch"}, Invariant: "I7",
	},
	{
		Name: "no-initialisation", Rules: []string{"R12"}, Mistake: "initialisation left out",
		Off:      "the id is not initialised at a grant: `takeover`",
		Switches: []rule.Name{rule.Takeover},
		Test:     Test{Package: "fence", Name: "TestTakeoverEndsTheLastOwnersTransaction"}, Invariant: "I7",
	},
	{
		Name: "unstable-offset", Rules: []string{"R12"}, Mistake: "non-stable offset fetch",
		Off:      "the committed offset is fetched below an open transaction, which no takeover has ended: `stable-fetch`, `takeover`",
		Switches: []rule.Name{rule.StableFetch, rule.Takeover},
		Test:     Test{Package: "fence", Name: "TestOffsetOfOpenIsTheLast"}, Invariant: "I1",
	},
	{
		Name: "restore-to-the-stable-end", Rules: []string{"R12"}, Mistake: "bound by the last stable offset",
		Off:      "a restore ends at the last stable offset: `restore-bound`",
		Switches: []rule.Name{rule.RestoreBound},
		Test:     Test{Package: "snapshot", Name: "TestRestore1DrainsToTheHighWatermark"}, Invariant: "I2",
	},
}
