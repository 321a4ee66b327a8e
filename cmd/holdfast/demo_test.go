package main

import (
	"context"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/demo"
	"github.com/holdfast-go/holdfast/internal/kafkatest"
)

// small keeps the load low: what is tested are the schedules, which wait for what they need.
var small = []string{"demo", "--json", "--seed", "42", "--events", "2000", "--pace", "400"}

// demoRun runs the demo and returns its verdict.
func demoRun(t *testing.T, code int, args ...string) demo.Result {
	t.Helper()
	got := command(t.Context(), append(slices.Clone(small), args...)...)
	t.Logf("%s", got.stderr)
	if got.code != code {
		t.Fatalf("exit code %d, want %d", got.code, code)
	}
	var r demo.Result
	if err := json.Unmarshal([]byte(got.stdout), &r); err != nil {
		t.Fatalf("%v in %q", err, got.stdout)
	}
	if r.Seed != 42 || r.Events < 2000 || r.Keys == 0 {
		t.Errorf("got %+v", r)
	}
	return r
}

// damage is what the reader outside the members has to find without the rule. That something is lost
// is not enough: it would be too if the members had stopped by an error.
var damage = map[string]string{
	"grant-id":         "never folded", // nobody folds the partitions that came back under another id
	"restore-bound":    "not in the state",
	"two-write-delete": "missing from a state that an output shows",
	"applied-skip":     "folded twice into the state",
	"holds":            "not in the state",
	"outputs-first":    "folded without an output",
}

// checkDemo runs the demo, and the schedules with and without their rules, against the cluster that the arguments name, or against
// an embedded broker.
func checkDemo(t *testing.T, schedules []demo.Schedule, cluster ...string) {
	with := func(args ...string) []string { return append(args, cluster...) }
	t.Run("main", func(t *testing.T) {
		t.Parallel()
		r := demoRun(t, exitOK, with()...)
		if !r.OK || r.Lost != 0 || r.Repeated != 0 || r.Refused < 1 || r.Takeovers < 1 {
			t.Errorf("got %+v", r)
		}
	})
	t.Run("plain", func(t *testing.T) {
		t.Parallel()
		r := demoRun(t, exitOK, with("--plain")...)
		if r.OK || r.Lost == 0 {
			t.Errorf("the damage was not shown: %+v", r)
		}
	})
	for _, s := range schedules {
		t.Run("schedule "+s.Name, func(t *testing.T) {
			t.Parallel()
			if r := demoRun(t, exitOK, with("--schedule", s.Name)...); !r.OK || r.Lost != 0 || r.Repeated != 0 {
				t.Errorf("with every rule in force: %+v", r)
			}
		})
		t.Run("sabotage "+s.Name, func(t *testing.T) {
			t.Parallel()
			got := command(t.Context(), with("demo", "--seed", "42", "--events", "2000", "--pace", "400", "--sabotage", s.Name)...)
			t.Logf("%s%s", got.stderr, got.stdout)
			if got.code != exitFailed || damage[s.Name] == "" || !strings.Contains(unwrapped(got.stdout), damage[s.Name]) {
				t.Errorf("exit code %d without the rule, want %d because of events that are %s", got.code, exitFailed, damage[s.Name])
			}
		})
	}
}

// unwrapped is a text without its line breaks, which fall where the counts put them.
func unwrapped(text string) string { return strings.Join(strings.Fields(text), " ") }

// TestDemo has two of the schedules on the embedded broker, and nightly all of them.
func TestDemo(t *testing.T) { checkDemo(t, fewSchedules(2)) }

// fewSchedules returns the first n, and nightly all.
func fewSchedules(n int) []demo.Schedule {
	if os.Getenv("HOLDFAST_NIGHTLY") == "1" {
		return demo.Schedules()
	}
	return demo.Schedules()[:n]
}

func TestKafkaDemo(t *testing.T) {
	cluster := kafkatest.Start(t)
	adm := kadm.NewClient(cluster.Client(t))
	t.Cleanup(func() { // after all runs, each of which has removed what it made
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		for left := []string{"?"}; len(left) > 0; {
			if ctx.Err() != nil {
				t.Fatalf("topics or groups are left behind: %v", left)
			}
			topics, err := adm.ListTopics(ctx)
			if err != nil {
				t.Fatal(err)
			}
			groups, err := adm.ListGroups(ctx)
			if err != nil {
				t.Fatal(err)
			}
			left = slices.DeleteFunc(append(topics.Names(), groups.Groups()...),
				func(name string) bool { return !strings.HasPrefix(name, "holdfast-demo-") })
		}
	})
	checkDemo(t, fewSchedules(3), "--brokers", strings.Join(cluster.Addrs, ","))
}

// TestDemoOverTLS runs against a cluster that wants TLS and a password: the parent's tap sees plain
// frames all the same.
func TestDemoOverTLS(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	password := filepath.Join(dir, "password")
	if err := os.WriteFile(password, []byte("correct horse\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	addr, certificate := startBroker(t, "--data", filepath.Join(dir, "data"), "--tls", "--sasl", "--sasl-password-file", password)
	r := demoRun(t, exitOK, "--brokers", addr, "--tls-ca", certificate,
		"--sasl-mechanism", "SCRAM-SHA-256", "--sasl-user", "holdfast", "--sasl-password-file", password)
	if !r.OK || r.Refused < 1 {
		t.Errorf("got %+v", r)
	}
}

// TestDemoFields holds the fields of --json: other programs read them.
func TestDemoFields(t *testing.T) {
	t.Parallel()
	line, err := json.Marshal(demo.Result{})
	if err != nil {
		t.Fatal(err)
	}
	var fields map[string]any
	if err := json.Unmarshal(line, &fields); err != nil {
		t.Fatal(err)
	}
	want := []string{"events", "keys", "lost", "ok", "refused", "repeated", "seed", "takeovers"}
	if got := slices.Sorted(maps.Keys(fields)); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestDemoVerdictForPeople(t *testing.T) {
	t.Parallel()
	r := demo.Result{Events: 10, Keys: 2, Takeovers: 4, Refused: 1, Seed: 9, OK: true}
	damaged := demo.Result{Events: 10, Keys: 2, Lost: 3, Seed: 9}
	for _, c := range []struct {
		name   string
		flags  demoFlags
		result demo.Result
		code   int
		says   []string
	}{
		{"all is well", demoFlags{}, r, exitOK, []string{"OK", "holdfast demo --seed 9", "takeovers  4  "}},
		{"damage", demoFlags{}, damaged, exitFailed, []string{"FAILED"}},
		{"nothing refused", demoFlags{}, demo.Result{Events: 10}, exitFailed, []string{"FAILED"}},
		{"plain shows it", demoFlags{plain: true}, damaged, exitOK, []string{"CORRUPTED", "--plain"}},
		{"plain does not", demoFlags{plain: true}, r, exitFailed, []string{"NOT SHOWN"}},
		{"sabotage bites", demoFlags{sabotage: "grant-id"}, damaged, exitFailed, []string{"FAILED", "--sabotage grant-id"}},
		{"sabotage does not", demoFlags{sabotage: "grant-id"}, r, exitOK, []string{"NO DAMAGE"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var out strings.Builder
			a := &app{stdout: harmless(&out), stderr: harmless(&out)}
			if err := a.printVerdict(c.flags, c.result, demo.Details{}); err != nil {
				t.Fatal(err)
			}
			for _, want := range c.says {
				if !strings.Contains(out.String(), want) {
					t.Errorf("lacks %q:\n%s", want, out.String())
				}
			}
			if c.flags.plain && strings.Contains(out.String(), "takeovers") {
				t.Errorf("takeovers are counted by what the flow does not have without the fence:\n%s", out.String())
			}
			if got := exitCode(t.Context(), c.flags.judge(c.result)); got != c.code {
				t.Errorf("exit code %d, want %d", got, c.code)
			}
		})
	}
}

// TestResentIsNotRefused: what running owners were refused is told apart from what the verdict counts.
func TestResentIsNotRefused(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	a := &app{stdout: harmless(&out), stderr: harmless(&out)}
	r := demo.Result{Events: 10, Keys: 2}
	d := demo.Details{Rightful: map[string]int{"TxnOffsetCommit ILLEGAL_GENERATION": 3}}
	if err := a.printVerdict(demoFlags{}, r, d); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"refused    0  ", "resent     3  ", "3 × TxnOffsetCommit ILLEGAL_GENERATION", "no stale write was refused"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("lacks %q:\n%s", want, out.String())
		}
	}
	for line := range strings.Lines(out.String()) {
		if line = strings.TrimSuffix(line, "\n"); strings.HasSuffix(line, " ") || len([]rune(line)) > textColumns {
			t.Errorf("trailing blanks, or wider than %d columns: %q", textColumns, line)
		}
	}
}

func TestProgressFits(t *testing.T) {
	t.Parallel()
	const barColumns = 15 // percent, bar of six, blanks
	text := progressText(demo.Progress{Made: 20000, Wanted: 20000, Folded: 20000, Refused: 10})
	if len(text)+barColumns > 60 {
		t.Errorf("%d columns: %s", len(text)+barColumns, text)
	}
}
