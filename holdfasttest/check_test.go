package holdfasttest

import (
	"errors"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/dlq"
	"github.com/holdfast-go/holdfast/snapshot"
	"github.com/holdfast-go/holdfast/stream"
)

func TestRightHistories(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		build func(*world)
	}{
		{"at-least-once outputs", func(*world) {}},
		{"outputs in the transaction", func(w *world) { w.atomic = true }},
		{"an output is sent again", func(w *world) {
			w.outputs = append(w.outputs[:3:3], append([]out{{"a", sum(1), Committed}, {"b", sum(2), Committed}}, w.outputs[3:]...)...)
		}},
		{"an output that two steps give is sent again", func(w *world) {
			w.input = append(w.input, in{7, "c", "5", Committed}, in{8, "c", "-5", Committed}, in{9, "c", "5", Committed})
			w.txs = append(w.txs, tx{status: Committed, nonce: 0xb, seq: 3, generation: 2, member: "m-b", next: 10, snaps: []snap{
				{"c", snapshot.State, 9, 3, sum(5)},
			}})
			w.outputs = append(w.outputs, out{"c", sum(5), Committed}, out{"c", sum(5), Committed}, out{"c", sum(5, -5), Committed}, out{"c", sum(5), Committed})
			w.next, w.meta = 10, "hf1:b:3"
		}},
		{"a snapshot is ahead of the committed offset", func(w *world) {
			w.txs[1].next = 1
			w.members[0].Events[5].Offset = 1
		}},
		{"a record that fails was skipped", func(w *world) {
			w.input[3].value = "bad"
			w.skipped(4)
		}},
		{"a record that fails was dead-lettered", func(w *world) { w.dead(4); w.atomic = true }},
		{"a killed member", func(w *world) {
			w.members[0].Events, w.members[0].Killed = w.members[0].Events[:6], true
		}},
		{"a tail that the run did not fold, and says why", func(w *world) {
			w.input = append(w.input, in{7, "c", "1", Committed})
			w.more = func(h *History) { h.Unfinished = "the test ends in the middle" }
		}},
		{"a log that was compacted", func(w *world) {
			w.more = func(h *History) {
				s := &h.Snapshots[0]
				s.Records, s.Compacted = s.Records[len(s.Records)-6:], true
			}
		}},
		{"an open transaction in the input", func(w *world) { w.input = append(w.input, in{7, "c", "1", Open}) }},
		{"offsets that were seen on the way", func(w *world) { w.seen(0, 2, 2, 6) }},
		{"a flow that began at the end", func(w *world) {
			*w = world{
				late: true, next: 3, meta: "hf1:a:2",
				input: []in{{0, "a", "1", Committed}, {1, "a", "2", Committed}, {2, "a", "3", Committed}},
				txs: []tx{
					{status: Committed, nonce: 0xa, seq: 1, generation: 1, member: "m-a", next: 1},
					{status: Committed, nonce: 0xa, seq: 2, generation: 1, member: "m-a", next: 3, snaps: []snap{{"a", snapshot.State, 2, 2, sum(2, 3)}}},
				},
				outputs: []out{{"a", sum(2), Committed}, {"a", sum(2, 3), Committed}},
			}
		}},
		{"a rebuild", func(w *world) { w.rebuild() }},
		{"a rebuild that drops a key before it comes again", func(w *world) {
			w.rebuild()
			last := &w.txs[len(w.txs)-1]
			last.snaps = append([]snap{{"a", snapshot.Tombstone, -1, 0, tally{}}}, last.snaps...)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := right()
			c.build(&w)
			expect(t, w.check(t), "")
		})
	}
}

// skipped makes the error policy of the second member pass over the record at offset, which changes
// what its key has folded.
func (w *world) skipped(offset int64) {
	p := stream.Partition{Topic: testInput}
	failed := Event{Kind: EventFailed, Partition: p, Offset: offset, Action: stream.Skip, Cause: "bad"}
	w.txs = append(w.txs[:2:2], w.txs[3:]...)
	w.txs[2].snaps = w.txs[2].snaps[1:]
	w.txs[3].snaps[0] = snap{"a", snapshot.State, 6, 2, sum(1, 4)}
	w.outputs = []out{w.outputs[0], w.outputs[1], w.outputs[4], {"a", sum(1, 4), Committed}}
	w.members = w.members[1:]
	e := w.members[0].Events
	w.members[0].Events = append(append(e[:3:3], failed), e[3:]...)
	w.members[0].Events[6] = folded(6, "a", sum(1))
}

// dead dead-letters the record at offset instead.
func (w *world) dead(offset int64) {
	w.input[3].value = "bad"
	w.skipped(offset)
	w.letters = []Record{letter(offset, "a", "bad")}
	e := w.members[0].Events
	e[3].Action = stream.DeadLetter
	w.members[0].Events = append(e[:4:4], append([]Event{{Kind: EventDeadLettered, Partition: e[3].Partition, Offset: offset}}, e[4:]...)...)
}

// rebuild has a third owner begin anew under the next incarnation.
func (w *world) rebuild() {
	w.txs = append(w.txs,
		tx{status: Committed, nonce: 0xc, seq: 1, generation: 3, member: "m-c", next: 0, inc: 1},
		tx{status: Committed, nonce: 0xc, seq: 2, generation: 3, member: "m-c", next: 7, inc: 1, snaps: []snap{
			{"a", snapshot.State, 6, 3, sum(1, 3, 4)}, {"b", snapshot.Deleted, 5, 2, tally{}},
		}})
	w.meta = "hf1:c:2"
}

// badHistories are right() with one defect each, and the invariants that it breaks.
var badHistories = []struct {
	name   string
	damage func(*world)
	want   string
	says   string // part of a violation
}{
	{"the offset is ahead of a key's snapshot", func(w *world) { w.txs[1].snaps = w.txs[1].snaps[:1] }, "I1", "in no snapshot"},
	{"the offset is ahead of the last transaction", func(w *world) {
		w.next, w.input, w.outputs = 8, append(w.input, in{7, "c", "1", Committed}), append(w.outputs, out{"c", sum(1), Committed})
	}, "I1", "the last commit"},
	{"the offset is ahead of the input", func(w *world) { w.next, w.txs[4].next, w.members[1].Events[6].Offset = 9, 9, 9 }, "I1", "the input ends at 7"},
	{"an offset and nothing else", func(w *world) { *w = world{next: 3, meta: "hf1:b:2"} }, "I1", "the input ends at 0"},
	{"no snapshot log", func(w *world) { w.more = func(h *History) { h.Snapshots = nil } }, "I1 I2 I5", "lacks the partition"},
	{"a state lacks a record", func(w *world) { w.txs[4].snaps[0].state = sum(1, 4) }, "I2", "the input gives"},
	{"a state has a record twice", func(w *world) { w.txs[4].snaps[0].state = sum(1, 3, 3, 4) }, "I2", "the input gives"},
	{"a state has its records in another order", func(w *world) { w.txs[4].snaps[0].state = sum(3, 1, 4) }, "I2", "the input gives"},
	{"a state is an older one", func(w *world) { w.txs[4].snaps[0].state = sum(1, 3) }, "I2", "it is the state of offset 4"},
	{"a step too many that the state does not show", func(w *world) { w.txs[4].snaps[0].steps = 4 }, "I2", "2 steps were taken"},
	{"an applied offset that the input does not have", func(w *world) { w.txs[4].snaps[0].applied = 3 }, "I2", "no record there"},
	{"an applied offset falls", func(w *world) {
		w.txs[4].snaps = append(w.txs[4].snaps, snap{"a", snapshot.State, 4, 2, sum(1, 3)})
	}, "I1 I2", "falls from 6 to 4"},
	{"a tombstone at once", func(w *world) { w.txs[3].snaps[1].kind = snapshot.Tombstone; w.txs[4].snaps = w.txs[4].snaps[:1] }, "I2", "R20"},
	{"a record of nobody in the snapshot topic", func(w *world) {
		w.more = func(h *History) { h.Snapshots[0].Records[2].Headers = nil }
	}, "I1 I2", "is no snapshot"},
	{"the committed offset passes a record that fails", func(w *world) {
		w.input[3].value = "bad"
		w.skipped(4)
		e := w.members[0].Events
		w.members[0].Events = append(e[:3:3], e[4:]...)
	}, "I2", "nothing says that it was skipped"},
	{"a stale owner commits after its successor", func(w *world) {
		w.txs = append(w.txs, tx{status: Committed, nonce: 0xa, seq: 3, generation: 2, member: "m-a", next: 7})
		w.meta = "hf1:a:3"
	}, "I3", "has taken the partition over"},
	{"a stale owner commits between its successor's restore and first commit", func(w *world) { w.txs[2].status = Committed }, "I3", "had restored up to 2"},
	{"a transaction of an earlier generation", func(w *world) { w.txs[3].generation, w.txs[4].generation = 0, 0 }, "I3", "generation"},
	{"a transaction is committed twice", func(w *world) { w.txs[4].seq, w.meta = 1, "hf1:b:1" }, "I3", "read back"},
	{"a commit is missing from an owner's sequence", func(w *world) { w.txs[4].seq, w.meta = 3, "hf1:b:3" }, "I3", "comes after its commit 1"},
	{"a transaction without its offset", func(w *world) { w.next, w.meta = 6, "hf1:b:1" }, "I3 I7", "every transaction carries"},
	{"an offset of another commit", func(w *world) { w.meta = "hf1:a:2" }, "I3", "is of commit"},
	{"an output is lost", func(w *world) { w.outputs = w.outputs[:5] }, "I4", "missing"},
	{"an output is there twice", func(w *world) { w.atomic = true; w.outputs = append(w.outputs, w.outputs[5]) }, "I4", "once more"},
	{"outputs of a key change places", func(w *world) { o := w.outputs; o[3], o[5] = o[5], o[3] }, "I4", "comes after that of"},
	{"outputs of two keys change places", func(w *world) { w.atomic = true; o := w.outputs; o[0], o[1] = o[1], o[0] }, "I4", "comes after that of"},
	{"an output that no step gives", func(w *world) { w.outputs = append(w.outputs, out{"a", sum(99), Committed}) }, "I4", "no step gives"},
	{"an output of input that is not committed", func(w *world) {
		w.atomic = true
		w.input = append(w.input, in{7, "c", "1", Committed})
		w.outputs = append(w.outputs, out{"c", sum(1), Committed})
		w.more = func(h *History) { h.Unfinished = "the test ends in the middle" }
	}, "I4", "is visible, and the committed offset"},
	{"outputs of a key in two partitions", func(w *world) { w.more = moveOutput }, "I4", "have no order"},
	{"a dead letter with other bytes", func(w *world) { w.dead(4); w.letters[0].Value = []byte("bat") }, "I4", "bytes are not those"},
	{"a dead letter twice", func(w *world) {
		w.dead(4)
		w.atomic, w.letters = true, append(w.letters, w.letters[0])
		w.letters[1].Offset++
	}, "I4", "dead-lettered 2 times"},
	{"a dead letter that was never written", func(w *world) {
		w.dead(4)
		w.letters = nil
	}, "I2 I4", "there is no dead letter"},
	{"a dead letter of an aborted record", func(w *world) { w.letters = []Record{letter(2, "a", "100")} }, "I5", "which is aborted"},
	{"an aborted record is in a state", func(w *world) { w.txs[4].snaps[0].state = sum(1, 100, 3, 4) }, "I5", "aborted record"},
	{"an aborted record is in an output", func(w *world) { w.outputs[5].state = sum(1, 100, 3, 4) }, "I4 I5", "aborted input record"},
	{"a fold was given an aborted state", func(w *world) {
		w.txs[2].snaps[0].state = sum(1, 77)
		w.members[1].Events[5] = folded(6, "a", sum(1, 77))
	}, "I5", "a snapshot that was aborted"},
	{"an aborted record was folded", func(w *world) {
		e := w.members[1].Events
		w.members[1].Events = append(e[:2:2], append([]Event{folded(2, "a", sum(1))}, e[2:]...)...)
	}, "I5", "does not have as committed"},
	{"a member was told of a commit that is not there", func(w *world) { w.members[0].Events[5].Offset = 5 }, "I5", "no committed transaction"},
	{"it is not known what became of a record", func(w *world) { w.outputs[2].status = Unknown }, "I5", "not known"},
	{"a transaction never ended", func(w *world) { w.txs[2].status = Open }, "I6", "has not ended"},
	{"an ownership never ended", func(w *world) {
		e := w.members[0].Events
		w.members[0].Events = append(e[:7:7], e[8:]...)
	}, "I6", "never ended"},
	{"a member hangs", func(w *world) { e := w.members[1].Events; w.members[1].Events = e[:len(e)-1] }, "I6", "neither stopped"},
	{"records were never folded", func(w *world) { w.input = append(w.input, in{7, "c", "1", Committed}) }, "I7", "never committed"},
	{"a commit without a generation", func(w *world) { w.txs[3].generation = -1; w.txs[4].generation = -1 }, "I3 I8", "generation -1"},
	{"a commit without a member", func(w *world) { w.txs[1].member = "" }, "I8", `member ""`},
	{"an offset was seen that no transaction has committed", func(w *world) { w.seen(0, 2, 4) }, "I1", "the committed offset was 4"},
	{"the committed offset was seen to fall", func(w *world) { w.seen(2, 0) }, "I3", "falls from 2 to 0"},
	{"a log out of order", func(w *world) { w.more = func(h *History) { r := h.Inputs[0].Records; r[0], r[1] = r[1], r[0] } }, "I2", "not in order"},
	{"an offset of no input", func(w *world) {
		w.more = func(h *History) {
			h.Offsets = append(h.Offsets, Offset{Partition: stream.Partition{Topic: "other"}, Next: 1})
		}
	}, "I1", "no such input partition"},
	{"a progress record that cannot be read", func(w *world) {
		w.more = func(h *History) { r := h.Snapshots[0].Records; r[len(r)-1].Value = []byte("?") }
	}, "I1 I5 I8", "cannot be read"},
	{"a snapshot of before a rebuild", func(w *world) {
		w.rebuild()
		w.txs = append(w.txs, tx{status: Committed, nonce: 0xc, seq: 3, generation: 3, member: "m-c", next: 7, inc: 0, snaps: []snap{
			{"a", snapshot.State, 6, 3, sum(1, 3, 4)},
		}})
		w.meta = "hf1:c:3"
	}, "I3", "of incarnation 0 comes after"},
	{"a rebuild that drops a key after it has come again", func(w *world) {
		w.rebuild()
		last := &w.txs[len(w.txs)-1]
		last.snaps = append(last.snaps, snap{"a", snapshot.Tombstone, -1, 0, tally{}})
	}, "I2", "or one of after it"},
	{"a rebuild that drops a key that was not there", func(w *world) {
		w.rebuild()
		last := &w.txs[len(w.txs)-1]
		last.snaps = append(last.snaps, snap{"z", snapshot.Tombstone, -1, 0, tally{}})
	}, "I2", "no snapshot of before it"},
	{"a tombstone before its offset", func(w *world) {
		w.txs[3].snaps = append(w.txs[3].snaps, snap{"b", snapshot.Tombstone, 5, 2, tally{}})
		w.txs[4].snaps = w.txs[4].snaps[:1]
	}, "I2", "while 2 is committed"},
	{"a dead letter of no record", func(w *world) { w.letters = []Record{letter(77, "a", "100")} }, "I4", "does not exist"},
	{"a dead letter before its offset", func(w *world) {
		w.atomic, w.input, w.letters = true, append(w.input, in{7, "c", "bad", Committed}), []Record{letter(7, "c", "bad")}
		w.more = func(h *History) { h.Unfinished = "the test ends in the middle" }
	}, "I4", "is visible, and the committed offset"},
	{"no output topic", func(w *world) { w.more = func(h *History) { h.Outputs = nil } }, "I4", "lacks the output topic"},
	{"a member with a partition of nobody", func(w *world) {
		w.members[0].Events[2].Partition.Topic = "other"
	}, "I2", "is not in the history"},
	{"a partition lost without a cause", func(w *world) { w.members[0].Events[7].Cause = "" }, "I6", "without a cause"},
	{"an ownership over another", func(w *world) {
		e := w.members[1].Events
		again := e[0]
		again.Ownership = 2
		w.members[1].Events = append(append(e[:2:2], again), e[2:]...)
		w.members[1].Events[8].Ownership = 2
	}, "I6", "had not ended"},
	{"a grant without a generation", func(w *world) { w.members[0].Events[0].Generation = -1 }, "I8", "in generation -1"},
	{"a record folded as another key's", func(w *world) { w.members[0].Events[3].Key = []byte("b") }, "I2", "as another key's"},
	{"a fold that was given an older state", func(w *world) { w.members[1].Events[5] = folded(6, "a", sum(1)) }, "I2", "it is the state of offset 0"},
	{"an aborted record was dead-lettered and applied", func(w *world) { w.txs[4].snaps[0].applied = 2 }, "I2 I5", "the record there was aborted"},
	{"metadata of nobody", func(w *world) { w.meta = "" }, "I8", "names no commit"},
}

// seen has committed offsets been looked at during the run.
func (w *world) seen(offsets ...int64) {
	w.more = func(h *History) {
		final := h.Offsets
		h.Offsets = nil
		for _, next := range offsets {
			h.Offsets = append(h.Offsets, Offset{Partition: stream.Partition{Topic: testInput}, Next: next})
		}
		h.Offsets = append(h.Offsets, final...)
	}
}

func moveOutput(h *History) {
	log := &h.Outputs[0]
	last := log.Records[len(log.Records)-1]
	log.Records = log.Records[:len(log.Records)-1]
	p := stream.Partition{Topic: testOutput, Partition: 1}
	last.Partition, last.Offset = 1, 0
	h.Outputs = append(h.Outputs, Log{Partition: p, End: 1, Records: []Record{last}})
}

func letter(offset int64, key, value string) Record {
	r := record(stream.Partition{Topic: "rejects"}, 0, key, []byte(value), Committed)
	from := record(stream.Partition{Topic: testInput}, offset, key, []byte(value), Committed)
	r.Headers = dlq.New(from.Record, dlq.Cause{Err: errors.New("bad"), Attempt: 1}).Headers
	return r
}

// TestBadHistories gives the checker histories with one defect each. That only the defect is what is
// caught is shown by TestRightHistories, whose history they have in common.
func TestBadHistories(t *testing.T) {
	t.Parallel()
	named := map[string]bool{}
	for _, c := range badHistories {
		for _, name := range strings.Fields(c.want) {
			named[name] = true
		}
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := right()
			c.damage(&w)
			vs := w.check(t)
			expect(t, vs, c.want)
			for _, v := range vs {
				if strings.Contains(v.String(), c.says) {
					return
				}
			}
			t.Errorf("no violation says %q: %v", c.says, vs)
		})
	}
	for _, name := range []string{"I1", "I2", "I3", "I4", "I5", "I6", "I7", "I8"} {
		if !named[name] {
			t.Errorf("no bad history breaks %s", name)
		}
	}
}
