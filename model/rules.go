package main

// Toggle says what a toggle of Rules stands for: the rule of docs/ARCHITECTURE.md that it is (a part of), and the
// function that keeps it, as "file:function" from the root of the repository. A test finds every function.
type Toggle struct {
	Name, Rule, Code string
}

// Toggles are all toggles, in the order of Rules.
var Toggles = []Toggle{
	{"R1", "R1", "fence/settle.go:attempt"},
	{"Fence", "R2", "fence/producer.go:bind"},
	{"R2Order", "R2", "fence/ownership.go:Token"},
	{"R2ID", "R2", "fence/group.go:takeStale"},
	{"R4", "R4", "fence/readback.go:retake"},
	{"R4Both", "R4", "fence/readback.go:compare"},
	{"R4Prog", "R4", "fence/readback.go:compare"},
	{"R4Drain", "R4", "fence/settle.go:again"},
	{"R4Bind", "R4", "fence/readback.go:retake"},
	{"R5Abort", "R5", "fence/settle.go:doubt"},
	{"R5Commit", "R5", "fence/settle.go:doubt"},
	{"R5Fold", "R5", "internal/member/worker.go:foldNext"},
	{"R6", "R6", "fence/settle.go:abort"},
	{"R7Wait", "R7", "fence/ownership.go:NextToken"},
	{"R7Bound", "R7", "fence/ownership.go:NextToken"},
	{"R7Gone", "R7", "fence/outcome.go:classify"},
	{"R9", "R9", "internal/engine/outcome.go:Aborted"},
	{"R10Off", "R10", "internal/engine/outcome.go:Refused"},
	{"R12Init", "R12", "fence/takeover.go:first"},
	{"R12Order", "R12", "internal/member/prepare.go:open"},
	{"R12HW", "R12", "snapshot/restore.go:capture"},
	{"R12Stab", "R12", "fence/takeover.go:stableOffset"},
	{"Table", "R12", "internal/member/start.go:decide"},
	{"R13", "R13", "internal/member/member.go:released"},
	{"R14Tag", "R14", "internal/member/member.go:dispatch"},
	{"R14Rise", "R14", "internal/engine/step.go:admit"},
	{"R17Two", "R17", "internal/engine/outcome.go:inFlight"},
	{"R17Min", "R17", "internal/engine/batch.go:committable"},
	{"R18", "R18", "internal/member/outputs.go:acked"},
	{"R20", "R20", "internal/engine/outcome.go:land"},
	{"R20Known", "R20", "internal/engine/outcome.go:exhume"},
	{"Sweep", "", ""}, // the broker's
	{"Retake", "R12", "fence/takeover.go:Retake"},
	{"Probe", "R4", "fence/ownership.go:MayInit"},
	{"Regrant", "R2", "fence/group.go:Renew"},
	{"R2Join", "R2", "fence/session.go:membershipEnded"},
	{"R23", "R23", "internal/member/prepare.go:beginNew"},
	{"R24", "R24", "fence/ending.go:endAll"},
	{"R25", "R25", "internal/engine/read.go:Read"},
	{"R25Both", "R25", "fence/settle.go:effects"},
	{"R26", "R26", "internal/member/head.go:headLost"},
	{"R27Known", "R27", "fence/slow.go:aged"},
	{"R27Off", "R27", "internal/engine/slow.go:takeOutputs"},
	{"R27Whole", "R27", "internal/engine/slow.go:Slow"},
	{"R30Restore", "R30", "internal/engine/load.go:RaiseIncarnation"},
	{"R30Again", "R30", "internal/engine/dropped.go:drop"},
	{"R30Next", "R30", "internal/engine/dropped.go:dropUnread"},
	{"R31", "R31", "internal/member/commit.go:commit"},
	{"R31After", "R31", "internal/member/layout.go:join"},
	{"R31Start", "R31", "internal/preflight/layout.go:layout"},
}
