package acceptance

import (
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/kafkatest"
	"github.com/holdfast-go/holdfast/snapshot"
	"github.com/holdfast-go/holdfast/stream"
)

// bench is a flow that has folded ten records of three keys and was stopped, and what a test does to
// it before the next start.
type bench struct {
	t            *testing.T
	k            *kafkatest.Cluster
	admin        *kadm.Client
	pr           *kgo.Client
	input, group string
	conf         holdfast.Config[tally]
}

func newBench(t *testing.T, guarantee holdfast.Guarantee) *bench {
	t.Helper()
	return newBenchOn(t, kafkatest.Start(t), guarantee)
}

func newBenchOn(t *testing.T, k *kafkatest.Cluster, guarantee holdfast.Guarantee) *bench {
	t.Helper()
	b := &bench{t: t, k: k, admin: kadm.NewClient(k.Client(t)), pr: producer(t, k)}
	b.input = k.CreateTopic(t, kafkatest.UniqueName("input"), 1, nil)
	b.group = b.input + "-flow"
	b.conf = config(k.Addrs, b.group, b.input)
	b.conf.Guarantee = guarantee
	return b
}

// fold10 folds the first ten records and stops.
func (b *bench) fold10() {
	b.t.Helper()
	produce(b.t, b.pr, b.input, 0, 3, 0, 10)
	f := start(b.t, b.t.Context(), "before", b.conf)
	f.committedTo(0, 10)
	if err := f.stop(); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bench) snapshots() string { return b.group + "-snapshots" }

// forget deletes the group, and its offsets with it.
func (b *bench) forget() {
	b.t.Helper()
	rs, err := b.admin.DeleteGroups(b.t.Context(), b.group)
	if err == nil {
		err = rs.Error()
	}
	if err != nil {
		b.t.Fatal(err)
	}
}

// reset moves the committed offset, as an operator does it with Kafka's tool.
func (b *bench) reset(next int64) {
	b.t.Helper()
	os := kadm.Offsets{}
	os.AddOffset(b.input, 0, next, -1)
	limit := time.After(patience)
	for tick := time.NewTicker(20 * time.Millisecond); ; {
		rs, err := b.admin.CommitOffsets(b.t.Context(), b.group, os)
		if err == nil {
			err = rs.Error()
		}
		if err == nil {
			tick.Stop()
			return
		}
		if !errors.Is(err, kerr.UnknownTopicOrPartition) { // the coordinator learns last of a topic that was made anew
			b.t.Fatal(err)
		}
		select {
		case <-tick.C:
		case <-limit:
			b.t.Fatal(err)
		}
	}
}

// recreate makes a topic anew.
func (b *bench) recreate(topic, policy string) {
	b.t.Helper()
	if err := deleteTopic(b.t, b.admin, topic); err != nil {
		b.t.Fatal(err)
	}
	b.k.CreateTopic(b.t, topic, 1, map[string]string{"cleanup.policy": policy})
}

// stray writes a snapshot that belongs to no commit of the flow.
func (b *bench) stray() {
	b.t.Helper()
	b.k.CreateTopic(b.t, b.snapshots(), 1, map[string]string{"cleanup.policy": "compact"})
	m, err := snapshot.Encode(snapshot.Record{Key: []byte("k"), Value: []byte(`{"N":1}`), Header: snapshot.Header{Applied: []int64{4}, Steps: 1}})
	if err != nil {
		b.t.Fatal(err)
	}
	r := &kgo.Record{Topic: b.snapshots(), Key: m.Key, Value: m.Value, Headers: []kgo.RecordHeader{{Key: m.Headers[0].Key, Value: m.Headers[0].Value}}}
	if err := b.pr.ProduceSync(b.t.Context(), r).FirstErr(); err != nil {
		b.t.Fatal(err)
	}
}

// The table of the committed offset c against the snapshots' progress p, row by row, with each policy
// that a row knows. The flow had folded ten records; five more wait.
func TestKafkaStartTable(t *testing.T) {
	const stops = int64(-1)
	none := func(*bench) {}
	forget, back, forward := (*bench).forget, func(b *bench) { b.reset(4) }, func(b *bench) { b.reset(12) }
	emptied := func(b *bench) { b.recreate(b.snapshots(), "compact") }
	for _, c := range []struct {
		name   string
		policy holdfast.Disagreement
		unf    bool           // Unfenced
		spoil  func(b *bench) // after ten records were folded, or nil: before the first start
		first  func(b *bench) // before the first start
		start  int64          // where folding begins, stops: refused
		folds  int64          // the first record whose fold is in the states of the end
	}{
		{"c none p none", holdfast.StopAndAsk, false, nil, none, 0, 0},
		{"c none p none, not empty", holdfast.StopAndAsk, false, nil, (*bench).stray, stops, 0},
		{"c none p none, not empty, rebuild", holdfast.Rebuild, false, nil, (*bench).stray, 0, 0},
		{"c none p", holdfast.StopAndAsk, false, forget, nil, stops, 0},
		{"c none p, resume", holdfast.ResumeAtProgress, false, forget, nil, 10, 0},
		{"c none p, rebuild", holdfast.Rebuild, false, forget, nil, 0, 0},
		{"c p none", holdfast.StopAndAsk, false, emptied, nil, stops, 0},
		{"c p none, adopt empty", holdfast.AdoptEmpty, false, emptied, nil, 10, 10},
		{"c p none, rebuild", holdfast.Rebuild, false, emptied, nil, 0, 0},
		{"c = p", holdfast.StopAndAsk, false, none, nil, 10, 0},
		{"c = p, rebuild goes on", holdfast.Rebuild, false, none, nil, 10, 0},
		{"c < p", holdfast.StopAndAsk, false, back, nil, stops, 0},
		{"c < p, rebuild", holdfast.Rebuild, false, back, nil, 0, 0},
		{"c < p, unfenced", holdfast.StopAndAsk, true, back, nil, 4, 0},
		{"c > p", holdfast.StopAndAsk, false, forward, nil, stops, 0},
		{"c > p, rebuild", holdfast.Rebuild, false, forward, nil, 0, 0},
		{"c > p, unfenced", holdfast.StopAndAsk, true, forward, nil, stops, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			guarantee := holdfast.FencedState
			if c.unf {
				guarantee = holdfast.Unfenced
			} else if oldTransactions() && strings.HasPrefix(c.name, "c < p") {
				c.start = 10 // such a commit may be torn there: folding begins at p, whatever the policy
			}
			b := newBench(t, guarantee)
			if c.first != nil {
				c.first(b)
				produce(t, b.pr, b.input, 0, 3, 0, 10)
			} else {
				b.fold10()
				c.spoil(b)
			}
			produce(t, b.pr, b.input, 0, 3, 10, 15)
			b.conf.Start.Disagreement = c.policy
			f := start(t, t.Context(), "next", b.conf)
			if c.start == stops {
				err := f.failure()
				named(t, err, holdfast.ErrOffsetMismatch)
				located(t, err, stream.Partition{Topic: b.input}, -1, "")
				return
			}
			if e := await(f, 0, any1[stream.Restored]); e.Start != c.start {
				t.Errorf("folding begins at %d, want %d", e.Start, c.start)
			}
			f.committedTo(0, 15)
			if err := f.stop(); err != nil {
				t.Fatal(err)
			}
			b.verify(c.folds, 15)
			b.again()
		})
	}
}

// verify compares the stored states with the fold of the input's records from..to-1.
func (b *bench) verify(from, to int64) {
	b.t.Helper()
	want := map[string]tally{}
	for _, r := range readAll(b.t, b.k, b.input, kgo.ReadCommitted()) {
		if n, err := strconv.ParseInt(string(r.Value), 10, 64); err == nil && r.Offset >= from && r.Offset < to {
			want[string(r.Key)] = want[string(r.Key)].with(n, r.Offset)
		}
	}
	got := stored(b.t, b.k, b.snapshots())
	for k := range want {
		if got[k] != want[k] {
			b.t.Errorf("key %s: stored %+v, the records from %d to %d give %+v", k, got[k], from, to, want[k])
		}
	}
	for k := range got {
		if _, ok := want[k]; !ok {
			b.t.Errorf("key %s: stored %+v, the records from %d to %d give none", k, got[k], from, to)
		}
	}
}

// again starts the flow once more under the same policy: what was resolved is not resolved again.
func (b *bench) again() {
	b.t.Helper()
	next := committed(b.t, b.k, b.group, b.input)[0]
	f := start(b.t, b.t.Context(), "again", b.conf)
	if e := await(f, 0, any1[stream.Restored]); e.Start != next {
		b.t.Errorf("the start after it begins at %d, want the committed offset %d", e.Start, next)
	}
	if err := f.stop(); err != nil {
		b.t.Error(err)
	}
}

// Where a flow without state begins is resolved once, at the first assignment, and committed before
// the first fold: what comes in while it is down is folded.
func TestKafkaStartPosition(t *testing.T) {
	day := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		name  string
		start holdfast.Start
		at    int64
	}{
		{"earliest", holdfast.Start{}, 0},
		{"latest", holdfast.Start{New: holdfast.Latest}, 10},
		{"at a time", holdfast.Start{New: holdfast.AtTime, Time: day.Add(4*time.Hour - time.Minute)}, 4},
		{"at a time to come", holdfast.Start{New: holdfast.AtTime, Time: day.Add(1000 * time.Hour)}, 10},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, holdfast.FencedState)
			b.timed(day, 0, 10)
			b.conf.Start = c.start
			f := start(t, t.Context(), "new", b.conf)
			if e := await(f, 0, any1[stream.Committed]); e.Next != c.at {
				t.Errorf("%d was committed first, want the start %d", e.Next, c.at)
			}
			if e := await(f, 0, any1[stream.Restored]); e.Start != c.at {
				t.Errorf("folding begins at %d, want %d", e.Start, c.at)
			}
			f.committedTo(0, 10)
			if err := f.stop(); err != nil {
				t.Fatal(err)
			}
			b.timed(day, 10, 15)
			f = start(t, t.Context(), "again", b.conf)
			f.committedTo(0, 15)
			if err := f.stop(); err != nil {
				t.Fatal(err)
			}
			b.verify(c.at, 15)
		})
	}
}

// timed writes records whose times are an hour apart.
func (b *bench) timed(day time.Time, from, to int) {
	b.t.Helper()
	for i := from; i < to; i++ {
		r := &kgo.Record{Topic: b.input, Key: []byte("k"), Value: []byte(strconv.Itoa(i)), Timestamp: day.Add(time.Duration(i) * time.Hour)}
		if err := b.pr.ProduceSync(b.t.Context(), r).FirstErr(); err != nil {
			b.t.Fatal(err)
		}
	}
}

// Another fold version stops the flow; under Rebuild the input is folded again, once.
func TestKafkaFoldVersion(t *testing.T) {
	t.Parallel()
	b := newBench(t, holdfast.FencedState)
	b.conf.FoldVersion = "1"
	b.fold10()
	b.conf.FoldVersion = "2"
	err := start(t, t.Context(), "changed", b.conf).failure()
	named(t, err, holdfast.ErrFoldVersion, `"1"`, `"2"`, "Rebuild")
	located(t, err, stream.Partition{Topic: b.input}, -1, "")

	b.conf.Start.Disagreement = holdfast.Rebuild
	f := start(t, t.Context(), "rebuilding", b.conf)
	if e := await(f, 0, any1[stream.Restored]); e.Start != 0 || e.Keys != 0 {
		t.Errorf("rebuilding began at %d with %d keys, want 0 and none", e.Start, e.Keys)
	}
	f.committedTo(0, 10)
	if err := f.stop(); err != nil {
		t.Fatal(err)
	}
	b.verify(0, 10)
	b.again()
}
