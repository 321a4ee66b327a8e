package matrix

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/kafkatest"
	"github.com/holdfast-go/holdfast/internal/trial"
)

func TestMain(m *testing.M) { kafkatest.Main(m, trial.Child()) }

const (
	partitions = 4
	perSecond  = 100 // records of the load
	// restarts bounds the end and the start of a broker.
	restarts = 4 * time.Minute
	// resumes bounds the time from a fault's end until what the input has then is committed: the
	// transaction of a dead owner that none of ours takes over has to time out, and a slow machine has
	// its share.
	resumes = 60 * time.Second
)

// group is a way of sharing the partitions of a group.
type group struct {
	name     string
	protocol string
	java     bool // a Java member leads
}

var groups = []group{
	{name: "cooperative", protocol: "cooperative"},
	{name: "eager", protocol: "eager"},
	{name: "KIP-848", protocol: "server-side"},
	{name: "mixed", protocol: "cooperative", java: true},
}

// served reports whether the brokers serve the protocol as it must be.
func (g group) served() bool {
	v := kafkatest.Version()
	return g.protocol != "server-side" || !strings.HasPrefix(v, "3.") && !strings.HasPrefix(v, "4.0")
}

// fault is what happens to a cell under load. It waits until the fault has bitten, and until it is over.
type fault struct {
	name    string
	members int // of ours that run before
	strike  func(c *cell)
}

var faults = []fault{
	{"join", 2, join},
	{"leave", 2, leave},
	{"killed", 2, killed},
	{"stopped past the session", 2, stopped},
	{"rolling restart", 3, rollingRestart},
	{"broker bounced clean", 2, bouncedClean},
	{"broker bounced hard", 2, bouncedHard},
	{"coordinator moved", 2, coordinatorMoved},
}

// apps are what a group runs: from cell to cell another one, and nightly each in every cell. A group with
// a Java member copies.
var apps = []trial.App{
	{Kind: trial.Flow, Guarantee: holdfast.FencedOutputs},
	{Kind: trial.Flow, Guarantee: holdfast.FencedState},
	{Kind: trial.Pipe},
}

func appName(a trial.App) string {
	if a.Kind == trial.Flow {
		return a.Guarantee.String()
	}
	return string(a.Kind)
}

// always are the cells that run in every run of the tests.
var always = map[string]bool{"cooperative/rolling restart": true}

// TestKafkaMatrix runs a cell or two; all of them nightly, and with HOLDFAST_MATRIX=all.
// Public case A2.
func TestKafkaMatrix(t *testing.T) {
	all := os.Getenv("HOLDFAST_MATRIX") == "all"
	nightly := os.Getenv("HOLDFAST_NIGHTLY") == "1"
	cluster := kafkatest.New(t, kafkatest.Options{Brokers: 3, Properties: map[string]string{
		// Transactions that have timed out are looked for every half second, and not every ten.
		"transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
	}})
	var table table
	for i, g := range groups {
		for j, f := range faults {
			name := g.name + "/" + f.name
			if !all && !nightly && !always[name] {
				continue
			}
			if !g.served() {
				table.refused(g, f)
				continue
			}
			run := apps
			switch {
			case g.java:
				run = []trial.App{{Kind: trial.Copy}}
			case !nightly:
				run = apps[(i+j)%len(apps):][:1]
			}
			for _, app := range run {
				t.Run(name+"/"+appName(app), func(t *testing.T) {
					c := newCell(t, cluster, g, app)
					defer table.add(g, f, app, c) // also what fails in the midst has a row
					c.run(g, f)
				})
			}
		}
	}
	table.print(t)
}

// table is what make matrix prints.
type table struct {
	mu          sync.Mutex
	rows        []string
	ran, passed int
}

func (t *table) add(g group, f fault, app trial.App, c *cell) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ran++
	verdict := "passed"
	if c.t.Failed() {
		verdict = "FAILED"
	} else {
		t.passed++
	}
	t.rows = append(t.rows, fmt.Sprintf("| %s | %s | %s | %s | %.1f | %s | %s |",
		g.name, f.name, appName(app), verdict, c.resumed.Seconds(), c.spurious, strings.Join(c.evidence, "; ")))
}

func (t *table) refused(g group, f fault) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.rows = append(t.rows, fmt.Sprintf("| %s | %s | | refused at start: takes Kafka 4.3 or newer | | | |", g.name, f.name))
}

// print shows the table, and keeps it where HOLDFAST_MATRIX_RESULTS says.
func (t *table) print(tb testing.TB) {
	t.mu.Lock()
	defer t.mu.Unlock()
	text := fmt.Sprintf("# Matrix on Kafka %s\n\nCommit %s: %d of %d cells passed.\n\n"+
		"| Group | Fault | Component | Outcome | Seconds until all is committed | Spurious refusals | Evidence |\n|---|---|---|---|---|---|---|\n%s\n",
		kafkatest.Version(), trial.Tested(tb), t.passed, t.ran, strings.Join(t.rows, "\n"))
	fmt.Print(text)
	trial.Keep(tb, "HOLDFAST_MATRIX_RESULTS", text)
	if t.ran == 0 {
		tb.Error("no cell has run")
	}
}
