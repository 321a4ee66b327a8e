package lint

import (
	"fmt"
	"go/ast"
	"path"
	"slices"
	"strconv"
	"strings"
)

// allowance says what the non-test files of a package may import beside the standard library.
type allowance struct {
	dir    string   // "x/..." is x and everything below it
	ours   []string // directories of this repository; "..." for all
	theirs []string // prefixes of import paths; "..." for all
}

const (
	franz = "github.com/twmb/franz-go"
	kfake = franz + "/pkg/kfake"
)

var (
	wireOurs   = []string{"stream", "kafka", "internal/rule", "internal/visible", "internal/intake"}
	fenceOurs  = append(slices.Clone(wireOurs), "internal/wire", "internal/pace")
	memberOurs = append(slices.Clone(fenceOurs), "fence", "snapshot", "dlq", "internal/engine")
	jobOurs    = append(slices.Clone(memberOurs), "internal/member", "internal/preflight", "claim")
	rootOurs   = append(slices.Clone(jobOurs), "internal/job", "codec")
	pipeOurs   = append(slices.Clone(rootOurs), ".")
	userOurs   = []string{".", "stream", "kafka", "codec", "claim", "fence", "snapshot", "dlq", "pipe", "devbroker", "holdfasttest", "prom"}
	client     = []string{franz}
)

// allowed is the direction of imports: each package names those below it. devbroker, kfake and the
// test kits are in nobody's list but the command's and the examples'.
var allowed = []allowance{
	{dir: "stream", ours: []string{"internal/visible"}},
	{dir: "internal/visible"},
	{dir: "codec"},
	{dir: "internal/rule"},
	{dir: "internal/pace"},
	{dir: "claim", ours: []string{"stream"}},
	{dir: "internal/engine", ours: []string{"stream"}},
	{dir: "internal/intake", theirs: client},
	{dir: "kafka", ours: []string{"stream", "internal/visible", "internal/intake"}, theirs: client},
	{dir: "internal/wire", ours: wireOurs, theirs: client},
	{dir: "fence", ours: fenceOurs, theirs: client},
	{dir: "snapshot", ours: fenceOurs, theirs: client},
	{dir: "dlq", ours: fenceOurs, theirs: client},
	{dir: "internal/preflight", ours: append(slices.Clone(fenceOurs), "fence", "snapshot", "claim", "dlq"), theirs: client},
	{dir: "internal/member", ours: memberOurs, theirs: client},
	{dir: "internal/job", ours: jobOurs, theirs: client},
	{dir: ".", ours: rootOurs, theirs: client},
	{dir: "pipe", ours: pipeOurs, theirs: client},
	{dir: "holdfasttest", ours: append(slices.Clone(pipeOurs), "pipe", "devbroker"), theirs: client},
	{dir: "devbroker", ours: []string{"stream", "kafka", "internal/wire"}, theirs: []string{franz, kfake}},
	{dir: "internal/kafkatest", ours: []string{"stream", "kafka"}, theirs: client},
	{dir: "internal/wiretap", ours: []string{"stream", "kafka"}, theirs: client},
	{dir: "internal/kafkatest/fetch", ours: []string{"internal/kafkatest"}},
	{dir: "internal/kafkatest/copier", ours: []string{"internal/kafkatest"}},
	{
		dir:    "internal/trial",
		ours:   append(slices.Clone(pipeOurs), "pipe", "holdfasttest", "internal/kafkatest", "internal/kafkatest/copier", "internal/wiretap"),
		theirs: client,
	},
	{dir: "internal/crash", ours: []string{"internal/wiretap"}, theirs: client},
	{dir: "internal/accidents"},
	{dir: "internal/attack"},
	{dir: "internal/fieldcases"},
	{dir: "internal/hooklog", ours: []string{"stream"}},
	{dir: "internal/acceptance"},
	{dir: "internal/eos"},
	{dir: "internal/outputs"},
	{dir: "internal/virtual"},
	{dir: "internal/matrix"},
	{dir: "internal/soak"},
	{dir: "internal/protocols"},
	{dir: "internal/limits"},
	{dir: "internal/acceptance/run"},
	{dir: "internal/planted", ours: []string{"internal/rule"}},
	{dir: "internal/planted/run", ours: []string{"internal/planted"}},
	{dir: "internal/planted/demo", ours: userOurs, theirs: client},
	{dir: "internal/sweep"},
	{dir: "internal/sweep/run", ours: []string{"internal/sweep"}},
	{dir: "internal/lint", ours: []string{"claim"}},
	{dir: "model"},
	{dir: "prom", ours: []string{".", "stream"}, theirs: []string{"github.com/prometheus/client_golang"}},
	{dir: "examples/...", ours: userOurs, theirs: client},
	{dir: "cmd/...", ours: []string{"..."}, theirs: []string{"..."}},
	{dir: "bench/...", ours: []string{"..."}, theirs: []string{"..."}},
}

func allowanceOf(dir string) (allowance, bool) {
	for _, a := range allowed {
		below, tree := strings.CutSuffix(a.dir, "/...")
		if a.dir == dir || tree && (dir == below || strings.HasPrefix(dir, below+"/")) {
			return a, true
		}
	}
	return allowance{}, false
}

func (a allowance) permits(imported string) bool {
	first, _, _ := strings.Cut(imported, "/")
	if !strings.Contains(first, ".") {
		return true // the standard library
	}
	if rest, ok := strings.CutPrefix(imported, Module); ok && (rest == "" || rest[0] == '/') {
		dir := path.Clean(strings.TrimPrefix(rest, "/"))
		return slices.Contains(a.ours, dir) || slices.Contains(a.ours, "...")
	}
	for _, prefix := range a.theirs {
		if prefix == "..." || imported == prefix {
			return true
		}
		// kfake is allowed by its own name only: the client's family does not bring it along.
		if strings.HasPrefix(imported, prefix+"/") && (imported != kfake || prefix == kfake) {
			return true
		}
	}
	return false
}

func checkImports(t *Tree) []Finding {
	var out []Finding
	for _, f := range t.sources() {
		a, ok := allowanceOf(f.Dir())
		if !ok {
			out = append(out, Finding{f.Path, 0, "package is not in the table of allowed imports of internal/lint"})
			continue
		}
		for _, spec := range f.AST.Imports {
			imported, err := strconv.Unquote(spec.Path.Value)
			if err != nil || !a.permits(imported) {
				out = append(out, Finding{f.Path, t.line(spec), fmt.Sprintf("package %s may not import %s", f.Dir(), imported)})
			}
		}
	}
	return out
}

// impure are the imports and calls that a pure state machine does without.
var (
	impureImports = []string{"io", "log", "log/slog", "math/rand", "math/rand/v2", "net", "os", "sync", "sync/atomic"}
	impureTime    = []string{"Now", "Since", "Until", "Sleep", "After", "AfterFunc", "NewTimer", "NewTicker", "Tick"}
)

// checkPurity keeps clock, goroutines, channels, locks, I/O and logging out of internal/engine: what it
// does depends on its inputs alone, so that a run can be replayed.
func checkPurity(t *Tree) []Finding {
	var out []Finding
	for _, f := range t.sources() {
		if f.Dir() != "internal/engine" {
			continue
		}
		bad := func(n ast.Node, what string) {
			out = append(out, Finding{f.Path, t.line(n), "the engine is pure and may not use " + what})
		}
		ast.Inspect(f.AST, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.ImportSpec:
				if name, _ := strconv.Unquote(n.Path.Value); slices.Contains(impureImports, name) {
					bad(n, name)
				}
			case *ast.GoStmt:
				bad(n, "a goroutine")
			case *ast.ChanType:
				bad(n, "a channel")
			case *ast.SelectorExpr:
				if x, ok := n.X.(*ast.Ident); ok && x.Name == "time" && slices.Contains(impureTime, n.Sel.Name) {
					bad(n, "time."+n.Sel.Name)
				}
			}
			return true
		})
	}
	return out
}

// indirect are the modules that franz-go itself requires.
var indirect = []string{"github.com/klauspost/compress", "github.com/pierrec/lz4/v4", "golang.org/x/crypto"}

// checkRootModule keeps the root module's requirements to franz-go's family and what that requires.
func checkRootModule(t *Tree) []Finding {
	var out []Finding
	for i, line := range strings.Split(t.Texts["go.mod"], "\n") {
		fields := strings.Fields(strings.TrimPrefix(strings.TrimSpace(line), "require "))
		if len(fields) < 2 || !strings.Contains(fields[0], ".") || !strings.HasPrefix(fields[1], "v") {
			continue
		}
		family := fields[0] == franz || strings.HasPrefix(fields[0], franz+"/")
		if !family && !(slices.Contains(indirect, fields[0]) && strings.Contains(line, "// indirect")) {
			out = append(out, Finding{"go.mod", i + 1, "the root module requires franz-go's family only, not " + fields[0]})
		}
	}
	return out
}
