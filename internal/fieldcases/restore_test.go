package fieldcases

import (
	"context"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/snapshot"
	"github.com/holdfast-go/holdfast/stream"
)

// Public case C9: two partitions are restored side by side, one of them slowly. Each ends at its own
// offset with its own states, and the fast one does not wait.
func TestCaseC9RestoresOfDifferentSpeed(t *testing.T) {
	t.Parallel()
	l := newLab(t, 2)
	l.write(0, 60)
	l.write(1, 3)
	r := l.start("before", l.config())
	l.reach()
	l.must(r.end())
	slow := l.cluster.Fault(kfake.Fault{
		Keys: []kmsg.Key{kmsg.Fetch}, TopicID: l.topicID(snapshots), Partitions: []int32{0}, Err: kerr.NotLeaderForPartition, Count: -1,
	})
	r = l.start("after", l.config())
	if e := r.restored(1); e.Start != 3 || e.Keys != 3 {
		t.Errorf("the fast one has %d keys and begins at %d, want 3 and 3", e.Keys, e.Start)
	}
	l.write(1, 5)
	r.committedTo(1, 8)
	for _, e := range all[stream.Restored](r) {
		if e.Partition.Partition == 0 {
			t.Error("the slow one is restored with nothing read")
		}
	}
	slow.Remove()
	if e := r.restored(0); e.Start != 60 || e.Keys != 3 {
		t.Errorf("the slow one has %d keys and begins at %d, want 3 and 60", e.Keys, e.Start)
	}
	l.writeAll(3)
	l.finished()
}

// long writes a log of n records that takes several fetches.
func (l *lab) long(topic string, n int) {
	l.t.Helper()
	noise := rand.NewChaCha8([32]byte{1}) // which does not compress
	for i := range n {
		value := make([]byte, 700_000)
		_, _ = noise.Read(value)
		m, err := snapshot.Encode(snapshot.Record{Key: []byte{'k', byte(i)}, Kind: snapshot.State, Value: value, Header: snapshot.Header{Applied: []int64{int64(i)}, Steps: 1}})
		l.must(err)
		r := &kgo.Record{Topic: topic, Key: m.Key, Value: m.Value}
		for _, h := range m.Headers {
			r.Headers = append(r.Headers, kgo.RecordHeader(h))
		}
		l.send(r)
	}
}

// Public case D8: the head of the log is deleted while it is restored. The restore goes on with what is
// left and ends at its target; of a log that is empty at last it ends too.
func TestCaseD8HeadIsDeletedDuringTheRestore(t *testing.T) {
	t.Parallel()
	const records = 24
	for name, below := range map[string]int64{"half": records / 2, "all": records} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t, 1)
			l.long(input, records)
			var got []int64
			res, err := snapshot.Restore(t.Context(), snapshot.RestoreConfig{Client: l.client, Topic: input, StallTimeout: patience, Each: func(r stream.Record) error {
				if len(got) == 0 {
					l.must(l.cluster.DeleteRecords(input, 0, below))
				}
				got = append(got, r.Offset)
				return nil
			}})
			l.must(err)
			if res.Target != records || res.Position < records {
				t.Errorf("it ended at %d of %d", res.Position, res.Target)
			}
			rest := map[int64]bool{}
			for i, o := range got {
				if i > 0 && o <= got[i-1] {
					t.Errorf("offset %d comes after %d", o, got[i-1])
				}
				rest[o] = true
			}
			for o := below; o < records; o++ {
				if !rest[o] {
					t.Errorf("the record at %d, which is still there, was not read", o)
				}
			}
		})
	}
}

// Public case D14: what passes by itself during a restore costs nothing that was read: the restore goes
// on where it was. Each record is handed over once.
func TestCaseD14FaultsDuringTheRestoreDoNotBeginItAgain(t *testing.T) {
	t.Parallel()
	const records = 24
	l := newLab(t, 1)
	l.long(input, records)
	faults := []*kerr.Error{kerr.NotLeaderForPartition, kerr.UnknownServerError, kerr.KafkaStorageError, kerr.FencedLeaderEpoch, kerr.UnknownLeaderEpoch, kerr.OffsetNotAvailable}
	link := newLink()
	l.k.Opts = append(l.k.Opts, kgo.Dialer(link.dial))
	cl, err := l.k.Client()
	l.must(err)
	defer cl.Close()
	var specs []kfake.Fault
	for _, e := range faults {
		specs = append(specs, kfake.Fault{Keys: []kmsg.Key{kmsg.Fetch}, Err: e, When: func(req kmsg.Request) bool {
			ts := req.(*kmsg.FetchRequest).Topics
			return len(ts) == 1 && ts[0].Partitions[0].FetchOffset > 0
		}})
	}
	met := l.cluster.Fault(specs...)
	next := int64(0)
	_, err = snapshot.Restore(t.Context(), snapshot.RestoreConfig{Client: cl, Topic: input, StallTimeout: patience, Each: func(r stream.Record) error {
		if r.Offset != next {
			t.Errorf("offset %d comes where %d was to come", r.Offset, next)
		}
		next = r.Offset + 1
		if r.Offset == 0 {
			link.reset(kmsg.Fetch, 2)
			link.cut()
		}
		return nil
	}})
	l.must(err)
	if next != records || met.Hits() != len(faults) {
		t.Errorf("%d records were read over %d faults", next, met.Hits())
	}
}

// Public cases D6, D9: members join one by one while the states are still being read. Each rebalance
// moves partitions in mid-restore, and when the reads are let go every partition is restored by its
// owner, goes on where it was, and nobody has ended.
func TestCaseD9MembersJoinDuringTheRestore(t *testing.T) {
	t.Parallel()
	l := newLab(t, 4)
	l.before(20)
	came, release := l.hold(kmsg.Fetch, l.restores())
	var rs []*run
	for i, name := range []string{"a", "b", "c", "d"} {
		rs = append(rs, l.start(name, l.config()))
		<-came
		l.await("the group is stable with the member in it", l.has(i+1))
	}
	for _, r := range rs {
		if n := len(all[stream.Restored](r)); n > 0 {
			t.Errorf("%s has restored %d partitions with nothing read", r.name, n)
		}
	}
	release()
	for _, r := range rs {
		if e := await(r, func(stream.Restored) bool { return true }); e.Start != 20 || e.Keys != 3 {
			t.Errorf("%s has %d keys and begins at %d, want 3 and 20", r.name, e.Keys, e.Start)
		}
	}
	l.writeAll(10)
	l.finished()
}

// Public case D12: the committed offset cannot be fetched for a while at the hand-over. The partition is
// not dropped: it begins where it was as soon as the offset is known.
func TestCaseD12OffsetIsNotToldAtTheHandover(t *testing.T) {
	t.Parallel()
	l := newLab(t, 2)
	l.before(10)
	faults := l.cluster.Fault(
		kfake.Fault{Keys: []kmsg.Key{kmsg.OffsetFetch}, Group: group, Err: kerr.CoordinatorLoadInProgress, Count: 4},
		kfake.Fault{Keys: []kmsg.Key{kmsg.OffsetFetch}, Group: group, Err: kerr.RequestTimedOut, Count: 4},
		kfake.Fault{Keys: []kmsg.Key{kmsg.OffsetFetch}, Group: group, Err: kerr.UnstableOffsetCommit, Count: 4},
	)
	r := l.start("after", l.config())
	r.link.reset(kmsg.OffsetFetch, 3)
	for p := range l.partitions {
		if e := r.restored(p); e.Start != 10 {
			t.Errorf("partition %d begins at %d, want 10", p, e.Start)
		}
	}
	if faults.Hits() < 12 {
		t.Errorf("only %d faults were met", faults.Hits())
	}
	l.writeAll(5)
	l.finished()
}

// Public case E6: a restore takes longer than the session. The member keeps its membership, nothing
// is folded on states that are not there yet, and in the end it goes on where it was. Without heartbeats
// the group expels the member meanwhile.
func TestCaseE6RestoreLongerThanTheSession(t *testing.T) {
	t.Parallel()
	for name, beats := range map[string]bool{"heartbeats": true, "none": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t, 1)
			l.before(20)
			const session = time.Second
			var calls atomic.Int64
			l.tune = func(c *holdfast.Config[tally]) {
				c.Member.SessionTimeout = session
				c.Fold = func(ctx context.Context, k *holdfast.Key[tally], r stream.Record) error {
					calls.Add(1)
					return fold(ctx, k, r)
				}
			}
			came, release := l.hold(kmsg.Fetch, l.restores())
			pulse := l.pulse()
			r := l.start("after", l.config())
			<-came
			l.write(0, 5)
			if !beats {
				r.link.stop(kmsg.Heartbeat)
				l.await("the group has expelled the member", l.expelled("after"))
				r.link.resume()
				await(r, func(lost) bool { return true })
				release()
				l.finished()
				return
			}
			beat := l.observe(nil, kmsg.Heartbeat)
			l.wait(beat, 40) // two sessions of them
			if calls.Load() > 0 {
				t.Error("a record was folded before the states were restored")
			}
			release()
			if e := r.restored(0); e.Start != 20 {
				t.Errorf("it begins at %d, want 20", e.Start)
			}
			l.tune = nil
			l.finished()
			if n := len(all[stream.Assigned](r)); n != 1 && !pulse.excuses(r, session) {
				t.Errorf("%d ownerships, want one", n)
			}
		})
	}
}
