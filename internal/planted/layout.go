package planted

// One group has one application, and an input one layout.
var layoutBugs = []Bug{
	{
		Name: "two-applications", Rules: []string{"R31"},
		Off:   "a member does not look whether another application is in its group before it begins a partition",
		Edits: []Edit{{"internal/member/application.go", "\tfor _, other := range others {\n\t\treturn w.located", "\tfor _, other := range others[:0] {\n\t\treturn w.located"}},
		Test:  Test{Package: "internal/member", Name: "TestTwoApplicationsInOneGroup"}, Invariant: "I2",
	},
	{
		Name: "silent-member", Rules: []string{"R31"},
		Off:   "a member does not tell its group which application it is",
		Edits: []Edit{{"fence/application.go", "wire.Application(t.told).Told(", "wire.Application{}.Told("}},
		Test:  Test{Package: "fence", Name: "TestOthers/Eager/another"}, Invariant: "I2",
	},
}
