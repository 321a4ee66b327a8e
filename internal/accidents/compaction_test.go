package accidents

import (
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/holdfasttest"
	"github.com/holdfast-go/holdfast/internal/kafkatest"
	"github.com/holdfast-go/holdfast/internal/rule"
	"github.com/holdfast-go/holdfast/internal/trial"
	"github.com/holdfast-go/holdfast/internal/wiretap"
	"github.com/holdfast-go/holdfast/snapshot"
	"github.com/holdfast-go/holdfast/stream"
)

// eager is the configuration of a topic whose cleaner takes whatever it may, at once: every write of a
// later moment closes the segment before it.
var eager = map[string]string{
	"segment.ms": "1", "min.cleanable.dirty.ratio": "0.001", "max.compaction.lag.ms": "1", "delete.retention.ms": "0",
}

// compacting is a broker whose cleaner does not rest.
func compacting(t *testing.T) *kafkatest.Cluster {
	t.Helper()
	return kafkatest.New(t, kafkatest.Options{Properties: map[string]string{"log.cleaner.backoff.ms": "20"}})
}

// clean waits until the log of the progress topic has no record left that a later one replaces, but for
// those of the last segment, which the cleaner leaves alone: it is what one transaction has written. A
// tombstone goes with a later pass, which needs something new to be written.
func (l *lab) clean() {
	l.t.Helper()
	var left string
	l.until("the log is clean", func() bool {
		left = ""
		newest, last := map[string]int64{}, int64(0)
		rs := l.read(l.progress())
		for _, r := range rs {
			newest[string(r.Key)] = r.Offset
			if fence.IsProgressKey(r.Key) {
				last, newest[""] = newest[""], r.Offset // where the last transaction but one ends
			}
		}
		for _, r := range rs {
			if newest[string(r.Key)] > r.Offset && r.Offset < last {
				left += fmt.Sprintf(" %d:%q", r.Offset, r.Key)
			}
		}
		return left == ""
	})
}

// keys returns the kinds of the newest snapshots by key, as the next owner finds them.
func (l *lab) keys() map[string]snapshot.Kind {
	l.t.Helper()
	found := map[string]snapshot.Kind{}
	for _, r := range l.read(l.progress()) {
		if fence.IsProgressKey(r.Key) {
			continue
		}
		s, err := snapshot.Decode(r)
		if err != nil {
			l.t.Fatal(err)
		}
		found[string(s.Key)] = s.Kind
	}
	return found
}

// aborted leaves an aborted transaction in the progress topic, with records of the keys that are in it.
func (l *lab) aborted() {
	l.t.Helper()
	cl := l.k.Client(l.t, kgo.TransactionalID(l.id(0)), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	defer cl.Close()
	if err := cl.BeginTransaction(); err != nil {
		l.t.Fatal(err)
	}
	var rs []*kgo.Record
	for key := range l.keys() {
		rs = append(rs, &kgo.Record{Topic: l.progress(), Key: []byte(key), Value: []byte("not a snapshot")})
	}
	rs = append(rs, &kgo.Record{Topic: l.progress(), Key: []byte("\x00progress"), Value: []byte("no progress")})
	if err := cl.ProduceSync(l.t.Context(), rs...).FirstErr(); err != nil {
		l.t.Fatal(err)
	}
	if err := cl.EndTransaction(l.t.Context(), kgo.TryAbort); err != nil {
		l.t.Fatal(err)
	}
}

// The cleaner runs between any two steps: after each write, after an abort, over a delete and what
// follows it, while the component is down, and before each restore. No key is lost and none comes back.
func TestKafkaCompactionBetweenAnyTwoSteps(t *testing.T) {
	nightly(t)
	k := compacting(t)
	for _, what := range kinds {
		t.Run(string(what), func(t *testing.T) {
			t.Parallel()
			l := newLab(t, k, what, 1)
			l.topic = eager
			var runs []*run
			next := int64(0)
			steps := []struct {
				name   string
				values []string // of the keys a, b and c in turn; "" leaves the key out
			}{
				{"first states", []string{"1", "2", "3"}},
				{"written over", []string{"4", "5", "6"}},
				{"one is deleted", []string{"", "delete", "7"}},
				{"the others go on", []string{"8", "", "9"}},
				{"the deleted one begins anew", []string{"", "10", ""}},
				{"all are deleted", []string{"delete", "delete", "delete"}},
				{"one begins anew", []string{"11", "", ""}},
			}
			for _, s := range steps {
				r := l.start(s.name)
				runs = append(runs, r)
				if e := await(r, 0, any1[stream.Restored]); e.Start != next {
					t.Errorf("%s: it goes on at %d, want %d", s.name, e.Start, next)
				}
				for i, value := range s.values {
					if value == "" {
						continue
					}
					l.write(l.record(0, string(rune('a'+i)), value))
					next++
					r.committedTo(0, next)
					l.clean()
				}
				r.end()
				l.clean()
				l.aborted()
				l.clean()
			}
			l.again(next)
			l.verdict(nil, runs...)
			if what != copies {
				if got := l.keys()["a"]; got != snapshot.State {
					t.Errorf("the key a is %v at the end, want a state", got)
				}
			}
		})
	}
}

// A key is deleted and persisted while other keys hold the offset back, and the process is killed. All
// that the cleaner may take is taken, and delete.retention passes, before the next start replays the
// records from before the deletion. The key must not come back. It does where a delete is one write.
func TestKafkaDeleteRetentionPassesWhileDown(t *testing.T) {
	for _, c := range []struct {
		name string
		off  []rule.Name
		back bool
	}{
		{"with all rules", nil, false},
		{"without the rule", []rule.Name{rule.TwoWriteDelete}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			nightly(t)
			t.Parallel()
			k := compacting(t)
			// Record 51 deletes its key, k0-1, and asks for a snapshot of it; so do records 1, 6, 11 and so on.
			f := trial.New(t, k, trial.App{Kind: trial.Flow, Persist: time.Hour, Off: c.off}, 1, map[string]map[string]string{"progress": eager})
			l := &lab{t: t, k: k, kind: states, admin: f.Admin, partitions: 1, input: f.App.Input, output: f.App.Output, group: f.App.Group}
			one := f.Member("one")
			one.Start()
			one.Owns()
			f.Send(52)
			deleted := snapshot.Deleted
			if c.back {
				deleted = snapshot.Tombstone
			}
			l.until("the deletion is in the log", func() bool { return l.keys()["k0-1"] == deleted })
			one.Kill()
			l.aborted() // a write of another moment closes the segment of the deletion
			l.clean()
			if c.back {
				l.until("the tombstone is gone", func() bool {
					l.aborted() // each pass of the cleaner needs something new
					_, known := l.keys()["k0-1"]
					return !known
				})
			} else if l.keys()["k0-1"] != snapshot.Deleted {
				t.Error("the deletion is not in the log any more")
			}
			one.App.Persist = 60 * time.Millisecond
			one.Start()
			one.Owns()
			f.Send(1)
			f.CaughtUp()
			h := f.History()
			folded := 0
			for _, e := range h.Members[len(h.Members)-1].Events {
				if e.Kind == holdfasttest.EventFolded && string(e.Key) == "k0-1" {
					folded++
				}
			}
			if (folded > 0) != c.back {
				t.Errorf("records of the deleted key were folded %d times again", folded)
			}
			if vs := holdfasttest.Check(h, f.App.Model()); len(vs) > 0 && !c.back {
				t.Errorf("%d violations, the first: %v", len(vs), vs[0])
			}
		})
	}
}

// A restore is under way, and the cleaner takes away what it has not read yet.
func TestKafkaCompactionUnderARestore(t *testing.T) {
	nightly(t)
	k := compacting(t)
	for _, what := range kinds {
		t.Run(string(what), func(t *testing.T) {
			t.Parallel()
			l := newLab(t, k, what, 1)
			l.topic = map[string]string{"segment.ms": "1", "min.compaction.lag.ms": "3600000"}
			runs := []*run{l.ten()}
			l.produce(0, 10, 20)
			runs = append(runs, l.finish(10, 20))
			tap := tapOf(t, k)
			fetch := tap.Fault(wiretap.HoldRequest, wiretap.Keys(kmsg.Fetch))
			t.Cleanup(fetch.Lift)
			r := l.start("restoring", dialer(tap))
			caught(t, fetch, 1) // the end of the log is known, and nothing of it is read
			l.alter(l.progress(), map[string]string{
				"min.compaction.lag.ms": "0", "max.compaction.lag.ms": "1", "min.cleanable.dirty.ratio": "0.001", "delete.retention.ms": "0",
			})
			l.clean()
			fetch.Lift()
			if e := await(r, 0, any1[stream.Restored]); e.Start != 20 {
				t.Errorf("it goes on at %d, want 20", e.Start)
			}
			l.produce(0, 20, 30)
			r.committedTo(0, 30)
			r.end()
			l.verdict(nil, append(runs, r)...)
		})
	}
}

// alter changes the configuration of a topic.
func (l *lab) alter(topic string, configs map[string]string) {
	l.t.Helper()
	var changes []kadm.AlterConfig
	for name, value := range configs {
		changes = append(changes, kadm.AlterConfig{Op: kadm.SetConfig, Name: name, Value: &value})
	}
	rs, err := l.admin.AlterTopicConfigs(l.t.Context(), changes, topic)
	if err == nil {
		err = rs[0].Err
	}
	if err != nil {
		l.t.Fatal(err)
	}
}
