package accidents

import (
	"context"
	"errors"
	"testing"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/claim"
	"github.com/holdfast-go/holdfast/holdfasttest"
	"github.com/holdfast-go/holdfast/internal/kafkatest"
	"github.com/holdfast-go/holdfast/pipe"
	"github.com/holdfast-go/holdfast/stream"
)

// What R26 rests on: Kafka's compaction takes all of the head of a log, and its start stays where it was, over a
// restart of the broker too.
func TestKafkaCompactionKeepsTheStartOfALog(t *testing.T) {
	t.Parallel()
	k := compacting(t)
	l := newLab(t, k, states, 1)
	l.topic = eager
	r := l.start("one")
	for i := range int64(4) {
		l.write(l.record(0, "a", "1"))
		r.committedTo(0, i+1)
	}
	l.clean()
	r.end()
	head := func(when string) {
		t.Helper()
		if start, _, _ := l.ends(l.progress()); start != 0 {
			t.Errorf("%s the log begins at %d: a start that has risen proves no deletion", when, start)
		}
		if rs := l.read(l.progress()); len(rs) == 0 || rs[0].Offset == 0 {
			t.Errorf("%s the head of the log is not compacted: it has %d records", when, len(rs))
		}
	}
	head("after compaction")
	if err := k.Brokers[0].Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := k.Brokers[0].Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	head("after a restart")
	l.again(4)
}

// check is what Check says of the component.
func (l *lab) check() (claim.Report, error) {
	l.t.Helper()
	ctx, cancel := context.WithTimeout(l.t.Context(), patience)
	defer cancel()
	if l.kind == copies {
		c, err := pipe.New(l.pipe())
		if err != nil {
			l.t.Fatal(err)
		}
		return c.Check(ctx)
	}
	c, err := holdfast.New(l.flow())
	if err != nil {
		l.t.Fatal(err)
	}
	return c.Check(ctx)
}

// onceDeleted has the snapshot topic under cleanup.policy=delete for a while, in which f runs.
func (l *lab) onceDeleted(f func()) {
	l.t.Helper()
	l.whileDeleted(func() {
		l.refuses(stream.ErrTopic, `its cleanup.policy is "delete"`)
		f()
	})
}

// whileDeleted is onceDeleted without a start in between. Kafka refuses DeleteRecords on a topic that is compacted and
// nothing else.
func (l *lab) whileDeleted(f func()) {
	l.t.Helper()
	l.alter(l.progress(), map[string]string{"cleanup.policy": "delete"})
	f()
	l.alter(l.progress(), map[string]string{"cleanup.policy": "compact"})
}

// anyOutput is that outputs are not what they were: states have begun at nothing, or are folded again.
var anyOutput = []loss{{"I4", atWill, ""}}

// The snapshot topic was under cleanup.policy=delete for a while, and lost the snapshots of two of three keys; the
// progress record stayed. Set back, as the hint of the start says, the flow began without a word, and folded from
// nothing. A pipe has lost nothing.
// Public case D15.
func TestKafkaHeadOfTheSnapshotsIsDeleted(t *testing.T) {
	each(t, 1, func(t *testing.T, l *lab) {
		l.ten()
		_, end, _ := l.ends(l.progress())
		l.produce(0, 10, 11)
		r := l.start("a key goes on")
		r.committedTo(0, 11)
		r.end()
		l.onceDeleted(func() { l.trim(l.progress(), end) })
		l.produce(0, 11, 15)
		if l.kind == copies {
			if _, err := l.check(); err != nil {
				t.Errorf("check: %v", err)
			}
			l.finish(11, 15)
			l.again(15)
			return
		}
		l.refuses(stream.ErrSnapshotsLost, "and began at 0", "AdoptRemaining", "Rebuild")
		if _, err := l.check(); !errors.Is(err, stream.ErrSnapshotsLost) {
			t.Errorf("check: %v, want %v", err, stream.ErrSnapshotsLost)
		}
		l.policy = holdfast.AdoptRemaining
		if _, err := l.check(); err != nil {
			t.Errorf("check, with the policy: %v", err)
		}
		l.finish(11, 15)
		l.policy = holdfast.StopAndAsk
		l.again(15) // what was adopted is noted
		_, end, _ = l.ends(l.progress())
		l.produce(0, 15, 16)
		r = l.start("another key goes on")
		r.committedTo(0, 16)
		r.end()
		l.whileDeleted(func() { l.trim(l.progress(), end) })
		l.refuses(stream.ErrSnapshotsLost, "AdoptRemaining", "Rebuild")
		l.policy = holdfast.Rebuild
		after := l.finish(0, 16)
		l.policy = holdfast.StopAndAsk
		l.again(16)
		l.verdictOf(func(*holdfasttest.History) {}, anyOutput, after)
	})
}

// Retention takes all of the topic, the progress records too. The offset alone is left, or after a while not even
// that: neither is a new flow.
func TestKafkaRetentionEmptiesTheSnapshots(t *testing.T) {
	t.Parallel()
	k := kafkatest.New(t, kafkatest.Options{Properties: map[string]string{"log.retention.check.interval.ms": "200", "log.initial.task.delay.ms": "100"}})
	for _, forgotten := range []bool{false, true} {
		for _, what := range everyKind {
			name := string(what)
			if forgotten {
				name += ", and the offset expires"
			}
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				l := newLab(t, k, what, 1)
				before := l.ten()
				l.onceDeleted(func() {
					l.alter(l.progress(), map[string]string{"retention.ms": "1"})
					l.until("all is deleted", func() bool { start, end, _ := l.ends(l.progress()); return start == end })
				})
				l.produce(0, 10, 15)
				start := int64(10)
				if forgotten {
					l.forget()
					start = 0
				}
				l.refuses(stream.ErrSnapshotsLost, "AdoptRemaining", "Rebuild")
				if _, err := l.check(); !errors.Is(err, stream.ErrSnapshotsLost) {
					t.Errorf("check: %v, want %v", err, stream.ErrSnapshotsLost)
				}
				l.policy = holdfast.AdoptRemaining
				l.finish(start, 15)
				l.policy = holdfast.StopAndAsk
				l.again(15)
				_ = before
			})
		}
	}
}

// The topic is set to delete under a running member, or records are deleted from it: the member stops within a look.
func TestKafkaSnapshotsAreDeletedFromUnderAMember(t *testing.T) {
	t.Parallel()
	for _, what := range kinds {
		t.Run(string(what)+", the policy", func(t *testing.T) {
			t.Parallel()
			l := newShared(t, what, 1)
			l.produce(0, 0, 10)
			r := l.start("running")
			r.committedTo(0, 10)
			l.alter(l.progress(), map[string]string{"cleanup.policy": "delete"})
			named(t, r.failure(), stream.ErrTopic, `its cleanup.policy is "delete"`)
			l.alter(l.progress(), map[string]string{"cleanup.policy": "compact"})
			l.again(10)
		})
		if what == copies {
			continue
		}
		t.Run(string(what)+", its records", func(t *testing.T) {
			t.Parallel()
			l := newShared(t, what, 1)
			l.produce(0, 0, 10)
			r := l.start("running")
			r.committedTo(0, 10)
			l.whileDeleted(func() { l.trim(l.progress(), 1) })
			named(t, r.failure(), stream.ErrSnapshotsLost, "begins at 1, and began at 0")
			l.refuses(stream.ErrSnapshotsLost, "AdoptRemaining", "Rebuild")
		})
	}
}
