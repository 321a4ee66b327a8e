package planted

// What is let in of what brokers send.
var intakeBugs = []Bug{
	{
		Name: "headers-not-counted", Rules: []string{"-"},
		Off:   "the headers of a fetched record are not counted before the client allocates them",
		Edits: []Edit{{"internal/intake/batch.go", "int64(r.size) + r.headers*headerCost; own > limit", "int64(r.size); own > limit"}},
		Test:  Test{Package: "internal/intake", Name: "TestHeadersAreCountedBeforeTheyAreAllocated"}, Invariant: "I2",
	},
	{
		Name: "opened-without-room", Rules: []string{"-"},
		Off:   "batches are opened whatever is held already",
		Edits: []Edit{{"internal/intake/budget.go", "used := b.fetched(); used > 0 && used+cost > b.MaxBatch()", "used := b.fetched(); used > 0 && used+cost < 0"}},
		Test:  Test{Package: "internal/intake", Name: "TestAnswerEndsWhereThereIsNoRoom"}, Invariant: "I7",
	},
	{
		Name: "refused-at-the-first-offset", Rules: []string{"-"},
		Off:   "what stands for a batch that cannot be opened is at its first offset, so that a read from its middle passes over the batch",
		Edits: []Edit{{"internal/intake/batch.go", "refusal.standIn(nil, 0, header.lastDelta())", "refusal.standIn(nil, 0, 0)"}},
		Test:  Test{Package: "internal/intake", Name: "TestBatchThatCannotBeOpened"}, Invariant: "I2",
	},
}
