package member_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/codec"
	"github.com/holdfast-go/holdfast/stream"
)

// R14: records that retention has removed before they were folded are named. A client that went to the
// first one that is left would pass over them without a word.
func TestRecordsGoneBeforeTheyWereFolded(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.produce("k", 3)
	p.must(until(p, p.config(), 3))
	p.produce("k", 3)
	var gone kadm.Offsets
	gone.AddOffset(input, 0, 5, -1)
	deleted, err := kadm.NewClient(p.cl).DeleteRecords(t.Context(), gone)
	p.must(err)
	p.must(deleted.Error())
	if err := until(p, p.config(), 6); !errors.Is(err, stream.ErrTruncated) {
		t.Errorf("I2: records 3 and 4 are gone, and the run ended with %v, want %v", err, stream.ErrTruncated)
	}
}

// R14 and R2: an ownership of a partition that stayed assigned begins at the committed offset, though the
// client has fetched beyond it.
func TestRenewedOwnershipGoesBack(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.produce("k", 1)
	failed := false
	restores := 0
	var second sync.Once
	c := holdfast.Config[map[string]int]{
		Kafka: p.k, Group: "flow", Inputs: []string{input}, Codec: codec.JSON[map[string]int](),
		Member: holdfast.Member{HeartbeatInterval: 100 * time.Millisecond},
		Commit: holdfast.Commit{Persist: time.Millisecond, Interval: time.Millisecond},
		Fold: func(_ context.Context, k *holdfast.Key[map[string]int], r stream.Record) error {
			s, ok := k.State()
			if !ok {
				s = map[string]int{}
			}
			s[fmt.Sprint(r.Offset)]++
			if ok && !failed { // the state was changed in place: the ownership ends, and the next one restores
				failed = true
				return errors.New("once")
			}
			k.Set(s)
			return nil
		},
		OnError: func(context.Context, *stream.RecordError) stream.Action { return stream.Retry },
		Hooks: []holdfast.Hooks{{Committed: func(e stream.Committed) {
			if e.Next == 1 { // so that the position to go back to is not the first one
				second.Do(func() { p.produce("k", 1) })
			}
		}, Restored: func(stream.Restored) {
			if restores++; restores == 2 { // a record to go on with, for a client that has not gone back
				p.produce("k", 1)
			}
		}}},
	}
	p.must(until(p, c, 3))
	if got, want := p.stored()["k"], `{"0":1,"1":1,"2":1}`; got != want {
		t.Errorf("I2: the state counts %s, want %s", got, want)
	}
}

// R23: a flow that has folded anything has committed where it began. Otherwise a crash at that moment has
// the next start resolve Latest again, past what was there before.
func TestStartIsCommittedBeforeTheFirstFold(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.produce("k", 2)
	c := p.config()
	c.Start.New = holdfast.Latest
	var once sync.Once
	found := int64(-1)
	c.Fold = func(ctx context.Context, k *holdfast.Key[int], r stream.Record) error {
		once.Do(func() {
			offsets, err := kadm.NewClient(p.cl).FetchOffsets(ctx, "flow")
			if o, ok := offsets.Lookup(input, 0); err == nil && ok {
				found = o.At
			}
		})
		return count(1)(ctx, k, r)
	}
	c.Hooks = []holdfast.Hooks{{Restored: func(stream.Restored) {
		p.must(p.cl.ProduceSync(t.Context(), &kgo.Record{Key: []byte("k"), Value: []byte("1")}).FirstErr())
	}}}
	p.must(until(p, c, 3))
	if found != 2 {
		t.Errorf("I2: at the first fold the committed offset is %d, want 2, where the flow began", found)
	}
}

// R18: under FencedOutputs nothing leaves outside the transaction of its offset.
func TestOutputsLeaveInTheTransaction(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.create("out", nil)
	p.produce("k", 2)
	var outside atomic.Int32
	p.cluster.ControlKey(int16(kmsg.Produce), func(req kmsg.Request) (kmsg.Response, error, bool) {
		p.cluster.KeepControl()
		if req.(*kmsg.ProduceRequest).TransactionID == nil {
			outside.Add(1)
		}
		return nil, nil, false
	})
	c := p.config()
	c.Guarantee, c.Outputs, c.Commit = holdfast.FencedOutputs, []string{"out"}, holdfast.Commit{Interval: time.Millisecond}
	c.Fold = func(ctx context.Context, k *holdfast.Key[int], r stream.Record) error {
		k.Emit(stream.Message{Topic: "out", Key: r.Key, Value: r.Value})
		return count(1)(ctx, k, r)
	}
	p.must(until(p, c, 2))
	if n := outside.Load(); n != 0 {
		t.Errorf("I4: %d requests with outputs left outside a transaction", n)
	}
}
