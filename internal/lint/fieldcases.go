package lint

import (
	"fmt"
	"go/ast"
	"regexp"
	"slices"
	"strings"
)

const fieldCasesFile = "docs/field-cases.md"

// caseIDs are the public cases, each of which docs/field-cases.md has once. Numbers that are missing were
// given up before the list was made.
var caseIDs = strings.Fields("A1 A2 A3 A4 A5 A6 A7 A10 A11 A12 B1 B2 B3 B4 B5 B6 B7 B9 B10 B11 B12 B13 B15 B16 B18 " +
	"C1 C2 C3 C4 C5 C6 C7 C8 C9 C11 C12 C14 C15 D1 D2 D3 D5 D6 D8 D9 D11 D12 D13 D14 D15 E1 E2 E3 E4 E6 E7 E8 E10 E11 E12 E13 E14 E15 " +
	"F1 F2 F3 F4 F5 G1 G2 G3 G5 G6 G7 G8 G9 G11 H1 H2 H5 H6 H7 H8 H9 J1 J2 J4 J5 J6 J8 K1 K2 N1 N2 N3 N4 N5 N6 N7 N8")

const sameCase = "same as case"

// caseReasons are the only ones for which a case has no test.
var caseReasons = []string{"needs local disk store", "needs joins or windows", "another client's defect", sameCase, "not our product"}

var (
	publicCases = regexp.MustCompile(`Public\s+cases?\s+([A-Z]\d+(?:,\s+[A-Z]\d+)*)`)
	caseID      = regexp.MustCompile(`[A-Z]\d+`)
)

// shownCases returns the cases that the comment of each test names, by "directory TestName".
func shownCases(t *Tree) map[string][]string {
	out := map[string][]string{}
	for _, f := range t.Go {
		if !f.Test {
			continue
		}
		for _, d := range f.AST.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || fn.Recv != nil || !strings.HasPrefix(fn.Name.Name, "Test") {
				continue
			}
			name := f.Dir() + " " + fn.Name.Name
			out[name] = nil
			for _, m := range publicCases.FindAllStringSubmatch(fn.Doc.Text(), -1) {
				out[name] = append(out[name], caseID.FindAllString(m[1], -1)...)
			}
		}
	}
	return out
}

// checkFieldCases compares the list of public cases with the tests: every case is there once, with tests
// that exist and say so, or with a reason; every test that names a case is in its row; the totals are right.
func checkFieldCases(t *Tree) []Finding {
	text, ok := t.Texts[fieldCasesFile]
	if !ok {
		return []Finding{{fieldCasesFile, 0, "is missing"}}
	}
	c := caseList{shown: shownCases(t), seen: map[string]string{}, tests: map[string][]string{}, totals: map[string]int{}}
	told := map[string]string{}
	for _, r := range rows(text) {
		if id, ok := r.cells["case"]; ok {
			c.row(r, id)
		} else if n, ok := r.cells["number"]; ok {
			told[r.cells["cases"]] = n
		}
	}
	for _, id := range caseIDs {
		if _, ok := c.seen[id]; !ok {
			c.bad(0, "case %s is missing", id)
		}
	}
	for id, reason := range c.seen {
		if other, ok := strings.CutPrefix(reason, sameCase+" "); ok {
			if _, ok := c.seen[other]; !ok || strings.HasPrefix(c.seen[other], sameCase) {
				c.bad(0, "case %s is the same as %s, which has no answer of its own", id, other)
			}
		}
	}
	for name, ids := range c.shown {
		for _, id := range ids {
			if !slices.Contains(c.tests[id], name) {
				c.bad(0, "the row of case %s does not name %s, whose comment names the case", id, name)
			}
		}
	}
	for _, kind := range append([]string{"tested", "all"}, caseReasons...) {
		want := fmt.Sprint(c.totals[kind])
		label := kind
		if kind == sameCase {
			label += " X"
		}
		if told[label] != want {
			c.bad(0, "the number of %q is %s, and the table says %q", label, want, told[label])
		}
	}
	return c.found
}

// caseList is what the rows of the document come to.
type caseList struct {
	shown  map[string][]string
	seen   map[string]string   // the answer by case, "" if it has tests
	tests  map[string][]string // by case, as in shown
	totals map[string]int
	found  []Finding
}

func (c *caseList) bad(line int, format string, args ...any) {
	c.found = append(c.found, Finding{fieldCasesFile, line, fmt.Sprintf(format, args...)})
}

func (c *caseList) row(r row, id string) {
	answer := r.cells["shown by, or why not"]
	if _, ok := c.seen[id]; ok || !slices.Contains(caseIDs, id) {
		c.bad(r.line, "case %s is there twice, or is none", id)
		return
	}
	if r.cells["what went wrong"] == "" || r.cells["reported"] == "" {
		c.bad(r.line, "case %s does not say what went wrong and where that was reported", id)
	}
	c.totals["all"]++
	named := spans(answer)
	if len(named) == 0 {
		c.seen[id] = c.reason(r.line, id, answer)
		return
	}
	c.seen[id] = ""
	c.totals["tested"]++
	for i := 0; i+1 < len(named); i += 2 {
		name := named[i] + " " + named[i+1]
		c.tests[id] = append(c.tests[id], name)
		if ids, ok := c.shown[name]; !ok {
			c.bad(r.line, "there is no test %s", name)
		} else if !slices.Contains(ids, id) {
			c.bad(r.line, "the comment of %s does not name public case %s", name, id)
		}
	}
	if len(named)%2 != 0 {
		c.bad(r.line, "case %s: tests are given as directory and name", id)
	}
}

// reason counts the reason why a case has no test.
func (c *caseList) reason(line int, id, answer string) string {
	plain, _, _ := strings.Cut(answer, " (")
	for _, reason := range caseReasons {
		if plain == reason || reason == sameCase && strings.HasPrefix(plain, sameCase+" ") {
			c.totals[reason]++
			return plain
		}
	}
	c.bad(line, "case %s has neither a test nor one of the reasons", id)
	return plain
}
