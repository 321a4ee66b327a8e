package acceptance

import (
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/internal/rule"
	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/stream"
)

// openTransaction writes to the snapshot topic and leaves the transaction open.
func (b *bench) openTransaction(id string, timeout time.Duration) {
	b.t.Helper()
	cl := b.k.Client(b.t, kgo.TransactionalID(id), kgo.TransactionTimeout(timeout), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err := cl.BeginTransaction(); err != nil {
		b.t.Fatal(err)
	}
	r := &kgo.Record{Topic: b.snapshots(), Key: []byte("unfinished"), Value: []byte(`{"N":99}`)}
	if err := cl.ProduceSync(b.t.Context(), r).FirstErr(); err != nil {
		b.t.Fatal(err)
	}
}

// pinned reports whether an open transaction holds the last stable offset of the snapshot partition
// below its high watermark.
func (b *bench) pinned() bool {
	b.t.Helper()
	_, high, stable, err := wire.Log{Client: b.k.Client(b.t), Topic: b.snapshots()}.Ends(b.t.Context())
	if err != nil {
		b.t.Fatal(err)
	}
	return stable < high
}

// A crashed owner left a transaction open that the broker would keep for ten minutes. The takeover
// ends it: the partition is stable as soon as it is assigned, and nothing of it is restored.
// Public case B15.
func TestKafkaTakeoverEndsTheLastOwnersTransaction(t *testing.T) {
	t.Parallel()
	b := newBench(t, holdfast.FencedState)
	b.fold10()
	b.openTransaction(fence.TransactionalID(b.group, b.snapshots(), 0), 10*time.Minute)
	if !b.pinned() {
		t.Fatal("no transaction is open")
	}
	f := start(t, t.Context(), "next", b.conf)
	if e := await(f, 0, any1[stream.Assigned]); !e.TookOver || e.Committed != 10 {
		t.Errorf("assigned %+v, want a takeover that found offset 10", e)
	}
	if b.pinned() { // nothing is folded, so that the flow has no transaction of its own
		t.Error("the last stable offset is below the high watermark after the takeover")
	}
	if e := await(f, 0, any1[stream.Restored]); e.Keys != 3 || e.Start != 10 {
		t.Errorf("restored %+v, want the three keys of the last owner", e)
	}
	if err := f.stop(); err != nil {
		t.Fatal(err)
	}
	b.verify(0, 10)
}

// A transaction of somebody else is open below a commit of the flow. No takeover ends it, so that the
// restore waits for its timeout of 15 s, and finds the commit. A restore that ends at the last stable
// offset would not: with the rule off it misses it, which the second witness of the offset tells.
// Public case D1.
func TestKafkaForeignTransactionIsWaitedOut(t *testing.T) {
	t.Parallel()
	b := newBench(t, holdfast.FencedState)
	produce(t, b.pr, b.input, 0, 3, 0, 10)
	f := start(t, t.Context(), "before", b.conf)
	f.committedTo(0, 10)
	b.openTransaction(b.input+"-foreign", 15*time.Second)
	produce(t, b.pr, b.input, 0, 3, 10, 20)
	f.committedTo(0, 20)
	if err := f.stop(); err != nil {
		t.Fatal(err)
	}
	if !b.pinned() {
		t.Fatal("no transaction is open below the commit")
	}

	b.conf.Restore.StallTimeout = 45 * time.Second
	under := start(t, rule.Without(t.Context(), rule.RestoreBound), "bounded by the last stable offset", b.conf)
	named(t, under.failure(), holdfast.ErrOffsetMismatch, "offset 20 is ahead of the snapshots' 10")
	if !b.pinned() {
		t.Fatal("the transaction has ended: nothing is left to be waited for")
	}
	next := start(t, t.Context(), "next", b.conf)
	if e := await(next, 0, any1[stream.Restored]); e.Start != 20 || e.Keys != 3 {
		t.Errorf("restored %+v, want three keys up to 20", e)
	}
	for _, e := range each[stream.Stalled](next) {
		if e.Final {
			t.Errorf("the restore gave up: %+v", e)
		}
	}
	if err := next.stop(); err != nil {
		t.Fatal(err)
	}
	b.verify(0, 20)
}
