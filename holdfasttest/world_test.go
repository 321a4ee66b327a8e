package holdfasttest

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/codec"
	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/kafka"
	"github.com/holdfast-go/holdfast/snapshot"
	"github.com/holdfast-go/holdfast/stream"
)

// tally is the state of the tests' fold: a lost, repeated or reordered record shows in it.
type tally struct {
	N    int
	Sum  int64
	Hash uint64
}

func (s tally) with(v int64) tally {
	return tally{N: s.N + 1, Sum: s.Sum + v, Hash: (s.Hash ^ uint64(v+1)) * 1099511628211}
}

// sum folds values without the product.
func sum(values ...int64) (s tally) {
	for _, v := range values {
		s = s.with(v)
	}
	return s
}

const (
	testGroup  = "ledger"
	testInput  = "payments"
	testOutput = "balances"
)

// countdown adds, and deletes the key at a sum of zero; it emits each new sum to the output. "bad"
// fails, "now" behind a value asks for a persist.
func countdown(output string) func(context.Context, *holdfast.Key[tally], stream.Record) error {
	return func(_ context.Context, k *holdfast.Key[tally], r stream.Record) error {
		text, now := strings.CutSuffix(string(r.Value), "now")
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return err
		}
		s, _ := k.State()
		s = s.with(n)
		if s.Sum == 0 {
			k.Delete()
		} else {
			k.Set(s)
		}
		if output != "" {
			k.Emit(stream.Message{Topic: output, Key: r.Key, Value: outputOf(s)})
		}
		if now {
			k.Persist()
		}
		return nil
	}
}

func outputOf(s tally) []byte { return fmt.Appendf(nil, "%d after %d", s.Sum, s.N) }

func testConfig(k kafka.Config) holdfast.Config[tally] {
	return holdfast.Config[tally]{
		Kafka: k, Group: testGroup, Inputs: []string{testInput}, Outputs: []string{testOutput},
		Codec: codec.JSON[tally](), Fold: countdown(testOutput),
	}
}

// in is a record of the input. Offsets that no record has are markers.
type in struct {
	offset     int64
	key, value string
	status     Status
}

// snap is a snapshot record.
type snap struct {
	key     string
	kind    snapshot.Kind
	applied int64
	steps   uint64
	state   tally
}

// tx is a transaction on the snapshot partition; its progress record comes last.
type tx struct {
	status     Status
	nonce, seq uint64
	generation int32
	member     string
	next       int64
	snaps      []snap
	inc        uint32
}

// out is a record of the output partition.
type out struct {
	key    string
	state  tally
	status Status
}

// world is a history of one partition, written short. A test damages it and renders it.
type world struct {
	input   []in
	txs     []tx
	outputs []out
	next    int64
	meta    string
	members []Member
	letters []Record
	more    func(*History) // what the short form cannot say
	atomic  bool
	late    bool // the flow was to begin at the end
}

// right is a run of two owners without a fault: 0a aborts a transaction, and 0b takes over.
func right() world {
	p := stream.Partition{Topic: testInput}
	return world{
		input: []in{
			{0, "a", "1", Committed}, {1, "b", "2", Committed}, {2, "a", "100", Aborted},
			{4, "a", "3", Committed}, {5, "b", "-2", Committed}, {6, "a", "4", Committed},
		},
		txs: []tx{
			{status: Committed, nonce: 0xa, seq: 1, generation: 1, member: "m-a", next: 0},
			{status: Committed, nonce: 0xa, seq: 2, generation: 1, member: "m-a", next: 2, snaps: []snap{
				{"a", snapshot.State, 0, 1, sum(1)}, {"b", snapshot.State, 1, 1, sum(2)},
			}},
			{status: Aborted, nonce: 0xa, seq: 3, generation: 1, member: "m-a", next: 5, snaps: []snap{
				{"a", snapshot.State, 4, 2, sum(1, 3)},
			}},
			{status: Committed, nonce: 0xb, seq: 1, generation: 2, member: "m-b", next: 6, snaps: []snap{
				{"a", snapshot.State, 4, 2, sum(1, 3)}, {"b", snapshot.Deleted, 5, 2, tally{}},
			}},
			{status: Committed, nonce: 0xb, seq: 2, generation: 2, member: "m-b", next: 7, snaps: []snap{
				{"a", snapshot.State, 6, 3, sum(1, 3, 4)}, {"b", snapshot.Tombstone, 5, 2, tally{}},
			}},
		},
		outputs: []out{
			{"a", sum(1), Committed}, {"b", sum(2), Committed}, {"a", sum(1, 3), Aborted},
			{"a", sum(1, 3), Committed}, {"b", sum(2, -2), Committed}, {"a", sum(1, 3, 4), Committed},
		},
		next: 7, meta: "hf1:b:2",
		members: []Member{
			{Name: "one", Events: []Event{
				{Kind: EventAssigned, Partition: p, Ownership: 1, Generation: 1, Offset: -1},
				{Kind: EventCommitted, Partition: p, Offset: 0},
				{Kind: EventRestored, Partition: p, Offset: 0},
				folded(0, "a", sum()), folded(1, "b", sum()),
				{Kind: EventCommitted, Partition: p, Offset: 2},
				folded(4, "a", sum(1)),
				{Kind: EventLost, Partition: p, Ownership: 1, Cause: "unknown member"},
				{Kind: EventStopped},
			}},
			{Name: "two", Events: []Event{
				{Kind: EventAssigned, Partition: p, Ownership: 1, Generation: 2, Offset: 2},
				{Kind: EventRestored, Partition: p, Offset: 2},
				folded(4, "a", sum(1)), folded(5, "b", sum(2)),
				{Kind: EventCommitted, Partition: p, Offset: 6},
				folded(6, "a", sum(1, 3)),
				{Kind: EventCommitted, Partition: p, Offset: 7},
				{Kind: EventRevoked, Partition: p, Ownership: 1},
				{Kind: EventStopped},
			}},
		},
	}
}

func folded(offset int64, key string, s tally) Event {
	e := Event{Kind: EventFolded, Partition: stream.Partition{Topic: testInput}, Offset: offset, Key: []byte(key)}
	if s.N > 0 {
		e.Has, e.State = true, encoded(s)
	}
	return e
}

func encoded(s tally) []byte {
	b, err := json.Marshal(s)
	if err != nil {
		panic(err)
	}
	return b
}

func record(p stream.Partition, offset int64, key string, value []byte, status Status) Record {
	return Record{Record: stream.Record{
		Topic: p.Topic, Partition: p.Partition, Offset: offset, Key: []byte(key), Value: value, Timestamp: time.UnixMilli(1),
	}, Status: status}
}

// history renders the world.
func (w world) history(t *testing.T) History {
	t.Helper()
	input, snapshots, outputs := stream.Partition{Topic: testInput}, stream.Partition{Topic: testGroup + "-snapshots"}, stream.Partition{Topic: testOutput}
	h := History{
		Inputs: []Log{{Partition: input}}, Snapshots: []Log{{Partition: snapshots}}, Outputs: []Log{{Partition: outputs}},
		Offsets: []Offset{{Partition: input, Next: w.next, Metadata: w.meta}}, Members: w.members,
		DeadLetters: []Log{{Partition: stream.Partition{Topic: "rejects"}, Records: w.letters}},
	}
	for _, r := range w.input {
		h.Inputs[0].Records = append(h.Inputs[0].Records, record(input, r.offset, r.key, []byte(r.value), r.status))
		h.Inputs[0].End = r.offset + 1
	}
	log := &h.Snapshots[0]
	for _, x := range w.txs {
		for _, s := range x.snaps {
			m, err := snapshot.Encode(s.record(x.inc))
			if err != nil {
				t.Fatal(err)
			}
			r := record(snapshots, log.End, string(m.Key), m.Value, x.status)
			r.Headers = m.Headers
			log.Records = append(log.Records, r)
			log.End++
		}
		key, value, err := fence.Progress{
			Inputs: []fence.InputProgress{{Topic: testInput, Next: x.next, LeaderEpoch: -1}}, Partitions: 1, Group: testGroup,
			MemberID: x.member, Generation: x.generation, Nonce: x.nonce, Sequence: x.seq, Incarnation: x.inc,
		}.Encode()
		if err != nil {
			t.Fatal(err)
		}
		log.Records = append(log.Records, record(snapshots, log.End, string(key), value, x.status))
		log.End += 2 // and the marker
	}
	for i, o := range w.outputs {
		h.Outputs[0].Records = append(h.Outputs[0].Records, record(outputs, int64(i), o.key, outputOf(o.state), o.status))
		h.Outputs[0].End = int64(i) + 1
	}
	if w.more != nil {
		w.more(&h)
	}
	return h
}

func (s snap) record(inc uint32) snapshot.Record {
	r := snapshot.Record{Key: []byte(s.key), Kind: s.kind}
	r.Applied, r.Steps, r.Incarnation = []int64{s.applied}, s.steps, uint64(inc)
	if s.kind == snapshot.State {
		r.Value = encoded(s.state)
	}
	return r
}

// check judges the world with the tests' fold.
func (w world) check(t *testing.T) []Violation {
	t.Helper()
	conf := testConfig(kafka.Config{})
	if w.late {
		conf.Start.New = holdfast.Latest
	}
	m := Flow(conf)
	m.atomic = w.atomic
	return Check(w.history(t), m)
}

// broken lists the invariants that violations name, each once.
func broken(vs []Violation) (names []string) {
	for _, v := range vs {
		names = append(names, v.Invariant)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// expect fails the test unless exactly the wanted invariants are named; "" is none.
func expect(t *testing.T, vs []Violation, want string) {
	t.Helper()
	if got := strings.Join(broken(vs), " "); got != want {
		t.Errorf("named %q, want %q", got, want)
		for _, v := range vs {
			t.Log(v)
		}
	}
}
