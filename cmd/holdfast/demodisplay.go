package main

import (
	"fmt"
	"io"
	"time"

	"github.com/schollz/progressbar/v3"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/demo"
)

// progressLineEvery is how often progress is told where there is no terminal.
const progressLineEvery = 5 * time.Second

// noteIndent is how far the second line of a note is set in, below the text of the first.
const noteIndent = 9

// demoDisplay tells on standard error what the demo does: lines, and on a terminal a live one below
// them. Standard output has the verdict alone.
type demoDisplay struct {
	to    io.Writer
	bar   *progressbar.ProgressBar // nil: not a terminal
	color bool
	last  time.Time
	o     demo.Options
}

func (a *app) demoDisplay(o demo.Options) *demoDisplay {
	d := &demoDisplay{to: a.stderr, color: a.color(a.stderr), last: time.Now(), o: o}
	if terminal(a.stderr) {
		d.bar = progressbar.NewOptions(o.Events,
			progressbar.OptionSetWriter(a.stderr.Unwrap()), // it moves the cursor
			progressbar.OptionSetWidth(6),
			progressbar.OptionSetElapsedTime(false),
			progressbar.OptionSetPredictTime(false),
			progressbar.OptionShowDescriptionAtLineEnd(),
			progressbar.OptionSetTheme(progressbar.Theme{Saucer: "=", SaucerHead: ">", SaucerPadding: " ", BarStart: "[", BarEnd: "]"}),
			progressbar.OptionClearOnFinish(),
		)
	}
	return d
}

// start says what will be done.
func (d *demoDisplay) start(f demoFlags) {
	fmt.Fprintf(d.to, "holdfast demo, seed %d\n%s\n", d.o.Seed, wrap(d.o.Schedule.About+".", textColumns))
	switch {
	case f.plain:
		fmt.Fprintln(d.to, "The flow runs WITHOUT the fence (Unfenced). Expect damage.")
	case f.sabotage != "":
		text := fmt.Sprintf("SABOTAGE: the members run without the rule %s: %s. Expect damage.", f.sabotage, d.o.Schedule.Rule)
		if n := len(d.o.Schedule.Without); n > 1 {
			text += fmt.Sprintf(" Also off, since it would stop them first: %v.", d.o.Schedule.Without[1:])
		}
		fmt.Fprintln(d.to, wrap(text, textColumns))
	}
}

// Note implements demo.Display.
func (d *demoDisplay) Note(line string) {
	if d.bar != nil {
		// An error of the terminal would show in the next line as well.
		_ = d.bar.Clear()
	}
	fmt.Fprintln(d.to, indent(line, noteIndent, textColumns))
}

// Progress implements demo.Display.
func (d *demoDisplay) Progress(p demo.Progress) {
	if d.bar != nil {
		d.bar.ChangeMax(max(p.Wanted, p.Made))
		d.bar.Describe(progressText(p))
		_ = d.bar.Set(min(p.Folded, max(p.Wanted, p.Made)-1))
		return
	}
	if time.Since(d.last) < progressLineEvery {
		return
	}
	d.last = time.Now()
	fmt.Fprintf(d.to, "         %s\n", progressText(p))
}

// progressText has to fit beside the bar into 60 columns: a line that wraps is not cleared.
func progressText(p demo.Progress) string {
	return fmt.Sprintf("%d folded, %d of %d made, %d refused", p.Folded, p.Made, max(p.Wanted, p.Made), p.Refused)
}

func (d *demoDisplay) stop() {
	if d.bar != nil {
		_ = d.bar.Clear()
	}
}
