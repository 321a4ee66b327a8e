package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/claim"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/prove"
	"github.com/holdfast-go/holdfast/devbroker"
	"github.com/holdfast-go/holdfast/stream"
)

var updateGolden = flag.Bool("update", false, "write the golden files of what commands print")

func checkGolden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *updateGolden {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s differs (go test -update writes it):\n%s", path, got)
	}
}

// proveReport is a run in which each verdict occurs.
func proveReport() prove.Report {
	r := prove.Report{
		Run: "20260102t030405-abcdef", Brokers: 1, TransactionVersion: 2, Replicas: 1, MinISR: 1,
		Weaker: []string{"the cluster has 1 broker"}, Proved: 1, Refuted: 1, NotShown: 1,
		Cleaned: prove.Cleaned{Topics: []string{"a", "b"}, Groups: []string{"c"}, Left: []string{"topic d: TOPIC_DELETION_DISABLED"}},

		TransactionalIDs: []string{"e"},
	}
	add := func(name string, v prove.Verdict, summary, why string, evidence ...string) {
		c, _ := claim.Prove(name)
		c.Weaker = r.Weaker[0]
		r.Exercises = append(r.Exercises, prove.Outcome{Name: name, Verdict: v, Summary: summary, Why: why, Claim: prove.Claim(c), Evidence: evidence, TookMs: 1234})
	}
	add(claim.ProveSends, prove.Proved, "This was done: that was seen.", "", "one thing that was seen", "another thing that was seen, so long that the line has to be broken after it")
	add(claim.ProveAborted, prove.Refuted, "This was done.", "a read_committed reader saw 3 records of the aborted transaction", "what it saw")
	add(claim.ProveTakeover, prove.NotShown, "", "the exercise did not come to its end: the network is down.")
	return r
}

func TestProveReportIsGolden(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	if err := writeReport(&b, "holdfast", false, proveReport()); err != nil {
		t.Fatal(err)
	}
	checkGolden(t, "prove-report.txt", b.String())
	if strings.Contains(b.String(), "(prove)") {
		t.Error("the report names the command as the component of its claims")
	}
	if strings.Contains(strings.ToLower(b.String()), "exactly-once") {
		t.Error("the report has the slogan")
	}
}

func TestProveListIsGolden(t *testing.T) {
	t.Parallel()
	got := command(t.Context(), "prove", "--list")
	if got.code != exitOK {
		t.Fatalf("exit code %d: %s", got.code, got.stderr)
	}
	checkGolden(t, "prove-list.txt", got.stdout)
	var listed []struct {
		Name  string
		Claim prove.Claim
	}
	if err := json.Unmarshal([]byte(command(t.Context(), "prove", "--list", "--json").stdout), &listed); err != nil {
		t.Fatal(err)
	}
	if len(listed) != 5 || listed[4].Name != claim.ProveTakeover || listed[4].Claim.Boundary == "" {
		t.Errorf("listed %+v", listed)
	}
}

func TestProveExitCodes(t *testing.T) {
	t.Parallel()
	denied := stream.NewError("sends", stream.ErrNotAuthorized)
	for _, c := range []struct {
		name string
		r    prove.Report
		ran  error
		code int
	}{
		{"all proved", prove.Report{Proved: 5}, nil, exitOK},
		{"one not shown", prove.Report{Proved: 4, NotShown: 1}, nil, exitOK},
		{"one refuted", prove.Report{Proved: 4, Refuted: 1}, nil, exitFailed},
		{"nothing shown", prove.Report{NotShown: 5}, nil, exitFailed},
		{"one not permitted", prove.Report{Proved: 4, NotShown: 1}, denied, exitUnreachable},
		{"nothing permitted", prove.Report{NotShown: 5}, denied, exitUnreachable},
		{"refuted and not permitted", prove.Report{Refuted: 1, NotShown: 1}, denied, exitFailed},
		{"interrupted", prove.Report{Proved: 1, NotShown: 1}, errInterrupted, exitInterrupted},
		{"clean-up failed", prove.Report{Proved: 5}, errors.New("topic deletion is disabled"), exitFailed},
	} {
		if got := exitCode(t.Context(), judgeReport(c.r, c.ran)); got != c.code {
			t.Errorf("%s: exit code %d, want %d", c.name, got, c.code)
		}
	}
}

func TestProveUsage(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		args []string
		code int
		says string
	}{
		{"no broker", nil, exitUsage, "no broker was named"},
		{"two choices", []string{"--list", "--cleanup"}, exitUsage, "exclude each other"},
		{"nobody listens", []string{"--brokers", "127.0.0.1:1", "--timeout", "5s"}, exitUnreachable, "nothing listens"},
		{"clean-up of nobody", []string{"--cleanup", "--brokers", "127.0.0.1:1", "--timeout", "5s"}, exitUnreachable, "nothing listens"},
	} {
		got := command(t.Context(), append([]string{"prove"}, c.args...)...)
		if got.code != c.code || !strings.Contains(got.stderr, c.says) || !strings.Contains(got.stderr, "Try: ") || got.stdout != "" {
			t.Errorf("%s: exit code %d\n%s", c.name, got.code, got.stderr)
		}
	}
}

// TestProveOnAnEmbeddedBroker goes the whole way of the command, its second process included.
func TestProveOnAnEmbeddedBroker(t *testing.T) {
	t.Parallel()
	b, err := devbroker.Start(devbroker.Config{Listen: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Close() })
	out := t.TempDir()
	got := command(t.Context(), "prove", "--brokers", b.Addr(), "--claims", "aborted,fencing", "--out", out, "--json")
	if got.code != exitOK {
		t.Fatalf("exit code %d\n%s", got.code, got.stderr)
	}
	var r prove.Report
	if err := json.Unmarshal([]byte(withoutObserved(t, got.stdout)), &r); err != nil {
		t.Fatal(err)
	}
	if r.Proved != 2 || len(r.Exercises) != 2 || len(r.Exercises[1].Evidence) == 0 || len(r.Cleaned.Topics) != 3 {
		t.Errorf("report %+v", r)
	}
	for _, e := range r.Exercises {
		if !strings.Contains(e.Claim.Weaker, "embedded broker") || !strings.HasSuffix(e.Summary, ".") {
			t.Errorf("%s: nothing says that the broker is an imitation, or what was done: %+v", e.Name, e)
		}
	}
	if !slices.ContainsFunc(r.Weaker, func(w string) bool { return strings.Contains(w, "no proof of a fencing claim") }) {
		t.Errorf("the report does not say that this is no proof: %q", r.Weaker)
	}
	if !strings.Contains(got.stderr, "1/2 aborted\n") || !strings.Contains(got.stderr, "2/2 fencing\n") {
		t.Errorf("progress:\n%s", got.stderr)
	}
	kept, err := os.ReadFile(filepath.Join(out, "prove-"+r.Run+".json"))
	if err != nil || string(kept) != got.stdout {
		t.Errorf("the kept report differs: %v", err)
	}
	if text, err := os.ReadFile(filepath.Join(out, "prove-"+r.Run+".txt")); err != nil || !strings.Contains(string(text), "2 proved, 0 refuted, 0 not shown") ||
		!strings.Contains(string(text), "WEAKER HERE: this is the embedded broker") {
		t.Errorf("the kept text: %v\n%s", err, text)
	}
	if got := command(t.Context(), "prove", "--brokers", b.Addr(), "--prefix", "a/b"); got.code != exitUsage || !strings.Contains(got.stderr, "prefix") {
		t.Errorf("a bad prefix: exit code %d\n%s", got.code, got.stderr)
	}
	if got := command(t.Context(), "prove", "--brokers", b.Addr(), "--cleanup"); got.code != exitOK || !strings.Contains(got.stdout, "nothing was left") {
		t.Errorf("clean-up: exit code %d\n%s%s", got.code, got.stdout, got.stderr)
	}
}

// withoutObserved leaves out the parts whose type depends on the exercise, and makes sure that they are
// there.
func withoutObserved(t *testing.T, text string) string {
	t.Helper()
	var all map[string]any
	if err := json.Unmarshal([]byte(text), &all); err != nil {
		t.Fatal(err)
	}
	for _, x := range all["exercises"].([]any) {
		if seen, ok := x.(map[string]any)["observed"].(map[string]any); !ok || len(seen) == 0 {
			t.Errorf("nothing is observed in %v", x)
		}
		delete(x.(map[string]any), "observed")
	}
	left, err := json.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	return string(left)
}
