package fence

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/holdfast-go/holdfast/internal/kafkatest"
	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/kafka"
	"github.com/holdfast-go/holdfast/stream"
)

func TestMain(m *testing.M) { kafkatest.Main(m) }

// session is the shortest that a stock broker allows.
var shortSession = Session{SessionTimeout: 6 * time.Second, HeartbeatInterval: 300 * time.Millisecond}

// at makes a place of its own on c.
func at(t *testing.T, c *kafkatest.Cluster, partitions int32) place {
	t.Helper()
	compact := map[string]string{"cleanup.policy": "compact"}
	return place{
		k: kafka.Config{Brokers: c.Addrs}, group: kafkatest.UniqueName("group"),
		input:    c.CreateTopic(t, kafkatest.UniqueName("in"), partitions, nil),
		progress: c.CreateTopic(t, kafkatest.UniqueName("state"), partitions, compact),
	}
}

// clusters are the two protocols of transactions: with an epoch for each, and without.
var clusters = []struct {
	name    string
	version int16
	open    func(t *testing.T) *kafkatest.Cluster
}{
	{"transaction.version 2", 2, func(t *testing.T) *kafkatest.Cluster { return kafkatest.Start(t) }},
	{"transaction.version 1", 1, func(t *testing.T) *kafkatest.Cluster {
		return kafkatest.New(t, kafkatest.Options{TransactionVersion: 1})
	}},
}

func TestKafkaWriter(t *testing.T) {
	t.Parallel()
	for _, c := range clusters {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			broker := c.open(t)
			f, err := wire.LookupFeatures(testContext(t), broker.Client(t))
			if err != nil {
				t.Fatal(err)
			}
			if stock := kafkatest.Version() == kafkatest.DefaultVersion; stock && f.TransactionVersion != c.version {
				t.Fatalf("features %+v", f)
			}
			for name, check := range map[string]func(*testing.T, place){
				"commits records and offset":       checkCommits,
				"takeover of an open transaction":  checkTakeover,
				"offset alone is really committed": checkOffsetAlone,
				"generation moves on":              checkGenerationMovesOn,
				"producer fence":                   checkProducerFence,
				"duel":                             checkDuel,
				"answer of the end is lost":        func(t *testing.T, p place) { checkEndLost(t, p, loseIt, 0) },
				"end is not delivered":             func(t *testing.T, p place) { checkEndLost(t, p, cut, 1) },
			} {
				t.Run(name, func(t *testing.T) { check(t, at(t, broker, 1)) })
			}
		})
	}
}

// eventually asks until ok, or fails.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	ctx := testContext(t)
	for !ok() {
		select {
		case <-time.After(10 * time.Millisecond):
		case <-ctx.Done():
			t.Fatalf("%s did not happen", what)
		}
	}
}

// zombie is a client under the partition's transactional id with an open transaction.
func zombie(t *testing.T, p place, key string) *kgo.Client {
	t.Helper()
	cl := testClient(t, p.k, kgo.TransactionalID(p.id(0)), kgo.TransactionTimeout(10*time.Minute),
		kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err := cl.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	r := &kgo.Record{Topic: p.progress, Key: []byte(key), Value: []byte("unfinished")}
	if err := cl.ProduceSync(testContext(t), r).FirstErr(); err != nil {
		t.Fatal(err)
	}
	return cl
}

func checkTakeover(t *testing.T, p place) {
	zombie(t, p, "k")
	log := wire.Log{Client: testClient(t, p.k), Topic: p.progress}
	if _, high, stable, err := log.Ends(testContext(t)); err != nil || stable >= high {
		t.Fatalf("no transaction is open: high watermark %d, last stable offset %d, %v", high, stable, err)
	}
	m := join(t, p, shortSession)
	_, found := openWriter(t, p.config(t, m.granted(t)))
	_, high, stable, err := log.Ends(testContext(t))
	if err != nil || stable != high {
		t.Errorf("after the takeover: high watermark %d, last stable offset %d, %v", high, stable, err)
	}
	if !found.TookOver {
		t.Error("the takeover did not find the id initialised")
	}
	if state, _, _ := p.restored(t, 0); len(state) != 0 {
		t.Errorf("the unfinished write was restored: %v", state)
	}
}

func checkOffsetAlone(t *testing.T, p place) {
	network := newTap()
	p.txn = network.config(p.k)
	m := join(t, p, shortSession)
	o := m.granted(t)
	w, _ := openWriter(t, p.config(t, o))
	if err := w.Commit(testContext(t), Offset{7, -1}); err != nil {
		t.Fatal(err)
	}
	if n := network.count(kmsg.EndTxn); n != 1 {
		t.Errorf("%d EndTxn were sent, want 1", n)
	}
	cl, id := testClient(t, p.k), topicID(t, p.k, p.input)
	eventually(t, "a stable offset of 7", func() bool {
		off, err := wire.FetchOffset(testContext(t), cl, p.group, wire.Member{}, o.Partition(), id)
		if err != nil && !errors.Is(err, kerr.UnstableOffsetCommit) {
			t.Fatal(err)
		}
		return err == nil && off.Next == 7
	})
}

// checkGenerationMovesOn holds the answer to the member's JoinGroup back: the broker has the next
// generation, the member does not. The writer is refused, waits for the token and commits.
func checkGenerationMovesOn(t *testing.T, p place) {
	network := newTap()
	p.member = network.config(p.k)
	m := join(t, p, shortSession)
	o := m.granted(t)
	var refused []stream.Refused
	var mu sync.Mutex
	told := make(chan struct{}, 16)
	c := p.config(t, o)
	c.Hooks = []stream.Hooks{{Refused: func(r stream.Refused) {
		mu.Lock()
		refused = append(refused, r)
		mu.Unlock()
		told <- struct{}{}
	}}}
	w, _ := openWriter(t, c)
	if err := w.Commit(testContext(t), Offset{1, -1}, put("k", "1")); err != nil {
		t.Fatal(err)
	}
	_, before := m.client.GroupMetadata()
	network.set(func(key kmsg.Key) fate {
		if key == kmsg.JoinGroup {
			return holdBack
		}
		return pass
	})
	other := p
	other.member = nil
	join(t, other, shortSession)
	cl := testClient(t, p.k)
	eventually(t, "the broker's next generation", func() bool {
		id, _ := m.client.GroupMetadata()
		return errors.Is(wire.Heartbeat(testContext(t), cl, p.group, id, "", before), kerr.IllegalGeneration)
	})
	written := make(chan error, 1)
	go func() { written <- w.Commit(testContext(t), Offset{2, -1}, put("k", "2")) }()
	<-told
	network.release()
	if err := <-written; err != nil {
		t.Fatalf("the write after the rebalance: %v", err)
	}
	mu.Lock()
	defer mu.Unlock()
	if refused[0].Code != kerr.IllegalGeneration.Code || refused[0].Final {
		t.Errorf("refused: %+v", refused)
	}
	if state, progress, _ := p.restored(t, 0); state["k"] != "2" || progress.Inputs[0].Next != 2 || progress.Sequence != 2 {
		t.Errorf("state %v, progress %+v", state, progress)
	}
}

func checkProducerFence(t *testing.T, p place) {
	network := newTap()
	p.txn = network.config(p.k)
	m := join(t, p, shortSession)
	w, _ := openWriter(t, p.config(t, m.granted(t)))
	ctx := testContext(t)
	if err := w.Commit(ctx, Offset{1, -1}, put("k", "1")); err != nil {
		t.Fatal(err)
	}
	zombie(t, p, "z") // a second process that initialises the id and leaves a transaction open
	inits := network.count(kmsg.InitProducerID)
	if err := w.Commit(ctx, Offset{2, -1}, put("k", "2")); err != nil {
		t.Fatalf("the write after the fence: %v", err)
	}
	if network.count(kmsg.InitProducerID) == inits {
		t.Error("there was no takeover, so there was no fence")
	}
	if state, progress, _ := p.restored(t, 0); state["k"] != "2" || state["z"] != "" || progress.Sequence != 2 {
		t.Errorf("state %v, progress %+v", state, progress)
	}
}

// checkDuel lets somebody initialise the id before each of our produces.
func checkDuel(t *testing.T, p place) {
	network := newTap()
	p.txn = network.config(p.k)
	m := join(t, p, shortSession)
	o := m.granted(t)
	w, _ := openWriter(t, p.config(t, o))
	ctx := testContext(t)
	if err := w.Commit(ctx, Offset{1, -1}, put("k", "1")); err != nil {
		t.Fatal(err)
	}
	var fights atomic.Int32
	network.set(func(key kmsg.Key) fate {
		if key == kmsg.Produce {
			fights.Add(1)
			rival, err := p.k.Client(kgo.TransactionalID(p.id(0)))
			if err != nil {
				t.Error(err)
				return pass
			}
			defer rival.Close()
			if _, _, err := rival.ProducerID(ctx); err != nil {
				t.Error(err)
			}
		}
		return pass
	})
	err := w.Commit(ctx, Offset{2, -1}, put("k", "2"))
	if !errors.Is(err, stream.ErrIDTaken) {
		t.Fatalf("a duel ended with %v", err)
	}
	if n := fights.Load(); n > maxFences {
		t.Errorf("%d attempts, the limit is %d", n, maxFences)
	}
	if state, _, _ := p.restored(t, 0); state["k"] != "1" || o.State() != Held {
		t.Errorf("state %v, ownership %v", state, o.State())
	}
}

// checkEndLost breaks the network at EndTxn until the client gives up.
func checkEndLost(t *testing.T, p place, f fate, resent int) {
	network := newTap()
	p.txn = network.config(p.k)
	m := join(t, p, shortSession)
	c := p.config(t, m.granted(t))
	c.TransactionTimeout = 12 * time.Second // bounds the wait for EndTxn; a slow broker has answered by then
	unknown := 0
	c.Unknown = func(error) { unknown++; network.set(nil) }
	committed := make(chan stream.Committed, 8)
	c.Hooks = []stream.Hooks{{Committed: func(e stream.Committed) { committed <- e }}}
	w, _ := openWriter(t, c)
	ctx := testContext(t)
	if err := w.Commit(ctx, Offset{1, -1}, put("k", "1")); err != nil {
		t.Fatal(err)
	}
	<-committed
	first := true
	network.set(func(key kmsg.Key) fate {
		switch {
		case key != kmsg.EndTxn:
			return pass
		case first:
			first = false
			return f
		}
		return cut
	})
	// Not the produces: a client may send the records of one batch in two.
	offsets := network.count(kmsg.TxnOffsetCommit)
	if err := w.Commit(ctx, Offset{2, -1}, put("k", "2")); err != nil {
		t.Fatal(err)
	}
	if e := <-committed; !e.ReadBack || e.Next != 2 || unknown != 1 {
		t.Errorf("committed %+v, told of %d unknown outcomes", e, unknown)
	}
	if n := network.count(kmsg.TxnOffsetCommit) - offsets - 1; n != resent {
		t.Errorf("sent again %d times, want %d", n, resent)
	}
	if err := w.Write(ctx, put("l", "3")); err != nil {
		t.Fatal(err)
	}
	if state, progress, _ := p.restored(t, 0); state["k"] != "2" || state["l"] != "3" || progress.Sequence != 3 || progress.Inputs[0].Next != 2 {
		t.Errorf("state %v, progress %+v", state, progress)
	}
}

// An expelled member whose client does not know it is refused by the group alone: nobody has
// initialised its transactional ids.
// Public case A3.
func TestKafkaExpelledMemberIsRefusedWithoutATakeover(t *testing.T) {
	t.Parallel()
	p := at(t, kafkatest.Start(t), 3)
	network := newTap()
	p.member = network.config(p.k)
	// The broker holds the successor's join for the rebalance timeout of a member that is silent.
	session := shortSession
	session.RebalanceTimeout = 8 * time.Second
	m := join(t, p, session)
	ctx := testContext(t)
	var owned [3]*Ownership
	for range owned {
		o := m.granted(t)
		owned[o.Partition().Partition] = o
	}
	seed := func(n int) {
		w, _ := openWriter(t, p.config(t, owned[n]))
		if err := w.Commit(ctx, Offset{5, -1}, put("k", "seed")); err != nil {
			t.Fatal(err)
		}
		closeWriter(t, w)
	}
	seed(1)
	writers := [3]*Writer{}
	for n := range writers {
		writers[n], _ = openWriter(t, p.config(t, owned[n]))
	}
	if err := writers[0].Commit(ctx, Offset{5, -1}, put("k", "seed")); err != nil {
		t.Fatal(err)
	}
	network.set(func(key kmsg.Key) fate {
		switch key {
		case kmsg.Heartbeat, kmsg.JoinGroup, kmsg.SyncGroup, kmsg.LeaveGroup, kmsg.OffsetFetch:
			return swallow
		}
		return pass
	})
	defer network.set(nil)
	other := p
	other.member = nil
	successor := join(t, other, session)
	for range owned {
		successor.granted(t)
	}
	for n, write := range map[int]func(*Writer) error{
		0: func(w *Writer) error { return w.Write(ctx, put("k", "stale")) }, // the next flush
		1: func(w *Writer) error { return w.Write(ctx, put("k", "stale")) }, // the first flush
		2: func(w *Writer) error { return w.Commit(ctx, Offset{9, -1}) },    // the offset alone
	} {
		t.Run(fmt.Sprint("partition ", n), func(t *testing.T) {
			if owned[n].State() != Held {
				t.Fatal("the member knows already; the test shows nothing")
			}
			err := write(writers[n])
			if !errors.Is(err, stream.ErrOwnershipLost) || !errors.Is(err, kerr.UnknownMemberID) {
				t.Errorf("the stale write: %v", err)
			}
			openWriter(t, other.config(t, successor.Owned(stream.Partition{Topic: p.input, Partition: int32(n)})))
			if state, progress, _ := p.restored(t, int32(n)); n < 2 && state["k"] != "seed" || n == 2 && progress.Sequence != 0 {
				t.Errorf("state %v, progress %+v", state, progress)
			}
		})
	}
}

// Under KIP-848 the group is asked in another way before an id is initialised again.
func TestKafkaServerSideProtocol(t *testing.T) {
	t.Parallel()
	broker := kafkatest.Start(t)
	for name, check := range map[string]func(*testing.T, place){
		"commits records and offset": checkCommits,
		"producer fence":             checkProducerFence,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := at(t, broker, 1)
			p.memberOpts = []kgo.Opt{kgo.ServerSideBalancer()}
			check(t, p)
		})
	}
}
