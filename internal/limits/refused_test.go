package limits

import (
	"bytes"
	"context"
	"crypto/sha512"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/dlq"
	"github.com/holdfast-go/holdfast/internal/kafkatest"
	"github.com/holdfast-go/holdfast/kafka"
	"github.com/holdfast-go/holdfast/stream"
)

// many is a flow each of whose folds emits n outputs over seven keys, which do not compress well.
func (b *bench) many(g holdfast.Guarantee, n int) holdfast.Config[int] {
	c := b.counting(g, b.group+"-dead")
	c.DeadLetters, c.OnError = nil, nil
	c.Fold = func(_ context.Context, k *holdfast.Key[int], r stream.Record) error {
		k.Set(1)
		for i := range n {
			k.Emit(stream.Message{Topic: b.output, Key: fmt.Appendf(nil, "k%d", i%7), Value: b.numbered(r.Offset, i)})
		}
		return nil
	}
	return c
}

// numbered is output i of the record at an offset.
func (b *bench) numbered(offset int64, i int) []byte {
	return fmt.Appendf(nil, "%03d-%05d-%s", offset, i, fmt.Sprintf("%032x", sha512.Sum512(fmt.Append(nil, offset, i)))[:b.pad])
}

// wantMany asserts that each key's outputs of the records at the offsets are there, in their order, with no repeat
// that is not one of a whole tail.
func (b *bench) wantMany(offsets []int64, n int) {
	b.t.Helper()
	got, want := map[string][]string{}, map[string][]string{}
	seen := map[string]bool{}
	for _, r := range b.visible(b.output) {
		if text := string(r.Value); !seen[text] { // a repeat is allowed where outputs are at-least-once
			seen[text] = true
			got[string(r.Key)] = append(got[string(r.Key)], text)
		}
	}
	for _, offset := range offsets {
		for i := range n {
			key := fmt.Sprintf("k%d", i%7)
			want[key] = append(want[key], string(b.numbered(offset, i)))
		}
	}
	for key := range want {
		if !slices.Equal(got[key], want[key]) {
			at := 0
			for at < min(len(got[key]), len(want[key])) && got[key][at] == want[key][at] {
				at++
			}
			b.t.Errorf("I4: outputs of %s: %d of %d, the first difference at %d: not in their order, or missing", key, len(got[key]), len(want[key]), at)
		}
	}
}

// alter sets a configuration of a topic, and waits until the leader of partition 0 goes by it: then it refuses r.
func (b *bench) alter(topic, name, value string, r *kgo.Record) {
	b.t.Helper()
	rs, err := b.admin.AlterTopicConfigs(b.t.Context(), []kadm.AlterConfig{{Op: kadm.SetConfig, Name: name, Value: &value}}, topic)
	if err == nil {
		err = rs[0].Err
	}
	if err != nil {
		b.t.Fatal(err)
	}
	cl, err := b.full.Client(kgo.TransactionalID(kafkatest.UniqueName("probe")), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerBatchCompression(kgo.NoCompression()))
	if err != nil {
		b.t.Fatal(err)
	}
	defer cl.Close()
	for limit := time.Now().Add(patience); ; {
		if err := cl.BeginTransaction(); err != nil {
			b.t.Fatal(err)
		}
		given := *r
		refused := cl.ProduceSync(b.t.Context(), &given).FirstErr() != nil
		if err := cl.EndTransaction(b.t.Context(), kgo.TryAbort); err != nil && !refused {
			b.t.Fatal(err)
		}
		if refused {
			return
		}
		if time.Now().After(limit) {
			b.t.Fatalf("%s of %s is %s, and the broker does not go by it", name, topic, value)
		}
	}
}

// Public case K2. An output topic takes small batches, and a fold emits many outputs: they are split to the topic's
// limit, in a transaction or beside it.
func TestKafkaOutputsAreSplitToTheLimit(t *testing.T) {
	k := kafkatest.Start(t)
	for _, g := range guarantees {
		t.Run(g.String(), func(t *testing.T) {
			t.Parallel()
			b := newBench(t, kafka.Config{Brokers: k.Addrs}, fencedState)
			b.output, b.pad = k.CreateTopic(t, b.group+"-small", 1, map[string]string{"max.message.bytes": "10000"}), 120
			b.write(&kgo.Record{Topic: b.input, Key: []byte("k"), Value: []byte("1")})
			c := b.many(g, 500)
			c.Hooks = append(c.Hooks, holdfast.Hooks{Refused: func(e stream.Refused) { t.Errorf("I6: the broker refused what was known to be too large: %+v", e) }})
			until(b, c, 1)
			b.wantMany([]int64{0}, 500)
		})
	}
}

// The limit is lowered while a flow runs: what the broker refuses goes again in smaller batches, in the same order and
// before anything behind it, and the flow goes on.
func TestKafkaLimitIsLoweredUnderOutputs(t *testing.T) {
	k := kafkatest.Start(t)
	for _, g := range guarantees {
		t.Run(g.String(), func(t *testing.T) {
			t.Parallel()
			b := newBench(t, kafka.Config{Brokers: k.Addrs}, fencedState)
			b.pad = 120
			b.write(&kgo.Record{Topic: b.input, Key: []byte("k"), Value: []byte("1")})
			c := b.many(g, 500)
			lowered := false
			c.Hooks = append(c.Hooks, holdfast.Hooks{Committed: func(e stream.Committed) {
				if e.Next >= 1 && !lowered {
					lowered = true
					b.alter(b.output, "max.message.bytes", "10000", &kgo.Record{Topic: b.output, Value: make([]byte, 10_000)})
					for range 5 {
						b.write(&kgo.Record{Topic: b.input, Key: []byte("k"), Value: []byte("1")})
					}
				}
			}})
			until(b, c, 6)
			b.wantMany([]int64{0, 1, 2, 3, 4, 5}, 500)
		})
	}
}

// spoiling is why a broker refuses one output of many.
type spoiling struct {
	setting, value string     // of the output topic
	probe          kgo.Record // which is refused once it holds
	spoil          func(*stream.Message)
	hint           string
	sentinel       error
}

var spoilings = map[string]spoiling{
	"too large": {
		"max.message.bytes", "3000", kgo.Record{Value: make([]byte, 3000)},
		func(m *stream.Message) { m.Value = bytes.Repeat(m.Value, 100) },
		"max.message.bytes", stream.ErrTooLarge,
	},
	"too far ahead": {
		"message.timestamp.after.max.ms", "3600000", kgo.Record{Timestamp: time.Now().Add(2 * time.Hour)},
		func(m *stream.Message) { m.Timestamp = time.Now().Add(2 * time.Hour) },
		"message.timestamp.after.max.ms", stream.ErrOutput,
	},
	"too old": {
		"message.timestamp.before.max.ms", "3600000", kgo.Record{Timestamp: time.Now().Add(-2 * time.Hour)},
		func(m *stream.Message) { m.Timestamp = time.Now().Add(-2 * time.Hour) },
		"message.timestamp.before.max.ms", stream.ErrOutput,
	},
	"without a key for a compacted topic": {
		"cleanup.policy", "compact", kgo.Record{Value: []byte("v")},
		func(m *stream.Message) { m.Key = nil },
		"without a key", stream.ErrOutput,
	},
}

// spoiled is a flow that emits one output of each record but the first, which has it begin before the topic changes, and
// of one that is refused. Once it has begun it is given all the others at once.
func (b *bench) spoiled(g holdfast.Guarantee, s spoiling, records int, bad int64) holdfast.Config[int] {
	f := b.many(g, 0)
	f.Fold = func(_ context.Context, key *holdfast.Key[int], r stream.Record) error {
		key.Set(1)
		m := stream.Message{Topic: b.output, Key: fmt.Appendf(nil, "k%d", r.Offset%7), Value: b.numbered(r.Offset, 0)}
		if r.Offset == bad {
			s.spoil(&m)
		}
		if r.Offset > 0 {
			key.Emit(m)
		}
		return nil
	}
	changed := false
	f.Hooks = append(f.Hooks, holdfast.Hooks{Committed: func(e stream.Committed) {
		if e.Next < 1 || changed {
			return
		}
		changed = true
		probe := s.probe
		probe.Topic = b.output
		b.alter(b.output, s.setting, s.value, &probe)
		b.sendAtOnce(records, "1")
	}})
	b.write(&kgo.Record{Topic: b.input, Key: []byte("k"), Value: []byte("1")})
	return f
}

// sendAtOnce writes n records of one key.
func (b *bench) sendAtOnce(n int, value string) {
	b.t.Helper()
	rs := make([]*kgo.Record, n)
	for i := range rs {
		rs[i] = &kgo.Record{Topic: b.input, Key: []byte("k"), Value: []byte(value)}
	}
	if err := b.cl.ProduceSync(b.t.Context(), rs...).FirstErr(); err != nil {
		b.t.Error(err)
	}
}

// ended is how a flow ends by itself.
func ended[S any](b *bench, c holdfast.Config[S]) error {
	b.t.Helper()
	f, err := holdfast.New(c)
	if err != nil {
		b.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(b.t.Context(), patience)
	defer cancel()
	return f.Run(ctx)
}

// One output of many in a batch is refused for what it is, and the broker refuses the batch without saying which it is:
// the error names the input record whose step made it, and its hint is about the cause that the broker gave. What came
// before it is written.
func TestKafkaRefusedOutputIsNamed(t *testing.T) {
	k := kafkatest.Start(t)
	const records, bad = 400, 333
	for name, c := range spoilings {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, g := range guarantees {
				b := newBench(t, kafka.Config{Brokers: k.Addrs, Opts: []kgo.Opt{kgo.ProducerBatchCompression(kgo.NoCompression())}}, fencedState)
				b.pad = 20
				err := ended(b, b.spoiled(g, c, records, bad))
				if !errors.Is(err, stream.ErrOutput) {
					t.Fatalf("%v: the flow ended with %v", g, err)
				}
				located(t, err, c.sentinel, b.input, bad, c.hint, b.output)
				if c.hint != "max.message.bytes" && strings.Contains(err.Error(), "max.message.bytes") {
					t.Errorf("%v: the hint speaks of sizes: %v", g, err)
				}
				if at := b.offset(); at > bad {
					t.Errorf("I4: %v: offset %d is committed, past the record whose output is not written", g, at)
				}
				written := map[string]bool{}
				for _, r := range b.visible(b.output) {
					written[string(r.Value)] = true
				}
				for offset := int64(1); offset < bad; offset++ {
					if !written[string(b.numbered(offset, 0))] {
						t.Fatalf("I4: %v: the output of offset %d, which came before, is not written", g, offset)
					}
				}
			}
		})
	}
}

// Letters beside a transaction go in batches like outputs: a topic that takes little gets them in parts, in their order,
// whether the limit was known or is lowered under the flow.
func TestKafkaLettersAreSplitToTheLimit(t *testing.T) {
	k := kafkatest.Start(t)
	const records = 1000
	for name, late := range map[string]bool{"the limit was known": false, "it was lowered": true} {
		for _, g := range []holdfast.Guarantee{holdfast.FencedState, holdfast.Unfenced} {
			t.Run(name+", "+g.String(), func(t *testing.T) {
				t.Parallel()
				b := newBench(t, kafka.Config{Brokers: k.Addrs}, fencedState)
				dead := k.CreateTopic(t, b.group+"-dead", 1, map[string]string{"max.message.bytes": "20000000"})
				lower := func() {
					b.alter(dead, "max.message.bytes", "10000", &kgo.Record{Topic: dead, Value: make([]byte, 10_000)})
				}
				c := b.counting(g, dead)
				b.write(&kgo.Record{Topic: b.input, Key: []byte("k"), Value: []byte("bad")})
				if late {
					changed := false
					c.Hooks = append(c.Hooks, holdfast.Hooks{Committed: func(e stream.Committed) {
						if e.Next >= 1 && !changed {
							changed = true
							lower()
							b.sendAtOnce(records-1, "bad")
						}
					}})
				} else {
					lower()
					b.sendAtOnce(records-1, "bad")
				}
				until(b, c, records)
				var offsets []int64
				for _, r := range b.visible(dead) {
					l, err := dlq.Parse(r)
					if err != nil {
						t.Fatal(err)
					}
					offsets = append(offsets, l.Origin.Offset)
				}
				if !slices.IsSorted(offsets) || len(offsets) != records {
					t.Errorf("I4: %d letters, in order %t, want %d", len(offsets), slices.IsSorted(offsets), records)
				}
			})
		}
	}
}
