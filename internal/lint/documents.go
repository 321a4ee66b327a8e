package lint

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/holdfast-go/holdfast/claim"
)

// The documents that have rules of their own.
const (
	architectureFile = "docs/ARCHITECTURE.md"
	acceptanceFile   = "docs/acceptance.md"
	conceptsFile     = "docs/concepts.md"
	readmeFile       = "README.md"
	readmeOutput     = "examples/ledger/testdata/output.txt"
	firstScreen      = 60 // lines
)

// row is one row of a Markdown table: its cells by the heading of their column, in lower case.
type row struct {
	line  int
	cells map[string]string
}

// rows returns the rows of all tables of a document.
func rows(text string) []row {
	var out []row
	var heads []string
	for i, line := range strings.Split(text, "\n") {
		line = strings.TrimSpace(line)
		if !strings.HasPrefix(line, "|") {
			heads = nil
			continue
		}
		cells := strings.Split(strings.Trim(strings.ReplaceAll(line, `\|`, "\x00"), "|"), "|")
		for i, c := range cells {
			cells[i] = strings.TrimSpace(strings.ReplaceAll(c, "\x00", "|"))
		}
		if heads == nil {
			heads = cells
			continue
		}
		if strings.Trim(line, "|-: ") == "" {
			continue
		}
		r := row{line: i + 1, cells: map[string]string{}}
		for n := range min(len(cells), len(heads)) {
			r.cells[strings.ToLower(heads[n])] = cells[n]
		}
		out = append(out, r)
	}
	return out
}

var (
	codeSpan   = regexp.MustCompile("`([^`\n]+)`")
	testName   = regexp.MustCompile(`\b(?:Test|Example|Fuzz|Benchmark)[A-Z_]\w*`)
	goPath     = regexp.MustCompile(`^[\w./-]+\.go$`)
	goFunction = regexp.MustCompile(`^([\w./-]+\.go):([\w.]+)$`)
)

func spans(text string) []string {
	var out []string
	for _, m := range codeSpan.FindAllStringSubmatch(text, -1) {
		out = append(out, m[1])
	}
	return out
}

func (t *Tree) file(name string) (GoFile, bool) {
	for _, f := range t.Go {
		if f.Path == name {
			return f, true
		}
	}
	return GoFile{}, false
}

// tests returns the names of all test functions of the tree.
func (t *Tree) tests() map[string]bool {
	out := map[string]bool{}
	for _, f := range t.Go {
		if f.Test {
			for _, name := range functions(f) {
				out[name] = true
			}
		}
	}
	return out
}

// checkArchitecture compares the walk of one record with the code: every row of a table that has the
// columns File and Function names files that are there and functions that these declare.
func checkArchitecture(t *Tree) []Finding {
	text, ok := t.Texts[architectureFile]
	if !ok {
		return []Finding{{architectureFile, 0, "is missing"}}
	}
	var out []Finding
	walked := 0
	for _, r := range rows(text) {
		files, fns := r.cells["file"], r.cells["function"]
		if _, ok := r.cells["function"]; !ok || files == "" && fns == "" {
			continue
		}
		walked++
		bad := func(format string, args ...any) {
			out = append(out, Finding{architectureFile, r.line, fmt.Sprintf(format, args...)})
		}
		var declared []string
		for _, name := range spans(files) {
			f, ok := t.file(name)
			if !ok {
				bad("there is no Go file %s", name)
			} else {
				declared = append(declared, functions(f)...)
			}
		}
		named := spans(fns)
		if len(spans(files)) == 0 || len(named) == 0 {
			bad("the row names no file or no function")
		}
		for _, fn := range named {
			if !slices.Contains(declared, fn) {
				bad("%s does not declare %s", files, fn)
			}
		}
	}
	if walked == 0 {
		out = append(out, Finding{architectureFile, 0, "has no table with the columns File and Function"})
	}
	return out
}

// checkAcceptance makes sure that each row of the acceptance table names tests, and that they exist.
func checkAcceptance(t *Tree) []Finding {
	text, ok := t.Texts[acceptanceFile]
	if !ok {
		return []Finding{{acceptanceFile, 0, "is missing"}}
	}
	var out []Finding
	tests, listed := t.tests(), 0
	for _, r := range rows(text) {
		for head, cell := range r.cells {
			if !strings.HasPrefix(head, "ours") {
				continue
			}
			listed++
			names := testName.FindAllString(cell, -1)
			if len(names) == 0 {
				out = append(out, Finding{acceptanceFile, r.line, "the row names no test of ours"})
			}
			for _, name := range names {
				if !tests[name] {
					out = append(out, Finding{acceptanceFile, r.line, "there is no test " + name})
				}
			}
		}
	}
	if listed == 0 {
		out = append(out, Finding{acceptanceFile, 0, `has no table with a column "ours"`})
	}
	return out
}

// checkNames makes sure that Go files, functions and tests that a document names in code exist.
func checkNames(t *Tree) []Finding {
	var out []Finding
	tests := t.tests()
	for _, doc := range t.documents() {
		for i, line := range strings.Split(t.Texts[doc], "\n") {
			for _, s := range spans(line) {
				if problem := t.nameProblem(s, tests); problem != "" {
					out = append(out, Finding{doc, i + 1, problem})
				}
			}
		}
	}
	return out
}

func (t *Tree) nameProblem(span string, tests map[string]bool) string {
	if m := goFunction.FindStringSubmatch(span); m != nil {
		f, ok := t.file(m[1])
		if !ok {
			return "there is no Go file " + m[1]
		}
		if !slices.Contains(functions(f), m[2]) {
			return m[1] + " does not declare " + m[2]
		}
		return ""
	}
	if goPath.MatchString(span) && strings.Contains(span, "/") && !t.Files[span] {
		return "there is no file " + span
	}
	if testName.FindString(span) == span && !tests[span] {
		return "there is no test " + span
	}
	return ""
}

var (
	makeTarget = regexp.MustCompile(`(?m)^([a-z][a-z0-9-]*):`)
	makeCall   = regexp.MustCompile(`\bmake ([a-z][a-z0-9-]*)`)
)

// code returns what a document sets as code, in spans and in fenced blocks, line by line.
func code(text string) map[int]string {
	out := map[int]string{}
	fenced := false
	for i, line := range strings.Split(text, "\n") {
		if strings.HasPrefix(strings.TrimSpace(line), "```") {
			fenced = !fenced
			continue
		}
		if fenced {
			out[i+1] = line
		} else {
			out[i+1] = strings.Join(spans(line), "\n")
		}
	}
	return out
}

// checkMakeTargets makes sure that every target a document tells to make is in the Makefile.
func checkMakeTargets(t *Tree) []Finding {
	targets := map[string]bool{}
	for _, m := range makeTarget.FindAllStringSubmatch(t.Texts["Makefile"], -1) {
		targets[m[1]] = true
	}
	var out []Finding
	for _, doc := range t.documents() {
		for line, text := range code(t.Texts[doc]) {
			for _, m := range makeCall.FindAllStringSubmatch(text, -1) {
				if !targets[m[1]] {
					out = append(out, Finding{doc, line, "the Makefile has no target " + m[1]})
				}
			}
		}
	}
	return out
}

var link = regexp.MustCompile(`\]\(([^)\s#]+)(?:#[^)\s]*)?\)`)

// checkLinks makes sure that links between the files of the repository lead somewhere.
func checkLinks(t *Tree) []Finding {
	var out []Finding
	for _, doc := range t.documents() {
		for i, line := range strings.Split(t.Texts[doc], "\n") {
			for _, m := range link.FindAllStringSubmatch(line, -1) {
				if strings.Contains(m[1], "://") || strings.HasPrefix(m[1], "mailto:") {
					continue
				}
				target := path.Join(path.Dir(doc), m[1])
				if !t.Files[target] && !t.directory(target) {
					out = append(out, Finding{doc, i + 1, "the link to " + m[1] + " leads nowhere"})
				}
			}
		}
	}
	return out
}

func (t *Tree) directory(name string) bool {
	for f := range t.Files {
		if strings.HasPrefix(f, name+"/") {
			return true
		}
	}
	return false
}

var goBlock = regexp.MustCompile("(?s)```go\n(.*?)```")

// checkReadme makes sure that the README begins with the two commands, and that the program and the
// output it shows are those of an example.
func checkReadme(t *Tree) []Finding {
	text, ok := t.Texts[readmeFile]
	if !ok {
		return []Finding{{readmeFile, 0, "is missing"}}
	}
	var out []Finding
	lines := strings.Split(text, "\n")
	first := strings.Join(lines[:min(len(lines), firstScreen)], "\n")
	for _, command := range []string{"make demo", "make test"} {
		if !strings.Contains(first, command) {
			out = append(out, Finding{readmeFile, 0, fmt.Sprintf("the first %d lines do not show %q", firstScreen, command)})
		}
	}
	programs := 0
	for _, m := range goBlock.FindAllStringSubmatch(text, -1) {
		if strings.Contains(m[1], "func main()") {
			programs++
			if !t.isExample(m[1]) {
				out = append(out, Finding{readmeFile, 0, "the program shown is not that of an example: copy it from examples/ledger/main.go"})
			}
		}
	}
	if programs == 0 {
		out = append(out, Finding{readmeFile, 0, "shows no program"})
	}
	for _, part := range claims() {
		if !strings.Contains(text, part) {
			out = append(out, Finding{readmeFile, 0, "does not show the claims of FencedState as package claim has them; missing: " + part})
		}
	}
	if output := strings.TrimSpace(t.Texts[readmeOutput]); output == "" || !strings.Contains(text, output) {
		out = append(out, Finding{readmeFile, 0, "does not show what the program prints, " + readmeOutput})
	}
	return out
}

// claims is what the README shows of what a fenced flow promises.
func claims() []string { return summary(claim.Flow(claim.FencedState, 2)) }

// furtherClaims is what the concepts show: what stands beside the README's, of flows and of pipes.
func furtherClaims() []string {
	flows := slices.Concat(claim.Flow(claim.FencedOutputs, 2), claim.DeadLetters(claim.ComponentFlow, claim.FencedOutputs, 2),
		claim.DeadLetters(claim.ComponentFlow, claim.FencedState, 2))
	pipes := slices.Concat(claim.Pipe(2), claim.DeadLetters(claim.ComponentPipe, "", 2))
	return append(summary(flows), summary(pipes)...)
}

// summary is how a document shows claims: a table, and below it once what its rows have in common, the
// crash and the parts of the boundary. In the cells they would hide the rest.
func summary(promised []claim.Claim) []string {
	inside := make([][]string, len(promised))
	var shared []string
	several := false
	for i, c := range promised {
		inside[i] = strings.Split(c.Boundary, "; ")
		if i == 0 {
			shared = slices.Clone(inside[i])
		}
		shared = slices.DeleteFunc(shared, func(part string) bool { return !slices.Contains(inside[i], part) })
		several = several || component(c) != component(promised[0])
	}
	columns := []string{"Hop", "Statement", "Inside, besides what every row has"}
	if several {
		columns = slices.Insert(columns, 1, "Component")
	}
	var table strings.Builder
	fmt.Fprintf(&table, "| %s |\n%s|\n", strings.Join(columns, " | "), strings.Repeat("|---", len(columns)))
	crashes := []string{}
	for i, c := range promised {
		own := slices.DeleteFunc(inside[i], func(part string) bool { return slices.Contains(shared, part) })
		cells := []string{c.Hop, c.Statement, strings.Join(own, "; ")}
		if several {
			cells = slices.Insert(cells, 1, component(c))
		}
		fmt.Fprintf(&table, "| %s |\n", strings.Join(cells, " | "))
		if !slices.Contains(crashes, c.Crash) {
			crashes = append(crashes, c.Crash)
		}
	}
	return append(append([]string{table.String()}, crashes...), strings.Join(shared, "; "))
}

func component(c claim.Claim) string {
	if c.Guarantee == "" {
		return c.Component
	}
	return c.Component + ", `" + c.Guarantee + "`"
}

// checkConcepts makes sure that the concepts show the claims that the README leaves out.
func checkConcepts(t *Tree) []Finding {
	text, ok := t.Texts[conceptsFile]
	if !ok {
		return []Finding{{conceptsFile, 0, "is missing"}}
	}
	var out []Finding
	for _, part := range furtherClaims() {
		if !strings.Contains(text, part) {
			out = append(out, Finding{conceptsFile, 0, "does not show the claims as package claim has them; missing: " + part})
		}
	}
	return out
}

func (t *Tree) isExample(program string) bool {
	for name, text := range t.Texts {
		if ok, _ := path.Match("examples/*/main.go", name); ok && strings.TrimSpace(text) == strings.TrimSpace(program) {
			return true
		}
	}
	return false
}

func checkChangelog(t *Tree) []Finding {
	for line := range strings.SplitSeq(t.Texts["CHANGELOG.md"], "\n") {
		if strings.HasPrefix(line, "## ") && strings.Contains(line, "Unreleased") {
			return nil
		}
	}
	return []Finding{{"CHANGELOG.md", 0, "has no section Unreleased"}}
}
