// Command run runs the tests that docs/acceptance.md names, by name, and fails if one of them fails, is
// skipped or does not exist: a document that says what was tested is only true if it was.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"regexp"
	"slices"
	"strings"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Stdout, "docs/acceptance.md", os.Getenv("HOLDFAST_NIGHTLY") == "1"); err != nil {
		fmt.Fprintln(os.Stderr, "acceptance:", err)
		stop()
		os.Exit(1)
	}
}

// want is one test that the document names.
type want struct {
	test     string   // with its subtest, as TestX/case
	packages []string // directories, one of which has it
}

func run(ctx context.Context, out io.Writer, document string, nightly bool) error {
	text, err := os.ReadFile(document)
	if err != nil {
		return err
	}
	wants, left, err := parse(string(text), nightly)
	if err != nil {
		return fmt.Errorf("%s: %w", document, err)
	}
	got := results{}
	for _, p := range packagesOf(wants) {
		fmt.Fprintf(out, "== %s\n", p)
		if err := got.test(ctx, out, p, namesIn(wants, p)); err != nil {
			return err
		}
	}
	passed := 0
	for _, w := range wants {
		verdict := got.verdict(w)
		if verdict == "pass" {
			passed++
			continue
		}
		fmt.Fprintf(out, "%s: %s (%s)\n", verdict, w.test, strings.Join(w.packages, ", "))
	}
	fmt.Fprintf(out, "%d/%d acceptance tests passed\n", passed, len(wants))
	if left > 0 {
		fmt.Fprintf(out, "%d more are run nightly: HOLDFAST_NIGHTLY=1\n", left)
	}
	if passed < len(wants) {
		return errors.New("not all of them passed")
	}
	return nil
}

var testName = regexp.MustCompile("`((?:Test|Fuzz)[A-Z]\\w*(?:/[^`]+)?)`")
var packageName = regexp.MustCompile("`([a-z][a-z/]*|\\.)`")

// parse reads the tests out of the tables that have the columns "ours" and "package". A column "ours
// (nightly)" is for the tests that only the nightly run has; left counts them if it is not.
func parse(text string, nightly bool) (wants []want, left int, err error) {
	var heads []string
	seen := map[string]bool{}
	for i, line := range strings.Split(text, "\n") {
		if !strings.HasPrefix(line, "|") {
			heads = nil
			continue
		}
		cells := strings.Split(strings.Trim(line, "| "), "|")
		if heads == nil {
			for _, c := range cells {
				heads = append(heads, strings.ToLower(strings.TrimSpace(c)))
			}
			continue
		}
		column := slices.IndexFunc(heads, func(h string) bool { return strings.HasPrefix(h, "ours") })
		packages := slices.Index(heads, "package")
		if column < 0 || packages < 0 || strings.HasPrefix(line, "|---") {
			continue
		}
		if len(cells) != len(heads) {
			return nil, 0, fmt.Errorf("line %d: %d cells under %d heads", i+1, len(cells), len(heads))
		}
		tests, dirs := all(testName, cells[column]), all(packageName, cells[packages])
		if len(tests) == 0 || len(dirs) == 0 {
			return nil, 0, fmt.Errorf("line %d names no test or no package", i+1)
		}
		for _, name := range tests {
			key := name + " " + strings.Join(dirs, " ")
			if seen[key] {
				continue
			}
			seen[key] = true
			if strings.Contains(heads[column], "nightly") && !nightly {
				left++
				continue
			}
			wants = append(wants, want{test: name, packages: dirs})
		}
	}
	if len(wants) == 0 {
		return nil, 0, errors.New("it names no tests")
	}
	return wants, left, nil
}

func all(re *regexp.Regexp, cell string) (found []string) {
	for _, m := range re.FindAllStringSubmatch(cell, -1) {
		found = append(found, m[1])
	}
	return found
}

func packagesOf(wants []want) (packages []string) {
	for _, w := range wants {
		packages = append(packages, w.packages...)
	}
	slices.Sort(packages)
	return slices.Compact(packages)
}

// namesIn returns the tests, without their subtests, that a package may have.
func namesIn(wants []want, dir string) (names []string) {
	for _, w := range wants {
		if slices.Contains(w.packages, dir) {
			name, _, _ := strings.Cut(w.test, "/")
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// results has the outcome of each test: "pass", "fail" or "skip", by package and name.
type results map[string]string

// verdict is the outcome of a test, or "missing". A test passes although its subtests are skipped, so
// that these are looked at as well.
func (r results) verdict(w want) string {
	for _, p := range w.packages {
		v := r[p+" "+w.test]
		if v == "" {
			continue
		}
		for name, sub := range r {
			if v == "pass" && sub == "skip" && strings.HasPrefix(name, p+" "+w.test+"/") {
				return sub
			}
		}
		return v
	}
	return "missing"
}

// event is one line of go test -json.
type event struct {
	Action, Test, Output string
}

// test runs the named tests of one package and tells what they print only where one fails.
func (r results) test(ctx context.Context, out io.Writer, dir string, names []string) error {
	pattern := "^(" + strings.Join(names, "|") + ")$"
	cmd := exec.CommandContext(ctx, "go", "test", "-json", "-count=1", "-timeout=30m", "-run", pattern, "./"+dir)
	cmd.Stderr = out
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("go test: %w", err)
	}
	readErr := r.read(pipe, out, dir)
	if err := cmd.Wait(); err != nil {
		if exit := (*exec.ExitError)(nil); !errors.As(err, &exit) || ctx.Err() != nil {
			return errors.Join(fmt.Errorf("go test ./%s: %w", dir, err), context.Cause(ctx))
		}
		fmt.Fprintf(out, "go test ./%s: %v\n", dir, err) // the verdicts say which tests it was
	}
	return readErr
}

func (r results) read(events io.Reader, out io.Writer, dir string) error {
	printed := map[string]*strings.Builder{}
	lines := bufio.NewScanner(events)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var e event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			fmt.Fprintln(out, lines.Text()) // a build that fails prints plain text
			continue
		}
		if printed[e.Test] == nil {
			printed[e.Test] = &strings.Builder{}
		}
		switch e.Action {
		case "output", "build-output":
			printed[e.Test].WriteString(e.Output)
		case "pass", "fail", "skip":
			if e.Test != "" {
				r[dir+" "+e.Test] = e.Action
			}
			if e.Action != "pass" {
				fmt.Fprint(out, printed[e.Test])
			}
			delete(printed, e.Test)
		}
	}
	if b := printed[""]; b != nil { // what belongs to no test: a build that failed
		fmt.Fprint(out, b)
	}
	return lines.Err()
}
