package preflight

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/claim"
	"github.com/holdfast-go/holdfast/stream"
)

// What is refused in many partitions is a line each, of a few, and one fix: no step is told twice, and none with
// numbers that are another partition's.
func TestSeveralPartitionsAreALineEach(t *testing.T) {
	t.Parallel()
	refusals := func(n int, hint string) (errs []error) {
		for p := range n {
			e := stream.NewError("start", fmt.Errorf("offset %d: %w", 10+p, stream.ErrOffsetMismatch)).At(stream.Partition{Topic: "in", Partition: int32(p)}, -1)
			if strings.Contains(hint, "%d") {
				e.Hint = fmt.Sprintf(hint, 10+p)
			} else {
				e.Hint = hint
			}
			errs = append(errs, e)
		}
		return errs
	}
	for _, c := range []struct {
		name    string
		n       int
		hint    string
		members int
		lines   int
		last    string
		fix     string
	}{
		{"one", 1, "reset to %d", 0, 1, "start in/0: offset 10", "reset to 10"},
		{"two, one step", 2, "choose Rebuild", 0, 2, "start in/1: offset 11", "choose Rebuild"},
		{"three with numbers", 3, "reset to %d", 0, 3, "start in/2: offset 12", "for the first one, and so for each of the others with numbers of its own: reset to 10"},
		{"many", 8, "reset to %d", 0, 4, "and 5 more", "for the first one, and so for each of the others with numbers of its own: reset to 10"},
		{"many beside members", 8, "choose Rebuild", 1, 5, "and 5 more", "choose Rebuild"},
		{"no step", 2, "", 0, 2, "start in/1: offset 11", ""},
	} {
		i := &inspection{Job: Job{Group: "g"}, members: c.members}
		err := i.noteOffsets(8, refusals(c.n, c.hint))
		if fault := c.members == 0; errors.Is(err, stream.ErrOffsetMismatch) != fault {
			t.Errorf("%s: %v", c.name, err)
		}
		f := one(t, i.found, "offsets")
		lines := strings.Split(f.Text(), "\n")
		if len(lines) != c.lines || !strings.HasPrefix(lines[len(lines)-1], c.last) || strings.Contains(f.Text(), "Next") {
			t.Errorf("%s: it says\n%s\nwant %d lines, the last one %q", c.name, f.Text(), c.lines, c.last)
		}
		if got := strings.Join(f.Fix, "|"); got != c.fix {
			t.Errorf("%s: fix %q, want %q", c.name, got, c.fix)
		}
		if report := (claim.Report{Findings: []claim.Finding{f}}).String(); c.hint != "" && strings.Count(report, c.fix) != 1 {
			t.Errorf("%s: the step is not there once:\n%s", c.name, report)
		}
	}
}
