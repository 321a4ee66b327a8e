package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/internal/planted"
)

// said makes the lines of go test -json.
func said(events ...event) string {
	var b strings.Builder
	for _, e := range events {
		line, err := json.Marshal(e)
		if err != nil {
			panic(err) // strings are always encoded
		}
		b.Write(append(line, '\n'))
	}
	return b.String()
}

func output(test, line string) event { return event{Action: "output", Test: test, Output: line + "\n"} }

// A kill is one by the named test with the named invariant, and nothing else is.
func TestWhatCountsAsNoticed(t *testing.T) {
	t.Parallel()
	const broke = "    a_test.go:7: I1: the offset is ahead"
	for name, c := range map[string]struct {
		text string
		want string // what is missing; "" nothing
	}{
		"the test itself":   {said(output("TestA", broke), event{Action: "fail", Test: "TestA"}), ""},
		"a case of it":      {said(output("TestA/b", broke), event{Action: "fail", Test: "TestA/b"}, event{Action: "fail", Test: "TestA"}), ""},
		"it passed":         {said(output("TestA", broke), event{Action: "pass", Test: "TestA"}), "SURVIVED"},
		"it was skipped":    {said(event{Action: "skip", Test: "TestA"}), "SURVIVED"},
		"another test":      {said(output("TestAB", broke), event{Action: "fail", Test: "TestAB"}), "no test TestA"},
		"another's line":    {said(output("TestAB", broke), event{Action: "fail", Test: "TestA"}), "begins with I1"},
		"another invariant": {said(output("TestA", "    a_test.go:7: I12: x"), event{Action: "fail", Test: "TestA"}), "begins with I1"},
		"no invariant":      {said(output("TestA", "    a_test.go:7: no commit within 1m0s"), event{Action: "fail", Test: "TestA"}), "no commit within"},
		"a passing case that logs it": {said(output("TestA/b", "    a_test.go:7: I1 as expected"), output("TestA/c", "    a_test.go:7: I1: as expected"),
			event{Action: "pass", Test: "TestA/b"}, event{Action: "pass", Test: "TestA/c"}, output("TestA/d", "    a_test.go:9: EOF"),
			event{Action: "fail", Test: "TestA/d"}, event{Action: "fail", Test: "TestA"}), "a_test.go:9: EOF"},
		"a failing case that tells of it":  {said(output("TestA/b", "    a_test.go:7: run: I1 as expected"), event{Action: "fail", Test: "TestA/b"}, event{Action: "fail", Test: "TestA"}), "begins with I1"},
		"two invariants":                   {said(output("TestA", "    a_test.go:7: I2 I1: the offset is ahead"), event{Action: "fail", Test: "TestA"}), ""},
		"a sentence with a colon":          {said(output("TestA", "    a_test.go:7: I1 as expected: x"), event{Action: "fail", Test: "TestA"}), "begins with I1"},
		"a word at the beginning":          {said(output("TestA", "    a_test.go:7: I1 as expected"), event{Action: "fail", Test: "TestA"}), "begins with I1"},
		"a line that is no message":        {said(output("TestA", "I1: the offset is ahead"), output("TestA", "        I1: the offset is ahead"), output("TestA", "    a.go:7: I1: x"), event{Action: "fail", Test: "TestA"}), "begins with I1"},
		"an error with a place of its own": {said(output("TestA", "    a_test.go:7: b_test.go:8: I1: x"), event{Action: "fail", Test: "TestA"}), "begins with I1"},
		"a panic":                          {said(output("TestA", broke), output("TestA", "panic: runtime error"), event{Action: "fail", Test: "TestA"}), "died"},
		"a timeout":                        {said(output("TestA", broke), output("", "panic: test timed out after 5m0s"), event{Action: "fail", Test: "TestA"}), "died"},
		"it does not compile":              {said(event{Action: "build-output", Output: "# p\n"}, event{Action: "build-output", Output: "p.go:3: undefined\n"}, event{Action: "build-fail"}), "undefined"},
		"nothing was run":                  {said(event{Action: "pass"}), "no test TestA"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, err := read(strings.NewReader(c.text))
			if err != nil {
				t.Fatal(err)
			}
			got := r.noticed("TestA", "I1")
			if (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
				t.Errorf("missing: %q, want %q", got, c.want)
			}
		})
	}
}

func TestShardsCoverAllBugs(t *testing.T) {
	t.Parallel()
	bugs := planted.All()
	seen := map[string]bool{}
	for i := range 2000 {
		chosen := map[string]bool{}
		for _, b := range shard(bugs, 3, strings.Repeat("x", i)) {
			chosen[b.Name], seen[b.Name] = true, true
		}
		if len(chosen) != 3 {
			t.Fatalf("%d different bugs in a shard of 3", len(chosen))
		}
	}
	if len(seen) != len(bugs) {
		t.Errorf("%d of %d bugs have their turn", len(seen), len(bugs))
	}
}
