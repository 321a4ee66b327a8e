package limits

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/codec"
	"github.com/holdfast-go/holdfast/dlq"
	"github.com/holdfast-go/holdfast/internal/kafkatest"
	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/kafka"
	"github.com/holdfast-go/holdfast/pipe"
	"github.com/holdfast-go/holdfast/snapshot"
	"github.com/holdfast-go/holdfast/stream"
)

// guarantees are those of a flow.
var guarantees = []holdfast.Guarantee{holdfast.FencedState, holdfast.FencedOutputs, holdfast.Unfenced}

// visible is what a reader of partition 0 of a topic finds under read_committed.
func (b *bench) visible(topic string) (rs []stream.Record) {
	b.t.Helper()
	_, err := wire.Log{Client: b.cl, Topic: topic}.Read(b.t.Context(), wire.ReadOptions{To: b.end(topic), Committed: true}, func(r *kgo.Record) error {
		rs = append(rs, wire.Record(r))
		return nil
	})
	if err != nil {
		b.t.Fatal(err)
	}
	return rs
}

// counting is a flow that counts the records of a key, deletes it at "delete", and tells its letters.
func (b *bench) counting(g holdfast.Guarantee, dead string) holdfast.Config[int] {
	c := holdfast.Config[int]{
		Kafka: b.kafka, Group: b.group, Inputs: []string{b.input}, Outputs: []string{b.output}, Codec: codec.JSON[int](), Guarantee: g,
		Fold: func(_ context.Context, k *holdfast.Key[int], r stream.Record) error {
			switch n, _ := k.State(); string(r.Value) {
			case "delete":
				k.Delete()
			case "bad":
				return errors.New("no count")
			default:
				k.Set(n + 1)
				k.Emit(stream.Message{Topic: b.output, Key: k.Bytes(), Value: fmt.Append(nil, n+1)})
			}
			return nil
		},
		Member: b.member(), Commit: holdfast.Commit{Interval: b.commit}, DeadLetters: &dlq.Policy{Topic: dead, MaxPerMinute: 100_000},
		OnError: func(context.Context, *stream.RecordError) stream.Action { return stream.DeadLetter },
	}
	if g != holdfast.FencedOutputs {
		c.Commit.Persist = b.commit
	}
	return c
}

// until runs a flow up to the input's offset next.
func until[S any](b *bench, c holdfast.Config[S], next int64) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.t.Context(), patience)
	defer cancel()
	reached := false
	c.Hooks = append(c.Hooks, holdfast.Hooks{Committed: func(e stream.Committed) {
		if e.Next >= next {
			reached = true
			cancel()
		}
	}})
	f, err := holdfast.New(c)
	if err != nil {
		b.t.Fatal(err)
	}
	if err := f.Run(ctx); err != nil || !reached {
		b.t.Fatalf("the flow ended with %v before offset %d was committed", err, next)
	}
}

// Public case K1. A record with an empty key, which is not null, is folded as any other under each guarantee, and its
// state restored; one without a key is a letter.
func TestKafkaEmptyKeyIsAKey(t *testing.T) {
	k := kafkatest.Start(t)
	for _, g := range guarantees {
		t.Run(g.String(), func(t *testing.T) {
			t.Parallel()
			b := newBench(t, kafka.Config{Brokers: k.Addrs}, fencedState)
			dead := k.CreateTopic(t, b.group+"-dead", 1, nil)
			b.write(&kgo.Record{Topic: b.input, Key: []byte{}, Value: []byte("1")})
			until(b, b.counting(g, dead), 1)
			b.write(&kgo.Record{Topic: b.input, Key: []byte("a"), Value: []byte("1")}, &kgo.Record{Topic: b.input, Value: []byte("1")},
				&kgo.Record{Topic: b.input, Key: []byte{}, Value: []byte("bad")}, &kgo.Record{Topic: b.input, Key: []byte{}, Value: []byte("1")})
			until(b, b.counting(g, dead), 5)
			states := map[string]string{}
			for _, r := range b.visible(b.progress()) {
				if snapshot.Reserved(r.Key) {
					continue
				}
				s, err := snapshot.Decode(r)
				if err != nil {
					t.Fatalf("I2: a record of the snapshot topic: %v", err)
				}
				states[string(s.Key)] = string(s.Value)
			}
			if len(states) != 2 || states[""] != "2" || states["a"] != "1" {
				t.Errorf("I2: the states are %q, want 2 of the empty key and 1 of a", states)
			}
			for _, r := range b.visible(b.output) {
				if r.Key == nil {
					t.Errorf("I4: output %s has no key", r.Value)
				}
			}
			letters := b.visible(dead)
			if len(letters) != 2 || letters[0].Key != nil || letters[1].Key == nil || len(letters[1].Key) != 0 {
				t.Errorf("I4: the letters are %+v, want one without a key and one with an empty key", letters)
			}
			b.write(&kgo.Record{Topic: b.input, Key: []byte{}, Value: []byte("delete")}, &kgo.Record{Topic: b.input, Key: []byte{}, Value: []byte("1")})
			until(b, b.counting(g, dead), 7)
			last := b.visible(b.output)
			if o := last[len(last)-1]; string(o.Value) != "1" || o.Key == nil {
				t.Errorf("I2: after the delete the empty key's output is %q", o.Value)
			}
		})
	}
}

// nullness is how many records there are of each choice of null, empty or text in key, value and header.
type nullness map[string]int

func (n nullness) add(r stream.Record) {
	word := func(b []byte) string {
		switch {
		case b == nil:
			return "null"
		case len(b) == 0:
			return "empty"
		}
		return "text"
	}
	text := word(r.Key) + " " + word(r.Value)
	for _, h := range r.Headers {
		text += " " + word(h.Value)
	}
	n[text]++
}

// allNulls writes a record of each choice to the input.
func (b *bench) allNulls() (want nullness) {
	b.t.Helper()
	want = nullness{}
	choices := [][]byte{nil, {}, []byte("x")}
	for _, key := range choices {
		for _, value := range choices {
			for _, head := range choices {
				r := &kgo.Record{Topic: b.input, Key: key, Value: value, Headers: []kgo.RecordHeader{{Key: "h", Value: head}}}
				want.add(wire.Record(r))
				b.write(r)
			}
		}
	}
	return want
}

// wantNulls asserts that a topic has each choice that many times.
func (b *bench) wantNulls(topic string, want nullness, each int) {
	b.t.Helper()
	got := nullness{}
	for _, r := range b.visible(topic) {
		got.add(r)
	}
	for text := range want {
		if got[text] != each {
			b.t.Errorf("I4: %s has %q %d times, want %d", topic, text, got[text], each)
		}
	}
	if len(got) != len(want) {
		b.t.Errorf("I4: %s has %v", topic, got)
	}
}

// What a component writes is what was asked for, null or empty: keys, values and the values of headers, of outputs
// and letters of flows, and of a pipe's Send, SendBare and Forward.
// Public case K1.
func TestKafkaNullAndEmptyAreTold(t *testing.T) {
	k := kafkatest.Start(t)
	t.Run("pipe", func(t *testing.T) {
		t.Parallel()
		b := newBench(t, kafka.Config{Brokers: k.Addrs}, isPipe)
		want := b.allNulls()
		c := b.pipe()
		c.Func = func(_ context.Context, r stream.Record, out *pipe.Out) error {
			out.Forward(b.output)
			out.Send(stream.Message{Topic: b.output, Key: r.Key, Value: r.Value})
			out.SendBare(stream.Message{Topic: b.output, Key: r.Key, Value: r.Value, Headers: r.Headers})
			return nil
		}
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		c.Hooks = []holdfast.Hooks{{Committed: func(e stream.Committed) {
			if e.Next == int64(len(want)) {
				cancel()
			}
		}}}
		p, err := pipe.New(c)
		if err != nil {
			t.Fatal(err)
		}
		if err := p.Run(ctx); err != nil {
			t.Fatal(err)
		}
		b.wantNulls(b.output, want, 3)
	})
	for _, g := range guarantees {
		t.Run(g.String(), func(t *testing.T) {
			t.Parallel()
			b := newBench(t, kafka.Config{Brokers: k.Addrs}, fencedState)
			want := b.allNulls()
			c := b.counting(g, k.CreateTopic(t, b.group+"-dead", 1, nil))
			c.Route = func(stream.Record) ([]byte, bool) { return []byte{}, true }
			letter := false
			c.Fold = func(_ context.Context, key *holdfast.Key[int], r stream.Record) error {
				if letter {
					return errors.New("to the letters")
				}
				key.Set(1)
				key.Emit(stream.Message{Topic: b.output, Key: r.Key, Value: r.Value, Headers: r.Headers})
				return nil
			}
			until(b, c, int64(len(want)))
			b.wantNulls(b.output, want, 1)
			letter = true
			b.allNulls()
			until(b, c, int64(2*len(want)))
			got := nullness{}
			for _, r := range b.visible(b.group + "-dead") {
				r.Headers = r.Headers[:1] // the record's own come first
				got.add(r)
			}
			if !maps.Equal(got, want) {
				t.Errorf("I4: the letters are %v, want %v", got, want)
			}
		})
	}
}

// Compaction takes an empty key for a key: of its records the newest is left, as of any other, and a tombstone of it
// takes them away. A record without a key is refused by a compacted topic.
func TestKafkaCompactionOfTheEmptyKey(t *testing.T) {
	t.Parallel()
	k := kafkatest.New(t, kafkatest.Options{Properties: map[string]string{"log.cleaner.backoff.ms": "100"}})
	topic := k.CreateTopic(t, kafkatest.UniqueName("compacted"), 1, map[string]string{
		"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.001", "segment.ms": "100", "max.compaction.lag.ms": "100", "delete.retention.ms": "0",
	})
	cl := k.Client(t)
	write := func(key, value []byte) error {
		return cl.ProduceSync(t.Context(), &kgo.Record{Topic: topic, Key: key, Value: value}).FirstErr()
	}
	if err := write(nil, []byte("v")); !wire.OfRecord(err) {
		t.Errorf("a record without a key: %v, want a refusal of the record", err)
	}
	empty := func(value []byte, want int) {
		t.Helper()
		for i := range 3 {
			if err := write([]byte{}, []byte{byte(i)}); err != nil {
				t.Fatal(err)
			}
		}
		if err := write([]byte{}, value); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		for left := []stream.Record(nil); ; {
			if err := write([]byte("last"), []byte("v")); err != nil { // the active segment rolls only when something is written
				t.Fatal(err)
			}
			left = left[:0]
			log := wire.Log{Client: cl, Topic: topic}
			_, end, _, err := log.Ends(ctx)
			if err == nil {
				_, err = log.Read(ctx, wire.ReadOptions{To: end, Committed: true}, func(r *kgo.Record) error {
					if len(r.Key) == 0 {
						left = append(left, wire.Record(r))
					}
					return nil
				})
			}
			if err != nil {
				t.Fatalf("of the empty key there is still %+v: %v", left, err)
			}
			if len(left) < want || want == 1 && string(left[len(left)-1].Value) != string(value) {
				t.Fatalf("I2: of the empty key there is %+v, want %d, %q the last", left, want, value)
			}
			if len(left) == want {
				return
			}
			select {
			case <-time.After(200 * time.Millisecond):
			case <-ctx.Done():
			}
		}
	}
	empty([]byte("kept"), 1)
	empty(nil, 0)
}
