package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/demo"
)

// textColumns is the width of running text.
const textColumns = 78

const (
	green = "\x1b[32m"
	red   = "\x1b[31m"
	plain = "\x1b[0m"
)

// printVerdict prints the table, what was found, the claim and how to run the same again.
func (a *app) printVerdict(f demoFlags, r demo.Result, d demo.Details) error {
	w := a.stdout
	fmt.Fprintf(w, "\nA reader outside the members has recomputed every key from the input:\n\n")
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	row := func(name string, value any, says string) { fmt.Fprintf(table, "  %s\t%v\t%s\n", name, value, says) }
	row("events", r.Events, "in the input")
	row("keys", r.Keys, "compared, event by event")
	row("takeovers", r.Takeovers, "initialisations that found another's epoch")
	row("refused", r.Refused, "stale writes that the broker refused, seen on the wire")
	row("lost", r.Lost, lostSays(d))
	row("repeated", r.Repeated, repeatedSays(d))
	row("outputs", d.Audit.Outputs, fmt.Sprintf("for %d events; repeats are allowed (at-least-once)", r.Events))
	row("time", fmt.Sprintf("%.1f s", d.Took.Seconds()), "")
	if err := table.Flush(); err != nil {
		return err
	}
	printFindings(w, d)
	fmt.Fprintf(w, "\n%s\n", wrap(a.verdictLine(f, r), textColumns))
	if f.sabotage == "" {
		for _, c := range d.Claims {
			fmt.Fprintf(w, "\n%s\n", wrap(c.String(), textColumns))
		}
	}
	if f.keep != "" {
		fmt.Fprintf(w, "\nThe broker's data is kept: holdfast broker --data %s\n", f.keep)
	}
	_, err := fmt.Fprintf(w, "\nThe same input and faults again: %s\n", f.again(r))
	return err
}

// lostSays tells what kinds of loss make up the number.
func lostSays(d demo.Details) string {
	var kinds []string
	for _, k := range []struct {
		n    int
		says string
	}{
		{d.Audit.Missing, "not in the state"},
		{d.Audit.Unfolded, "never folded"},
		{d.Audit.Silent, "folded without an output"},
		{d.Audit.Forgotten, "missing from a state that an output shows"},
	} {
		if k.n > 0 {
			kinds = append(kinds, fmt.Sprintf("%d %s", k.n, k.says))
		}
	}
	if len(kinds) == 0 {
		return "events that are not in the state, or whose output never came"
	}
	return strings.Join(kinds, "; ")
}

func repeatedSays(d demo.Details) string {
	var kinds []string
	if d.Audit.Twice > 0 {
		kinds = append(kinds, fmt.Sprintf("%d folded twice into the state", d.Audit.Twice))
	}
	if d.Audit.Shown > 0 {
		kinds = append(kinds, fmt.Sprintf("%d twice in a state that an output shows", d.Audit.Shown))
	}
	if len(kinds) == 0 {
		return "events that were folded twice into it"
	}
	return strings.Join(kinds, "; ")
}

func printFindings(w io.Writer, d demo.Details) {
	if len(d.Refusals) > 0 {
		fmt.Fprintln(w, "\nRefused by the broker:")
		for _, what := range slices.Sorted(maps.Keys(d.Refusals)) {
			fmt.Fprintf(w, "  %d × %s\n", d.Refusals[what], what)
		}
	}
	if len(d.Audit.Examples) > 0 || len(d.Audit.Lag) > 0 {
		fmt.Fprintln(w, "\nFound, among others:")
		for _, line := range d.Audit.Examples {
			fmt.Fprintln(w, indent("  "+line, 2, textColumns))
		}
		for _, l := range d.Audit.Lag {
			fmt.Fprintf(w, "  partition %d ends at %d, and its committed offset is %d\n", l.Partition, l.End, l.Committed)
		}
	}
	if len(d.Stopped) > 0 {
		fmt.Fprintln(w, "\nMembers that stopped by themselves:")
		for _, line := range d.Stopped {
			fmt.Fprintln(w, indent("  "+line, 2, textColumns))
		}
	}
}

func (a *app) verdictLine(f demoFlags, r demo.Result) string {
	damaged := r.Lost > 0 || r.Repeated > 0
	say := func(color, word, text string) string {
		if a.color(a.stdout) {
			word = color + word + plain
		}
		return word + text
	}
	switch {
	case f.plain && damaged:
		return say(red, "CORRUPTED", ", as expected without the fence: a stopped owner's old snapshot lay over newer ones, "+
			"and the next owner went on from it. holdfast demo meets the same with the fence.")
	case f.plain:
		return say(red, "NOT SHOWN", ": the flow ran without the fence and took no damage this time.")
	case f.sabotage != "" && damaged:
		return say(red, "FAILED", ", as it has to: without the rule "+f.sabotage+" states or outputs are not what the input gives.")
	case f.sabotage != "" && r.OK:
		return say(red, "NO DAMAGE", ", although the rule "+f.sabotage+" was switched off: this run proves nothing about it.")
	case r.OK:
		return say(green, "OK", ": every event is in the state once; no stale write landed.")
	}
	return say(red, "FAILED", ": the state is not what the input gives, or nothing was shown.")
}

// again is the command line that makes the same run.
func (f demoFlags) again(r demo.Result) string {
	line := fmt.Sprintf("holdfast demo --seed %d", r.Seed)
	if f.events != demoEvents {
		line += fmt.Sprintf(" --events %d", f.events)
	}
	switch {
	case f.plain:
		line += " --plain"
	case f.sabotage != "":
		line += " --sabotage " + f.sabotage
	case f.schedule != "":
		line += " --schedule " + f.schedule
	}
	return line
}

// indent wraps a line whose first columns are a margin, and sets the further lines in as far.
func indent(line string, margin, width int) string {
	if len(line) <= margin {
		return line
	}
	text := wrap(line[margin:], width-margin)
	return line[:margin] + strings.ReplaceAll(text, "\n", "\n"+strings.Repeat(" ", margin))
}

// wrap breaks text into lines of at most width characters, where there are spaces.
func wrap(text string, width int) string {
	var b strings.Builder
	used := 0
	for _, word := range strings.Fields(text) {
		n := len([]rune(word))
		switch {
		case used == 0:
		case used+1+n > width:
			b.WriteString("\n")
			used = 0
		default:
			b.WriteString(" ")
			used++
		}
		b.WriteString(word)
		used += n
	}
	return b.String()
}
