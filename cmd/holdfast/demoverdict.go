package main

import (
	"cmp"
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

// printVerdict prints the table, what was found, what was promised and how to run the same again.
func (a *app) printVerdict(f demoFlags, r demo.Result, d demo.Details) error {
	w := a.stdout
	fmt.Fprintf(w, "\nA reader outside the members has recomputed every key from the input:\n\n")
	var rows strings.Builder
	table := tabwriter.NewWriter(&rows, 0, 0, 2, ' ', 0)
	row := func(name string, value any, says string) { fmt.Fprintf(table, "  %s\t%v\t%s\n", name, value, says) }
	row("events", r.Events, "in the input")
	row("keys", r.Keys, "compared, event by event")
	if !f.plain { // no transactional id, by whose epoch a takeover is told, is used without the fence
		row("takeovers", r.Takeovers, "partitions that a process took over from another one")
	}
	row("refused", r.Refused, f.refusedSays())
	if n := total(d.Rightful); n > 0 {
		row("resent", n, "refused to running owners, who go again or let go")
	}
	row("lost", r.Lost, lostSays(d))
	row("repeated", r.Repeated, repeatedSays(d))
	row("outputs", d.Audit.Outputs, fmt.Sprintf("for %d events; repeats are allowed (at-least-once)", r.Events))
	row("time", fmt.Sprintf("%.1f s", d.Took.Seconds()), "with the faults and the check")
	if err := table.Flush(); err != nil {
		return err
	}
	margin := strings.Index(rows.String(), "in the input")
	for line := range strings.Lines(rows.String()) {
		fmt.Fprintln(w, indent(strings.TrimRight(line, "\n"), margin, textColumns))
	}
	printFindings(w, d)
	fmt.Fprintf(w, "\n%s\n", wrap(a.verdictLine(f, r, d.Schedule), textColumns))
	if f.sabotage == "" {
		fmt.Fprintln(w, "What is promised, across which crash, and its bounds: README.md, Guarantees.")
	}
	if f.keep != "" {
		fmt.Fprintf(w, "\nThe broker's data is kept: %s broker --data %s\n", a.name(), f.keep)
	}
	_, err := fmt.Fprintf(w, "\nThe same input and faults again:\n  %s %s\n", a.name(), f.again(r))
	return err
}

// name is how this program can be run again.
func (a *app) name() string { return cmp.Or(a.program, "holdfast") }

func total(by map[string]int) (n int) {
	for _, count := range by {
		n += count
	}
	return n
}

// refusedSays tells which refusals are counted. Without the fence the group checks the offsets of a
// stale process, and nobody its snapshots.
func (f demoFlags) refusedSays() string {
	if f.plain {
		return "stale offsets; nobody checks the snapshots"
	}
	return "stale writes of stopped, killed or expelled processes"
}

// lostSays tells what kinds of loss make up the number.
func lostSays(d demo.Details) string {
	return kinds("events missing from the state or the outputs",
		kind{d.Audit.Missing, "not in the state"},
		kind{d.Audit.Unfolded, "never folded"},
		kind{d.Audit.Silent, "folded without an output"},
		kind{d.Audit.Forgotten, "missing from a state that an output shows"})
}

// repeatedSays tells what kinds of repetition make up the number.
func repeatedSays(d demo.Details) string {
	return kinds("events that were folded twice into it",
		kind{d.Audit.Twice, "folded twice into the state"},
		kind{d.Audit.Shown, "twice in a state that an output shows"})
}

// kind is how many events had one kind of damage.
type kind struct {
	n    int
	says string
}

// kinds lists those that there were. An event can have several, so that they can add up to more than
// the number of events.
func kinds(none string, all ...kind) string {
	var parts []string
	for _, k := range all {
		if k.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", k.n, k.says))
		}
	}
	switch len(parts) {
	case 0:
		return none
	case 1:
		return parts[0]
	}
	return strings.Join(parts, ", ") + " (an event can be in several of these)"
}

func printFindings(w io.Writer, d demo.Details) {
	printRefusals(w, "Refused by the broker to stopped, killed or expelled processes:", d.Refusals)
	printRefusals(w, "Refused to running owners in a rebalance:", d.Rightful)
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

func printRefusals(w io.Writer, title string, by map[string]int) {
	if len(by) == 0 {
		return
	}
	fmt.Fprintf(w, "\n%s\n", title)
	for _, what := range slices.Sorted(maps.Keys(by)) {
		fmt.Fprintf(w, "  %d × %s\n", by[what], what)
	}
}

func (a *app) verdictLine(f demoFlags, r demo.Result, s demo.Schedule) string {
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
			"and the next owner went on from it. Without --plain the demo meets such a process with the fence.")
	case f.plain:
		return say(red, "NOT SHOWN", ": the flow ran without the fence and took no damage this time.")
	case f.sabotage != "" && damaged:
		return say(red, "FAILED", ", as it has to. Without the rule "+f.sabotage+" "+cmp.Or(s.Breaks, "states are not what the input gives")+".")
	case f.sabotage != "" && r.OK:
		return say(red, "NO DAMAGE", ", although the rule "+f.sabotage+" was switched off: this run proves nothing about it.")
	case r.OK:
		return say(green, "OK", ": every event is in the state once; no stale write landed.")
	case !damaged && r.Refused == 0:
		return say(red, "FAILED", ": no stale write was refused, so that nothing was shown.")
	}
	return say(red, "FAILED", ": the state is not what the input gives.")
}

// again are the arguments that make the same run.
func (f demoFlags) again(r demo.Result) string {
	line := fmt.Sprintf("demo --seed %d", r.Seed)
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
