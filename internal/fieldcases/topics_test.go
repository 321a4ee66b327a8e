package fieldcases

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/stream"
)

// Public case G3: a record without a key comes to a flow whose states are in a compacted topic. It is
// refused before anything is written, with its place; a policy may skip it. It never gets as far as a
// broker, which would refuse it each time.
func TestCaseG3RecordWithoutAKey(t *testing.T) {
	t.Parallel()
	l := newLab(t, 1)
	l.write(0, 2)
	l.send(&kgo.Record{Topic: input, Value: []byte("5")})
	l.written[0]++
	l.write(0, 2)
	var keyless atomic.Int64
	r := l.start("stops", l.config())
	if e := wantStop(t, r, stream.ErrNoKey); e.Offset != 2 || e.Topic != input {
		t.Errorf("the error names %v at %d, want offset 2 of the input", e.Partition, e.Offset)
	}
	if at := l.committed(0); at != 2 {
		t.Errorf("offset %d is committed, want 2", at)
	}
	l.runs = nil
	l.tune = func(c *holdfast.Config[tally]) {
		c.OnError = func(_ context.Context, e *stream.RecordError) stream.Action {
			if errors.Is(e.Err, stream.ErrNoKey) {
				keyless.Add(1)
				return stream.Skip
			}
			return stream.Stop
		}
	}
	r = l.start("skips", l.config())
	l.reach()
	l.must(r.end())
	if keyless.Load() != 1 {
		t.Errorf("the policy was asked %d times about a record without a key", keyless.Load())
	}
	for _, rec := range l.read(snapshots) {
		if rec.Key == nil {
			t.Errorf("the record at %d of the snapshot topic has no key", rec.Offset)
		}
	}
}

// read reads a topic to its end.
func (l *lab) read(topic string) (rs []*kgo.Record) {
	l.t.Helper()
	ends, err := l.admin.ListEndOffsets(l.t.Context(), topic)
	l.must(err)
	cl, err := l.k.Client(kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.KeepControlRecords())
	l.must(err)
	defer cl.Close()
	left := map[int32]int64{}
	for p, o := range ends[topic] {
		if o.Offset > 0 {
			left[p] = o.Offset
		}
	}
	ctx, cancel := context.WithTimeout(l.t.Context(), patience)
	defer cancel()
	for len(left) > 0 {
		fs := cl.PollFetches(ctx)
		l.must(fs.Err())
		fs.EachRecord(func(r *kgo.Record) {
			if r.Offset+1 >= left[r.Partition] {
				delete(left, r.Partition)
			}
			if !r.Attrs.IsControl() {
				rs = append(rs, r)
			}
		})
	}
	return rs
}

// murmur2 has the hashes that Kafka's own test of its Utils.murmur2 has (UtilsTest.testMurmur2).
var murmur2 = map[string]int32{
	"21": -973932308, "foobar": -790332482, "a-little-bit-long-string": -985981536, "a-little-bit-longer-string": -1486304829,
	"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971, "abc": 479470107,
}

// Public case G7: a key goes to the partition where Kafka's own producer puts it, by Java's murmur2.
func TestCaseG7KeysGoWhereJavaPutsThem(t *testing.T) {
	t.Parallel()
	l := newLab(t, 1)
	const partitions = 97
	l.must(l.cluster.CreateTopic("wide", partitions, nil))
	for key := range murmur2 {
		l.send(&kgo.Record{Topic: input, Key: []byte(key), Value: []byte("1")})
		l.written[0]++
	}
	for _, g := range []holdfast.Guarantee{holdfast.FencedState, holdfast.FencedOutputs, holdfast.Unfenced} {
		l.guarantee = g
		c := l.config()
		c.Group, c.Outputs, c.Fold = "to-"+g.String(), []string{"wide"}, foldTo("wide")
		r := l.start(c.Group, c)
		r.committedTo(0, int64(len(murmur2)))
		l.must(r.end())
	}
	got := l.read("wide")
	if len(got) != 3*len(murmur2) {
		t.Errorf("%d outputs, want %d", len(got), 3*len(murmur2))
	}
	for _, r := range got {
		if want := (murmur2[string(r.Key)] & 0x7fffffff) % partitions; r.Partition != want {
			t.Errorf("key %q is in partition %d, Java puts it into %d", r.Key, r.Partition, want)
		}
	}
}

// Public case G11: the snapshot topic has a name that the user chose. It is the one that is written,
// restored from and in the transactional ids, and none with the default name comes into being.
func TestCaseG11SnapshotTopicOfTheUsersName(t *testing.T) {
	t.Parallel()
	l := newLab(t, 1)
	l.tune = func(c *holdfast.Config[tally]) { c.Snapshots.Topic = "states-of-mine" }
	l.before(20)
	r := l.start("after", l.config())
	if e := r.restored(0); e.Keys != 3 || e.Start != 20 {
		t.Errorf("%d keys were restored and it begins at %d, want 3 and 20", e.Keys, e.Start)
	}
	l.writeAll(5)
	l.finished()
	if l.cluster.TopicInfo(snapshots) != nil {
		t.Errorf("there is a topic %s", snapshots)
	}
}

// Public case J8: a flow that says nothing about its start begins at the first record, and never jumps to
// the end: an offset below what the input still has, and one that is missing beside snapshots, stop it.
func TestCaseJ8NeverJumpsToTheEnd(t *testing.T) {
	t.Parallel()
	t.Run("new flow", func(t *testing.T) {
		t.Parallel()
		l := newLab(t, 1)
		l.write(0, 10)
		r := l.start("one", l.config())
		if e := r.restored(0); e.Start != 0 {
			t.Errorf("it begins at %d, want 0", e.Start)
		}
		l.finished()
	})
	t.Run("offset out of range", func(t *testing.T) {
		t.Parallel()
		l := newLab(t, 1)
		l.before(5)
		l.write(0, 10)
		l.must(l.cluster.DeleteRecords(input, 0, 10))
		r := l.start("after", l.config())
		wantStop(t, r, stream.ErrTruncated)
		if at := l.committed(0); at != 5 {
			t.Errorf("offset %d is committed, want 5", at)
		}
	})
	t.Run("offset lost", func(t *testing.T) {
		t.Parallel()
		l := newLab(t, 1)
		l.before(5)
		_, err := l.admin.DeleteGroups(t.Context(), group)
		l.must(err)
		wantStop(t, l.start("after", l.config()), stream.ErrOffsetMismatch)
		if at := l.committed(0); at != -1 {
			t.Errorf("offset %d is committed, want none", at)
		}
	})
}

// Public case N7: everything that is written is acknowledged by all in-sync replicas, under each
// guarantee: a leader that fails loses nothing that was acted on.
func TestCaseN7EverythingIsAcknowledgedByAll(t *testing.T) {
	t.Parallel()
	l := newLab(t, 1)
	var less, seen atomic.Int64
	l.observe(func(req kmsg.Request) bool {
		seen.Add(1)
		if req.(*kmsg.ProduceRequest).Acks != -1 {
			less.Add(1)
		}
		return true
	}, kmsg.Produce)
	l.write(0, 5)
	for i, g := range []holdfast.Guarantee{holdfast.FencedState, holdfast.FencedOutputs, holdfast.Unfenced} {
		l.guarantee = g
		c := l.config()
		c.Group = fmt.Sprintf("group-%d", i)
		r := l.start(c.Group, c)
		r.committedTo(0, 5)
		l.must(r.end())
	}
	if less.Load() > 0 || seen.Load() < 7 {
		t.Errorf("%d of %d writes do not ask for all acknowledgements", less.Load(), seen.Load())
	}
}
