package member_test

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/internal/rule"
	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/snapshot"
	"github.com/holdfast-go/holdfast/stream"
)

// The tests of this file play traces of the model (model/traces.go) about what an owner finds when another one
// commits while it takes over. A is the flow, and B the records and offsets that another process would write.

// other is B with a transactional id.
type other struct {
	p  *place
	cl *kgo.Client
	id string
}

// other initialises the id.
func (p *place) other(id string) *other {
	p.t.Helper()
	cl, err := p.k.Client(kgo.TransactionalID(id), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	p.must(err)
	p.t.Cleanup(cl.Close)
	p.must(cl.BeginTransaction())
	return &other{p: p, cl: cl, id: id}
}

// snapshots writes records and a progress record with the offset next.
func (o *other) snapshots(nonce uint64, next int64, ms ...stream.Message) {
	o.p.t.Helper()
	facts, err := wire.TopicFacts(o.p.t.Context(), o.cl, input)
	o.p.must(err)
	key, value, err := fence.Progress{
		Inputs:     []fence.InputProgress{{Topic: input, TopicID: facts.ID, Next: next, LeaderEpoch: -1}},
		Partitions: 1, Group: "flow", Nonce: nonce, Sequence: 1, At: time.Now(),
	}.Encode()
	o.p.must(err)
	for _, m := range append(ms, stream.Message{Key: key, Value: value}) {
		r := &kgo.Record{Topic: states, Key: m.Key, Value: m.Value}
		for _, h := range m.Headers {
			r.Headers = append(r.Headers, kgo.RecordHeader{Key: h.Key, Value: h.Value})
		}
		o.p.must(o.cl.ProduceSync(o.p.t.Context(), r).FirstErr())
	}
}

// offset binds the offset next to the transaction.
func (o *other) offset(nonce uint64, next int64) {
	o.p.t.Helper()
	facts, err := wire.TopicFacts(o.p.t.Context(), o.cl, input)
	o.p.must(err)
	id, epoch, err := o.cl.ProducerID(o.p.t.Context())
	o.p.must(err)
	o.p.must(wire.BindOffset(o.p.t.Context(), o.cl, wire.Binding{
		TransactionalID: o.id, ProducerID: id, ProducerEpoch: epoch, Group: "flow", Generation: -1,
		Input: stream.Partition{Topic: input}, TopicID: facts.ID, Next: next, LeaderEpoch: -1,
		Metadata: wire.Witness{Nonce: nonce, Sequence: 1}.Metadata(),
	}, false))
}

func (o *other) commit() {
	o.p.t.Helper()
	o.p.must(o.cl.EndTransaction(o.p.t.Context(), kgo.TryCommit))
}

// ownID is the transactional id of the flow's partition.
func ownID() string { return fence.TransactionalID("flow", states, 0) }

// between has a step played before the first request of a kind that comes after A's takeover is carried out, and
// another before the first one of a second kind after that.
func (p *place) between(first kmsg.Key, step func(), second kmsg.Key, then func()) {
	var taken, begun, played, done atomic.Bool
	watch := func(key kmsg.Key, seen func(kmsg.Request)) {
		p.cluster.ControlKey(int16(key), func(r kmsg.Request) (kmsg.Response, error, bool) {
			p.cluster.KeepControl()
			seen(r)
			return nil, nil, false
		})
	}
	watch(kmsg.InitProducerID, func(r kmsg.Request) {
		if id := r.(*kmsg.InitProducerIDRequest).TransactionalID; id != nil && *id == ownID() {
			taken.Store(true)
		}
	})
	watch(first, func(kmsg.Request) {
		if taken.Load() && begun.CompareAndSwap(false, true) {
			p.cluster.SleepControl(step)
			played.Store(true)
		}
	})
	watch(second, func(kmsg.Request) {
		if played.Load() && done.CompareAndSwap(false, true) {
			p.cluster.SleepControl(then)
		}
	})
}

// untilUnder is until with rules switched off.
func untilUnder(p *place, c holdfast.Config[int], next int64, off []rule.Name) error {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(rule.Without(p.t.Context(), off...), patience)
	defer cancel()
	c.Hooks = append(c.Hooks, holdfast.Hooks{Committed: func(e stream.Committed) {
		if e.Next >= next {
			cancel()
		}
	}})
	f, err := holdfast.New(c)
	p.must(err)
	return f.Run(ctx)
}

// R12HW and R12Order: B's commit is decided, and its offset is readable before its snapshots are. A, which reads
// the offset and then takes the end of the snapshots, waits for them.
func TestTraceOffsetIsVisibleBeforeItsSnapshots(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		off  []rule.Name
		want error
		k    string
	}{
		{"both rules", nil, nil, "2"},
		{"to the last stable offset: it stops", []rule.Name{rule.RestoreBound}, stream.ErrOffsetMismatch, ""},
		{"and it goes on: a record is lost", []rule.Name{rule.RestoreBound, rule.SecondWitness}, nil, "1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			p.produce("k", 2)
			p.create("aside", nil)
			state, err := snapshot.Encode(snapshot.Record{Header: snapshot.Header{Applied: []int64{0}, Steps: 1}, Key: []byte("k"), Value: []byte("1"), Kind: snapshot.State})
			p.must(err)
			var b *other
			p.between(kmsg.OffsetFetch, func() {
				b = p.other(ownID())
				b.snapshots(7, 1, state)
				o := p.other("the offsets' partition has its marker")
				p.must(o.cl.ProduceSync(t.Context(), &kgo.Record{Topic: "aside"}).FirstErr()) // else the client sends no end
				o.offset(7, 1)
				o.commit()
			}, kmsg.Fetch, func() {
				if c.off == nil { // and the snapshots' partition gets its own
					b.commit()
				}
			})
			if err := untilUnder(p, p.config(), 2, c.off); !errors.Is(err, c.want) || (err == nil) != (c.want == nil) {
				t.Fatalf("I1: the run ended with %v, want %v", err, c.want)
			}
			if c.want != nil {
				return // B's transaction is open, and a reader would wait for it
			}
			if got := p.stored()["k"]; got != c.k {
				t.Errorf("I1: the state is %q, want %q", got, c.k)
			}
		})
	}
}

// Table: A reads the offset, B commits what is behind it, a delete with its tombstone among it, and A restores
// the snapshots. Folded from the older offset on, the key would be back.
func TestTraceOffsetOfBeforeTheSnapshots(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		off  []rule.Name
		want bool // a record that B has committed is folded again
	}{
		{"the witnesses are compared", nil, false},
		{"they are not", []rule.Name{rule.SecondWitness}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			p.produce("k", 2) // the second one deletes
			p.produce("z", 1)
			first := p.other("the first owner")
			first.snapshots(6, 0)
			first.offset(6, 0)
			first.commit()
			p.between(kmsg.OffsetFetch, func() {}, kmsg.ListOffsets, func() {
				b := p.other(ownID())
				b.snapshots(7, 2)
				b.offset(7, 2)
				b.commit()
			})
			var folded []int64
			conf := p.config()
			conf.Fold = func(ctx context.Context, k *holdfast.Key[int], r stream.Record) error {
				folded = append(folded, r.Offset)
				if r.Offset == 1 {
					k.Delete()
					return nil
				}
				return count(1)(ctx, k, r)
			}
			p.must(untilUnder(p, conf, 3, c.off))
			if again := slices.Contains(folded, 0); again != c.want || !slices.Contains(folded, 2) {
				t.Errorf("I2: the records %v were folded, and B has committed 2: the key is deleted", folded)
			}
		})
	}
}

// The same of a group without an offset, as its first owner meets it that was cut off before its first commit:
// A reads that there is none, B takes over and makes the first commit, and A restores it. What A knows is old;
// nobody has lost the group's offset, and nothing is to be rebuilt.
func TestFirstCommitOfAnotherIsNoLostOffset(t *testing.T) {
	t.Parallel()
	for name, d := range map[string]holdfast.Disagreement{"stop": 0, "resume": holdfast.ResumeAtProgress, "rebuild": holdfast.Rebuild} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			p.produce("k", 2)
			state, err := snapshot.Encode(snapshot.Record{Header: snapshot.Header{Applied: []int64{0}, Steps: 1}, Key: []byte("k"), Value: []byte("1"), Kind: snapshot.State})
			p.must(err)
			p.between(kmsg.OffsetFetch, func() {}, kmsg.ListOffsets, func() {
				b := p.other(ownID())
				b.snapshots(7, 1, state)
				b.offset(7, 1)
				b.commit()
			})
			var folded []int64
			conf := p.config()
			conf.Start.Disagreement = d
			conf.Fold = func(ctx context.Context, k *holdfast.Key[int], r stream.Record) error {
				folded = append(folded, r.Offset)
				return count(1)(ctx, k, r)
			}
			if err := untilUnder(p, conf, 2, nil); err != nil {
				t.Fatalf("I7: the first commit of another owner has stopped the flow: %v", err)
			}
			if slices.Contains(folded, 0) || p.stored()["k"] != "2" {
				t.Errorf("I2: the records %v were folded into %v, and B has committed the first of them", folded, p.stored())
			}
		})
	}
}
