package prom_test

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/holdfast-go/holdfast/prom"
	"github.com/holdfast-go/holdfast/stream"
)

var update = flag.Bool("update", false, "write the files in testdata from what is gathered")

var p0 = stream.Partition{Topic: "orders", Partition: 0}

// drive reports one of everything for p0, under ownership 1.
func drive(h stream.Hooks) {
	h.Assigned(stream.Assigned{Partition: p0, Ownership: 1, Generation: 3, TookOver: true, Takeover: 20 * time.Millisecond, Committed: 7})
	h.Restoring(stream.Restoring{Partition: p0, Position: 10, Target: 40, Records: 5, Bytes: 50})
	h.Stalled(stream.Stalled{Partition: p0, Position: 12, Target: 40, For: 90 * time.Second})
	h.InputStalled(stream.InputStalled{Partition: p0, Offset: 7, HighWatermark: 9, For: 15 * time.Second})
	h.Restored(stream.Restored{Partition: p0, Keys: 4, Records: 30, Bytes: 300, Took: 2 * time.Second, Start: 7})
	h.Restored(stream.Restored{Partition: p0, Keys: 4, Took: time.Millisecond, Start: 7, Retained: true})
	h.Committed(stream.Committed{Partition: p0, Next: 9, Writes: 2, Bytes: 64, Took: 8 * time.Millisecond})
	h.Committed(stream.Committed{Partition: p0, Next: 11, Writes: 1, Outputs: 5, Bytes: 32, OutputBytes: 80, Took: 40 * time.Millisecond, ReadBack: true})
	h.Refused(stream.Refused{Partition: p0, Cause: "generation", Code: 22, Err: errors.New("refused")})
	h.Refused(stream.Refused{Partition: p0, Cause: "producer-epoch", Code: 47, Final: true, Err: errors.New("refused")})
	h.Failed(stream.Failed{Partition: p0, Offset: 8, Attempt: 1, Action: stream.Retry, Err: errors.New("no")})
	h.Failed(stream.Failed{Partition: p0, Offset: 8, Attempt: 2, Action: stream.Skip, Err: errors.New("no")})
	h.Failed(stream.Failed{Partition: p0, Offset: 9, Attempt: 1, Action: stream.Action(99), Err: errors.New("no")})
	h.DeadLettered(stream.DeadLettered{Partition: p0, Offset: 10, Topic: "orders-dead", Attempt: 3, Err: errors.New("no")})
	h.Gone(stream.Gone{Partition: p0, Ownership: 1, From: 3, To: 7})
	h.Throttled(stream.Throttled{Broker: 1, Host: "b1", For: 1500 * time.Millisecond})
	h.Throttled(stream.Throttled{Broker: 1, Host: "b1", For: time.Second})
	h.Stopped(stream.Stopped{Group: "g", Cause: stream.Cause(stream.ErrIDTaken), Err: stream.ErrIDTaken})
	h.OutputAcked(stream.OutputAcked{Partition: p0, Count: 3, Bytes: 96})
}

func register(t *testing.T) (*prometheus.Registry, stream.Hooks) {
	t.Helper()
	reg := prometheus.NewPedanticRegistry()
	h, err := prom.New(reg, prom.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return reg, h
}

// compare compares everything that reg has with a file of the exposition format.
func compare(t *testing.T, reg prometheus.Gatherer, file string) {
	t.Helper()
	if *update {
		if err := prometheus.WriteToTextfile(file, reg); err != nil {
			t.Fatal(err)
		}
	}
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := testutil.GatherAndCompare(reg, f); err != nil {
		t.Error(err)
	}
}

func TestEveryHookIsCounted(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { // whose clock begins at a known time
		reg, h := register(t)
		drive(h)
		compare(t, reg, "testdata/owned.prom")
		lint(t, reg)
	})
}

func TestCommitAgeCountsFromTheGrant(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		reg, h := register(t)
		last := func() float64 {
			t.Helper()
			return gathered(t, reg, "holdfast_last_commit_timestamp_seconds")
		}
		began := float64(time.Now().Unix())
		h.Assigned(stream.Assigned{Partition: p0, Ownership: 1, Committed: -1})
		if got := last(); got != began {
			t.Errorf("%v after the grant, want %v", got, began)
		}
		time.Sleep(1500 * time.Millisecond)
		h.Committed(stream.Committed{Partition: p0, Next: 1})
		if got := last(); got != began+1.5 {
			t.Errorf("%v after the commit, want %v", got, began+1.5)
		}
	})
}

// gathered returns the value of the only series of a gauge.
func gathered(t *testing.T, reg prometheus.Gatherer, name string) float64 {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == name && len(f.GetMetric()) == 1 {
			return f.GetMetric()[0].GetGauge().GetValue()
		}
	}
	t.Fatalf("there is no single %s", name)
	return 0
}

// Nothing owned is a 0, not a gap: a rule has to see it.
func TestOwnedPartitionsAreCounted(t *testing.T) {
	t.Parallel()
	reg, h := register(t)
	p1 := stream.Partition{Topic: "orders", Partition: 1}
	for _, tc := range []struct {
		event func()
		want  float64
	}{
		{func() { h.Assigned(stream.Assigned{Partition: p0, Ownership: 1}) }, 1},
		{func() { h.Assigned(stream.Assigned{Partition: p1, Ownership: 2}) }, 2},
		{func() { h.Assigned(stream.Assigned{Partition: p1, Ownership: 3}) }, 2},
		{func() { h.Lost(stream.Released{Partition: p1, Ownership: 2}) }, 2},
		{func() { h.Lost(stream.Released{Partition: p1, Ownership: 3}) }, 1},
		{func() { h.Revoked(stream.Released{Partition: p0, Ownership: 1}) }, 0},
	} {
		tc.event()
		if got := gathered(t, reg, "holdfast_partitions_owned"); got != tc.want {
			t.Errorf("%v partitions owned, want %v", got, tc.want)
		}
	}
}

// lint applies Prometheus' rules for names to what reg has.
func lint(t *testing.T, reg prometheus.Gatherer) {
	t.Helper()
	problems, err := testutil.GatherAndLint(reg)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
}

func TestGaugesEndWithOwnership(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		release func(stream.Hooks)
		want    int
	}{
		"owned": {func(stream.Hooks) {}, 8},
		"revoked": {func(h stream.Hooks) {
			h.Revoked(stream.Released{Partition: p0, Ownership: 1, Flushed: true, Took: time.Second})
		}, 0},
		"lost": {func(h stream.Hooks) { h.Lost(stream.Released{Partition: p0, Ownership: 1}) }, 0},
		"another partition": {func(h stream.Hooks) {
			h.Lost(stream.Released{Partition: stream.Partition{Topic: "orders", Partition: 1}, Ownership: 1})
		}, 8},
		"granted again before the end was told": {func(h stream.Hooks) {
			h.Assigned(stream.Assigned{Partition: p0, Ownership: 2, Committed: 11})
			h.Lost(stream.Released{Partition: p0, Ownership: 1})
		}, 8},
		"late progress": {func(h stream.Hooks) {
			h.Lost(stream.Released{Partition: p0, Ownership: 1})
			h.Restoring(stream.Restoring{Partition: p0, Position: 11, Target: 40})
			h.Committed(stream.Committed{Partition: p0, Next: 11})
		}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			reg, h := register(t)
			drive(h)
			tc.release(h)
			got, err := testutil.GatherAndCount(reg, "holdfast_generation", "holdfast_committed_offset", "holdfast_restored_keys",
				"holdfast_restore_position", "holdfast_restore_target", "holdfast_restore_stalled_seconds", "holdfast_input_stalled_seconds", "holdfast_last_commit_timestamp_seconds")
			if err != nil || got != tc.want {
				t.Errorf("%d gauges, %v, want %d", got, err, tc.want)
			}
		})
	}
}

func TestReleasesAreCounted(t *testing.T) {
	t.Parallel()
	synctest.Test(t, releasesAreCounted)
}

func releasesAreCounted(t *testing.T) {
	reg, h := register(t)
	h.Assigned(stream.Assigned{Partition: p0, Ownership: 1, Committed: -1})
	h.Revoked(stream.Released{Partition: p0, Ownership: 1, Flushed: true, Took: 300 * time.Millisecond})
	h.Assigned(stream.Assigned{Partition: p0, Ownership: 2, Committed: 4})
	h.Lost(stream.Released{Partition: p0, Ownership: 2, Cause: stream.ErrOwnershipLost})
	h.Stalled(stream.Stalled{Partition: p0, For: time.Minute, Final: true, Diagnosis: "open transaction"})
	compare(t, reg, "testdata/released.prom")
	lint(t, reg)
}

// A stall of the input is told every 10 s, and is one.
func TestInputStallIsCountedOnce(t *testing.T) {
	t.Parallel()
	reg, h := register(t)
	stalls := func(wantFor float64, wantCount float64) {
		t.Helper()
		want := fmt.Sprintf("# HELP holdfast_input_stalled_seconds How long the input has been waiting for an open transaction of another producer, 0 if it does not.\n"+
			"# TYPE holdfast_input_stalled_seconds gauge\nholdfast_input_stalled_seconds{partition=\"0\",topic=\"orders\"} %v\n"+
			"# HELP holdfast_input_stalls_total Waits of the input for an open transaction of another producer.\n"+
			"# TYPE holdfast_input_stalls_total counter\nholdfast_input_stalls_total{partition=\"0\",topic=\"orders\"} %v\n", wantFor, wantCount)
		if err := testutil.GatherAndCompare(reg, strings.NewReader(want), "holdfast_input_stalled_seconds", "holdfast_input_stalls_total"); err != nil {
			t.Error(err)
		}
	}
	h.Assigned(stream.Assigned{Partition: p0, Ownership: 1, Committed: -1})
	stalls(0, 0)
	for _, waited := range []time.Duration{15 * time.Second, 25 * time.Second} {
		h.InputStalled(stream.InputStalled{Partition: p0, Offset: 0, HighWatermark: 3, For: waited})
	}
	stalls(25, 1)
	h.InputStalled(stream.InputStalled{Partition: p0, Offset: 0, For: 30 * time.Second, Over: true})
	stalls(0, 1)
	h.InputStalled(stream.InputStalled{Partition: p0, Offset: 7, For: 12 * time.Second})
	stalls(12, 2)
}

func TestNoCommittedOffsetIsAbsent(t *testing.T) {
	t.Parallel()
	reg, h := register(t)
	h.Assigned(stream.Assigned{Partition: p0, Ownership: 1, Committed: -1})
	if n, err := testutil.GatherAndCount(reg, "holdfast_committed_offset"); err != nil || n != 0 {
		t.Errorf("%d committed offsets, %v, want none", n, err)
	}
}

func TestSharedRegisterer(t *testing.T) {
	t.Parallel()
	reg := prometheus.NewPedanticRegistry()
	for _, tc := range []struct {
		group string
		clash bool
	}{{"a", false}, {"b", false}, {"a", true}} {
		h, err := prom.New(reg, prom.Options{Namespace: "shop", ConstLabels: prometheus.Labels{"group": tc.group}})
		if (err != nil) != tc.clash {
			t.Errorf("group %s: %v, want an error: %v", tc.group, err, tc.clash)
		}
		if err == nil {
			drive(h)
			continue
		}
		if !errors.Is(err, stream.ErrConfig) || !errors.As(err, new(prometheus.AlreadyRegisteredError)) || !strings.Contains(err.Error(), "ConstLabels") {
			t.Errorf("group %s: %v does not name the way out", tc.group, err)
		}
	}
	want := `
# HELP shop_takeovers_total Grants that found another's epoch on the partition's transactional id.
# TYPE shop_takeovers_total counter
shop_takeovers_total{group="a",partition="0",topic="orders"} 1
shop_takeovers_total{group="b",partition="0",topic="orders"} 1
`
	if err := testutil.GatherAndCompare(reg, strings.NewReader(want), "shop_takeovers_total"); err != nil {
		t.Error(err)
	}
}

func TestRegistrationIsRefusedInWords(t *testing.T) {
	t.Parallel()
	if _, err := prom.New(nil, prom.Options{}); !errors.Is(err, stream.ErrConfig) || !strings.Contains(err.Error(), "prometheus.DefaultRegisterer") {
		t.Errorf("no registerer: %v", err)
	}
	reg := prometheus.NewRegistry()
	if _, err := prom.New(reg, prom.Options{ConstLabels: prometheus.Labels{"group": "a"}}); err != nil {
		t.Fatal(err)
	}
	if _, err := prom.New(reg, prom.Options{}); !errors.Is(err, stream.ErrConfig) || !strings.Contains(err.Error(), "Options.ConstLabels") {
		t.Errorf("other labels than the first: %v", err)
	}
}
