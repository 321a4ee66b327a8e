package prom_test

import (
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"go.yaml.in/yaml/v3"

	"github.com/holdfast-go/holdfast/stream"
)

const alertsFile = "alerts.yaml"

// alert is a rule of alerts.yaml.
type alert struct {
	Alert       string
	Expr        string
	For         duration
	Labels      map[string]string
	Annotations map[string]string
}

// duration is a time as Prometheus writes it; of its units the rules use these.
type duration time.Duration

func (d *duration) UnmarshalYAML(n *yaml.Node) error {
	parsed, err := time.ParseDuration(n.Value)
	*d = duration(parsed)
	return err
}

// alerts decodes the rules, strictly: Prometheus refuses a file with a field that it does not know.
func alerts(t *testing.T) map[string]alert {
	t.Helper()
	f, err := os.Open(alertsFile)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var file struct {
		Groups []struct {
			Name  string
			Rules []alert
		}
	}
	d := yaml.NewDecoder(f)
	d.KnownFields(true)
	if err := d.Decode(&file); err != nil {
		t.Fatal(err)
	}
	out := map[string]alert{}
	for _, g := range file.Groups {
		if g.Name == "" || len(g.Rules) == 0 {
			t.Errorf("a group has no name or no rules: %q", g.Name)
		}
		for _, r := range g.Rules {
			if _, ok := out[r.Alert]; ok || r.Alert == "" {
				t.Errorf("alert %q has no name or is there twice", r.Alert)
			}
			out[r.Alert] = r
		}
	}
	if len(out) == 0 {
		t.Fatal("there are no rules")
	}
	return out
}

// selector is one use of a metric in an expression.
type selector struct {
	function string // rate, increase, delta or absent, "" if it stands by itself
	metric   string
	matchers []matcher
	window   time.Duration
}

type matcher struct{ label, op, value string }

var (
	grouping  = regexp.MustCompile(`\b(?:without|by|on|ignoring|group_left|group_right)\s*\(([^)]*)\)`)
	use       = regexp.MustCompile(`(?:\b(\w+)\()?\b([a-zA-Z_]\w*)(\{[^}]*\})?(?:\[(\w+)\])?`)
	match     = regexp.MustCompile(`(\w+)\s*(=~|!~|!=|=)\s*"([^"]*)"`)
	threshold = regexp.MustCompile(`[<>]=?\s*([0-9.]+)`)
	shown     = regexp.MustCompile(`\$labels\.(\w+)`)
	words     = []string{"and", "or", "unless", "sum", "max", "time", "rate", "increase", "delta", "absent", "without", "by", "on", "group_left", "group_right"}
)

// parse returns the uses of metrics in an expression, and the labels that its clauses name.
func parse(t *testing.T, expr string) (uses []selector, grouped []string) {
	t.Helper()
	for _, m := range grouping.FindAllStringSubmatch(expr, -1) {
		for l := range strings.SplitSeq(m[1], ",") {
			if l = strings.TrimSpace(l); l != "" {
				grouped = append(grouped, l)
			}
		}
	}
	for _, m := range use.FindAllStringSubmatch(grouping.ReplaceAllString(expr, ""), -1) {
		if slices.Contains(words, m[2]) {
			continue
		}
		s := selector{function: m[1], metric: m[2]}
		for _, l := range match.FindAllStringSubmatch(m[3], -1) {
			s.matchers = append(s.matchers, matcher{l[1], l[2], l[3]})
		}
		if m[4] != "" {
			window, err := time.ParseDuration(m[4])
			if err != nil {
				t.Errorf("%s: %v", expr, err)
			}
			s.window = window
		}
		uses = append(uses, s)
	}
	if len(uses) == 0 {
		t.Errorf("there is no metric in %s", expr)
	}
	return uses, grouped
}

func (m matcher) matches(value string) bool {
	switch m.op {
	case "=":
		return value == m.value
	case "!=":
		return value != m.value
	}
	return regexp.MustCompile("^(?:"+m.value+")$").MatchString(value) == (m.op == "=~")
}

func (s selector) matches(m *dto.Metric) bool {
	for _, want := range s.matchers {
		value := ""
		for _, l := range m.GetLabel() {
			if l.GetName() == want.label {
				value = l.GetValue()
			}
		}
		if !want.matches(value) {
			return false
		}
	}
	return true
}

// exporters are the metrics of others that the rules use, with their labels.
var exporters = map[string][]string{
	"kafka_topic_partitions":               {"topic"},
	"kafka_topic_partition_current_offset": {"topic", "partition"},
}

// target are the labels that Prometheus adds to what it scrapes.
var target = []string{"instance", "job", "pod"}

// series returns what reg has, by the name of the metric.
func series(t *testing.T, reg prometheus.Gatherer) map[string]*dto.MetricFamily {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]*dto.MetricFamily{}
	for _, f := range families {
		out[f.GetName()] = f
	}
	return out
}

// everything returns the series of a process in which everything has happened once.
func everything(t *testing.T) map[string]*dto.MetricFamily {
	t.Helper()
	reg, h := register(t)
	drive(h)
	h.Lost(stream.Released{Partition: p0, Ownership: 1})
	h.Assigned(stream.Assigned{Partition: p0, Ownership: 2})
	h.Stalled(stream.Stalled{Partition: p0})
	h.Revoked(stream.Released{Partition: p0})
	return series(t, reg)
}

// Metrics and labels of the rules exist, and each kind of metric is asked in the way that fits it.
func TestAlertsUseWhatThereIs(t *testing.T) {
	t.Parallel()
	families := everything(t)
	labelsOf := func(metric string) (names []string, ok bool) {
		if names, ok := exporters[metric]; ok {
			return names, true
		}
		f, ok := families[metric]
		if !ok {
			return nil, false
		}
		for _, l := range f.GetMetric()[0].GetLabel() {
			names = append(names, l.GetName())
		}
		return names, true
	}
	for name, a := range alerts(t) {
		uses, grouped := parse(t, a.Expr)
		known := slices.Clone(target)
		for _, s := range uses {
			labels, ok := labelsOf(s.metric)
			if !ok {
				t.Errorf("%s: there is no metric %s", name, s.metric)
			}
			known = append(known, labels...)
			for _, m := range s.matchers {
				if !slices.Contains(labels, m.label) {
					t.Errorf("%s: %s has no label %s", name, s.metric, m.label)
				}
			}
			ranged := s.function == "rate" || s.function == "increase"
			if f := families[s.metric]; f != nil && ranged != (f.GetType() == dto.MetricType_COUNTER) {
				t.Errorf("%s: %s is a %s and stands in %q", name, s.metric, f.GetType(), s.function)
			}
		}
		for _, text := range a.Annotations {
			for _, m := range shown.FindAllStringSubmatch(text, -1) {
				grouped = append(grouped, m[1])
			}
		}
		for _, l := range grouped {
			if !slices.Contains(known, l) {
				t.Errorf("%s: none of its metrics has a label %s", name, l)
			}
		}
	}
}

// Every increase that a rule waits for has a series as soon as a partition is granted: the first event
// would else be the first sample, and no increase.
func TestAlertsSeeTheFirstEvent(t *testing.T) {
	t.Parallel()
	reg, h := register(t)
	h.Assigned(stream.Assigned{Partition: p0, Ownership: 1, Committed: -1})
	families := series(t, reg)
	for name, a := range alerts(t) {
		uses, _ := parse(t, a.Expr)
		for _, s := range uses {
			if s.function == "" || exporters[s.metric] != nil {
				continue
			}
			if !slices.ContainsFunc(families[s.metric].GetMetric(), s.matches) {
				t.Errorf("%s: no series of %s with %v at the grant", name, s.metric, s.matchers)
			}
			for _, m := range s.matchers {
				for value := range strings.SplitSeq(m.value, "|") { // each alternative of its own
					one := selector{metric: s.metric, matchers: []matcher{{m.label, "=", value}}}
					if m.op != "!=" && !slices.ContainsFunc(families[s.metric].GetMetric(), one.matches) {
						t.Errorf("%s: no series of %s with %s=%q at the grant", name, s.metric, m.label, value)
					}
				}
			}
		}
	}
}

// thresholds are what the numbers of each rule have to lie between, exclusively, in their order.
var thresholds = map[string][][2]float64{
	"HoldfastIDTaken":          {{-1, 1}},          // the first one counts
	"HoldfastFencedRepeatedly": {{1, 5}},           // more than one, and before five in a row stop the flow
	"HoldfastAbortRate":        {{0, 0.5}, {1, 5}}, // a share; a rebalance alone is no reason
	"HoldfastOutcomeUnknown":   {{1, 5}, {-1, 1}},
	// More than the 5 s after which a stall is told first, and before the 3 min after which it fails.
	"HoldfastInputStalled":          {{20, 900}}, // told within 20 s; brokers abort after 15 min at the latest, by default
	"HoldfastRestoreStalled":        {{5, 180}, {-1, 1}},
	"HoldfastDeadLetterFlood":       {{0, 60}}, // before the breaker's default of 60 a minute
	"HoldfastStopped":               {{-1, 1}},
	"HoldfastAbsent":                {},
	"HoldfastPartitionWithoutOwner": {},
	"HoldfastLag":                   {{0, 1e9}},
	// Longer than a commit is tried, 2 min, and than a snapshot may wait, 30 s; and the input moves at all.
	"HoldfastCommitsStopped": {{120, 3600}, {-1, 1}},
}

func TestAlertThresholds(t *testing.T) {
	t.Parallel()
	const scrape = 30 * time.Second
	all := alerts(t)
	for name := range thresholds {
		if _, ok := all[name]; !ok {
			t.Errorf("there is no alert %s", name)
		}
	}
	for name, a := range all {
		bounds, ok := thresholds[name]
		found := threshold.FindAllStringSubmatch(a.Expr, -1)
		if !ok || len(found) != len(bounds) {
			t.Errorf("%s has %d thresholds, %d are described", name, len(found), len(bounds))
			continue
		}
		for i, m := range found {
			if v, err := strconv.ParseFloat(m[1], 64); err != nil || v <= bounds[i][0] || v >= bounds[i][1] {
				t.Errorf("%s: threshold %d is %s, %v, want it within %v", name, i, m[1], err, bounds[i])
			}
		}
		uses, _ := parse(t, a.Expr)
		for _, s := range uses {
			if s.window != 0 && (s.window < 4*scrape || s.window < time.Duration(a.For)) {
				t.Errorf("%s: window %v is too short for a scrape every %v and a wait of %v", name, s.window, scrape, time.Duration(a.For))
			}
		}
	}
}

// Whoever is woken finds what it is, what it means and what to do.
func TestAlertsSayWhatToDo(t *testing.T) {
	t.Parallel()
	for name, a := range alerts(t) {
		if s := a.Labels["severity"]; s != "page" && s != "warning" {
			t.Errorf("%s has severity %q", name, s)
		}
		for _, key := range []string{"summary", "description", "runbook"} {
			if len(a.Annotations[key]) < 20 {
				t.Errorf("%s has no %s: %q", name, key, a.Annotations[key])
			}
		}
		if len(a.Annotations) != 3 {
			t.Errorf("%s has annotations beside summary, description and runbook", name)
		}
	}
}

// docs/operations.md lists each alert with its severity, and no other.
func TestAlertsAreDocumented(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	documented := map[string]string{}
	for _, m := range regexp.MustCompile(`(?m)^\| (Holdfast\w+) \| (\w+) \|`).FindAllStringSubmatch(string(text), -1) {
		documented[m[1]] = m[2]
	}
	all := alerts(t)
	for name := range documented {
		if _, ok := all[name]; !ok {
			t.Errorf("there is no alert %s", name)
		}
	}
	for name, a := range all {
		if documented[name] != a.Labels["severity"] {
			t.Errorf("%s is documented as %q and is a %q", name, documented[name], a.Labels["severity"])
		}
	}
}

// Prometheus' own tool evaluates the rules over made-up series, where it is installed.
func TestAlertsUnderPromtool(t *testing.T) {
	t.Parallel()
	tool, err := exec.LookPath("promtool")
	if err != nil {
		t.Skip("promtool is not installed; the other tests do without it")
	}
	for _, args := range [][]string{{"check", "rules", alertsFile}, {"test", "rules", "testdata/alerts_test.yaml"}} {
		if out, err := exec.CommandContext(t.Context(), tool, args...).CombinedOutput(); err != nil {
			t.Errorf("promtool %v: %v\n%s", args, err, out)
		}
	}
}
