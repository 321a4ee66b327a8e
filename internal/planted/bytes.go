package planted

const sender = "internal/wire/sender.go"

// What is nothing and what is empty, and what a topic takes of all that is written to it.
var bytesBugs = []Bug{
	{
		Name: "empty-key-written-as-none", Rules: []string{"-"},
		Off:   "the bytes of an empty key are nil, which is no key",
		Edits: []Edit{{engineBatch, "if e.arena == nil || cap(e.arena)", "if cap(e.arena)"}},
		Test:  Test{Package: "internal/engine", Name: "TestEmptyKeyIsAKey"}, Invariant: "I2",
	},
	{
		Name: "empty-key-read-as-none", Rules: []string{"-"},
		Off:   "a record with an empty key counts as one without a key",
		Edits: []Edit{{engineStep, "\tif key == nil {\n", "\tif len(key) == 0 {\n"}},
		Test:  Test{Package: "internal/engine", Name: "TestEmptyKeyIsAKey"}, Invariant: "I2",
	},
	{
		Name: "state-of-nothing-is-a-tombstone", Rules: []string{"-"},
		Off:   "a state that is encoded to nothing is written as null",
		Edits: []Edit{{engineBatch, "\t\treturn []byte{}, nil // not nil", "\t\treturn nil, nil // nil"}},
		Test:  Test{Package: "internal/engine", Name: "TestStateOfNothingIsNoTombstone"}, Invariant: "I2",
	},
	{
		Name: "encoding-error-without-a-place", Rules: []string{"-"},
		Off:   "a snapshot record that cannot be made ends the partition with the bare error",
		Edits: []Edit{{"internal/member/commit.go", "\t\tif err != nil { // as if", "\t\tif err != nil {\n\t\t\treturn err\n\t\t}\n\t\tif err != nil { // as if"}},
		Test:  Test{Package: "internal/member", Name: "TestEncodingErrorHasItsPlace"}, Invariant: "I6",
	},
	{
		Name: "letters-compared-as-text", Rules: []string{"-"},
		Off:   "the checker takes a letter's null for its record's empty bytes",
		Edits: []Edit{{"holdfasttest/check_letters.go", "return (a == nil) == (b == nil) && bytes.Equal(a, b)", "return bytes.Equal(a, b)"}},
		Test:  Test{Package: "holdfasttest", Name: "TestNilAndEmptyAreTwo"}, Invariant: "I4",
	},
	{
		Name: "known-limit-not-used", Rules: []string{"R34"},
		Off:   "what is written beside a transaction goes in batches as large as the client's own limit",
		Edits: []Edit{{"internal/member/outputs.go", "wire.BatchLimit(o.described[topic].MaxRecordBytes)", "wire.BatchLimit(0 * o.described[topic].MaxRecordBytes)"}},
		Test:  Test{Package: "internal/member", Name: "TestBatchesAreWithinTheLimit"}, Invariant: "I6",
	},
	{
		Name: "first-of-the-batch-at-fault", Rules: []string{"R34"},
		Off:   "of a batch that was refused the first record counts as the one at fault",
		Edits: []Edit{{sender, "\t\tif count[rs[i].Topic] == 1 {\n", "\t\tif count[rs[i].Topic] >= 1 {\n"}},
		Test:  Test{Package: "internal/wire", Name: "TestSenderFindsTheRecordAtFault"}, Invariant: "I6",
	},
	{
		Name: "refused-part-goes-behind", Rules: []string{"R34"},
		Off:   "what was refused together goes again after what had not been sent yet",
		Edits: []Edit{{sender, "left = append(refused, left[len(part):]...)", "left = append(slices.Clone(left[len(part):]), refused...)"}, {sender, "\t\"errors\"\n", "\t\"errors\"\n\t\"slices\"\n"}},
		Test:  Test{Package: "internal/wire", Name: "TestSenderSendsInParts"}, Invariant: "I4",
	},
	{
		Name: "copied-origin-believed", Rules: []string{"-"},
		Off:   "a letter's origin is what the headers of its record say, in whatever topic it was read",
		Edits: []Edit{{"dlq/letter.go", "l.Attempt > 0 && sameTopic(l.Origin, here)", "l.Attempt > 0"}},
		Test:  Test{Package: "dlq", Name: "TestCopiedHeadersAreNotBelieved"}, Invariant: "I4",
	},
	{
		Name: "repeat-of-other-bytes", Rules: []string{"-"},
		Off:   "two letters of one origin are repeats, whatever their bytes are",
		Edits: []Edit{{"dlq/read.go", "\tid.Content = content(l.Record)\n", ""}},
		Test:  Test{Package: "dlq", Name: "TestCopiedHeadersAreNotBelieved"}, Invariant: "I4",
	},
	{
		Name: "letter-inherits-its-time", Rules: []string{"-"},
		Off:   "a letter has its record's timestamp, though its topic does not take it",
		Edits: []Edit{{"dlq/takes.go", "if t.AppendTime || now.IsZero()", "if true || now.IsZero()"}},
		Test:  Test{Package: "dlq", Name: "TestLetterIsTaken"}, Invariant: "I4",
	},
	{
		Name: "breaker-begins-anew", Rules: []string{"-"},
		Off:   "a process that is started again does not count the letters of the one before",
		Edits: []Edit{{"internal/member/letter.go", "if w.m.firstOfPartition(w.own.Partition()) {", "if false {"}},
		Test:  Test{Package: "pipe", Name: "TestFloodIsOneOverRestarts"}, Invariant: "I6",
	},
	{
		Name: "breaker-counts-repeats", Rules: []string{"-"},
		Off:   "a record whose letter an earlier run wrote counts once more when it comes again",
		Edits: []Edit{{"internal/member/letter.go", "if w.m.recalledLetter(w.own.Partition(), r.Offset) {", "if false {"}},
		Test:  Test{Package: "pipe", Name: "TestRepeatedLettersAreOneRecord"}, Invariant: "I6",
	},
	{
		Name: "breaker-recalls-repeats", Rules: []string{"-"},
		Off:   "each letter that an earlier run wrote of one record counts",
		Edits: []Edit{{"internal/member/letter.go", "\t\t\tseen[at.Offset] {\n", "\t\t\tfalse {\n"}},
		Test:  Test{Package: "pipe", Name: "TestRepeatedLettersAreOneRecord"}, Invariant: "I6",
	},
	{
		Name: "decision-asked-for-again", Rules: []string{"-"},
		Off:   "a policy whose letter was refused is asked about the record once more",
		Edits: []Edit{{"internal/member/policy.go", "if w.m.letterWithout(w.own.Partition(), failure.Record.Offset) > dlq.Nothing &&", "if false &&"}},
		Test:  Test{Package: "internal/member", Name: "TestDecisionStandsOverARefusedLetter"}, Invariant: "I4",
	},
	{
		Name: "refused-letter-is-a-failure", Rules: []string{"-"},
		Off:   "the attempt rises where a letter was refused and the record failed once",
		Edits: []Edit{{"internal/member/letter.go", "\t\tn.failures--\n", "\t\tn.failures -= 0\n"}},
		Test:  Test{Package: "internal/member", Name: "TestDecisionStandsOverARefusedLetter"}, Invariant: "I4",
	},
	{
		Name: "flood-returns-at-once", Rules: []string{"-"},
		Off:   "after too many dead letters Run returns at once, to be started again",
		Edits: []Edit{{"internal/job/job.go", "\tif errors.Is(err, stream.ErrFlood) {", "\tif errors.Is(err, stream.ErrFlood) && false {"}},
		Test:  Test{Package: "pipe", Name: "TestFloodHoldsBackTheEnd"}, Invariant: "I6",
	},
}
