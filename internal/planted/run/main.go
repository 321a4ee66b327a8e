// Command run plants the bugs of internal/planted one by one and prints whether each was noticed. A bug
// counts as killed only if all of this holds in this run:
//
//   - its place in the sources is there, once, and what it makes of it compiles;
//   - it passes the fault-free demo (internal/planted/demo): it is not simply broken;
//   - the test named for it fails, with a message of its own or of a case that failed that begins with the
//     invariant that the bug breaks; a panic, a timeout or another test does not count;
//   - the same test passes without the bug.
//
// It works through overlays of the build and changes nothing in the tree. It exits with 1 unless every
// bug that it planted was killed.
package main

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/internal/planted"
)

// options choose the bugs.
type options struct {
	only  string
	shard int
	list  bool
	side  int
}

func main() {
	var o options
	flag.StringVar(&o.only, "only", "", "plant the bugs of these `names` alone, separated by commas")
	flag.IntVar(&o.shard, "shard", 0, "plant `n` bugs, chosen by the present commit; 0: all")
	flag.BoolVar(&o.list, "list", false, "print the table of docs/reliability.md and plant nothing")
	flag.IntVar(&o.side, "side", 2, "plant `n` bugs side by side")
	flag.Parse()
	if o.list {
		fmt.Print(planted.Table())
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Stdout, o); err != nil {
		fmt.Fprintln(os.Stderr, "planted:", err)
		stop()
		os.Exit(1)
	}
}

func run(ctx context.Context, out io.Writer, o options) error {
	bugs, err := choose(ctx, o)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "holdfast-planted-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	g := newGarden(dir)
	began, killed := time.Now(), 0
	for r := range g.plantAll(ctx, bugs, o.side) {
		if r.left == "" {
			killed++
		}
		fmt.Fprintln(out, r)
	}
	if err := ctx.Err(); err != nil {
		return context.Cause(ctx)
	}
	fmt.Fprintf(out, "killed %d/%d in %v\n", killed, len(bugs), time.Since(began).Round(time.Second))
	if killed < len(bugs) {
		return errors.New("not every planted bug was noticed")
	}
	return nil
}

// choose returns the bugs that the options name.
func choose(ctx context.Context, o options) ([]planted.Bug, error) {
	bugs := planted.All()
	if o.only != "" {
		var chosen []planted.Bug
		for name := range strings.SplitSeq(o.only, ",") {
			i := slices.IndexFunc(bugs, func(b planted.Bug) bool { return b.Name == name })
			if i < 0 {
				return nil, fmt.Errorf("there is no bug %q: -list has the names", name)
			}
			chosen = append(chosen, bugs[i])
		}
		return chosen, nil
	}
	if o.shard <= 0 || o.shard >= len(bugs) {
		return bugs, nil
	}
	commit, err := exec.CommandContext(ctx, "git", "rev-parse", "HEAD").Output()
	if err != nil {
		return nil, fmt.Errorf("the present commit chooses the shard, and git does not tell it (choose with -only instead): %w", err)
	}
	return shard(bugs, o.shard, string(commit)), nil
}

// shard takes n bugs that lie apart from each other, beginning at a place that the commit gives: one
// commit after another, all of them have their turn.
func shard(bugs []planted.Bug, n int, commit string) []planted.Bug {
	sum := sha256.Sum256([]byte(commit))
	at := int(binary.BigEndian.Uint32(sum[:4]) % uint32(len(bugs)))
	var chosen []planted.Bug
	for i := range n {
		chosen = append(chosen, bugs[(at+i*len(bugs)/n)%len(bugs)])
	}
	return chosen
}

// result is what became of one bug.
type result struct {
	bug  planted.Bug
	left string // why it does not count as killed
	took time.Duration
}

func (r result) String() string {
	verdict := "killed"
	if r.left != "" {
		verdict = "NOT KILLED"
	}
	line := fmt.Sprintf("%-10s %-34s %-8s %s by %s in %.1fs", verdict, r.bug.Name, strings.Join(r.bug.Rules, ","),
		r.bug.Invariant, r.bug.Test.Name, r.took.Seconds())
	if r.left != "" {
		line += "\n           " + r.left
	}
	return line
}

// lastLine is the last line of a command's output, for a message.
func lastLine(text string) string {
	last := "no reason"
	lines := bufio.NewScanner(strings.NewReader(text))
	for lines.Scan() {
		if line := strings.TrimSpace(lines.Text()); line != "" {
			last = line
		}
	}
	return last
}
