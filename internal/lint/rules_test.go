package lint

import (
	"cmp"
	"fmt"
	"maps"
	"strings"
	"testing"
	"testing/fstest"
)

// good is a small tree that breaks no rule.
func good() map[string]string {
	return map[string]string{
		"go.mod":                            "module x\n\nrequire (\n\tgithub.com/twmb/franz-go v1.22.3\n\tgithub.com/klauspost/compress v1.20.3 // indirect\n)\n",
		"flow.go":                           pkg + "\nimport \"" + Module + "/stream\"\n\nvar _ stream.Record\n\n// Flow is a flow.\ntype Flow struct{}\n\n// Run runs.\nfunc (f *Flow) Run() {}\n",
		"stream/record.go":                  pkg + "\nimport \"fmt\"\n\nvar _ fmt.Stringer\n",
		"internal/engine/step.go":           pkg + "\nimport \"time\"\n\nvar _ time.Duration\n",
		"internal/engine/step_test.go":      "package p\n\nimport \"testing\"\n\nfunc TestStep(t *testing.T) {}\n",
		"devbroker/broker.go":               pkg + "\nimport _ \"" + kfake + "\"\n",
		"examples/ledger/main.go":           "// Command p is one.\npackage main\n\nfunc main() {}\n",
		"examples/ledger/testdata/bad.go":   "not Go",
		"examples/ledger/testdata/data.bin": "\x00",
		readmeOutput:                        "a 1\n",
		"README.md": "# x\n`make demo`, `make test`, [docs](docs/concepts.md#words)\n```go\n// Command p is one.\npackage main\n\nfunc main() {}\n```\n```\na 1\n```\n" +
			"\nNot \"exactly-once\", but exactly-once\ninside Kafka. `flow.go:Flow.Run`, `stream/record.go`, `TestStep`\n\n" + strings.Join(claims(), "\n"),
		"docs/concepts.md":   "# concepts\n" + strings.Join(furtherClaims(), "\n"),
		architectureFile:     "| Step | File | Function |\n|---|---|---|\n| 1 | `flow.go` | `Flow.Run` |\n",
		acceptanceFile:       "| source test | ours |\n|---|---|\n| x | `TestStep/case` |\n",
		operationsFile:       operations,
		fieldCasesFile:       fieldCases,
		"fence/case_test.go": "package p\n\nimport \"testing\"\n\n// It holds. Public\n// cases A1, A2.\nfunc TestCase(t *testing.T) {}\n",
		"fence/log.go":       logging,
		"CHANGELOG.md":       "## [Unreleased]\n",
		"Makefile":           "demo: build\n\ttrue\ntest:\n\ttrue\n",
		".git/config":        "/ho" + "me/\n",
	}
}

// The list of public cases: two that a test shows, one that is the same as one of them, and the others.
var fieldCases = func() string {
	text := fmt.Sprintf("| Cases | Number |\n|---|---|\n| tested | 2 |\n| needs local disk store | 0 |\n| needs joins or windows | 0 |\n"+
		"| another client's defect | 0 |\n| same as case X | 1 |\n| not our product | %d |\n| all | %d |\n\n"+
		"| Case | What went wrong | Reported | Shown by, or why not |\n|---|---|---|---|\n", len(caseIDs)-3, len(caseIDs))
	answers := map[string]string{"A1": "`fence`: `TestCase`", "A2": "`fence`: `TestCase`", "A3": "same as case A1"}
	for _, id := range caseIDs {
		text += fmt.Sprintf("| %s | it broke | a/b | %s |\n", id, cmp.Or(answers[id], "not our product (no such part)"))
	}
	return text
}()

// A log line whose message has an explanation behind a colon, and the row of it.
const (
	logging = pkg + "\nfunc f(c T) {\n\tlog := c.Logger.With(\"partition\", 1)\n\tlog.Warn(\"it waits: \"+\n\t\t\"for long\", \"since\", 2)\n\tlog.Info(\"it goes on\")\n}\n"

	operations = "| Message | Level | Fields | Do |\n|---|---|---|---|\n| `it waits` | WARN | `since`, `partition` | wait |\n"
)

func load(t *testing.T, files map[string]string) *Tree {
	t.Helper()
	fsys := fstest.MapFS{}
	for name, text := range files {
		fsys[name] = &fstest.MapFile{Data: []byte(text)}
	}
	tree, err := Load(fsys)
	if err != nil {
		t.Fatal(err)
	}
	return tree
}

func TestGoodTreeBreaksNoRule(t *testing.T) {
	t.Parallel()
	tree := load(t, good())
	for _, r := range Rules() {
		for _, f := range r.Check(tree) {
			t.Errorf("%s: %s", r.Name, f)
		}
	}
}

// pkg begins a package that has its comment.
const pkg = "// Package p is a package.\npackage p\n"

var long = strings.Repeat("\t_ = 0\n", functionLines)

// badTrees are the good tree with one file changed, and what the rule that is meant for it says.
var badTrees = []struct {
	rule, name, file, text string // text "" removes the file
	want                   string
}{
	{"imports", "wrong direction", "stream/up.go", pkg + "import _ \"" + Module + "/kafka\"\n", "stream may not import"},
	{"imports", "root from below", "fence/up.go", pkg + "import _ \"" + Module + "\"\n", "fence may not import"},
	{"imports", "embedded broker in production", "member.go", pkg + "import _ \"" + kfake + "\"\n", "may not import"},
	{"imports", "devbroker in production", "broker.go", pkg + "import _ \"" + Module + "/devbroker\"\n", "may not import"},
	{"imports", "internal from an example", "examples/a/a.go", pkg + "import _ \"" + Module + "/internal/engine\"\n", "may not import"},
	{"imports", "foreign module", "codec/p.go", pkg + "import _ \"google.golang.org/protobuf/proto\"\n", "may not import"},
	{"imports", "unknown package", "util/p.go", pkg, "not in the table"},
	{"engine is pure", "lock", "internal/engine/a.go", pkg + "import _ \"sync\"\n", "sync"},
	{"engine is pure", "clock", "internal/engine/a.go", pkg + "import \"time\"\nvar at = time.Now()\n", "time.Now"},
	{"engine is pure", "goroutine", "internal/engine/a.go", pkg + "func f() { go f() }\n", "goroutine"},
	{"engine is pure", "channel", "internal/engine/a.go", pkg + "var c chan int\n", "channel"},
	{"root module", "direct", "go.mod", "module x\nrequire github.com/stretchr/testify v1.9.0\n", "testify"},
	{"root module", "not indirect", "go.mod", "module x\nrequire github.com/klauspost/compress v1.0.0\n", "compress"},
	{"sizes", "function", "long.go", pkg + "func f() {\n" + long + "}\n", "function f has"},
	{"sizes", "test function", "long_test.go", "package p\nfunc f() {\n" + long + "}\n", "function f has"},
	{"sizes", "file", "long.go", pkg + strings.Repeat("\n", fileLines), "file has"},
	{"sleeps", "sleep", "a.go", pkg + "import \"time\"\nfunc f() { time.Sleep(1) }\n", "time.Sleep"},
	{"doc comments", "function", "a.go", pkg + "func F() {}\n", "F is exported"},
	{"doc comments", "method", "a.go", pkg + "func (f *Flow) Stop() {}\n", "Stop is exported"},
	{"doc comments", "generic method", "a.go", pkg + "func (f *Gen[S]) Stop() {}\n", "Stop is exported"},
	{"doc comments", "type", "a.go", pkg + "type T int\n", "T is exported"},
	{"doc comments", "value", "a.go", pkg + "const (\n\ta = 1\n\tB = 2\n)\n", "B is exported"},
	{"doc comments", "package", "stream/record.go", "package p\n", "no package comment"},
	{"words", "unfinished work", "a.go", pkg + "// TO" + "DO: later.\n", "TO" + "DO"},
	{"words", "path of a machine", "docs/a.md", "see /wo" + "rk/main\n", "/wo" + "rk/"},
	{"words", "tracker", "docs/a.md", "as in iss" + "ue #3\n", "#3"},
	{"words", "registry", "run.sh", "https://registry." + "npmjs.org\n", "npmjs"},
	{"slogan", "document", "docs/a.md", "It is exactly-once.\n", "slogan"},
	{"slogan", "over a line break", "docs/a.md", "It is Exactly\nonce.\n", "slogan"},
	{"slogan", "comment", "a.go", pkg + "\n// f is exactly once.\nfunc f() {}\n", "slogan"},
	{"architecture", "missing", architectureFile, "", "missing"},
	{"architecture", "no table", architectureFile, "# a\n", "no table"},
	{"architecture", "no such file", architectureFile, "| File | Function |\n|---|---|\n| `gone.go` | `f` |\n", "gone.go"},
	{"architecture", "no such function", architectureFile, "| File | Function |\n|---|---|\n| `flow.go` | `Flow.Walk` |\n", "Flow.Walk"},
	{"architecture", "nothing named", architectureFile, "| File | Function |\n|---|---|\n| flow | `Flow.Run` |\n", "no file"},
	{"acceptance", "missing", acceptanceFile, "", "missing"},
	{"acceptance", "no table", acceptanceFile, "# a\n", "no table"},
	{"acceptance", "no such test", acceptanceFile, "| source test | ours |\n|---|---|\n| x | `TestGone` |\n", "TestGone"},
	{"acceptance", "no test named", acceptanceFile, "| source test | ours |\n|---|---|\n| x | later |\n", "no test of ours"},
	{"field cases", "missing", fieldCasesFile, "", "missing"},
	{"field cases", "case missing", fieldCasesFile, strings.Replace(fieldCases, "| N8 |", "| N7 |", 1), "N8 is missing"},
	{"field cases", "case twice", fieldCasesFile, strings.Replace(fieldCases, "| N8 |", "| N7 |", 1), "N7 is there twice"},
	{"field cases", "no such test", fieldCasesFile, strings.Replace(fieldCases, "`TestCase`", "`TestStep`", 1), "no test fence TestStep"},
	{"field cases", "test of another case", fieldCasesFile, strings.Replace(fieldCases, "| A4 | it broke | a/b | not our product (no such part)", "| A4 | it broke | a/b | `fence`: `TestCase`", 1), "does not name public case A4"},
	{"field cases", "test is left out", "fence/other_test.go", "package p\n\nimport \"testing\"\n\n// Public case A4.\nfunc TestOther(t *testing.T) {}\n", "case A4 does not name fence TestOther"},
	{"field cases", "no reason", fieldCasesFile, strings.Replace(fieldCases, "not our product (", "later (", 1), "neither a test"},
	{"field cases", "same as none", fieldCasesFile, strings.Replace(fieldCases, "same as case A1", "same as case A9", 1), "no answer of its own"},
	{"field cases", "wrong total", fieldCasesFile, strings.Replace(fieldCases, "| tested | 2 |", "| tested | 3 |", 1), "the number of"},
	{"field cases", "no reference", fieldCasesFile, strings.Replace(fieldCases, "| a/b |", "| |", 1), "where that was reported"},
	{"log lines", "missing", operationsFile, "", "missing"},
	{"log lines", "no table", operationsFile, "# a\n", "no table"},
	{"log lines", "no such message", "fence/log.go", strings.Replace(logging, "it waits", "it rests", 1), "nothing logs"},
	{"log lines", "not at this level", "fence/log.go", strings.Replace(logging, "Warn", "Info", 1), "nothing logs"},
	{"log lines", "no such field", "fence/log.go", strings.Replace(logging, "since", "at", 1), "does not log a field since"},
	{"log lines", "no such carried field", "fence/log.go", strings.Replace(logging, "partition", "at", 1), "does not log a field partition"},
	{"log lines", "not in the table", "pipe/p.go", strings.Replace(logging, "it waits", "it rests", 1), "not in the table"},
	{"log lines", "made up as it runs", "pipe/p.go", strings.Replace(logging, "\"it waits: \"", "c.S", 1), "is a constant"},
	{"log lines", "no message named", operationsFile, strings.ReplaceAll(operations, "`it waits`", "it waits"), "does not name one message"},
	{"names in documents", "function", "docs/a.md", "`flow.go:Gone`\n", "Gone"},
	{"names in documents", "file", "docs/a.md", "`stream/gone.go`\n", "stream/gone.go"},
	{"names in documents", "test", "docs/a.md", "`TestGone`\n", "TestGone"},
	{"make targets", "span", "docs/a.md", "Run `make coffee`.\n", "coffee"},
	{"make targets", "block", "docs/a.md", "```\nmake coffee\n```\n", "coffee"},
	{"links", "file", "docs/a.md", "[a](gone.md)\n", "gone.md"},
	{"readme", "missing", readmeFile, "", "missing"},
	{"readme", "no command", readmeFile, "# x\n", "make demo"},
	{"readme", "other program", readmeFile, "```go\nfunc main() { panic(1) }\n```\n", "not that of an example"},
	{"readme", "other claims", readmeFile, "| topic → state | it is good |\n", "claims"},
	{"readme", "no crash", readmeFile, "# x\n" + claims()[0], "the process or its host ends"},
	{"readme", "no boundary", readmeFile, "# x\n" + claims()[0], "one Kafka cluster"},
	{"readme", "no program", readmeFile, "# x\n", "no program"},
	{"readme", "other output", readmeOutput, "b 2\n", "does not show"},
	{"concepts", "missing", conceptsFile, "", "missing"},
	{"concepts", "other claims", conceptsFile, "# x\n", "reject → dead-letter topic"},
	{"concepts", "no crash", conceptsFile, "# x\n" + furtherClaims()[0], "the process or its host ends"},
	{"changelog", "no section", "CHANGELOG.md", "## 1.0\n", "Unreleased"},
}

// TestEveryRuleCanFail gives every bad tree to its rule. A rule without one fails as well.
func TestEveryRuleCanFail(t *testing.T) {
	t.Parallel()
	rules, covered := map[string]Rule{}, map[string]bool{}
	for _, r := range Rules() {
		rules[r.Name] = r
	}
	for _, tc := range badTrees {
		covered[tc.rule] = true
		t.Run(tc.rule+"/"+tc.name, func(t *testing.T) {
			t.Parallel()
			files := maps.Clone(good())
			files[tc.file] = tc.text
			if tc.text == "" {
				delete(files, tc.file)
			}
			var all strings.Builder
			for _, f := range rules[tc.rule].Check(load(t, files)) {
				all.WriteString(f.String() + "\n")
			}
			if !strings.Contains(all.String(), tc.want) {
				t.Errorf("findings %q, want one with %q", all.String(), tc.want)
			}
		})
	}
	for name := range rules {
		if !covered[name] {
			t.Errorf("rule %q has no case that it refuses", name)
		}
	}
}
