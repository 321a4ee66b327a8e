package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Every toggle has a row that switches it off alone, or a reason why none does.
func TestEveryToggleHasATrace(t *testing.T) {
	t.Parallel()
	alone := map[string]bool{}
	for _, row := range Traces {
		alone[row.Off] = true
	}
	for _, toggle := range Toggles {
		belt := slices.ContainsFunc(Belts, func(b Belt) bool { return b.Toggle == toggle.Name })
		if alone[toggle.Name] == belt {
			t.Errorf("%s: off alone in a row: %v, among the belts: %v; want one of both", toggle.Name, alone[toggle.Name], belt)
		}
	}
	if rows := len(Belts) + len(alone); rows < len(Toggles) {
		t.Errorf("%d toggles, %d in the tables", len(Toggles), rows)
	}
}

// A belt is none if it shows something alone: with every other rule on, as the document has it, and with Retake and
// Probe off, as the other rows have them.
func TestBeltsShowNothingAlone(t *testing.T) {
	t.Parallel()
	for _, b := range Belts {
		for _, on := range []string{besides(b.Toggle), ""} {
			for _, name := range beltConfigs {
				for _, faults := range beltFaults(name, on) {
					if r := Run(config(t, name, faults, b.Toggle, on), 5e6, false); !r.Full || r.Violated() {
						t.Errorf("%s off, %s on, is noticed in %s with %d faults: full %v, %v: it belongs into Traces",
							b.Toggle, orDash(on), name, faults, r.Full, r.Count)
					}
				}
			}
		}
	}
}

// besides are the rules that config switches off and that are on if the toggle is off alone.
func besides(toggle string) string {
	return strings.Join(slices.DeleteFunc([]string{"Retake", "Probe"}, func(r string) bool { return r == toggle }), ",")
}

// beltFaults are the numbers of faults: a night has all, whose larger configuration takes minutes with two.
func beltFaults(config, on string) []uint8 {
	if os.Getenv("HOLDFAST_NIGHTLY") == "" && (on == "" || config != "outputs-1key") {
		return []uint8{1}
	}
	return []uint8{1, 2}
}

// Every test that a row names is there.
func TestTracesHaveTheirTests(t *testing.T) {
	t.Parallel()
	var all []string
	for _, row := range Traces {
		all = append(all, row.Tests)
	}
	for _, b := range Belts {
		all = append(all, b.Tests)
	}
	for _, tests := range all {
		for _, test := range strings.Split(tests, ", ") {
			where, name, _ := strings.Cut(test, ": ")
			name, sub, _ := strings.Cut(name, "/")
			files, err := filepath.Glob(filepath.Join("..", where, "*_test.go"))
			if err != nil || !strings.HasPrefix(name, "Test") {
				t.Fatalf("%q: %v", test, err)
			}
			if !slices.ContainsFunc(files, func(file string) bool { return declares(t, file, name) }) {
				t.Errorf("%s has no %s", where, name)
			}
			if sub == "" {
				continue
			}
			if _, err := os.Stat(filepath.Join("..", where, "testdata", sub+".txt")); err != nil {
				t.Errorf("%s: %v", test, err)
			}
		}
	}
}

// The table of docs/reliability.md is this one.
func TestTracesAreThoseOfTheDocument(t *testing.T) {
	t.Parallel()
	doc, err := os.ReadFile("../docs/reliability.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range append(traceLines(), beltLines()...) {
		if !strings.Contains(string(doc), line+"\n") {
			t.Errorf("docs/reliability.md lacks: %s", line)
		}
	}
}

func traceLines() (lines []string) {
	for _, r := range Traces {
		off := orDash(r.Off)
		if r.On != "" {
			off += " `-on " + r.On + "`"
		}
		lines = append(lines, fmt.Sprintf("| %s | `%s`, %d | %s | %d | %s |",
			strings.ReplaceAll(off, ",", ", "), r.Config, r.Faults, badName[r.Bad], r.Steps, words(r.Tests)))
	}
	return lines
}

func beltLines() (lines []string) {
	for _, b := range Belts {
		lines = append(lines, fmt.Sprintf("| %s | %s | %s |", b.Toggle, b.Why, words(b.Tests)))
	}
	return lines
}
