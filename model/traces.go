package main

import "strings"

// Trace is a row of TestRuleOff: with the toggles Off, Retake and Probe off as well, and the fields On of Config on, a
// check of the model fails in a configuration, after Steps steps at the nearest. Each test plays that sequence on the real code, as far as a test of
// the real code can choose it: it passes with all rules, and fails, or shows the loss, without them.
type Trace struct {
	Off, Config string
	Faults      uint8
	On          string
	Bad         uint8
	Steps       int
	Tests       string // "package: TestName", several by ", "
}

// Traces are all rows.
var Traces = []Trace{
	{"R1", "state-1key", 1, "", badOffsetAhead, 12, "fence: TestOffsetIsTheLastWrite"},
	{"Fence", "state-1key", 1, "", badStaleWrite, 19, "fence: TestTraceLateTakeoverOfAnExpelledMember"},
	{"R2ID", "outputs-1key", 2, "", badStaleWrite, 19, "fence: TestTraceSilentRejoinBeforeTheTakeover, internal/acceptance: TestKafkaSilentRejoinWithTheSuccessorAlive"},
	{"R2Order", "outputs-1key", 2, "", badStaleWrite, 19, "fence: TestTraceSilentRejoinBeforeTheToken, fence: TestTokenOrder"},
	{"R4Bind", "outputs-1key", 2, "", badStaleWrite, 35, "fence: TestTraceReadBackAfterASilentRejoinGrantsNothing"},
	{"R4Drain", "outputs-1key", 2, "", badDisturb, 22, "fence: TestMayInitOnlyWhileHeld, fence: TestUnknownOutcomeWhileDrainingEndsTheOwnership"},
	{"R4,R2ID", "outputs-1key", 2, "", badLostUpdate, 29, "fence: TestTraceSameEffectsAgainOverAnothersCommit, internal/acceptance: TestKafkaSilentRejoinWithTheSuccessorGone"},
	{"R4,Fence", "outputs-1key", 1, "", badLostUpdate, 28, "fence: TestTraceSameEffectsAgainOverAnothersCommit"},
	{"R4,R13", "outputs-1key", 1, "", badLostUpdate, 30, "fence: TestTraceSameEffectsAgainAfterTheRevokeCallback"},
	{"R5Abort", "outputs-1key", 1, "", badBelief, 14, "fence: TestUnknownOutcomeIsReadBack"},
	{"R5Abort", "outputs-1key", 1, "NoBelief", badLostUpdate, 18, "fence: TestUnknownOutcomeWithoutReadBackRepeats, internal/outputs: TestKafkaUnknownOutcomeWithoutReadBack"},
	{"R5Commit", "state-1key", 1, "NoBelief", badOffsetAhead, 19, "fence: TestUnknownOutcomeIsReadBack, internal/crash: TestKafkaUnknownOutcome"},
	{"R6", "outputs-1key", 1, "", badDisturb, 18, "fence: TestTraceFencedProducerEndsNothing"},
	{"R9", "state-del", 1, "", badRegress, 27, "internal/engine: TestTranscripts/model_traces"},
	{"R10Off", "state-2key", 1, "", badOffsetAhead, 13, "internal/engine: TestTranscripts/model_traces"},
	{"R12Init,Fence", "outputs-1key", 1, "", badLostUpdate, 26, "fence: TestTraceFirstInitialisationBehindAnothersCommit"},
	{"R12Init,Sweep", "outputs-1key", 1, "", badStuck, 9, "fence: TestTakeoverEndsTheLastOwnersTransaction"},
	{"R12Init,R12Stab,Table", "outputs-1key", 1, "", badOffsetFell, 27, "fence: TestTraceOffsetIsReadBeforeTheLastCommit"},
	{"R12HW", "outputs-1key", 1, "", badStop, 19, "internal/member: TestTraceOffsetIsVisibleBeforeItsSnapshots"},
	{"R12HW,Table", "outputs-1key", 1, "", badOffsetAhead, 19, "internal/member: TestTraceOffsetIsVisibleBeforeItsSnapshots"},
	{"R12Order", "outputs-1key", 1, "", badStop, 19, "internal/member: TestTraceOffsetIsVisibleBeforeItsSnapshots"},
	{"R12Order,Table", "outputs-1key", 1, "", badOffsetAhead, 19, "internal/member: TestTraceOffsetIsVisibleBeforeItsSnapshots"},
	{"Table", "state-del", 1, "", badCameBack, 31, "internal/member: TestTraceOffsetOfBeforeTheSnapshots"},
	{"R13", "outputs-1key", 1, "", badStaleWrite, 20, "fence: TestTraceCommitAfterTheRevokeCallback, internal/accidents: TestKafkaLateCommitForALostPartition"},
	{"R14Tag", "state-1key", 1, "Queue", badState, 17, "internal/acceptance: TestKafkaBatchOfAnEarlierOwnership"},
	{"R17Two", "state-1key", 1, "", badOffsetAhead, 20, "internal/engine: TestTranscripts/model_traces"},
	{"R17Min", "state-2key", 1, "", badOffsetAhead, 11, "internal/engine: TestTranscripts/model_traces"},
	{"R18", "state-1key", 1, "", badOutputLost, 12, "internal/member: TestOutputsComeBeforeTheSnapshot, internal/acceptance: TestKafkaOutputsAreAcknowledgedFirst"},
	{"R20", "state-del", 1, "", badCameBack, 25, "internal/engine: TestTranscripts/model_traces, internal/acceptance: TestKafkaDeleteIsNotUndoneByAReplay"},
	{"R20Known", "state-del", 1, "", badCameBack, 30, "internal/engine: TestTranscripts/model_traces"},
	{"Sweep", "state-1key", 1, "", badStuck, 14, "snapshot: TestRestoreRetakesItsOwnID, snapshot: TestKafkaRestoreTakesItsOwnIDOverAgain"},
	{"Regrant", "outputs-1key", 1, "", badStuck, 13, "fence: TestTraceGoneAndStillAssigned"},
	{"", "outputs-1key", 2, "TV1", badOffsetAhead, 22, "fence: TestStaleGenerationWaitsForTheNextToken"},
	{"R2Join", "kip848-outputs", 2, "", badStaleWrite, 19, "fence: TestTokenAfterASilentRejoin, internal/protocols: TestKafkaMemberIDComesBack"},
	{"R23", "latest-state", 1, "", badTwoStarts, 15, "internal/member: TestStartIsCommittedBeforeTheFirstFold"},
	{"R24", "leave-outputs", 1, "", badStuck, 13, "fence: TestClosedClientEndsWhatItHasNotTakenBack, fence: TestLeavingDrainsAllThatIsHeld"},
	{"R25", "read-state", 1, "", badEmptied, 21, "internal/member: TestCommittedOffsetIsTheEndOfAnIdleInput"},
	{"R25Both", "read-state", 1, "", badStop, 26, "internal/member: TestCommittedOffsetIsTheEndOfAnIdleInput"},
	{"R26", "head-state", 1, "", badOffsetAhead, 21, "internal/member: TestHeadOfTheSnapshotsIsDeleted"},
	{"R27Known", "slow-pipe", 1, "", badBelief, 12, "fence: TestTimedOutByTheBroker, fence: TestDoubtDoesNotRunOutOfTime"},
	{"R27Known,R4", "slow-pipe", 1, "NoBelief", badLostUpdate, 21, "fence: TestTimedOutByTheBroker"},
	{"R27Off", "slow-pipe", 1, "", badOutputLost, 12, "internal/engine: TestSlowPipe"},
	{"R27Whole", "slow-outputs", 1, "", badOutputLost, 27, "internal/engine: TestSlowOutputsBeforeAState, internal/engine: TestSlowTombstonesAndASpoiledState"},
	{"R30Restore", "rebuild-state", 1, "", badState, 5, "internal/engine: TestEveryRecordOfBeforeARebuildIsDropped, internal/member: TestRebuildDropsKeysForReaders"},
	{"R30Again", "rebuild-state", 1, "", badOffsetAhead, 25, "internal/engine: TestDroppedKeysGetTombstones"},
	{"R30Next", "rebuild-state", 1, "", badStuck, 10, "internal/member: TestRebuildThatEndsBeforeItsTombstones"},
	{"R31", "grow-state", 1, "", badMoved, 14, "internal/member: TestKeysThatMovedAreNotCommitted"},
	{"R31After", "grow-state", 1, "", badMoved, 15, "internal/member: TestLookBeginsAfterTheCall"},
	{"R31Start", "grow-state", 1, "", badMoved, 19, "internal/member: TestAddedPartitionIsNotBegun"},
	{"Table", "accident-state", 1, "", badOffsetAhead, 21, "internal/accidents: TestKafkaSnapshotsRecreatedWhileStopped"},
	{"Table", "accident-del", 1, "", badCameBack, 29, "internal/member: TestTraceOffsetOfBeforeTheSnapshots"},
}

// Belt is a toggle that no row of Traces switches off by itself: with it off alone, no check fails in the
// configurations of beltConfigs, with one fault or with two. Either another rule covers it, which the rows with both
// show, or what it prevents is outside of what the checks see.
type Belt struct {
	Toggle, Why, Tests string
}

// Belts are all such toggles.
var Belts = []Belt{
	{"R4", "the group refuses who is no owner: see the rows with R2ID, Fence and R13", "fence: TestReadBackFindsAnotherOwner"},
	{"R4Both", "the two witnesses differ only until the second marker is written", "fence: TestReadBackWaitsForBothWitnesses"},
	{"R4Prog", "as R4Both, from the other side", "fence: TestReadBackWaitsForBothWitnesses"},
	{"R5Fold", "what is folded in doubt goes when the ownership does; the outputs of a fold in doubt cannot", "internal/member: TestNothingIsFoldedInDoubt"},
	{"R7Wait", "gone at once is safe, and granted anew (Regrant)", "fence: TestStaleGenerationWaitsForTheNextToken"},
	{"R7Bound", "the model has no time: a wait without end is no stuck state as long as a rebalance can come", "fence: TestStaleGenerationEnds"},
	{"R7Gone", "who waits for another token under an id that the group has forgotten is told in the end", "fence: TestOutcomeOfEachError"},
	{"R12Init", "the fence, the sweep and the table cover it: see the rows with them", "fence: TestTakeoverEndsTheLastOwnersTransaction"},
	{"R12Stab", "the takeover has ended what is open: see the row with R12Init", "fence: TestOffsetOfOpenIsTheLast"},
	{"R14Rise", "the tag drops what would not rise: an assertion", "internal/engine: TestTranscripts/order"},
	{"Retake", "the broker's sweep ends what is open, later: TestRepairs", "snapshot: TestRestoreRetakesItsOwnID"},
	{"Probe", "nothing is lost, and nothing ends: TestEndless", "internal/acceptance: TestKafkaDuel, internal/accidents: TestKafkaStaleOwnerInitialisesLate"},
}

// beltConfigs are the configurations that Belts are about.
var beltConfigs = []string{"state-1key", "outputs-1key"}

// orDash is what a table says for nothing.
func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// words puts tests into a cell: "package: TestName" becomes `TestName` (package).
func words(tests string) string {
	var out []string
	for _, test := range strings.Split(tests, ", ") {
		where, name, _ := strings.Cut(test, ": ")
		out = append(out, "`"+name+"` ("+where+")")
	}
	return strings.Join(out, ", ")
}
