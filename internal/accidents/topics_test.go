package accidents

import (
	"testing"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/holdfasttest"
	"github.com/holdfast-go/holdfast/stream"
)

// fromTheOther are the outputs of the records of an input that is not there any more.
func fromTheOther(n int) []loss { return []loss{{"I4", n, "no step gives this output"}} }

// The input is deleted and made again while the component is down, with more records than were taken of
// the one before: by offsets alone they would be its rest.
func TestKafkaInputRecreatedWhileStopped(t *testing.T) {
	each(t, 1, func(t *testing.T, l *lab) {
		l.ten()
		l.recreate(l.input, nil)
		l.pr = producer(t, l.k)
		l.produce(0, 100, 120)
		l.reset(10) // a broker forgets the offsets with the topic, an operator may put them back
		l.refuses(stream.ErrInputChanged, "created again", "Rebuild")
		l.policy = holdfast.Rebuild
		l.verdict(fromTheOther(10), l.finish(0, 20))
		l.again(20)
	})
}

// The input is deleted and made again under a running member, which stops and has taken nothing of it.
func TestKafkaInputRecreatedWhileRunning(t *testing.T) {
	each(t, 1, func(t *testing.T, l *lab) {
		if l.kind != states { // most of it is a wait for the topic to come back
			nightly(t)
		}
		l.produce(0, 0, 10)
		r := l.start("running")
		r.committedTo(0, 10)
		l.recreate(l.input, nil)
		l.pr = producer(t, l.k)
		l.produce(0, 100, 120)
		named(t, r.failure(), stream.ErrInputChanged)
		l.policy = holdfast.Rebuild
		l.verdict(fromTheOther(10), l.finish(0, 20))
	})
}

// The snapshot topic, or a pipe's progress topic, is deleted and made again while the component is down.
func TestKafkaSnapshotsRecreatedWhileStopped(t *testing.T) {
	each(t, 1, func(t *testing.T, l *lab) {
		l.ten()
		l.produce(0, 10, 15)
		l.recreate(l.progress(), map[string]string{"cleanup.policy": "compact"})
		l.refuses(stream.ErrOffsetMismatch, "has committed offset 10", "no progress record")
		if l.kind == copies {
			l.reset(10)
			l.verdict(nil, l.finish(10, 15))
			return
		}
		l.policy = holdfast.AdoptEmpty
		after := l.finish(10, 15)
		l.verdictOf(func(h *holdfasttest.History) { h.Inputs[0].From = 10 }, fromTheOther(10), after)
	})
}

// The snapshot topic, or a pipe's progress topic, is deleted and made again under a running member. It
// must not go on in the empty one: only the keys that come again would be in it.
func TestKafkaSnapshotsRecreatedWhileRunning(t *testing.T) {
	nightly(t) // the client waits a quarter of a minute for the topic to come back
	each(t, 1, func(t *testing.T, l *lab) {
		l.produce(0, 0, 10)
		r := l.start("running")
		r.committedTo(0, 10)
		l.recreate(l.progress(), map[string]string{"cleanup.policy": "compact"})
		l.write(l.record(0, "k0-0", "10"))
		want := stream.ErrTopic // the broker refuses the id of the topic that is gone
		if oldTransactions() {
			want = stream.ErrTruncated // it takes the name, and the record lands at offset 0
		}
		named(t, r.failure(), want, "made again")
		if got := l.committed(0); got != 10 {
			t.Errorf("committed %d, want 10: nothing more was to be committed", got)
		}
		l.refuses(stream.ErrOffsetMismatch, "has committed offset 10", "no progress record")
		l.policy = holdfast.Rebuild
		after := l.finish(0, 11)
		l.verdict(again(10)[l.kind], after)
	})
}

// Partitions are added to the input while the component is down. A flow's keys have moved, which no start policy
// mends, and its states stay as they are. A pipe has none: it asks for a partition more in its own topic.
func TestKafkaPartitionsAddedWhileStopped(t *testing.T) {
	each(t, 1, func(t *testing.T, l *lab) {
		before := l.ten()
		l.widen(l.input, 2)
		if l.kind != copies {
			l.unmended()
			l.widen(l.progress(), 2) // for the checker, which looks for one beside each of the input
			l.verdict(nil, before)
			return
		}
		l.refuses(stream.ErrTopic, "1 partitions", "has 2")
		l.widen(l.progress(), 2)
		l.pr = producer(t, l.k)
		l.produce(1, 0, 5)
		l.produce(0, 10, 15)
		r := l.start("after")
		if e := await(r, 0, func(e stream.Restored) bool { return e.Partition.Partition == 0 }); e.Start != 10 {
			t.Errorf("it goes on at %d, want 10", e.Start)
		}
		r.committedTo(0, 15)
		r.committedTo(1, 5)
		r.end()
		l.verdict(nil, before, r)
	})
}

// unmended makes sure that a flow whose input has got a second partition starts under no policy.
func (l *lab) unmended() {
	l.t.Helper()
	for _, l.policy = range []holdfast.Disagreement{holdfast.StopAndAsk, holdfast.ResumeAtProgress, holdfast.AdoptEmpty, holdfast.Rebuild} {
		l.refuses(stream.ErrInputChanged, "had 1 partitions and has 2", "with a pipe")
	}
}

// Partitions are added to the input under a running member. It stops, and what it had taken is committed.
func TestKafkaPartitionsAddedWhileRunning(t *testing.T) {
	each(t, 1, func(t *testing.T, l *lab) {
		l.produce(0, 0, 10)
		r := l.start("running")
		r.committedTo(0, 10)
		l.widen(l.input, 2)
		named(t, r.failure(), stream.ErrInputChanged, "partitions")
		if l.kind != copies {
			l.unmended()
			l.widen(l.progress(), 2) // for the checker, which looks for one beside each of the input
			l.verdict(nil, r)
			return
		}
		l.widen(l.progress(), 2)
		l.produce(0, 10, 15)
		l.verdict(nil, r, l.finish(10, 15))
	})
}

// Partitions are added to the snapshot or progress topic alone. A running member goes on, and so does the next one:
// they cannot be taken away again, and the last ones stay empty.
func TestKafkaPartitionsAddedToTheSnapshots(t *testing.T) {
	each(t, 1, func(t *testing.T, l *lab) {
		l.produce(0, 0, 10)
		r := l.start("running")
		r.committedTo(0, 10)
		l.widen(l.progress(), 2)
		l.produce(0, 10, 15)
		r.committedTo(0, 15)
		r.end()
		l.produce(0, 15, 20)
		l.verdict(nil, r, l.finish(15, 20))
	})
}
