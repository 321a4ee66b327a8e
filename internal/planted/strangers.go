package planted

// What strangers write is shown and not obeyed, and what is secret or others' is kept from them.
var strangerBugs = []Bug{
	{
		Name: "output-as-strangers-wrote-it", Rules: []string{"-"},
		Off:   "the command prints what it was given, as the only thing between a record and a terminal",
		Edits: []Edit{{"internal/visible/writer.go", "\t\twrite(&b, r, n, s[0], \"\\n\\t\")\n", "\t\twrite(&b, r, n, s[0], s[:n])\n"}},
		Test:  Test{Package: "cmd/holdfast", Name: "TestNothingOfAStrangerIsObeyed"}, Invariant: "I6",
	},
	{
		Name: "line-of-a-broker", Rules: []string{"-"},
		Off:   "a line break in a broker's words begins a line of the command",
		Edits: []Edit{{"cmd/holdfast/exit.go", "strings.TrimRight(visible.Lines(text), \"\\n\"), \"\\n\", \"\\n  \")", "strings.TrimRight(visible.Lines(text), \"\\n\"), \"\\n\", \"\\n\")"}},
		Test:  Test{Package: "cmd/holdfast", Name: "TestErrorsOfStrangersAreEscaped/bare"}, Invariant: "I6",
	},
	{
		Name: "brokers-words-in-an-error", Rules: []string{"-"},
		Off:   "an error has a broker's words as they came",
		Edits: []Edit{{"stream/errors.go", "strings.Cut(visible.Lines(fmt.Sprint(e.Err)), StackMark)", "strings.Cut(fmt.Sprint(e.Err), StackMark)"}},
		Test:  Test{Package: "cmd/holdfast", Name: "TestErrorsOfStrangersAreEscaped/hint"}, Invariant: "I6",
	},
	{
		Name: "log-as-strangers-wrote-it", Rules: []string{"-"},
		Off:   "texts in log fields go to the handler as they came",
		Edits: []Edit{{"internal/visible/handler.go", "a.Value = slog.StringValue(Lines(a.Value.String()))", "a.Value = slog.StringValue(a.Value.String())"}},
		Test:  Test{Package: "internal/visible", Name: "TestHandlerEscapesWhatALogHolds"}, Invariant: "I6",
	},
	{
		Name: "grant-on-every-flow", Rules: []string{"-"},
		Off:   "the rights that prove prints are on the ids of every flow",
		Edits: []Edit{{"cmd/holdfast/internal/prove/rights.go", "[]string{o.Prefix, writerIDs(o.Prefix)}", "[]string{o.Prefix, writerIDs(o.Prefix)[:len(\"holdfast-\")]}"}},
		Test:  Test{Package: "cmd/holdfast/internal/prove", Name: "TestGrantsAreOfTheExercisesAlone"}, Invariant: "I6",
	},
	{
		Name: "tap-open-to-all", Rules: []string{"-"},
		Off:   "a tap lets in whoever connects, and lends its own connection to a broker",
		Edits: []Edit{{"internal/wiretap/token.go", "return subtle.ConstantTimeCompare(said, []byte(p.token)) == 1 && ", "_ = subtle.ConstantTimeCompare\n\treturn "}},
		Test:  Test{Package: "internal/wiretap", Name: "TestProxyIsClosedToStrangers"}, Invariant: "I6",
	},
	{
		Name: "broker-open-by-accident", Rules: []string{"-"},
		Off:   "the embedded broker listens for other machines, without a password and unasked",
		Edits: []Edit{{"cmd/holdfast/broker.go", "if !f.sasl && !f.anyone && !onlyHere(f.listen) {", "if !f.sasl && !f.anyone && !onlyHere(f.listen) && f.data != \"\" {"}},
		Test:  Test{Package: "cmd/holdfast", Name: "TestBrokerIsNotOpenedByAccident"}, Invariant: "I6",
	},
	{
		Name: "end-asks-one-after-the-other", Rules: []string{"-"},
		Off:   "the end of a follower has a limit for each partition",
		Edits: []Edit{{"cmd/holdfast/internal/tail/explain.go", "\t\tasking.Go(func() {", "\t\tctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), explainPatience)\n\t\tdefer cancel()\n\t\tasking.Wait()\n\t\tasking.Go(func() {"}},
		Test:  Test{Package: "cmd/holdfast/internal/tail", Name: "TestEndOfAFollowerIsBounded"}, Invariant: "I6",
	},
	{
		Name: "leaves-for-as-long-as-it-takes", Rules: []string{"-"},
		Off:   "the end of a member tries to tell the group for as long as the client tries any request",
		Edits: []Edit{{"fence/group.go", "\tg.leave(ctx)\n", ""}},
		Test:  Test{Package: "internal/virtual", Name: "TestEndWithSilentBrokers/idle", Tags: "synctests"}, Invariant: "I6",
	},
	{
		Name: "end-longer-than-orchestrators-wait", Rules: []string{"-"},
		Off:   "what was folded may take half the rebalance timeout at the end, 30 s by default",
		Edits: []Edit{{"internal/job/defaults.go", "min(preflight.RevokeDefault, ", "min(2*preflight.RevokeDefault, "}},
		Test:  Test{Package: "internal/virtual", Name: "TestEndWithSilentBrokers/with_something_to_commit", Tags: "synctests"}, Invariant: "I6",
	},
}
