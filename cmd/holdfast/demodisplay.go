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
			progressbar.OptionSetWriter(a.stderr),
			progressbar.OptionSetWidth(12),
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
		// It has to fit into 80 columns: a line that wraps is not cleared.
		d.bar.Describe(fmt.Sprintf("%d/%d folded | %s | takeovers %d | refused %d",
			p.Folded, p.Made, p.Members, p.Takeovers, p.Refused))
		_ = d.bar.Set(min(p.Folded, max(p.Wanted, p.Made)-1))
		return
	}
	if time.Since(d.last) < progressLineEvery {
		return
	}
	d.last = time.Now()
	fmt.Fprintf(d.to, "         %d of %d folded | %s | takeovers %d | refused %d\n",
		p.Folded, p.Made, p.Members, p.Takeovers, p.Refused)
}

func (d *demoDisplay) stop() {
	if d.bar != nil {
		_ = d.bar.Clear()
	}
}
