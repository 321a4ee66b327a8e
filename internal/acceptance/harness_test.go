package acceptance

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/codec"
	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/internal/hooklog"
	"github.com/holdfast-go/holdfast/internal/kafkatest"
	"github.com/holdfast-go/holdfast/internal/rule"
	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/kafka"
	"github.com/holdfast-go/holdfast/snapshot"
	"github.com/holdfast-go/holdfast/stream"
)

// patience bounds every wait for an event: it is far above what a healthy run takes, so that only a
// hang meets it.
const patience = 90 * time.Second

// tally is the state of the tests' flows. Its values depend on each record and on their order, so
// that a lost, repeated or reordered record shows.
type tally struct {
	N    int    // records folded
	Sum  int64  // of their values
	Hash uint64 // over their values, in order
	Last int64  // offset of the last one
}

func (s tally) with(value, offset int64) tally {
	return tally{N: s.N + 1, Sum: s.Sum + value, Hash: (s.Hash ^ uint64(value+1)) * 1099511628211, Last: offset}
}

// fold is the tests' fold: values are decimal numbers, "delete" deletes the key.
func fold(_ context.Context, k *holdfast.Key[tally], r stream.Record) error {
	if string(r.Value) == "delete" {
		k.Delete()
		return nil
	}
	n, err := strconv.ParseInt(string(r.Value), 10, 64)
	if err != nil {
		return err
	}
	s, _ := k.State()
	k.Set(s.with(n, r.Offset))
	return nil
}

// flow is a flow that runs on a goroutine of the test.
type flow struct {
	t      *testing.T
	name   string
	cancel context.CancelFunc
	done   chan struct{}
	err    error
	log    *hooklog.Log
}

// config is the configuration that the tests vary: short intervals, so that transactions run all the
// time, and short group timings.
func config(addrs []string, group, input string) holdfast.Config[tally] {
	return holdfast.Config[tally]{
		Kafka: kafka.Config{Brokers: addrs}, Group: group, Inputs: []string{input},
		Snapshots: holdfast.Snapshots{Create: &holdfast.TopicConfig{}}, Codec: codec.JSON[tally](), Fold: fold,
		Commit: holdfast.Commit{Persist: 20 * time.Millisecond, PersistCooldown: time.Millisecond, Interval: 50 * time.Millisecond},
		Member: holdfast.Member{SessionTimeout: 6 * time.Second, RebalanceTimeout: 20 * time.Second, HeartbeatInterval: 300 * time.Millisecond},
	}
}

// start runs a flow until stop is called or the test ends. ctx may carry switched-off rules.
func start[S any](t *testing.T, ctx context.Context, name string, c holdfast.Config[S]) *flow {
	t.Helper()
	f := &flow{t: t, name: name, done: make(chan struct{})}
	f.log = hooklog.New(t, hooklog.Member{Name: name, Done: f.done, Err: func() error { return f.err }, Patience: patience})
	c.Hooks = append(c.Hooks, f.log.Hooks())
	h, err := holdfast.New(c)
	if err != nil {
		t.Fatal(err)
	}
	ctx, f.cancel = context.WithCancel(ctx)
	go func() {
		defer close(f.done)
		f.err = h.Run(rule.Without(ctx, rule.FenceProbe)) // the fence probe speaks the same protocol, and tests count and hold what the component sends
	}()
	t.Cleanup(func() { f.cancel(); <-f.done })
	return f
}

// stop ends the flow and returns what Run returned.
func (f *flow) stop() error {
	f.cancel()
	<-f.done
	return f.err
}

// revoked and lost tell the two hooks with the same event apart.
type (
	revoked = hooklog.Revoked
	lost    = hooklog.Lost
)

// any1 accepts every event.
func any1[E any](E) bool { return true }

// committedTo waits until the flow has committed next for partition p.
func (f *flow) committedTo(p int32, next int64) {
	f.t.Helper()
	await(f, 0, func(e stream.Committed) bool { return e.Partition.Partition == p && e.Next >= next })
}

// produce writes values from..to-1 to a partition, spread over keys.
func produce(t *testing.T, cl *kgo.Client, topic string, partition int32, keys, from, to int) {
	t.Helper()
	var rs []*kgo.Record
	for i := from; i < to; i++ {
		rs = append(rs, &kgo.Record{
			Topic: topic, Partition: partition, Key: []byte(fmt.Sprintf("k%d-%d", partition, i%keys)), Value: []byte(strconv.Itoa(i)),
		})
	}
	if err := cl.ProduceSync(t.Context(), rs...).FirstErr(); err != nil {
		t.Fatal(err)
	}
}

// producer returns a client that writes to the partitions that records name.
func producer(t *testing.T, c *kafkatest.Cluster) *kgo.Client {
	t.Helper()
	return c.Client(t, kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerLinger(0))
}

// readAll reads a topic up to its high watermark, as isolation has it. It waits for open transactions
// below that: the last commit may not be visible yet when its writer has been told of it.
func readAll(t *testing.T, c *kafkatest.Cluster, topic string, isolation kgo.IsolationLevel) (rs []*kgo.Record) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	admin := kadm.NewClient(c.Client(t))
	ends, err := admin.ListEndOffsets(ctx, topic)
	if err != nil {
		t.Fatal(err)
	}
	starts, err := admin.ListStartOffsets(ctx, topic)
	if err != nil {
		t.Fatal(err)
	}
	left, from := map[int32]int64{}, map[int32]kgo.Offset{}
	ends.Each(func(o kadm.ListedOffset) {
		if s, _ := starts.Lookup(topic, o.Partition); s.Offset < o.Offset {
			left[o.Partition], from[o.Partition] = o.Offset, kgo.NewOffset().At(s.Offset)
		}
	})
	if len(left) == 0 {
		return nil
	}
	cl := c.Client(t, kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: from}), kgo.FetchIsolationLevel(isolation), kgo.KeepControlRecords())
	defer cl.Close()
	for len(left) > 0 {
		fs := cl.PollFetches(ctx)
		if err := fs.Err(); err != nil {
			t.Fatal(err)
		}
		fs.EachRecord(func(r *kgo.Record) {
			if !r.Attrs.IsControl() {
				rs = append(rs, r)
			}
			if r.Offset+1 >= left[r.Partition] {
				delete(left, r.Partition)
			}
		})
	}
	return rs
}

// want folds the input again, without the product, up to the given next offsets.
func want(t *testing.T, c *kafkatest.Cluster, input string, next map[int32]int64) map[string]tally {
	t.Helper()
	states := map[string]tally{}
	for _, r := range readAll(t, c, input, kgo.ReadCommitted()) {
		if r.Offset >= next[r.Partition] || r.Key == nil {
			continue
		}
		if string(r.Value) == "delete" {
			delete(states, string(r.Key))
			continue
		}
		n, err := strconv.ParseInt(string(r.Value), 10, 64)
		if err != nil {
			continue // a record that the tests' policies skip
		}
		states[string(r.Key)] = states[string(r.Key)].with(n, r.Offset)
	}
	return states
}

// stored reads the snapshot topic as the next owner would: the newest committed value of each key,
// without what was written before a rebuild.
func stored(t *testing.T, c *kafkatest.Cluster, topic string) map[string]tally {
	t.Helper()
	rs := readAll(t, c, topic, kgo.ReadCommitted())
	states, incarnation := map[string]tally{}, map[int32]uint64{}
	for _, r := range rs {
		if fence.IsProgressKey(r.Key) {
			p, err := fence.DecodeProgress(r.Value)
			if err != nil {
				t.Fatalf("%s/%d offset %d: %v", r.Topic, r.Partition, r.Offset, err)
			}
			incarnation[r.Partition] = uint64(p.Incarnation)
		}
	}
	for _, r := range rs {
		if snapshot.Reserved(r.Key) {
			continue
		}
		snap, err := snapshot.Decode(wire.Record(r))
		if err != nil {
			t.Fatal(err)
		}
		if snap.Kind != snapshot.Tombstone && snap.Incarnation < incarnation[r.Partition] {
			continue
		}
		delete(states, string(r.Key))
		if len(r.Value) == 0 {
			continue // a tombstone, or a key that is remembered as deleted
		}
		var s tally
		if err := json.Unmarshal(r.Value, &s); err != nil {
			t.Fatalf("%s/%d offset %d: %v", r.Topic, r.Partition, r.Offset, err)
		}
		states[string(r.Key)] = s
	}
	return states
}

// committed returns the group's committed next offsets.
func committed(t *testing.T, c *kafkatest.Cluster, group, input string) map[int32]int64 {
	t.Helper()
	os, err := kadm.NewClient(c.Client(t)).FetchOffsetsForTopics(t.Context(), group, input)
	if err != nil {
		t.Fatal(err)
	}
	next := map[int32]int64{}
	os.Each(func(o kadm.OffsetResponse) { next[o.Partition] = max(o.At, 0) })
	return next
}

// check recomputes every key from the input up to the committed offsets and compares it with what is
// stored. Call it when everything is committed. It returns the differences.
func check(t *testing.T, c *kafkatest.Cluster, group, input, snapshots string) (differences []string) {
	t.Helper()
	w, s := want(t, c, input, committed(t, c, group, input)), stored(t, c, snapshots)
	for k := range maps.Keys(w) {
		if s[k] != w[k] {
			differences = append(differences, fmt.Sprintf("key %s: stored %+v, the input gives %+v", k, s[k], w[k]))
		}
	}
	for k := range maps.Keys(s) {
		if _, ok := w[k]; !ok {
			differences = append(differences, fmt.Sprintf("key %s: stored %+v, the input gives none", k, s[k]))
		}
	}
	return differences
}

// oldTransactions reports whether the brokers know transaction.version 1 at most.
func oldTransactions() bool { return strings.HasPrefix(kafkatest.Version(), "3.") }

// mark is a place in the flow's events, to wait for what comes after it.
func (f *flow) mark() int { return f.log.Mark() }

// await waits for an event after mark that is an E and accepted by is, and returns it.
func await[E any](f *flow, mark int, is func(E) bool) E {
	f.t.Helper()
	return hooklog.Await(f.log, mark, is)
}

// each returns the events so far that are an E.
func each[E any](f *flow) []E { return hooklog.All[E](f.log, 0) }
