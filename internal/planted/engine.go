package planted

const (
	engineBatch   = "internal/engine/batch.go"
	engineOutcome = "internal/engine/outcome.go"
	engineStep    = "internal/engine/step.go"
	engineDropped = "internal/engine/dropped.go"
)

var (
	randomTest  = Test{Package: "internal/engine", Name: "TestRandomAgainstModel"}
	wholeTest   = Test{Package: "internal/engine", Name: "TestRandomWholeBatches"}
	transcripts = Test{Package: "internal/engine", Name: "TestTranscripts/invariants"}
)

// What one partition makes of its records.
var engineBugs = []Bug{
	{
		Name: "holds-ignored", Rules: []string{"R17"},
		Off:   "the offset to commit does not respect holds",
		Edits: []Edit{{engineBatch, "if h := e.holds.least(); h != nil && !e.cfg.NoHolds {", "if h := e.holds.least(); h != nil && e.cfg.NoHolds {"}},
		Test:  randomTest, Invariant: "I1",
	},
	{
		Name: "hold-gone-after-an-abort", Rules: []string{"R17"},
		Off:   "a hold that a batch in flight clears stays cleared when the batch is aborted",
		Edits: []Edit{{engineOutcome, "\t\tx.fresh.cleared = false\n", "\t\tx.fresh.cleared = true\n"}},
		Test:  randomTest, Invariant: "I1",
	},
	{
		Name: "memory-kept-after-an-abort", Rules: []string{"R17"}, Mistake: "in-memory state kept after an abort",
		Off:   "after an abort the states in memory count as persisted",
		Edits: []Edit{{engineOutcome, "\tfor _, f := range e.flying {\n\t\te.bounce(f, f.rank)\n", "\tfor i, f := range e.flying {\n\t\te.land(f.entry, b.Writes[i])\n"}},
		Test:  randomTest, Invariant: "I1",
	},
	{
		Name: "read-past-holds", Rules: []string{"R17", "R25"},
		Off:   "what is committed after a marker was read is behind the marker, whatever is held",
		Edits: []Edit{{"internal/engine/read.go", "\te.next, e.epoch = to, epoch\n", "\te.next, e.epoch = to, epoch\n\tfor e.holds.front != nil {\n\t\te.holds.remove(e.holds.front)\n\t}\n"}},
		Test:  randomTest, Invariant: "I1",
	},
	{
		Name: "epoch-before-a-gap", Rules: []string{"R21"},
		Off:   "an offset held back behind a gap is committed with the leader epoch before the gap: the next owner takes the log for truncated",
		Edits: []Edit{{engineStep, "\t\tif offset == e.next {\n\t\t\tepoch = e.epoch\n", "\t\tif offset >= e.next {\n\t\t\tepoch = e.epoch\n"}},
		Test:  Test{Package: "internal/engine", Name: "TestEpochOfAHeldOffset"}, Invariant: "I7",
	},
	{
		Name: "offset-not-computed-again", Rules: []string{"R10"},
		Off:   "a key that the broker refuses stays dirty, and the offset of the rest passes its records",
		Edits: []Edit{{engineOutcome, "h != nil && h.offset < rest.Next && !e.cfg.NoHolds", "h != nil && h.offset > rest.Next && !e.cfg.NoHolds"}},
		Test:  randomTest, Invariant: "I1",
	},
	{
		Name: "failed-step-leaves-a-trace", Rules: []string{"R19"},
		Off:   "what a step did before it failed is kept",
		Edits: []Edit{{engineStep, "\tif err == nil {\n\t\tleft = e.apply(", "\tif err == nil || st.loaded {\n\t\tleft = e.apply("}},
		Test:  randomTest, Invariant: "I2",
	},
	{
		Name: "no-clone", Rules: []string{"R19"},
		Off:   "a fold works on the state itself, although there is a Clone",
		Edits: []Edit{{"internal/engine/call.go", "\t\t\ts.work = c.Clone(s.entry.state)\n", "\t\t\ts.work = s.entry.state\n"}},
		Test:  Test{Package: "internal/engine", Name: "TestFailedStepOnReferences"}, Invariant: "I2",
	},
	{
		Name: "copy-not-read-back", Rules: []string{"R29"},
		Off:   "a state that was copied is not read back when the step fails",
		Edits: []Edit{{"internal/engine/copy.go", "\t\t\tx.state = state\n", "\t\t\t_ = state\n"}},
		Test:  Test{Package: "internal/engine", Name: "TestCopiesUndoEachFailedStep"}, Invariant: "I2",
	},
	{
		Name: "dropped-keys-stay", Rules: []string{"R30"},
		Off:   "what a rebuild drops stays in the snapshot topic",
		Edits: []Edit{{engineDropped, "\t\t\te.dropped = append(e.dropped, key)\n", "\t\t\t_ = append(e.dropped, key)\n"}},
		Test:  Test{Package: "internal/engine", Name: "TestDroppedKeysGetTombstones"}, Invariant: "I2",
	},
	{
		Name: "dropped-though-it-came-again", Rules: []string{"R30"},
		Off:   "a key that has come again since the rebuild gets a tombstone all the same",
		Edits: []Edit{{engineDropped, "\t\tif e.keys[key] == nil {\n", "\t\tif e.keys[key] == nil || b != nil {\n"}},
		Test:  Test{Package: "internal/engine", Name: "TestDroppedKeysGetTombstones"}, Invariant: "I2",
	},
	{
		Name: "dropped-keys-forgotten", Rules: []string{"R30"},
		Off:   "keys whose tombstones were in a batch that is aborted get none",
		Edits: []Edit{{engineDropped, "\tif len(b.Dropped) == 0 {\n\t\te.dropped, b.passed = nil, 0\n", "\tif b.passed >= 0 {\n\t\te.dropped, b.passed = e.dropped[b.passed:], 0\n"}},
		Test:  Test{Package: "internal/engine", Name: "TestDroppedKeysGetTombstones"}, Invariant: "I2",
	},
	{
		Name: "unread-keys-stay", Rules: []string{"R30"},
		Off:   "a snapshot that cannot be read, or that comes behind those of a later incarnation, is not known to be in the log",
		Edits: []Edit{{"internal/engine/load.go", "\t\tif x == nil { // the log has it all the same\n", "\t\tif x != nil && x.in == nil && x.inc > e.incarnation {\n"}},
		Test:  Test{Package: "internal/engine", Name: "TestEveryRecordOfBeforeARebuildIsDropped"}, Invariant: "I2",
	},
	{
		Name: "tombstone-at-once", Rules: []string{"R20"},
		Off:   "a delete is its tombstone, without the deletion before it",
		Edits: []Edit{{engineBatch, "case x.deleted && (e.cfg.NoTwoWriteDelete || e.cfg.Whole):", "case x.deleted:"}},
		Test:  randomTest, Invariant: "I2",
	},
	{
		Name: "tombstone-before-its-offset", Rules: []string{"R20"},
		Off:   "a tombstone is written one record before the committed offset has passed the deletion",
		Edits: []Edit{{engineOutcome, "x != nil && x.applied < e.committed;", "x != nil && x.applied <= e.committed;"}},
		Test:  randomTest, Invariant: "tombstone-clean",
	},
	{
		Name: "tombstone-dropped", Rules: []string{"R20"}, Mistake: "snapshot tombstone dropped",
		Off:   "a restore does not heed tombstones",
		Edits: []Edit{{"internal/engine/load.go", "\t\tif x != nil {\n\t\t\te.forget(x)\n", "\t\tif x != nil && x.deleted {\n\t\t\te.forget(x)\n"}},
		Test:  wholeTest, Invariant: "I2",
	},
	{
		Name: "replay-folds-again", Rules: []string{"-"},
		Off:   "a replay folds what the snapshot of a key has in it",
		Edits: []Edit{{engineStep, "r.Offset <= x.applied && !e.cfg.NoAppliedSkip", "r.Offset <= x.applied && e.cfg.NoAppliedSkip"}},
		Test:  randomTest, Invariant: "I2",
	},
	{
		Name: "offsets-out-of-order", Rules: []string{"R14"},
		Off:   "a record that comes after a later one is left out, as if it were below the start",
		Edits: []Edit{{engineStep, "\tif e.next > e.first {\n", "\tif e.next > e.first && offset < 0 {\n"}},
		Test:  Test{Package: "internal/engine", Name: "TestTranscripts/order"}, Invariant: "offsets-rise",
	},
	{
		Name: "two-batches-in-flight", Rules: []string{"R9"},
		Off:   "a batch is closed while another one is in flight",
		Edits: []Edit{{engineBatch, "if !e.started || e.batch != nil {", "if !e.started {"}},
		Test:  transcripts, Invariant: "one-batch",
	},
}
