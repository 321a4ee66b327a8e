package acceptance

import (
	"fmt"
	"maps"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/kafkatest"
	"github.com/holdfast-go/holdfast/internal/wiretap"
	"github.com/holdfast-go/holdfast/snapshot"
	"github.com/holdfast-go/holdfast/stream"
)

// rebuilding is a flow with another Route and another FoldVersion: the keys that begin with "a" keep their names.
func rebuilding(c holdfast.Config[tally]) holdfast.Config[tally] {
	c.FoldVersion, c.Start.Disagreement = "2", holdfast.Rebuild
	c.Route = func(r stream.Record) ([]byte, bool) {
		if strings.HasPrefix(string(r.Key), "a") {
			return r.Key, true
		}
		return append([]byte("new "), r.Key...), true
	}
	c.Commit.MaxWrites = 8
	return c
}

// readersHave returns the keys that a reader has who knows nothing of incarnations: those whose newest value
// is not null, as after a compaction.
func readersHave(t *testing.T, c *kafkatest.Cluster, topic string) map[string]bool {
	t.Helper()
	has := map[string]bool{}
	for _, r := range readAll(t, c, topic, kgo.ReadCommitted()) {
		switch {
		case snapshot.Reserved(r.Key):
		case r.Value == nil:
			delete(has, string(r.Key))
		default:
			has[string(r.Key)] = true
		}
	}
	return has
}

// I2 and R30: after a rebuild under another Route readers of the snapshot topic are left with the new keys. The
// process that rebuilds is killed between its first commit and the tombstones, or among these; the next one
// goes on.
func TestKafkaRebuildDropsKeysForReaders(t *testing.T) {
	for _, c := range []struct {
		commits int32 // of the rebuilding process before it is killed
		g       holdfast.Guarantee
	}{{0, holdfast.FencedState}, {1, holdfast.FencedState}, {3, holdfast.FencedState}, {0, holdfast.FencedOutputs}, {0, holdfast.Unfenced}} {
		t.Run(fmt.Sprintf("%v killed after %d commits", c.g, c.commits), func(t *testing.T) {
			t.Parallel()
			b := newBench(t, c.g)
			const n = 60
			want := map[string]bool{}
			for i := range n {
				key := fmt.Sprintf("%c%d", 'a'+i%3, i)
				send(t, b.pr, b.input, key, "7")
				if i%3 > 0 {
					key = "new " + key
				}
				want[key] = true
			}
			if c.g == holdfast.FencedOutputs {
				b.conf.Commit.Persist = 0
			}
			f := start(t, t.Context(), "before", b.conf)
			f.committedTo(0, n)
			if err := f.stop(); err != nil {
				t.Fatal(err)
			}
			if got := readersHave(t, b.k, b.snapshots()); len(got) != n {
				t.Fatalf("%d keys before the rebuild, want %d", len(got), n)
			}
			if c.commits > 0 {
				killAmongCommits(t, b, c.commits)
			}
			f = start(t, t.Context(), "next", rebuilding(b.conf))
			f.committedTo(0, n)
			for mark := f.mark(); !maps.Equal(readersHave(t, b.k, b.snapshots()), want); {
				await(f, mark, any1[stream.Committed])
				mark = f.mark()
			}
			if err := f.stop(); err != nil {
				t.Error(err)
			}
			for key, s := range stored(t, b.k, b.snapshots()) {
				if s.N != 1 || s.Sum != 7 || !want[key] {
					t.Errorf("I2: %s is %+v", key, s)
				}
			}
		})
	}
}

// killAmongCommits runs a rebuilding process and kills it when it is about to commit once more.
func killAmongCommits(t *testing.T, b *bench, commits int32) {
	t.Helper()
	tap := tapOf(t, b.k)
	var bound atomic.Int32
	held := tap.Fault(wiretap.HoldRequest, wiretap.All(wiretap.Keys(kmsg.TxnOffsetCommit), func(wiretap.Request) bool { return bound.Add(1) > commits }))
	child := startChild(t, childConfig{Addrs: b.k.Addrs, Group: b.group, Input: b.input, Via: tap.Map(), Rebuilding: true})
	awaitFault(t, held, 1)
	if err := child.Kill(); err != nil {
		t.Fatal(err)
	}
	held.Lift()
}
