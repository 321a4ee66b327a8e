package claim

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// Report is what a component's check of the cluster found.
type Report struct {
	// Findings are the facts that were checked, in order.
	Findings []Finding
	// Claims are what the component promises on this cluster.
	Claims []Claim
}

// Level says what a finding asks for.
type Level string

// The levels, from nothing to do on.
const (
	LevelOK      Level = "ok"      // as it has to be
	LevelAdvice  Level = "advice"  // works; something is better otherwise, or could not be found out
	LevelWarning Level = "warning" // the component starts, and a claim may not hold for it
	LevelFault   Level = "fault"   // refuses the start
)

// Finding is one fact. "holdfast check --json" has it as id, level (Level), what, fix, and found, which is
// Text without the fix.
type Finding struct {
	// ID names the kind of the finding, as "topic.snapshot" or "fence-probe", for programs: it stays
	// when the words of a report change. Several findings may have one, as two outputs have.
	ID   string
	What string // what was looked at, as "snapshot topic orders-snapshots"
	Fact string // what was found
	Err  error  // nil: nothing refuses the start
	// Warning says why the claims may not hold for it although the component starts, as with a topic
	// that is not replicated. "": nothing.
	Warning string
	// Advice says what is better otherwise, or what could not be found out and why. "": nothing.
	Advice string
	// Fix are the commands or settings that mend what Err, Warning and Advice say.
	Fix []string
}

// Level returns the gravest that the finding has.
func (f Finding) Level() Level {
	switch {
	case f.Err != nil:
		return LevelFault
	case f.Warning != "":
		return LevelWarning
	case f.Advice != "":
		return LevelAdvice
	}
	return LevelOK
}

// Level returns the gravest of all findings.
func (r Report) Level() Level {
	order := []Level{LevelOK, LevelAdvice, LevelWarning, LevelFault}
	worst := 0
	for _, f := range r.Findings {
		worst = max(worst, slices.Index(order, f.Level()))
	}
	return order[worst]
}

// reportColumns is how wide String makes the claims.
const reportColumns = 100

// String returns the report as lines of text. Claims are left out where a finding refuses the start: a
// component that does not run promises nothing.
func (r Report) String() string {
	var b strings.Builder
	refused := false
	for _, f := range r.Findings {
		mark := map[Level]string{LevelOK: "ok  ", LevelAdvice: "note", LevelWarning: "warn", LevelFault: "FAIL"}[f.Level()]
		refused = refused || f.Err != nil
		fmt.Fprintf(&b, "%s  %s: %s\n", mark, f.What, strings.ReplaceAll(f.Text(), "\n", "\n      "))
		for _, fix := range f.Fix {
			if f.Err == nil || !strings.Contains(f.Fact, fix) { // an error may have its next step in its text
				fmt.Fprintf(&b, "  fix: %s\n", fix)
			}
		}
	}
	if refused {
		return b.String()
	}
	for _, c := range r.Claims {
		wrap(&b, "claim ", c.String())
	}
	return b.String()
}

// Text returns what was found, with the warning and the advice behind it.
func (f Finding) Text() string {
	text := f.Fact
	if f.Err != nil {
		return text
	}
	for _, more := range []string{f.Warning, f.Advice} {
		if more != "" {
			text += ": " + more
		}
	}
	return text
}

// wrap writes text in lines of at most reportColumns, the first one behind head and the others indented
// as far.
func wrap(b *strings.Builder, head, text string) {
	indent := strings.Repeat(" ", len(head))
	line, used := head, 0
	for _, word := range strings.Fields(text) {
		if used > 0 && utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > reportColumns {
			b.WriteString(line + "\n")
			line, used = indent, 0
		}
		if used > 0 {
			line += " "
		}
		line += word
		used++
	}
	b.WriteString(line + "\n")
}
