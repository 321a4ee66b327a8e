// Package claim holds what each component promises, as data: which hop, across which crash, inside
// which boundary. A promise without these three is a slogan, so that a Claim without them cannot be
// made. The texts are printed by the command, shown in the documentation and compared in tests; there
// is one copy of each.
package claim

import (
	"errors"
	"fmt"
	"strings"
)

// Claim is one promise about one hop.
type Claim struct {
	Hop       string // what goes from where to where, as "topic → state"
	Component string // the part of Holdfast that does it: ComponentFlow, ComponentPipe
	Guarantee string // the setting that it holds under; "" if the component has only one
	Statement string // what is promised
	Crash     string // the crash or fault that it holds across
	Boundary  string // what is inside the promise; whatever is not named is outside
	Weaker    string // a condition found on this cluster that makes the promise weaker; "" if none
}

// The hops.
const (
	HopTopicState = "topic → state"
	HopTopicTopic = "topic → topic"
	// HopRejectDeadLetter is the way of a record that failed.
	HopRejectDeadLetter = "reject → dead-letter topic"
)

// The components.
const (
	ComponentFlow = "flow" // of the root package
	ComponentPipe = "pipe" // of package pipe
)

// The guarantees of a flow, as its configuration names them.
const (
	FencedState   = "FencedState"
	FencedOutputs = "FencedOutputs"
	Unfenced      = "Unfenced"
)

// slogan is the phrase that says nothing until a boundary follows it.
const slogan = "exactly-once"

// qualified lists the only forms in which the slogan may stand, each with its boundary.
var qualified = [...]string{"exactly-once inside Kafka", "exactly-once per committed micro-batch"}

// Validate reports what c lacks: hop, component, statement, crash and boundary are required, and the
// words "exactly-once" stand only together with a boundary.
func (c Claim) Validate() error {
	var errs []error
	for _, f := range []struct{ name, text string }{
		{"hop", c.Hop}, {"component", c.Component}, {"statement", c.Statement},
		{"crash", c.Crash}, {"boundary", c.Boundary},
	} {
		if strings.TrimSpace(f.text) == "" {
			errs = append(errs, fmt.Errorf("claim of %q has no %s", c.Component, f.name))
		}
	}
	for _, text := range []string{c.Hop, c.Guarantee, c.Statement, c.Crash, c.Boundary, c.Weaker} {
		if bare(text) {
			errs = append(errs, fmt.Errorf("claim of %q says %q without a boundary: %q", c.Component, slogan, text))
		}
	}
	return errors.Join(errs...)
}

// bare reports whether text has the slogan without its boundary, whatever its case and hyphen.
func bare(text string) bool {
	text = strings.ReplaceAll(strings.ToLower(text), "exactly once", slogan)
	for _, q := range qualified {
		text = strings.ReplaceAll(text, strings.ToLower(q), "")
	}
	return strings.Contains(text, slogan)
}

// String returns the claim as one paragraph, with every part that Validate requires.
func (c Claim) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s (%s", c.Hop, c.Component)
	if c.Guarantee != "" {
		fmt.Fprintf(&b, ", %s", c.Guarantee)
	}
	fmt.Fprintf(&b, "): %s. Across: %s. Inside: %s.", c.Statement, c.Crash, c.Boundary)
	if c.Weaker != "" {
		fmt.Fprintf(&b, " Weaker here: %s.", c.Weaker)
	}
	return b.String()
}

// Table is a list of claims for display.
type Table []Claim

// Markdown returns the claims as a table. The column of weaker conditions is there only if some claim
// has one.
func (t Table) Markdown() string {
	weaker := false
	for _, c := range t {
		weaker = weaker || c.Weaker != ""
	}
	heads := []string{"Hop", "Component", "Statement", "Across which crash", "Inside which boundary"}
	if weaker {
		heads = append(heads, "Weaker here")
	}
	var b strings.Builder
	row := func(cells ...string) {
		for _, cell := range cells {
			fmt.Fprintf(&b, "| %s ", strings.ReplaceAll(cell, "|", `\|`))
		}
		b.WriteString("|\n")
	}
	row(heads...)
	b.WriteString(strings.Repeat("|---", len(heads)) + "|\n")
	for _, c := range t {
		component := c.Component
		if c.Guarantee != "" {
			component += ", " + c.Guarantee
		}
		cells := []string{c.Hop, component, c.Statement, c.Crash, c.Boundary}
		if weaker {
			cells = append(cells, c.Weaker)
		}
		row(cells...)
	}
	return b.String()
}
