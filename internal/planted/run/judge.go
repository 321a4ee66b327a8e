package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"strings"
)

// event is one line of go test -json.
type event struct {
	Action, Test, Output string
}

// report is what a run of go test has told.
type report struct {
	outcome map[string]string   // pass, fail or skip, by test
	lines   map[string][]string // what each test printed
	build   []string            // what the compiler said, if it did
	broken  bool                // it does not compile
	died    string              // the panic, fatal error or timeout that ended the process
}

func read(events io.Reader) (report, error) {
	r := report{outcome: map[string]string{}, lines: map[string][]string{}}
	lines := bufio.NewScanner(events)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var e event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			r.build = append(r.build, lines.Text())
			continue
		}
		switch e.Action {
		case "output":
			r.lines[e.Test] = append(r.lines[e.Test], e.Output)
			for _, fatal := range []string{"panic: ", "fatal error: ", "*** Test killed"} {
				if r.died == "" && strings.HasPrefix(e.Output, fatal) {
					r.died = strings.TrimSpace(e.Output)
				}
			}
		case "build-output":
			r.build = append(r.build, strings.TrimRight(e.Output, "\n"))
		case "build-fail":
			r.broken = true
		case "pass", "fail", "skip":
			if e.Test != "" {
				r.outcome[e.Test] = e.Action
			}
		}
	}
	return r, lines.Err()
}

// below reports whether a test is the one named or a case of it.
func below(test, name string) bool { return test == name || strings.HasPrefix(test, name+"/") }

// noticed says why the named test has not failed with the named invariant; "" if it has. A process that
// dies names nothing, whatever it printed before, and neither does a test that ran out of patience.
func (r report) noticed(name, invariant string) string {
	switch {
	case r.broken:
		return "the test does not compile: " + first(r.build)
	case r.died != "":
		return "the test process died: " + r.died
	case r.outcome[name] == "":
		return "there is no test " + name
	case r.outcome[name] != "fail":
		return "SURVIVED: " + name + " did not fail, but " + r.outcome[name]
	}
	for test, lines := range r.lines {
		if !below(test, name) {
			continue
		}
		for _, line := range lines {
			if names(line, invariant) {
				return ""
			}
		}
	}
	return fmt.Sprintf("%s failed and does not name %s: %s", name, invariant, r.said(name))
}

// names reports whether a line of a failed test names an invariant: as a word of its own, not as the
// beginning of another one's name.
func names(line, invariant string) bool {
	for rest := line; ; {
		i := strings.Index(rest, invariant)
		if i < 0 {
			return false
		}
		before, after := rest[:i], rest[i+len(invariant):]
		if (before == "" || !isWord(before[len(before)-1])) && (after == "" || !isWord(after[0])) {
			return true
		}
		rest = after
	}
}

func isWord(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '_'
}

// said is the first thing that a test complained about.
func (r report) said(name string) string {
	for test, lines := range r.lines {
		if !below(test, name) {
			continue
		}
		for _, line := range lines {
			if strings.Contains(line, "_test.go:") {
				return strings.TrimSpace(line)
			}
		}
	}
	return "no reason"
}

func first(lines []string) string {
	for _, line := range lines {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			return line
		}
	}
	return "no reason"
}
