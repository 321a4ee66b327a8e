package planted

import "github.com/holdfast-go/holdfast/internal/rule"

const (
	memberPrepare = "internal/member/prepare.go"
	memberTainted = "internal/member/tainted.go"
	remedies      = "TestRebuildCuresWhatItIsNamedFor"
)

// How a letter goes out beside the transactions, and how it would without anybody to wait for it.
const (
	letterSent   = "\t\tif err := w.outputs.sendLetter(w.ctx, r, cause); err != nil {\n\t\t\treturn false, err\n\t\t}\n"
	letterThrown = "\t\tclient, err := w.m.cfg.Kafka.Client()\n\t\tif err != nil {\n\t\t\treturn false, err\n\t\t}\n\t\tclient.Produce(w.ctx, toKafka(dlq.New(r, cause)), nil)\n"
)

// What a member of the group makes of it all.
var memberBugs = []Bug{
	{
		Name: "outputs-not-awaited", Rules: []string{"R18"},
		Off:      "a snapshot does not wait for the outputs of its steps: `outputs-first`",
		Switches: []rule.Name{rule.OutputsFirst},
		Test:     Test{Package: "internal/member", Name: "TestOutputsComeBeforeTheSnapshot"}, Invariant: "I4",
	},
	{
		Name: "outputs-counted", Rules: []string{"R18"},
		Off:   "any acknowledgement counts for a commit that waits, not only those of its own outputs",
		Edits: []Edit{{"internal/member/outputs.go", "\t\tif number <= o.target {\n", "\t\tif o.target > 0 {\n"}},
		Test:  Test{Package: "internal/member", Name: "TestCommitWaitsForItsOwnOutputs"}, Invariant: "I4",
	},
	{
		Name: "outputs-beside-the-transaction", Rules: []string{"R18"},
		Off:      "under `FencedOutputs`, outputs are not in the transaction of their offset: `outputs-inside`",
		Switches: []rule.Name{rule.OutputsInside},
		Test:     Test{Package: "internal/member", Name: "TestOutputsLeaveInTheTransaction"}, Invariant: "I4",
	},
	{
		Name: "aborted-records-restored", Rules: []string{"R12"},
		Off:   "a restore reads what was not committed",
		Edits: []Edit{{"snapshot/restore.go", "To: r.target, Committed: true,", "To: r.target, Committed: false,"}},
		Test:  Test{Package: "snapshot", Name: "TestRestore1DrainsToTheHighWatermark"}, Invariant: "I5",
	},
	{
		Name: "abort-list-order", Rules: []string{"-"}, Mistake: "order of the abort list ignored",
		Off:   "`holdfast tail` takes the list of aborted transactions in the order in which it comes; a restore leaves it to kgo",
		Edits: []Edit{{"internal/wire/classify.go", "\t\tslices.Sort(firsts)\n", "\t\t_ = slices.IsSorted(firsts)\n"}},
		Test:  Test{Package: "internal/wire", Name: "TestAbortedListDecidesBelowTheStableEnd"}, Invariant: "I5",
	},
	{
		Name: "position-reset-by-the-client", Rules: []string{"R14"}, Mistake: "auto-reset after truncation",
		Off:   "the client goes to the first record that is left when the next one is gone",
		Edits: []Edit{{group, "kgo.ConsumeResetOffset(kgo.NoResetOffset())", "kgo.ConsumeResetOffset(kgo.NewOffset().AtStart())"}},
		Test:  Test{Package: "internal/member", Name: "TestRecordsGoneBeforeTheyWereFolded"}, Invariant: "I2",
	},
	{
		Name: "head-not-compared", Rules: []string{"R26"},
		Off:   "a snapshot log that begins above where it began is restored from as if it were whole",
		Edits: []Edit{{"internal/member/head.go", "\treturn w.head.start > max(w.head.recorded, 0)\n", "\treturn w.head.start > max(w.head.recorded, w.head.start)\n"}},
		Test:  Test{Package: "internal/member", Name: "TestHeadOfTheSnapshotsIsDeleted"}, Invariant: "I2",
	},
	{
		Name: "start-not-noted", Rules: []string{"R26"},
		Off:   "a progress record does not note where the log began",
		Edits: []Edit{{"fence/settle.go", "headers = append(append(headers, w.startHeaders()...), w.appliedHeaders(b.next.Next)...)", "headers = append(headers, w.appliedHeaders(b.next.Next)...)"}},
		Test:  Test{Package: "internal/member", Name: "TestHeadOfTheSnapshotsIsDeleted"}, Invariant: "I7",
	},
	{
		Name: "head-not-watched", Rules: []string{"R26"},
		Off:   "a running member does not look at its snapshot topic",
		Edits: []Edit{{"internal/member/member.go", "\tm.wg.Go(func() { m.watchHead(polling) })\n", ""}},
		Test:  Test{Package: "internal/member", Name: "TestSnapshotTopicIsWatched"}, Invariant: "I2",
	},
	{
		Name: "one-look", Rules: []string{"R28"},
		Off: "what is found at the first look is done, whatever another client is told: a flow begins anew because one answer says that there is no offset",
		Edits: []Edit{
			{memberPrepare, "if look < w.needs(found, j, past) {", "if look > w.needs(found, j, past) {"},
			{"internal/member/signs.go", "\tcase s.own >= 0:\n", "\tcase s.own >= 0 && w.committed.Next >= 0:\n"},
		},
		Test: Test{Package: "internal/member", Name: "TestBeginsNewAtNoSingleAnswer"}, Invariant: "I2",
	},
	{
		Name: "created-topic-is-absent", Rules: []string{"R28"},
		Off:   "a topic that was just created is absent for one broker that has not heard of it",
		Edits: []Edit{{"internal/wire/topic.go", " && (err != nil || full.Exists) {\n", " {\n"}},
		Test:  Test{Package: "internal/wire", Name: "TestCreatedTopicIsNotAbsentAtOneLook"}, Invariant: "I7",
	},
	{
		Name: "adopted-under-no-incarnation", Rules: []string{"-"},
		Off:   "states that go on without their progress record are written on under incarnation 0",
		Edits: []Edit{{memberPrepare, "w.store.AdoptNone(f.result.Target, w.incarnation)", "w.store.AdoptNone(f.result.Target, 0)"}},
		Test:  Test{Package: "internal/member", Name: "TestAdoptedStatesKeepTheirIncarnation/FencedState"}, Invariant: "I7",
	},
	{
		Name: "group-unknown-is-no-offset", Rules: []string{"R28"},
		Off:   "a coordinator that does not know the group of its member is taken to say that nothing is committed",
		Edits: []Edit{{"internal/wire/offset.go", "m.ID == \"\" && !m.Joined && errors.Is", "m.ID == \"\" && errors.Is"}},
		Test:  Test{Package: "internal/member", Name: "TestGroupIsUnknownForAMoment"}, Invariant: "I2",
	},
	{
		Name: "no-rewind", Rules: []string{"R14"}, Mistake: "no consumer rewind after an abort",
		Off: "a new ownership of a partition that stayed goes on where the client had fetched to",
		Edits: []Edit{
			{"internal/member/member.go", "\tp := w.own.Partition()\n\tw.position", "\tp := w.own.Partition()\n\tif w.position < 0 && offset > 0 {\n\t\tw.position = offset\n\t\treturn\n\t}\n\tw.position"},
			{"internal/member/member.go", "\tif start != w.position || w.after >= 0 {\n", "\tif start != w.position {\n"},
		},
		Test: Test{Package: "internal/member", Name: "TestRenewedOwnershipGoesBack"}, Invariant: "I2",
	},
	{
		Name: "batch-without-ownership", Rules: []string{"R14"},
		Off:      "a batch is of the ownership that holds its partition when it is looked at, not when it was polled: `ownership-tag`",
		Switches: []rule.Name{rule.OwnershipTag},
		Test:     Test{Package: "internal/member", Name: "TestBatchOfAnEarlierOwnership"}, Invariant: "I2",
	},
	{
		Name: "last-record-is-rejected", Rules: []string{"R10"},
		Off:   "of a whole batch the last record of the key that the broker refuses counts as the one at fault",
		Edits: []Edit{{"internal/member/policy.go", "more := r.From < r.Offset && w.m.rememberKey", "more := r.From > r.Offset && w.m.rememberKey"}},
		Test:  Test{Package: "internal/member", Name: "TestOnlyTheRecordAtFaultIsRejected"}, Invariant: "I2",
	},
	{
		Name: "no-copies", Rules: []string{"R29"},
		Off:   "states are not copied by the codec after a failed step has spoiled one",
		Edits: []Edit{{memberTainted, "\t\tw.engine.CopyByCodec()\n", ""}, {memberTainted, "if w.copying { //", "if w.copying && w.m == nil { //"}},
		Test:  Test{Package: "internal/member", Name: "TestFoldsThatFailWithoutCloneGoForward/FencedState_skip_one_in_a_hundred"}, Invariant: "I7",
	},
	{
		Name: "no-pause-for-what-cannot-be-copied", Rules: []string{"R29"},
		Off:   "under `KeepDirty`, a partition whose state the codec cannot copy is granted anew at once, each time",
		Edits: []Edit{{memberTainted, "if w.copying { //", "if w.copying && w.m == nil { //"}},
		Test:  Test{Package: "internal/member", Name: "TestStateThatCannotBeCopiedIsTriedWithPauses"}, Invariant: "I7",
	},
	{
		Name: "back-before-forward", Rules: []string{"R29"},
		Off:   "what precedes a record that spoiled a state is dropped with the memory",
		Edits: []Edit{{memberTainted, "\tif err := w.commitAll(); err != nil {\n\t\treturn err\n\t}\n", ""}},
		Test:  Test{Package: "internal/member", Name: "TestWhatPrecedesASpoiledStateIsCommitted"}, Invariant: "I7",
	},
	{
		Name: "refused-before-committed", Rules: []string{"R29"},
		Off:   "what precedes a record that was refused is not committed before the policy is asked",
		Edits: []Edit{{"internal/member/policy.go", "\t\tif err := w.commitAll(); err != nil { // R29", "\t\tif err := error(nil); err != nil { // R29"}},
		Test:  Test{Package: "internal/member", Name: "TestWhatPrecedesARefusedRecordIsCommitted"}, Invariant: "I7",
	},
	{
		Name: "drains-past-the-budget", Rules: []string{"R13"}, Mistake: "deadline longer than max.poll.interval",
		Off:   "a revoke waits for a fold that does not return",
		Edits: []Edit{{"internal/member/worker.go", "time.NewTimer(budget)", "time.NewTimer(10 * budget)"}},
		Test:  Test{Package: "internal/member", Name: "TestDrainEndsWithTheBudget"}, Invariant: "I6",
	},
	{
		Name: "ends-with-the-fold", Rules: []string{"R13"},
		Off:   "the end of a member waits for a user function that does not return",
		Edits: []Edit{{"internal/member/member.go", "\t\t\tif err := m.stuck(time.Since(began) >= 2*m.cfg.Session.RebalanceTimeout); err != nil {\n\t\t\t\tm.fail(err)\n\t\t\t\treturn\n", "\t\t\tif err := m.stuck(time.Since(began) >= 2*m.cfg.Session.RebalanceTimeout); err != nil {\n\t\t\t\tm.fail(err)\n"}},
		Test:  Test{Package: "internal/member", Name: "TestEndDoesNotWaitForAStuckFold"}, Invariant: "I6",
	},
	{
		Name: "folds-in-doubt", Rules: []string{"R5"},
		Off:   "records are folded while the outcome of a transaction is unknown",
		Edits: []Edit{{"internal/member/worker.go", "w.doubt.Load() || w.blocked", "w.blocked"}},
		Test:  Test{Package: "internal/member", Name: "TestNothingIsFoldedInDoubt"}, Invariant: "I5",
	},
	{
		Name: "input-made-again", Rules: []string{"R21"},
		Off:   "the topic id of the input is not compared with that of the state",
		Edits: []Edit{{memberPrepare, "\tcase facts.ID != then.TopicID:\n", "\tcase facts.ID != then.TopicID && partitions < 0:\n"}},
		Test:  Test{Package: "internal/member", Name: "TestInputMadeAgainWhileStopped"}, Invariant: "I2",
	},
	{
		Name: "input-truncated", Rules: []string{"R21"},
		Off:   "the log of the leader epoch of the last folded record may end before it",
		Edits: []Edit{{memberPrepare, "\tif end >= 0 && end < then.Next {\n", "\tif end >= 0 && end < 0 {\n"}},
		Test:  Test{Package: "internal/member", Name: "TestInputTruncatedWhileStopped"}, Invariant: "I2",
	},
	{
		Name: "applied-behind-the-end", Rules: []string{"R21"},
		Off:   "a state that has folded what the input does not have is believed, and its records to come are skipped",
		Edits: []Edit{{memberPrepare, "\treturn w.checkApplied(ctx, f)\n", "\treturn nil\n"}},
		Test:  Test{Package: "internal/limits", Name: "TestHostileSnapshots/applied_behind_the_input's_end"}, Invariant: "I2",
	},
	{
		Name: "retained-state-believed", Rules: []string{"-"},
		Off:      "a state that was kept over a rebalance is used as it is: `retained-check`",
		Switches: []rule.Name{rule.RetainedCheck},
		Test:     Test{Package: "internal/member", Name: "TestRetainedStateOfAnOlderOffsetLosesRecords"}, Invariant: "I2",
	},
	{
		Name: "commit-between-not-seen", Rules: []string{"-"},
		Off:      "what lies between the last known commit and the first write is not looked at: `none-between`",
		Switches: []rule.Name{rule.NoneBetween},
		Test:     Test{Package: "internal/member", Name: "TestCoordinatorAndLeaderDeposed"}, Invariant: "I4",
	},
	{
		Name: "fold-version-ignored", Rules: []string{"R22"},
		Off:   "a state of another `FoldVersion` is folded on",
		Edits: []Edit{{memberPrepare, "p != nil && p.FoldVersion != w.m.cfg.FoldVersion", "p != nil && p.FoldVersion > w.m.cfg.FoldVersion"}},
		Test:  Test{Package: "internal/member", Name: remedies + "/another_fold_version"}, Invariant: "I2",
	},
	{
		Name: "start-not-committed", Rules: []string{"R23"},
		Off:   "the start of a new flow is not committed before the first fold",
		Edits: []Edit{{memberPrepare, "\tif err := w.store.Commit(ctx, fence.Offset{Next: start, LeaderEpoch: -1}); err != nil {\n\t\treturn 0, err\n\t}\n", ""}},
		Test:  Test{Package: "internal/member", Name: "TestStartIsCommittedBeforeTheFirstFold"}, Invariant: "I2",
	},
	{
		Name: "second-witness-ignored", Rules: []string{"-"},
		Off:   "an offset ahead of the snapshots is believed",
		Edits: []Edit{{"internal/member/start.go", "\tcase c > p:\n", "\tcase c > p && c < 0:\n"}},
		Test:  Test{Package: "internal/member", Name: "TestDecideCommittedAgainstProgress"}, Invariant: "I1",
	},
	{
		Name: "outputs-client-left-open", Rules: []string{"R13"},
		Off:   "the outputs' client is not closed with the ownership",
		Edits: []Edit{{"internal/member/outputs.go", "\t\t\tsender.Close()\n\t\t}\n\t})\n", "\t\t}\n\t})\n"}},
		Test:  Test{Package: "internal/member", Name: "TestNoOutputLeavesAfterTheTeardown"}, Invariant: "I4",
	},
	{
		Name: "letter-not-looked-at", Rules: []string{"R18"},
		Off:   "outside a transaction nobody looks at what becomes of a letter",
		Edits: []Edit{{"internal/member/letter.go", letterSent, letterThrown}},
		Test:  Test{Package: "internal/member", Name: "TestRefusedLetterIsNotPassedOver"}, Invariant: "I4",
	},
	{
		Name: "letter-not-awaited", Rules: []string{"R18"},
		Off:   "outside a transaction a record is committed as passed before its letter is acknowledged",
		Edits: []Edit{{"internal/member/letter.go", letterSent, letterThrown}},
		Test:  Test{Package: "internal/member", Name: "TestLetterIsAwaited"}, Invariant: "I4",
	},
	{
		Name: "callback-without-a-bound", Rules: []string{"R12"},
		Off:   "the assigned callback waits for a takeover for as long as that takes",
		Edits: []Edit{{"internal/member/member.go", "context.WithTimeoutCause(m.ctx, m.cfg.Session.RebalanceTimeout/3, errLate)", "context.WithCancel(m.ctx)"}},
		Test:  Test{Package: "internal/member", Name: "TestLateTakeoverSetsThePosition"}, Invariant: "I6",
	},
	{
		Name: "incarnation-not-raised", Rules: []string{"-"},
		Off:   "a rebuild writes under the incarnation of what it replaces",
		Edits: []Edit{{memberPrepare, "w.incarnation = max(w.incarnation, f.incarnation) + 1", "w.incarnation = max(w.incarnation, f.incarnation)"}},
		Test:  Test{Package: "internal/member", Name: "TestRebuildRaisesTheIncarnation"}, Invariant: "I2",
	},
	{
		Name: "doubt-of-a-start-stays", Rules: []string{"R5"},
		Off:   "once the outcome of the commit that a start makes was unknown, nothing is folded any more",
		Edits: []Edit{{"internal/member/worker.go", "\tw.doubt.Store(false) // of the commit", "\t// of the commit"}},
		Test:  Test{Package: "internal/member", Name: "TestDoubtOfAStartEnds"}, Invariant: "I7",
	},
	{
		Name: "ready-before-restored", Rules: []string{"-"},
		Off:   "a member is ready before each of its partitions is restored",
		Edits: []Edit{{"internal/member/status.go", "\t\t\tif w.view.memory.Load() == nil {\n", "\t\t\tif len(workers) == 0 {\n"}},
		Test:  Test{Package: "internal/member", Name: "TestReadyIsAllRestored"}, Invariant: "I6",
	},
	{
		Name: "assigned-after-the-membership", Rules: []string{"-"},
		Off:   "a member whose membership ended counts as one that has its partitions: none, all restored",
		Edits: []Edit{{"fence/session.go", "\ts.settled = false\n", ""}},
		Test:  Test{Package: "fence", Name: "TestMembershipIsAssigned"}, Invariant: "I6",
	},
}
