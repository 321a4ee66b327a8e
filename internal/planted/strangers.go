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
}
