package planted

import "github.com/holdfast-go/holdfast/internal/rule"

const (
	settle = "fence/settle.go"
	batch  = "fence/batch.go"
)

// What happens inside one transaction, and at its end.
var transactionBugs = []Bug{
	{
		Name: "offset-before-records", Rules: []string{"R1"}, Mistake: "offsets before produce",
		Off: "the offset is sent before the records are",
		Edits: []Edit{
			{settle, "\tbounded, cancel := context.WithTimeoutCause(ctx, w.c.TransactionTimeout, errLimit)\n\tdefer cancel()\n", "\tbounded, cancel := context.WithTimeoutCause(ctx, w.c.TransactionTimeout, errLimit)\n\tdefer cancel()\n\tif err := p.bind(bounded, b.token, b.next, b.witness.metadata(w.c.Kind)); err != nil {\n\t\treturn -1, err\n\t}\n"},
			{settle, "\tif err := p.bind(bounded, b.token, b.next, b.witness.metadata(w.c.Kind)); err != nil {\n\t\treturn -1, err\n\t}\n\t// From", "\t// From"},
		},
		Test: Test{Package: "fence", Name: "TestOffsetIsTheLastWrite"}, Invariant: "I1",
	},
	{
		Name: "refusals-not-noticed", Rules: []string{"R1"},
		Off:   "the answers of the brokers to single records are not looked at, as by who only flushes",
		Edits: []Edit{{"fence/producer.go", "\t\t\t\t\terrs[p.i], failed = &wire.StepError{Step: wire.StepProduce, Err: p.err}, true\n", "\t\t\t\t\terrs[p.i] = &wire.StepError{Step: wire.StepProduce, Err: p.err}\n"}},
		Test:  Test{Package: "fence", Name: "TestRefusedOutputIsNotCommittedOver"}, Invariant: "I4",
	},
	{
		Name: "generation-minus-one", Rules: []string{"R2"}, Mistake: "generation -1",
		Off:   "the offset is sent with generation -1, which a broker does not check",
		Edits: []Edit{{"fence/producer.go", "Generation: tok.Generation", "Generation: -1"}},
		Test:  Test{Package: "fence", Name: "TestTokenOnTheWire"}, Invariant: "I8",
	},
	{
		Name: "cached-generation", Rules: []string{"R2"}, Mistake: "cached generation",
		Off: "the generation is that of the first transaction",
		Edits: []Edit{
			{ownership, "\tinits      int //", "\tcached     int32\n\tinits      int //"},
			{ownership, "\treturn Token{MemberID: liveID, Generation: generation, ", "\tif o.cached == 0 {\n\t\to.cached = generation\n\t}\n\treturn Token{MemberID: liveID, Generation: o.cached, "},
		},
		Test: Test{Package: "fence", Name: "TestGroupCommit8GenerationIsLive"}, Invariant: "I8",
	},
	{
		Name: "unbound-offset", Rules: []string{"-"}, Off: "the offset is not bound to the member: `fenced-binding`",
		Switches: []rule.Name{rule.FencedBinding},
		Test:     Test{Package: "fence", Name: "TestUnboundOffsetIsAccepted"}, Invariant: "I3",
	},
	{
		Name: "unknown-is-committed", Rules: []string{"R5"}, Mistake: "unknown taken as committed",
		Off:   "an unknown outcome is taken for a commit",
		Edits: []Edit{{settle, "\t\tat, err := w.attempt(ctx, b)\n", "\t\tat, err := w.attempt(ctx, b)\n\t\tif c, _ := classify(err); err != nil && c == classUnknown {\n\t\t\terr = nil\n\t\t}\n"}},
		Test:  Test{Package: "fence", Name: "TestUnknownOutcomeIsReadBack"}, Invariant: "I1",
	},
	{
		Name: "unknown-is-aborted", Rules: []string{"R5"}, Mistake: "unknown taken as aborted, without a new initialisation",
		Off:      "an unknown outcome is taken for an abort, and the client goes on: `read-back`",
		Switches: []rule.Name{rule.ReadBack},
		Edits:    []Edit{{settle, "func (w *Writer) doubt(b *batch, err error) error {\n\tw.dispose()\n", "func (w *Writer) doubt(b *batch, err error) error {\n"}},
		Test:     Test{Package: "fence", Name: "TestUnknownOutcomeIsReadBack"}, Invariant: "I3",
	},
	{
		Name: "end-is-retried", Rules: []string{"R5"}, Mistake: "EndTxn sent again",
		Off:   "a commit whose outcome is unknown is sent again",
		Edits: []Edit{{settle, "\terr = p.end(ending, true)\n", "\tif err = p.end(ending, true); err != nil {\n\t\terr = p.end(ending, true)\n\t}\n"}},
		Test:  Test{Package: "fence", Name: "TestUnknownOutcomeIsReadBack"}, Invariant: "I1",
	},
	{
		Name: "commit-not-sent", Rules: []string{"R5"},
		Off:   "a commit that the client calls done and has not sent is taken for one",
		Edits: []Edit{{"fence/producer.go", "\t\tif err == nil && commit && t.gate.commits.Load() == sent {\n", "\t\tif err == nil && commit && t.gate.commits.Load() < sent {\n"}},
		Test:  Test{Package: "fence", Name: "TestCommitThatIsNotSentIsNoCommit"}, Invariant: "I1",
	},
	{
		Name: "ended-before-noted", Rules: []string{"R5"},
		Off:   "a transaction is ended before the client has noted the partitions that took its first records",
		Edits: []Edit{{"fence/producer.go", "\t\tif noted {\n", "\t\tif noted || true {\n"}},
		Test:  Test{Package: "fence", Name: "TestEndWaitsUntilTheClientHasNoted"}, Invariant: "I1",
	},
	{
		Name: "abort-after-a-fence", Rules: []string{"R6"},
		Off:   "a client that is given up sends an abort first, which ends a successor's transaction",
		Edits: []Edit{{settle, "\t\tw.producer.close()\n", "\t\tw.producer.end(w.base, false)\n\t\tw.producer.close()\n"}},
		Test:  Test{Package: "fence", Name: "TestOwnershipGoneCutsTheTransactionInFlight"}, Invariant: "I3",
	},
	{
		Name: "same-token-again", Rules: []string{"R7"},
		Off:   "a refused generation is sent again, as it is",
		Edits: []Edit{{ownership, "\t\tif err != nil || t != refused {\n", "\t\tif err != nil || t == refused {\n"}},
		Test:  Test{Package: "fence", Name: "TestStaleGenerationWaitsForTheNextToken"}, Invariant: "I8",
	},
	{
		Name: "waits-past-the-rebalance", Rules: []string{"R7"}, Mistake: "deadline longer than max.poll.interval",
		Off:   "the wait for another generation is longer than the rebalance timeout",
		Edits: []Edit{{ownership, "time.NewTimer(o.session.rebalanceTimeout)", "time.NewTimer(10 * o.session.rebalanceTimeout)"}},
		Test:  Test{Package: "fence", Name: "TestStaleGenerationEnds"}, Invariant: "I6",
	},
	{
		Name: "fight-without-end", Rules: []string{"R8"},
		Off:   "producer fences in a row are not counted",
		Edits: []Edit{{settle, "w.fences++; w.fences >= maxFences {", "w.fences >= maxFences {"}},
		Test:  Test{Package: "fence", Name: "TestFightStopsWithIDTaken"}, Invariant: "I6",
	},
	{
		Name: "offset-falls", Rules: []string{"R9"},
		Off: "an offset below the committed one is taken, and nothing asserts that it rises",
		Edits: []Edit{
			{"fence/writer.go", "q.offset != nil && q.offset.Next < max(floor.Next, 0)", "q.offset != nil && q.offset.Next < 0"},
			{settle, "b.next.Next < w.known.next && !w.rewinds", "b.next.Next < 0 && !w.rewinds"},
		},
		Test: Test{Package: "fence", Name: "TestWriterCommitsRecordsAndOffset"}, Invariant: "committed-rises",
	},
	{
		Name: "offset-of-a-refused-write", Rules: []string{"R10"},
		Off:   "a write that the broker refuses is taken out, and its offset stays",
		Edits: []Edit{{batch, "\tb.waiters, b.next = kept, next\n", "\tb.waiters = kept\n"}},
		Test:  Test{Package: "fence", Name: "TestRefusedRecordIsTakenOut"}, Invariant: "I1",
	},
	{
		Name: "another-log", Rules: []string{"R21"},
		Off:      "what is written may come before what is known to be in the log: `same-log`",
		Switches: []rule.Name{rule.SameLog},
		Test:     Test{Package: "fence", Name: "TestWriterDoesNotGoOnInALogThatLostItsTail"}, Invariant: "I2",
	},
	{
		Name: "no-pause", Rules: []string{"R11"},
		Off:   "the next transaction begins at once",
		Edits: []Edit{{"fence/pause.go", "\tleft := p.pause - time.Since(p.ended)\n", "\tleft := p.pause - p.pause\n"}},
		Test:  Test{Package: "fence", Name: "TestPauseAdapts"}, Invariant: "R11",
	},
	{
		Name: "pause-does-not-adapt", Rules: []string{"R11"},
		Off:   "a produce that the broker held back changes nothing",
		Edits: []Edit{{"fence/pause.go", "p.pause = min(2*p.pause, pauseMost)", "p.pause = min(p.pause, pauseMost)"}},
		Test:  Test{Package: "fence", Name: "TestPauseAdapts"}, Invariant: "R11",
	},
	{
		Name: "offset-ahead-of-the-queue", Rules: []string{"R9"}, Mistake: "offset ahead of one key in a group commit",
		Off:   "a transaction carries the newest queued offset, ahead of writes that are queued before it",
		Edits: []Edit{{batch, "\t\tif full && records > 0 && len(q.messages) > 0 {\n", "\t\tif full && records > 0 && len(q.messages) > 0 {\n\t\t\tfor _, later := range w.queue {\n\t\t\t\tif later.offset != nil {\n\t\t\t\t\tb.next = *later.offset\n\t\t\t\t}\n\t\t\t}\n"}},
		Test:  Test{Package: "fence", Name: "TestGroupCommit6OffsetNeverLeadsWrites"}, Invariant: "I1",
	},
	{
		Name: "tail-of-a-batch-dropped", Rules: []string{"R1"}, Mistake: "tail batch of a group commit dropped",
		Off:   "the last call of a group commit is answered and not written",
		Edits: []Edit{{batch, "\tfor _, q := range b.waiters {\n\t\tms = append(", "\tfor _, q := range b.waiters[:max(1, len(b.waiters)-1)] {\n\t\tms = append("}},
		Test:  Test{Package: "fence", Name: "TestGroupCommit1And2EveryWriteOnceWithinTheCap"}, Invariant: "I1",
	},
	{
		Name: "offset-alone-sends-nothing", Rules: []string{"R1"}, Mistake: "offset-only EndTxn does nothing",
		Off:   "a commit without records has no progress record either: the client ends it without a request",
		Edits: []Edit{{settle, "func (w *Writer) effects(b *batch) ([]stream.Message, error) {\n", "func (w *Writer) effects(b *batch) ([]stream.Message, error) {\n\tif len(b.messages()) == 0 {\n\t\treturn nil, nil\n\t}\n"}},
		Test:  Test{Package: "fence", Name: "TestWriterCommitsRecordsAndOffset"}, Invariant: "I5",
	},
	{
		Name: "stale-epoch-is-retried", Rules: []string{"R7"}, Mistake: "STALE_MEMBER_EPOCH classed as a retry",
		Off:   "STALE_MEMBER_EPOCH, which says that the partition has moved, is tried again",
		Edits: []Edit{{"fence/outcome.go", "{kerr.StaleMemberEpoch.Code, wire.StepOffset}:     {class: classGone}", "{kerr.StaleMemberEpoch.Code, wire.StepOffset}:     {class: classAbort}"}},
		Test:  Test{Package: "fence", Name: "TestOutcomeOfEachError"}, Invariant: "I3",
	},
	{
		Name: "client-used-after-an-abort", Rules: []string{"R6"},
		Off:   "below transaction.version 2, where an abort that is late can end the next transaction, the client aborts and is used again",
		Edits: []Edit{{"fence/producer.go", "reusable() bool { return wire.Features(t.c.Features).Fenced() }", "reusable() bool { return t.c.Features.Brokers >= 0 }"}},
		Test:  Test{Package: "fence", Name: "TestClientAfterAnAbort"}, Invariant: "I5",
	},
	{
		Name: "slow-fetch-is-an-open-transaction", Rules: []string{"R4"},
		Off:   "a read-back is cut short where no transaction is open, and answers that take seconds never come",
		Edits: []Edit{{"fence/producer.go", "if stable < end && t.throttle", "if stable <= end && t.throttle"}},
		Test:  Test{Package: "internal/virtual", Name: "TestIDExpiry", Tags: "synctests"}, Invariant: "I7",
	},
}
