//go:build synctests

package virtual

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/holdfasttest"
)

// wallClock are the places of the product that meet a time without a monotonic part, each with why a step
// of the wall clock does not matter there. All others are differences of times that this process has
// taken itself, which Go counts on the monotonic clock.
var wallClock = map[string]string{
	"dlq/letter.go:letter":                    "the time of writing, for whoever reads the letter",
	"dlq/letter.go:newBuilder":                "the record's own timestamp as a number, for a header",
	"dlq/replay.go:ReplayTo":                  "the same",
	"dlq/takes.go:stamp":                      "the same",
	"dlq/headers.go:millis":                   "the same, read",
	"dlq/takes.go:time":                       "the record's timestamp: the broker compares it with its own clock, and a refusal is learnt from",
	"internal/engine/call.go:permits":         "the user's timestamp as a number, for the text of an error",
	"internal/wire/record.go:Time":            "the record's timestamp",
	"stream/time.go:outside of functions":     "bounds of what the client can carry",
	"fence/progress.go:Encode":                "the stamp of a progress record: information for people (TestWallClockOfProgress)",
	"fence/progress.go:DecodeProgress":        "the same",
	"internal/member/prepare.go:resolveStart": "Start.AtTime is the user's, and the broker compares it",
	"internal/wire/diagnose.go:producers":     "a time of the broker, for the text of a diagnosis",
	"internal/wire/diagnose.go:describe":      "the same",
	"internal/wire/holder.go:Since":           "the same",
	"snapshot/stall.go:holderHint":            "the same: it decides between two hints, and nothing that is done",

	"snapshot/stall.go:stallError since.Round":             "a length of time, for the text of an error",
	"internal/member/retained.go:compare age.Round":        "the same",
	"internal/member/silence.go:watchSilence silent.Round": "the same",
	"internal/member/silence.go:silentFor silent.Round":    "the same",
	"internal/member/renew.go:neverTaken failed.Round":     "the same",
	"internal/member/stall.go:goesOn e.For.Round":          "a length of time, for the log",
}

// Calls that make a time without a monotonic part, or read the wall clock of one. Those of lengths are
// methods of a length of time as well: a place of theirs is named with what they are called on.
var (
	stripLengths   = []string{"Truncate", "Round"}
	stripMethods   = []string{"UTC", "Local", "UnixMilli", "UnixNano", "UnixMicro", "AddDate", "In"}
	stripFunctions = []string{"Unix", "UnixMilli", "UnixMicro", "Date", "Parse", "ParseInLocation"}
)

// TestWallClockIsNowhereCompared finds each place that strips a time of its monotonic part. A new one has
// to be looked at: if it is compared with a time of this process, a step of the wall clock would end a
// wait, or make one endless.
func TestWallClockIsNowhereCompared(t *testing.T) {
	t.Parallel()
	found := map[string]bool{}
	for _, dir := range []string{".", "fence", "snapshot", "dlq", "pipe", "kafka", "stream", "internal/member", "internal/engine", "internal/job", "internal/wire"} {
		files, err := filepath.Glob(filepath.Join("..", "..", dir, "*.go"))
		if err != nil || len(files) == 0 {
			t.Fatalf("no source in %s: %v", dir, err)
		}
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			for _, place := range stripped(t, file) {
				found[filepath.ToSlash(filepath.Join(dir, place))] = true
			}
		}
	}
	for place := range found {
		if wallClock[place] == "" {
			t.Errorf("%s makes a time without a monotonic part: see that a step of the wall clock cannot matter there, and name it in this test", place)
		}
	}
	for place := range wallClock {
		if !found[place] {
			t.Errorf("%s is named here and has no such call", place)
		}
	}
}

// stripped returns the places of a file that strip a time, as file:function.
func stripped(t *testing.T, file string) (places []string) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := parser.ParseFile(token.NewFileSet(), file, text, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range parsed.Decls {
		name := "outside of functions"
		if fn, ok := d.(*ast.FuncDecl); ok {
			name = fn.Name.Name
		}
		ast.Inspect(d, func(n ast.Node) bool {
			if s, ok := n.(*ast.SelectorExpr); ok {
				if how, strips := strips(s); strips {
					places = append(places, filepath.Base(file)+":"+name+how)
				}
			}
			return true
		})
	}
	return places
}

// strips reports whether a method or function strips a time, and how its place is told from others of the
// function. Those that are passed on and called elsewhere count too.
func strips(s *ast.SelectorExpr) (how string, ok bool) {
	if x, isName := s.X.(*ast.Ident); isName && x.Name == "time" {
		return "", slices.Contains(stripFunctions, s.Sel.Name)
	}
	if !slices.Contains(stripLengths, s.Sel.Name) {
		return "", slices.Contains(stripMethods, s.Sel.Name)
	}
	on := types.ExprString(s.X)
	for _, length := range []string{"time.Duration(", "time.Since(", "time.Until("} {
		if strings.HasPrefix(on, length) {
			return "", false
		}
	}
	return " " + on + "." + s.Sel.Name, true
}

// TestWallClockOfProgress gives the newest progress record a stamp of another century: what a process
// whose wall clock was stepped has written. The next owner goes on as if nothing had happened, and so do
// folds of records whose own times jump.
func TestWallClockOfProgress(t *testing.T) {
	for _, years := range []int{-40, 100} {
		t.Run(fmt.Sprintf("%d years", years), func(t *testing.T) {
			each(t, prompt, func(t *testing.T, w *world) {
				first := w.start("first")
				rs := few(20)
				for i := range rs {
					rs[i].at = time.Now().AddDate(years*(i%2), 0, 0)
				}
				w.send(rs...)
				w.committed(time.Minute)
				first.cancel()
				<-first.done
				w.expected = "comes after its commit" // the record that is there twice
				w.restamp(time.Now().AddDate(years, 0, 0))
				second := w.start("second")
				e := second.await(time.Minute, "restore", is(holdfasttest.EventRestored))
				if e.Offset != 20 {
					t.Errorf("the next owner begins at %d, want 20", e.Offset)
				}
				w.send(rs...)
				w.committed(time.Minute)
			})
		})
	}
}

// restamp writes the newest progress record again, with another stamp.
func (w *world) restamp(at time.Time) {
	w.t.Helper()
	h, _ := w.judge()
	var last *fence.Progress
	for _, r := range h.Snapshots[0].Records {
		if fence.IsProgressKey(r.Key) && r.Status == holdfasttest.Committed {
			p, err := fence.DecodeProgress(r.Value)
			if err != nil {
				w.t.Fatal(err)
			}
			last = &p
		}
	}
	last.At = at
	key, value, err := last.Encode()
	if err != nil {
		w.t.Fatal(err)
	}
	if err := w.client.ProduceSync(w.ctx, &kgo.Record{Topic: w.progressTopic(), Key: key, Value: value}).FirstErr(); err != nil {
		w.t.Fatal(err)
	}
}
