package sweep

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// Entry is the last run of a piece.
type Entry struct {
	Piece   string
	Passed  bool
	Product string
	Commit  string
	Began   time.Time
	Took    time.Duration
	Says    string
}

// Book has the last run of each piece, by its name.
type Book map[string]Entry

const (
	heading = "# Sweeps\n\n" +
		"The long runs, in pieces, and the last run of each. A piece counts for every commit whose product has the name in its row:\n" +
		"commits with the same name differ in tests and documents alone. A fuzz target's product is the code its package imports.\n" +
		"`make sweeps` runs what has not passed yet.\n\n" +
		"| Piece | Outcome | Product | Commit | Began | Minutes | Says |\n|---|---|---|---|---|---|---|\n"
	passed  = "passed"
	failed  = "FAILED"
	minutes = "2006-01-02 15:04"
)

// Parse reads a book. What is no row of it is passed over.
func Parse(text string) (Book, error) {
	b := Book{}
	for line := range strings.Lines(text) {
		cells := strings.Split(strings.Trim(line, "| \n"), " | ")
		if len(cells) != 7 || cells[1] != passed && cells[1] != failed {
			continue
		}
		began, err := time.Parse(minutes, cells[4])
		if err != nil {
			return nil, fmt.Errorf("row of %s: %w", cells[0], err)
		}
		var took float64
		if _, err := fmt.Sscan(cells[5], &took); err != nil {
			return nil, fmt.Errorf("row of %s: minutes: %w", cells[0], err)
		}
		b[cells[0]] = Entry{
			Piece: cells[0], Passed: cells[1] == passed, Product: cells[2], Commit: cells[3], Began: began,
			Took: time.Duration(took * float64(time.Minute)), Says: cells[6],
		}
	}
	return b, nil
}

// String is the book as Markdown.
func (b Book) String() string {
	text := heading
	for _, name := range slices.Sorted(maps.Keys(b)) {
		e := b[name]
		outcome := failed
		if e.Passed {
			outcome = passed
		}
		says := strings.NewReplacer("|", "/", "\n", " ", "\r", "").Replace(e.Says)
		if says == "" {
			says = "-"
		}
		text += fmt.Sprintf("| %s | %s | %s | %s | %s | %.1f | %s |\n",
			e.Piece, outcome, e.Product, e.Commit, e.Began.Format(minutes), e.Took.Minutes(), says)
	}
	return text
}

// Left are the pieces that have not passed on the product that each is about.
func (b Book) Left(pieces []Piece, product func(Piece) string) (out []Piece) {
	for _, p := range pieces {
		if e, ok := b[p.Name]; !ok || !e.Passed || e.Product != product(p) {
			out = append(out, p)
		}
	}
	return out
}
