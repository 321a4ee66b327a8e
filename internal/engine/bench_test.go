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
		PersistInterval: 30 * time.Second, CommitInterval: 5 * time.Second, MaxWrites: 1000,
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
