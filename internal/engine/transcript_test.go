package engine

import (
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var rewrite = flag.Bool("rewrite", false, "write what the commands answer into the transcripts")

// TestTranscripts runs every file of testdata. A line that begins with "> " is a command; the lines
// below it, up to the next command, comment or empty line, are its answer, compared to the byte.
// Run with -rewrite to write the answers, and read the difference.
func TestTranscripts(t *testing.T) {
	t.Parallel()
	paths, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no transcripts: %v", err)
	}
	for _, path := range paths {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txt"), func(t *testing.T) {
			t.Parallel()
			raw, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			want := string(raw)
			if !strings.HasPrefix(want, "# ") {
				t.Error("a transcript opens with a comment that says what it shows")
			}
			got := play(t, want)
			if *rewrite {
				if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if got != want {
				t.Error(difference(got, want))
			}
		})
	}
}

func play(t *testing.T, script string) string {
	in := newInterpreter(t)
	var out strings.Builder
	for line := range strings.Lines(script) {
		switch {
		case strings.HasPrefix(line, "> "):
			out.WriteString(line)
			out.WriteString(in.run(strings.Fields(line[2:])))
		case strings.HasPrefix(line, "#"), line == "\n":
			out.WriteString(line)
		}
	}
	return out.String()
}

var invariantBroken = regexp.MustCompile(`(?m)^(?:got|want)  ?invariant ([a-z-]+) broken`)

// difference begins with the invariant whose violation was to be told and was not, or the other way round.
func difference(got, want string) string {
	first := firstDifference(got, want)
	if m := invariantBroken.FindStringSubmatch(first); m != nil {
		return m[1] + ": answers differ:\n" + first
	}
	return "answers differ:\n" + first
}

func firstDifference(got, want string) string {
	g, w := strings.Split(got, "\n"), strings.Split(want, "\n")
	command := ""
	for i := range min(len(g), len(w)) {
		if strings.HasPrefix(g[i], "> ") {
			command = g[i]
		}
		if g[i] != w[i] {
			return command + "\ngot  " + g[i] + "\nwant " + w[i]
		}
	}
	return command + "\none is longer than the other"
}
