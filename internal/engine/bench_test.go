package engine

import (
	"context"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/stream"
)

// sumEngine counts records per key. Its keys are restored, so that all of them are clean.
func sumEngine(tb testing.TB, keys int) (*Engine[int64], [][]byte) {
	tb.Helper()
	e := New(Config[int64]{
		Plain: true, Encode: encode, Decode: decode,
		Fold: func(_ context.Context, c *Call[int64], _ stream.Record) error {
			n, _ := c.State()
			c.Set(n + 1)
			return nil
		},
		Settings: Settings{PersistInterval: 30 * time.Second, CommitInterval: 5 * time.Second, MaxWrites: 1000},
	})
	names := make([][]byte, keys)
	for i := range names {
		names[i] = []byte("key-" + strconv.Itoa(i))
		if err := e.Load(Snapshot{Key: names[i], Value: []byte("1"), Applied: 1, Steps: 1}); err != nil {
			tb.Fatal(err)
		}
	}
	e.Start(epoch0, 100, 100, nil)
	return e, names
}

// BenchmarkStep is the cost of one record, with a batch committed every 10 000 records. 1000 keys
// are in use, of as many as there are.
func BenchmarkStep(b *testing.B) {
	for _, keys := range []int{1_000, 1_000_000} {
		b.Run(fmt.Sprintf("keys=%d", keys), func(b *testing.B) {
			e, names := sumEngine(b, keys)
			now, offset := epoch0, int64(100)
			r := stream.Record{Topic: "in", Value: []byte("x")}
			b.ReportAllocs()
			for b.Loop() {
				r.Offset, r.Key = offset, names[offset%1000]
				e.Step(b.Context(), now, r)
				if offset++; offset%10_000 == 0 {
					now = now.Add(time.Minute)
					if batch, err := e.Close(now, false); err != nil {
						b.Fatal(err)
					} else {
						e.Committed(now, batch)
					}
				}
			}
		})
	}
}

// BenchmarkIdle is what a poll without records costs: the worker asks when the next batch is due.
func BenchmarkIdle(b *testing.B) {
	for _, keys := range []int{1_000, 1_000_000} {
		b.Run(fmt.Sprintf("keys=%d", keys), func(b *testing.B) {
			e, _ := sumEngine(b, keys)
			b.ReportAllocs()
			for b.Loop() {
				e.Due()
				e.Stats()
				if batch, err := e.Close(epoch0, false); batch != nil || err != nil {
					b.Fatal(batch, err)
				}
			}
		})
	}
}

// A record of a known, dirty key costs one allocation: the handle.
func TestStepAllocations(t *testing.T) {
	e, names := sumEngine(t, 10)
	offset := int64(100)
	r := stream.Record{Topic: "in", Key: names[0]}
	got := testing.AllocsPerRun(1000, func() {
		r.Offset = offset
		offset++
		e.Step(context.Background(), epoch0, r)
	})
	if got > 1 {
		t.Errorf("%v allocations a step, want 1", got)
	}
}

// What is done without a record, and with one, costs about the same however many keys there are: a
// scan of them would take two hundred times as long. The bound leaves room for a machine that is busy.
func TestCostDoesNotGrowWithKeys(t *testing.T) {
	const few, many, times = 1_000, 200_000, 500
	least := func(keys int) (idle, step time.Duration) {
		e, names := sumEngine(t, keys)
		idle, step = time.Hour, time.Hour
		offset := int64(100)
		for range 5 {
			began := time.Now()
			for range times {
				e.Due()
				e.Stats()
				if b, err := e.Close(epoch0, false); b != nil || err != nil {
					t.Fatal(b, err)
				}
			}
			idle = min(idle, time.Since(began))
			began = time.Now()
			for i := range times {
				e.Step(t.Context(), epoch0, stream.Record{Topic: "in", Offset: offset, Key: names[i%100]})
				offset++
			}
			step = min(step, time.Since(began))
			b, err := e.Close(epoch0, true)
			if err != nil || b == nil || len(b.Writes) != 100 {
				t.Fatal(b, err)
			}
			e.Committed(epoch0, b)
			if b, err := e.Close(epoch0, true); b != nil || err != nil { // nothing is left
				t.Fatal(b, err)
			}
		}
		return idle, step
	}
	idle, step := least(few)
	idleMany, stepMany := least(many)
	t.Logf("idle %v and %v, step %v and %v", idle, idleMany, step, stepMany)
	const factor = 20
	if idleMany > factor*idle || stepMany > factor*step {
		t.Errorf("with %d keys idle is %v and a step %v; with %d they are %v and %v", many, idleMany, stepMany, few, idle, step)
	}
}

// 100 000 keys are folded and persisted in a time that a scan for each record or batch would not keep.
func TestManyKeys(t *testing.T) {
	const keys = 100_000
	e, names := sumEngine(t, keys)
	began := time.Now()
	for i, name := range names {
		e.Step(t.Context(), epoch0, stream.Record{Topic: "in", Offset: 100 + int64(i), Key: name})
	}
	written := 0
	for {
		b, err := e.Close(epoch0, true)
		if err != nil {
			t.Fatal(err)
		}
		if b == nil {
			break
		}
		written += len(b.Writes)
		e.Committed(epoch0, b)
	}
	took := time.Since(began)
	t.Logf("%v for %d keys", took, keys)
	if written != keys || took > 30*time.Second {
		t.Errorf("%d of %d keys were written in %v", written, keys, took)
	}
}

// BenchmarkDrain persists 100 000 dirty keys in batches of 1000.
func BenchmarkDrain(b *testing.B) {
	const keys = 100_000
	e, names := sumEngine(b, keys)
	offset := int64(100)
	b.ReportAllocs()
	for b.Loop() {
		for _, name := range names {
			e.Step(b.Context(), epoch0, stream.Record{Topic: "in", Offset: offset, Key: name})
			offset++
		}
		for {
			batch, err := e.Close(epoch0, true)
			if err != nil {
				b.Fatal(err)
			}
			if batch == nil {
				break
			}
			e.Committed(epoch0, batch)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/keys, "ns/key")
}
