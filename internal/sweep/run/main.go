//go:build unix

// Command run runs the pieces of the sweeps that have not passed on the present product, one after the other, and keeps
// what each of them says in the book. It ends when all have passed, at the first interrupt, or when the time that
// it was given is over; run it again, and it goes on. Two of them may run side by side, on pieces of their own.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"time"

	"github.com/holdfast-go/holdfast/internal/sweep"
)

const bookFile = "results/sweeps.md"

func main() {
	only := flag.String("only", ".", "pattern of the names of the pieces to run")
	limit := flag.Duration("for", 0, "begin no piece after this time; 0: no limit")
	list := flag.Bool("list", false, "list what is left, and run nothing")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *only, *limit, *list); err != nil {
		fmt.Fprintln(os.Stderr, "sweep:", err)
		stop()
		os.Exit(1)
	}
}

func run(ctx context.Context, only string, limit time.Duration, list bool) error {
	pattern, err := regexp.Compile(only)
	if err != nil {
		return fmt.Errorf("-only: %w", err)
	}
	targets, err := sweep.Targets(os.DirFS("."))
	if err != nil {
		return err
	}
	var chosen []sweep.Piece
	for _, p := range sweep.Pieces(targets) {
		if pattern.MatchString(p.Name) {
			chosen = append(chosen, p)
		}
	}
	if len(chosen) == 0 {
		return fmt.Errorf("no piece is named like %s", only)
	}
	s, err := open(ctx)
	if err != nil {
		return err
	}
	if err := s.parts(ctx, chosen); err != nil {
		return err
	}
	left := s.book.Left(chosen, s.about)
	fmt.Printf("sweep: %d of %d pieces have passed on product %s, %d are left\n", len(chosen)-len(left), len(chosen), s.product, len(left))
	if list {
		for _, p := range left {
			fmt.Println(p.Name)
		}
		return nil
	}
	return s.all(ctx, left, limit)
}

// runner runs pieces on one product.
type runner struct {
	book            sweep.Book
	commit, product string
	tree            string            // "git ls-tree -r" of the commit
	part            map[string]string // the product's part that a piece about one directory depends on, by directory
	logs            string
}

func open(ctx context.Context) (*runner, error) {
	text, err := os.ReadFile(bookFile)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	book, err := sweep.Parse(string(text))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", bookFile, err)
	}
	changed, err := git(ctx, "status", "--porcelain")
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(changed) {
		if file := strings.TrimSpace(line[min(3, len(line)):]); sweep.InProduct(file) {
			return nil, fmt.Errorf("%s is not committed: a sweep is of a commit", file)
		}
	}
	commit, err := git(ctx, "rev-parse", "--short=10", "HEAD")
	if err != nil {
		return nil, err
	}
	tree, err := git(ctx, "ls-tree", "-r", "HEAD")
	if err != nil {
		return nil, err
	}
	logs, err := os.MkdirTemp("", "holdfast-sweep-")
	return &runner{book: book, commit: strings.TrimSpace(commit), product: sweep.Product(tree), tree: tree, part: map[string]string{}, logs: logs}, err
}

// parts finds the part of the product that each piece about one package depends on.
func (s *runner) parts(ctx context.Context, pieces []sweep.Piece) error {
	for _, p := range pieces {
		if _, known := s.part[p.Dir]; known || p.Dir == "" {
			continue
		}
		list, err := exec.CommandContext(ctx, "go", "list", "-C", p.Dir, "-deps", "-test", ".").Output()
		if err != nil {
			return fmt.Errorf("go list of %s: %w", p.Dir, err)
		}
		s.part[p.Dir] = sweep.Part(s.tree, sweep.Imports(string(list)))
	}
	return nil
}

// about names the product that a piece's outcome is of.
func (s *runner) about(p sweep.Piece) string {
	if p.Dir == "" {
		return s.product
	}
	return s.part[p.Dir]
}

func git(ctx context.Context, args ...string) (string, error) {
	out, err := exec.CommandContext(ctx, "git", args...).Output()
	if err != nil {
		return "", fmt.Errorf("git %s: %w", args[0], err)
	}
	return string(out), nil
}

// all runs the pieces. One that fails does not keep the others from running.
func (s *runner) all(ctx context.Context, left []sweep.Piece, limit time.Duration) error {
	began, failures := time.Now(), 0
	for i, p := range left {
		if limit > 0 && time.Since(began) > limit {
			return fmt.Errorf("the time is over, and %d pieces are left: run it again to go on", len(left)-i)
		}
		passed, err := s.piece(ctx, p)
		if err != nil {
			return err
		}
		if !passed {
			failures++
		}
	}
	if failures > 0 {
		return fmt.Errorf("%d pieces failed", failures)
	}
	return nil
}

// piece runs one piece and keeps its row. One that is interrupted has none.
func (s *runner) piece(ctx context.Context, p sweep.Piece) (passed bool, err error) {
	log := filepath.Join(s.logs, strings.ReplaceAll(p.Name, "/", "-")+".log")
	fmt.Printf("== %s (%s)\n", p.Name, log)
	file, err := os.Create(log)
	if err != nil {
		return false, err
	}
	defer file.Close()
	began := time.Now()
	cmd := exec.CommandContext(ctx, p.Args[0], p.Args[1:]...)
	cmd.Env = append(os.Environ(), append(absolute(p.Env), "CI=true")...)
	cmd.Stdout, cmd.Stderr = file, file
	// The test ends its brokers itself, and go test gives its tests that time.
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = time.Minute
	runErr := cmd.Run()
	if ctx.Err() != nil {
		return false, fmt.Errorf("%s was interrupted", p.Name)
	}
	if exit := (*exec.ExitError)(nil); runErr != nil && !errors.As(runErr, &exit) {
		return false, runErr
	}
	e := sweep.Entry{
		Piece: p.Name, Passed: runErr == nil, Product: s.about(p), Commit: s.commit,
		Began: began.UTC(), Took: time.Since(began), Says: said(p, log),
	}
	fmt.Printf("   passed: %v, %.1f minutes. %s\n", e.Passed, e.Took.Minutes(), e.Says)
	return e.Passed, keep(e)
}

// keep writes a row into the book. Another run may have written its own since this one began: the book is read again,
// and locked meanwhile.
func keep(e sweep.Entry) (err error) {
	f, err := os.OpenFile(bookFile, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
		return fmt.Errorf("locking %s: %w", bookFile, err)
	}
	text, err := io.ReadAll(f)
	if err != nil {
		return err
	}
	book, err := sweep.Parse(string(text))
	if err != nil {
		return fmt.Errorf("%s: %w", bookFile, err)
	}
	book[e.Piece] = e
	if err := f.Truncate(0); err != nil {
		return err
	}
	_, err = f.WriteAt([]byte(book.String()), 0)
	return err
}

// absolute has results written to this tree, wherever the test runs.
func absolute(env []string) (out []string) {
	for _, e := range env {
		name, value, _ := strings.Cut(e, "=")
		if strings.HasSuffix(name, "_RESULTS") {
			if abs, err := filepath.Abs(value); err == nil {
				value = abs
			}
		}
		out = append(out, name+"="+value)
	}
	return out
}

// said is the last line of the log that the piece is known by.
func said(p sweep.Piece, log string) string {
	text, err := os.ReadFile(log)
	if err != nil || p.Says == nil {
		return ""
	}
	found := p.Says.FindAllSubmatch(text, -1)
	if len(found) == 0 {
		return ""
	}
	return strings.TrimSpace(string(found[len(found)-1][1]))
}
