package acceptance

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/internal/kafkatest"
	"github.com/holdfast-go/holdfast/internal/rule"
	"github.com/holdfast-go/holdfast/internal/wiretap"
	"github.com/holdfast-go/holdfast/snapshot"
	"github.com/holdfast-go/holdfast/stream"
)

// countdown is a fold that adds, and deletes the key when the sum is zero. "now" behind a value asks
// for a persist. A replay that finds a deleted key absent brings it back with a wrong sum.
func countdown(_ context.Context, k *holdfast.Key[tally], r stream.Record) error {
	text, now := strings.CutSuffix(string(r.Value), "now")
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return err
	}
	s, _ := k.State()
	if s.Sum+n == 0 {
		k.Delete()
	} else {
		k.Set(s.with(n, r.Offset))
	}
	if now {
		k.Persist()
	}
	return nil
}

// crash runs countdown in a process of its own that persists only what records ask for, gives it the
// records one by one, as "key value", and kills it when all are folded and the persists committed.
func (b *bench) crash(records []string, off ...rule.Name) {
	b.t.Helper()
	child := startChild(b.t, childConfig{Addrs: b.k.Addrs, Group: b.group, Input: b.input, Off: off, Countdown: true})
	child.Await(b.t, "restored 0", patience)
	for _, r := range records {
		key, value, _ := strings.Cut(r, " ")
		send(b.t, b.pr, b.input, key, value)
		if strings.HasSuffix(value, "now") {
			awaitEvent(b.t, child, "committed 0", `"Writes":1`)
		}
	}
	if err := child.Kill(); err != nil {
		b.t.Fatal(err)
	}
}

// awaitEvent waits for an event that begins and goes on as wanted.
func awaitEvent(t *testing.T, child *kafkatest.Process, begins, has string) {
	t.Helper()
	for !strings.Contains(child.Await(t, begins, patience), has) {
	}
}

// next runs the next owner of countdown up to the end of the input and returns what is stored then.
func (b *bench) next(end int64, off ...rule.Name) map[string]tally {
	b.t.Helper()
	b.conf.Fold = countdown
	f := start(b.t, rule.Without(b.t.Context(), off...), "next", b.conf)
	if e := await(f, 0, any1[stream.Restored]); e.Start >= end {
		b.t.Fatalf("folding begins at %d: there is no replay, the schedule is not what the test is about", e.Start)
	}
	f.committedTo(0, end)
	if err := f.stop(); err != nil {
		b.t.Fatal(err)
	}
	return stored(b.t, b.k, b.snapshots())
}

// A crash leaves a key's snapshot ahead of the committed offset, which another key holds back. The
// replay must not fold the key's records again.
// Public case H8.
func TestKafkaReplaySkipsWhatIsApplied(t *testing.T) {
	for _, c := range []struct {
		name  string
		off   []rule.Name
		folds int // of the record of the key that was persisted
	}{
		{"rule on", nil, 1},
		{"rule off", []rule.Name{rule.AppliedSkip}, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, holdfast.FencedState)
			b.crash([]string{"held 5", "ahead 7now"})
			if got := committed(t, b.k, b.group, b.input)[0]; got != 0 {
				t.Fatalf("committed %d at the crash, want 0: the key at it was not persisted", got)
			}
			s := b.next(2, c.off...)
			if s["held"].N != 1 || s["ahead"].N != c.folds {
				t.Errorf("stored %+v, want held folded once and ahead %d times", s, c.folds)
			}
		})
	}
}

// A key is deleted ahead of the committed offset, and the process crashes. The replay must not bring
// it back: the deletion is remembered until the offset has passed it, and the tombstone comes then.
func TestKafkaDeleteIsNotUndoneByAReplay(t *testing.T) {
	for _, c := range []struct {
		name string
		off  []rule.Name
		back bool // the key comes back
	}{
		{"rule on", nil, false},
		{"rule off", []rule.Name{rule.TwoWriteDelete}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, holdfast.FencedState)
			b.crash([]string{"gone 1now", "held 5", "gone -1now"}, c.off...)
			if got := committed(t, b.k, b.group, b.input)[0]; got != 1 {
				t.Fatalf("committed %d at the crash, want 1: the key at it was not persisted", got)
			}
			s := b.next(3)
			if _, back := s["gone"]; back != c.back || s["held"].N != 1 {
				t.Errorf("stored %+v, want the deleted key back: %t", s, c.back)
			}
		})
	}
}

// kinds lists what the snapshot topic has of a key, in log order, each with the offset that was known
// to be committed before the record was written.
func (b *bench) kinds(key string) (kinds []snapshot.Kind, committed []int64) {
	b.t.Helper()
	before, writing := int64(-1), int64(-1)
	for _, r := range readAll(b.t, b.k, b.snapshots(), kgo.ReadCommitted()) {
		if fence.IsProgressKey(r.Key) {
			p, err := fence.DecodeProgress(r.Value)
			if err != nil {
				b.t.Fatal(err)
			}
			before, writing = p.Inputs[0].Next, -1 // the progress record is the last of its transaction
			continue
		}
		if string(r.Key) != key {
			continue
		}
		kind := snapshot.Tombstone
		if r.Value != nil {
			rec, err := snapshot.Decode(stream.Record{Key: r.Key, Value: r.Value, Headers: []stream.Header{{Key: r.Headers[0].Key, Value: r.Headers[0].Value}}})
			if err != nil {
				b.t.Fatal(err)
			}
			kind = rec.Kind
		}
		if writing < 0 {
			writing = before
		}
		kinds, committed = append(kinds, kind), append(committed, writing)
	}
	return kinds, committed
}

// A delete is two writes: the deletion, and a tombstone once the committed offset has passed it.
// Compaction then removes the key, and a later start does not know it.
func testDeleteCompacts(t *testing.T, k *kafkatest.Cluster) {
	b := newBenchOn(t, k, holdfast.FencedState)
	b.conf.Fold = countdown
	b.conf.Snapshots.Create.Configs = map[string]string{
		"segment.ms": "100", "min.cleanable.dirty.ratio": "0.001", "delete.retention.ms": "0",
		"min.compaction.lag.ms": "604800000", // nothing is compacted away before it was looked at
	}
	f := start(t, t.Context(), "deleting", b.conf)
	send(t, b.pr, b.input, "gone", "1now", "-1")
	f.committedTo(0, 2)
	// The tombstone is written with the commit after the one that passed the delete.
	mark := f.mark()
	await(f, mark, func(e stream.Committed) bool { return e.Writes == 1 })
	kinds, known := b.kinds("gone")
	if n := len(kinds); n < 2 || kinds[n-1] != snapshot.Tombstone || kinds[n-2] != snapshot.Deleted {
		t.Fatalf("the snapshot topic has %v of the key, want it deleted and then a tombstone", kinds)
	}
	if at := known[len(known)-1]; at < 2 {
		t.Errorf("the tombstone was written when %d was committed, want 2, which is past the delete", at)
	}
	b.alter(b.snapshots(), "min.compaction.lag.ms", "0")
	b.alter(b.snapshots(), "max.compaction.lag.ms", "100")
	for i := 2; ; i++ { // each commit may roll a segment, and closed segments are compacted
		send(t, b.pr, b.input, "kept", fmt.Sprint(i))
		f.committedTo(0, int64(i+1))
		if kinds, _ := b.kinds("gone"); len(kinds) == 0 {
			break
		}
		if i > 2000 {
			t.Fatalf("compaction has not removed the key")
		}
	}
	if err := f.stop(); err != nil {
		t.Fatal(err)
	}
	f = start(t, t.Context(), "again", b.conf)
	if e := await(f, 0, any1[stream.Restored]); e.Keys != 1 {
		t.Errorf("restored %d keys, want only the one that was kept", e.Keys)
	}
	if err := f.stop(); err != nil {
		t.Fatal(err)
	}
}

// Outputs of a step are acknowledged before a snapshot that covers the step commits. The output hangs
// in the proxy and the process is killed: the next owner replays the record and sends the output.
// With the rule off the record is committed already, and its output is lost.
func TestKafkaOutputsAreAcknowledgedFirst(t *testing.T) {
	for _, c := range []struct {
		name string
		off  []rule.Name
		lost bool
	}{
		{"rule on", nil, false},
		{"rule off", []rule.Name{rule.OutputsFirst}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, holdfast.FencedState)
			output := b.k.CreateTopic(t, b.input+"-out", 1, nil)
			tap := tapOf(t, b.k)
			id := topicID(t, b.k, output)
			hold := tap.Fault(wiretap.HoldRequest, wiretap.All(wiretap.Keys(kmsg.Produce), func(r wiretap.Request) bool {
				req, err := r.Decoded()
				return err == nil && slices.ContainsFunc(req.(*kmsg.ProduceRequest).Topics, func(t kmsg.ProduceRequestTopic) bool {
					return t.Topic == output || t.TopicID == id
				})
			}))
			child := startChild(t, childConfig{
				Addrs: b.k.Addrs, Group: b.group, Input: b.input, Outputs: []string{output}, Via: tap.Map(), Off: c.off,
			})
			child.Await(t, "restored 0", patience)
			send(t, b.pr, b.input, "k", "7")
			awaitFault(t, hold, 1)
			if c.lost {
				awaitEvent(t, child, "committed 0", `"Next":1`)
			} else {
				awaitRequests(t, tap, kmsg.Heartbeat, 4) // more than a second: the persist was due after 20 ms
			}
			if err := child.Kill(); err != nil {
				t.Fatal(err)
			}
			tap.Cut(nil) // what hangs is lost with the process
			if got := committed(t, b.k, b.group, b.input)[0]; (got == 1) != c.lost {
				t.Fatalf("committed %d while the output was not acknowledged, want the record committed: %t", got, c.lost)
			}

			b.conf.Outputs = []string{output}
			b.conf.Fold = holdfast.Chain(fold, func(_ context.Context, k *holdfast.Key[tally], r stream.Record) error {
				k.Emit(stream.Message{Topic: output, Key: r.Key, Value: r.Value})
				return nil
			})
			f := start(t, t.Context(), "next", b.conf)
			send(t, b.pr, b.input, "k", "8")
			f.committedTo(0, 2)
			if err := f.stop(); err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, r := range readAll(t, b.k, output, kgo.ReadCommitted()) {
				got = append(got, string(r.Value))
			}
			if lost := !slices.Contains(got, "7"); lost != c.lost || !slices.Contains(got, "8") {
				t.Errorf("outputs %v, want the first one lost: %t", got, c.lost)
			}
			for _, d := range check(t, b.k, b.group, b.input, b.snapshots()) {
				t.Error(d)
			}
		})
	}
}

// awaitRequests waits until n more requests of a kind have passed.
func awaitRequests(t *testing.T, tap *wiretap.Cluster, key kmsg.Key, n int) {
	t.Helper()
	passed := newCounter()
	remove := tap.OnRequest(func(r wiretap.Request) {
		if r.Key == int16(key) {
			passed.add()
		}
	})
	defer remove()
	passed.await(t, n)
}

func topicID(t *testing.T, k *kafkatest.Cluster, topic string) [16]byte {
	t.Helper()
	req := kmsg.NewPtrMetadataRequest()
	rt := kmsg.NewMetadataRequestTopic()
	rt.Topic = &topic
	req.Topics = append(req.Topics, rt)
	resp, err := req.RequestWith(t.Context(), k.Client(t))
	if err != nil {
		t.Fatal(err)
	}
	return resp.Topics[0].TopicID
}
