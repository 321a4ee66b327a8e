package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"slices"
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

// noticed says why the named test has not failed with the named invariant; "" if it has. A case that passed
// names nothing, whatever it logged, nor does a process that dies, whatever it printed before, nor a test
// that ran out of patience.
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
		if !below(test, name) || r.outcome[test] != "fail" {
			continue
		}
		for _, line := range lines {
			if names(line, invariant) {
				return ""
			}
		}
	}
	return fmt.Sprintf("%s failed and no message of it begins with %s: %s", name, invariant, r.said(name))
}

// message is the first line of what a test says by Error, Fatal or Log: place and text. What it prints in
// other ways, and the further lines of a message, have no place before them.
var message = regexp.MustCompile(`^\s*[^\s:]+_test\.go:\d+: (.*)`)

// named is what stands before the colon: one invariant, or several that one fault breaks.
var named = regexp.MustCompile(`^(?:(?:I|R)\d+|[a-z]+(?:-[a-z]+)+)(?: (?:(?:I|R)\d+|[a-z]+(?:-[a-z]+)+))*$`)

// names reports whether a line is a message that an invariant is named at the beginning of. Anywhere else
// the name is part of what is told, as in "I1 as expected" or in the text of an error.
func names(line, invariant string) bool {
	m := message.FindStringSubmatch(line)
	if m == nil {
		return false
	}
	head, _, ok := strings.Cut(m[1], ": ")
	return ok && named.MatchString(head) && slices.Contains(strings.Fields(head), invariant)
}

// said is the first thing that a test complained about.
func (r report) said(name string) string {
	for test, lines := range r.lines {
		if !below(test, name) || r.outcome[test] == "pass" {
			continue
		}
		for _, line := range lines {
			if message.MatchString(line) {
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
