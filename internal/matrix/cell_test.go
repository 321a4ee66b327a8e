package matrix

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/holdfasttest"
	"github.com/holdfast-go/holdfast/internal/kafkatest"
	"github.com/holdfast-go/holdfast/internal/trial"
)

// cell is one group under load that meets one fault.
type cell struct {
	t    *testing.T
	f    *trial.Field
	ms   []*trial.Member // ours
	java *trial.Member   // nil: none
	mark int             // in what the members have told, before the fault
	// victim is the member that the fault makes a stale owner: what is refused of it is as it should be.
	victim string

	evidence []string
	spurious string
	resumed  time.Duration
}

func newCell(t *testing.T, cluster *kafkatest.Cluster, g group, app trial.App) *cell {
	app.Protocol, app.Commit = g.protocol, 50*time.Millisecond
	if g.java {
		// Who leads is decided by who joined first, as long as nobody is expelled on a slow machine.
		app.Session, app.TransactionTimeout = 10*time.Second, 6*time.Second
	}
	return &cell{t: t, f: trial.New(t, cluster, app, partitions), spurious: "?"}
}

// run has the group meet the fault under load.
func (c *cell) run(g group, f fault) {
	if g.java {
		c.java = c.f.Java("java")
	}
	for i := range f.members {
		m := c.f.Member(fmt.Sprint("member", i+1))
		m.Start()
		m.Owns()
		c.ms = append(c.ms, m)
	}
	stopLoad := c.f.Load(perSecond)
	for _, m := range c.all() {
		m.AwaitCommit(0)
	}
	c.f.CaughtUp()
	c.mark = c.f.Mark()
	f.strike(c)
	patience := c.f.Patience
	c.f.Patience = resumes
	c.resumed = c.f.CaughtUp()
	c.f.Patience = patience
	mark := c.f.Mark()
	for _, m := range c.all() {
		m.AwaitCommit(mark)
	}
	stopLoad()
	c.f.CaughtUp()
	c.conclude()
	c.f.DeleteTopics()
}

// all are the members that are to commit when the fault is over.
func (c *cell) all() []*trial.Member {
	var all []*trial.Member
	for _, m := range c.ms {
		if m.Running() {
			all = append(all, m)
		}
	}
	if c.java != nil {
		all = append(all, c.java)
	}
	return all
}

// conclude judges the run.
func (c *cell) conclude() {
	c.t.Helper()
	c.spurious = c.refusals()
	vs := c.verdict()
	for _, v := range vs[:min(len(vs), 20)] {
		c.t.Error(v)
	}
	if len(vs) > 20 {
		c.t.Errorf("%d violations in all", len(vs))
	}
	for _, m := range c.ms {
		if n := m.Exits(); n > 0 {
			c.t.Errorf("%s has ended by itself %d times", m.Name, n)
		}
		if n := m.OutsideCommits(); n > 0 {
			c.t.Errorf("%s has committed an offset outside a transaction %d times", m.Name, n)
		}
	}
	if c.java != nil {
		led := c.f.Since(0, func(e trial.Event) bool { return e.Kind == trial.EventLeads && e.Offset >= 2 })
		c.bit(len(led) > 0, "Java has led %d generations of several members", len(led))
	}
	readBack := c.f.Since(c.mark, func(e trial.Event) bool { return e.Kind == holdfasttest.EventCommitted && e.ReadBack })
	if len(readBack) > 0 {
		c.evidence = append(c.evidence, fmt.Sprintf("%d outcomes were unknown and read back", len(readBack)))
	}
	if len(c.evidence) == 0 {
		c.t.Error("nothing shows that the fault has bitten")
	}
}

// verdict compares what the run has left with the input. The checker knows the commits of ours alone: a
// group with a Java member is judged by its copy.
func (c *cell) verdict() (found []string) {
	c.t.Helper()
	if c.java == nil {
		for _, v := range c.f.Verdict() {
			found = append(found, v.String())
		}
		return found
	}
	h := c.f.History()
	for p := range h.Inputs {
		input, output := committed(h.Inputs[p]), committed(h.Outputs[p])
		if i := differ(input, output); i >= 0 {
			found = append(found, fmt.Sprintf("I4: the copy of partition %d has %d records, the input %d, and they differ from record %d on", p, len(output), len(input), i))
		}
		if o := h.Offsets[p]; o.Next < h.Inputs[o.Partition.Partition].End {
			found = append(found, fmt.Sprintf("I7: offset %d of %v is committed, the input ends at %d", o.Next, o.Partition, h.Inputs[o.Partition.Partition].End))
		}
	}
	return found
}

func committed(l holdfasttest.Log) (out []holdfasttest.Record) {
	for _, r := range l.Records {
		if r.Status == holdfasttest.Committed {
			out = append(out, r)
		}
	}
	return out
}

// differ returns the first place at which two lists differ, -1 if they do not.
func differ(a, b []holdfasttest.Record) int {
	for i := range max(len(a), len(b)) {
		if i >= len(a) || i >= len(b) || !bytes.Equal(a[i].Key, b[i].Key) || !bytes.Equal(a[i].Value, b[i].Value) {
			return i
		}
	}
	return -1
}

// refusals are the transactions that were refused of members that were no stale owners, by cause.
func (c *cell) refusals() string {
	count := map[string]int{}
	for _, e := range c.f.Since(0, trial.Kinds(holdfasttest.EventRefused)) {
		if e.Member != c.victim {
			count[e.Cause]++
		}
	}
	var out []string
	for _, cause := range slices.Sorted(maps.Keys(count)) {
		out = append(out, fmt.Sprintf("%d %s", count[cause], cause))
	}
	if out == nil {
		return "0"
	}
	return strings.Join(out, ", ")
}

// bit notes what shows that the fault has bitten, and fails the test if it has not.
func (c *cell) bit(ok bool, format string, args ...any) {
	c.t.Helper()
	what := fmt.Sprintf(format, args...)
	if !ok {
		c.t.Errorf("the fault has not bitten: %s", what)
	}
	c.evidence = append(c.evidence, what)
}
