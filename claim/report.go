package claim

import (
	"fmt"
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

// Finding is one fact.
type Finding struct {
	What string // what was looked at, as "snapshot topic orders-snapshots"
	Fact string // what was found
	Err  error  // nil: nothing refuses the start
	// Warning says why the claims may not hold for it although the component starts, as with a topic
	// that is not replicated. "": nothing.
	Warning string
}

// reportColumns is how wide String makes the claims.
const reportColumns = 100

// String returns the report as lines of text. Claims are left out where a finding refuses the start: a
// component that does not run promises nothing.
func (r Report) String() string {
	var b strings.Builder
	refused := false
	for _, f := range r.Findings {
		mark, fact := "ok  ", f.Fact
		switch {
		case f.Err != nil:
			mark, refused = "FAIL", true
		case f.Warning != "":
			mark, fact = "warn", fact+": "+f.Warning
		}
		fmt.Fprintf(&b, "%s  %s: %s\n", mark, f.What, fact)
	}
	if refused {
		return b.String()
	}
	for _, c := range r.Claims {
		wrap(&b, "claim ", c.String())
	}
	return b.String()
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
