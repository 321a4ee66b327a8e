// Package planted has bugs to plant into Holdfast, and what must notice each of them. A bug is a change of
// the sources, made in an overlay of the build and never in the tree: a rule switched off, or a mistake
// that is known from systems of this kind. For each there is one test, by name, that fails with the
// invariant that the bug breaks, by name. Command run plants them one by one.
//
// A test that cannot fail proves nothing, and nobody sees it in a test that passes. Here each rule of
// docs/ARCHITECTURE.md is missing once.
package planted

import (
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/holdfast-go/holdfast/internal/rule"
)

// Edit replaces text of a file. Old must be there once: a bug whose place has changed is stale, and says
// so instead of planting something else.
type Edit struct {
	File     string // from the root of the repository
	Old, New string
}

// Test is the test that must notice a bug.
type Test struct {
	Package string // directory
	Name    string // with its subtest, as TestX/case
	Tags    string // of the build, "": none
}

// Bug is one bug.
type Bug struct {
	Name      string
	Rules     []string    // of docs/ARCHITECTURE.md that it switches off; "-": one without a number
	Mistake   string      // the mistake of other systems that it is; "" if it is a rule of ours alone
	Off       string      // what is switched off, or what is done instead
	Switches  []rule.Name // rules that are off everywhere
	Edits     []Edit
	Test      Test
	Invariant string // what a message of the failed test begins with
}

// Mistakes are those that systems of this kind are known to have made, or that a reviewer would try first.
var Mistakes = []string{
	"generation -1", "cached generation", "bound by the last stable offset", "non-stable offset fetch", "offsets before produce",
	"initialisation left out", "unknown taken as committed", "unknown taken as aborted, without a new initialisation", "EndTxn sent again",
	"in-memory state kept after an abort", "no consumer rewind after an abort", "offset ahead of one key in a group commit",
	"tail batch of a group commit dropped", "offset-only EndTxn does nothing", "auto-reset after truncation",
	"order of the abort list ignored", "teardown after the revoke returns", "snapshot tombstone dropped",
	"STALE_MEMBER_EPOCH classed as a retry", "deadline longer than max.poll.interval",
}

// All returns every bug.
func All() []Bug {
	return slices.Concat(transactionBugs, takeoverBugs, ownershipBugs, engineBugs, memberBugs, positionBugs, unfencedBugs, layoutBugs, answerBugs, slowBugs, bytesBugs, strangerBugs, intakeBugs)
}

// switchFile is where every rule is asked for, and asked the condition there.
const (
	switchFile = "internal/rule/rule.go"
	asked      = "return !off[n]"
)

// edits are those of b, with one for its switches.
func (b Bug) edits() []Edit {
	if len(b.Switches) == 0 {
		return b.Edits
	}
	condition := asked
	for _, s := range rule.Off(b.Switches...) {
		condition += fmt.Sprintf(" && n != %q", string(s))
	}
	return append(slices.Clone(b.Edits), Edit{File: switchFile, Old: asked, New: condition})
}

// Patch returns the files that b changes, as they are with it.
func (b Bug) Patch(tree fs.FS) (map[string]string, error) {
	patched := map[string]string{}
	for _, e := range b.edits() {
		text, ok := patched[e.File]
		if !ok {
			raw, err := fs.ReadFile(tree, path.Clean(e.File))
			if err != nil {
				return nil, fmt.Errorf("%s is stale: %w", b.Name, err)
			}
			text = string(raw)
		}
		if n := strings.Count(text, e.Old); n != 1 {
			return nil, fmt.Errorf("%s is stale: %s has the text that it replaces %d times, want once: %q", b.Name, e.File, n, e.Old)
		}
		patched[e.File] = strings.Replace(text, e.Old, e.New, 1)
	}
	return patched, nil
}

// Pattern is what go test -run selects the test by.
func (t Test) Pattern() string {
	parts := strings.Split(t.Name, "/")
	for i, p := range parts {
		parts[i] = "^" + regexp.QuoteMeta(p) + "$"
	}
	return strings.Join(parts, "/")
}

// Row is the bug as a row of the table in docs/reliability.md.
func (b Bug) Row() string {
	rules := strings.Join(b.Rules, " ")
	off := b.Off
	if len(rule.Off(b.Switches...)) > len(b.Switches) {
		off += fmt.Sprintf(", and `%s` with it", rule.NoneBetween)
	}
	if b.Mistake != "" {
		off += " (" + b.Mistake + ")"
	}
	return fmt.Sprintf("| `%s` | %s | %s | `%s` (%s) | %s |", b.Name, rules, off, b.Test.Name, b.Test.Package, strings.TrimSuffix(b.Invariant, ":"))
}

// Table is the table of all bugs.
func Table() string {
	var b strings.Builder
	b.WriteString("| Bug | Rule | What is switched off, or done instead | Test that must fail | Invariant |\n|---|---|---|---|---|\n")
	for _, bug := range All() {
		b.WriteString(bug.Row() + "\n")
	}
	return b.String()
}
