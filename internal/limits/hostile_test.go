package limits

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/holdfasttest"
	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/snapshot"
	"github.com/holdfast-go/holdfast/stream"
)

// hostile is a record that somebody else writes into a snapshot topic. Each is told at the restore by its
// place, and the flow stops before it folds, commits or writes anything.
type hostile struct {
	name string
	make func(r *kgo.Record) // r is a good snapshot of a key
	want error
	at   bool // the error has the offset and the key of the record itself
}

func header(bytes ...byte) func(*kgo.Record) {
	return func(r *kgo.Record) { r.Headers = []kgo.RecordHeader{{Key: snapshot.HeaderKey, Value: bytes}} }
}

// written makes the record anew, as the product would write it.
func written(change func(*snapshot.Record)) func(*kgo.Record) {
	return func(r *kgo.Record) {
		s, err := snapshot.Decode(wire.Record(r))
		if err != nil {
			panic(err)
		}
		change(&s)
		m, err := snapshot.Encode(s)
		if err != nil {
			panic(err)
		}
		r.Value, r.Headers = m.Value, []kgo.RecordHeader{kgo.RecordHeader(m.Headers[0])}
	}
}

// progressed makes a progress record of the one that is there.
func progressed(b *bench, change func(*fence.Progress)) func(*kgo.Record) {
	return func(r *kgo.Record) {
		var p fence.Progress
		for _, other := range b.read(b.progress()) {
			if fence.IsProgressKey(other.Key) {
				p, _ = fence.DecodeProgress(other.Value)
			}
		}
		change(&p)
		r.Headers = nil
		var err error
		if r.Key, r.Value, err = p.Encode(); err != nil {
			b.t.Fatal(err)
		}
	}
}

func hostiles(b *bench) []hostile {
	huge := binary.AppendUvarint([]byte{1, 0}, math.MaxUint64)
	return []hostile{
		{"another version", header(99, 0, 1, 1, 0, 0, 0, 0), stream.ErrCorruptSnapshot, true},
		{"no header", func(r *kgo.Record) { r.Headers = nil }, stream.ErrCorruptSnapshot, true},
		{"empty header", header(), stream.ErrCorruptSnapshot, true},
		{"truncated header", func(r *kgo.Record) { r.Headers[0].Value = r.Headers[0].Value[:3] }, stream.ErrCorruptSnapshot, true},
		{"two headers", func(r *kgo.Record) { r.Headers = append(r.Headers, r.Headers[0]) }, stream.ErrCorruptSnapshot, true},
		{"2^64-1 inputs", header(huge...), stream.ErrCorruptSnapshot, true},
		{"65535 timers that are not there", header(1, 0, 0, 0, 0, 255, 255, 3), stream.ErrCorruptSnapshot, true},
		{"a header of a megabyte", header(append([]byte{1, 0, 0, 0, 0, 0, 0}, make([]byte, 1<<20-1024)...)...), stream.ErrCorruptSnapshot, true},
		{"reserved key with a user's value", func(r *kgo.Record) { r.Key = []byte("\x00mine") }, stream.ErrCorruptSnapshot, true},
		{"a user's value as progress", func(r *kgo.Record) { r.Key = []byte("\x00progress") }, stream.ErrCorruptSnapshot, true},
		{"applied of three inputs", written(func(s *snapshot.Record) { s.Applied = []int64{1, 2, 3} }), stream.ErrCorruptSnapshot, true},
		{"another codec's bytes", func(r *kgo.Record) { r.Value = []byte{0xff, 0xfe} }, stream.ErrCorruptSnapshot, true},
		{"applied behind the input's end", written(func(s *snapshot.Record) { s.Applied = []int64{1 << 40} }), stream.ErrCorruptSnapshot, true},
		{"the last offset there is", written(func(s *snapshot.Record) { s.Applied = []int64{math.MaxInt64 - 1} }), stream.ErrCorruptSnapshot, true},
		{"a far incarnation of the state", written(func(s *snapshot.Record) { s.Incarnation = math.MaxUint32 - 1 }), stream.ErrCorruptSnapshot, true},
		{"an incarnation of 64 bits", written(func(s *snapshot.Record) { s.Incarnation = 1 << 40 }), stream.ErrCorruptSnapshot, true},
		{"the last commit's progress in a far incarnation", progressed(b, func(p *fence.Progress) { p.Incarnation = math.MaxUint32 }), stream.ErrCorruptSnapshot, true},
		{"the last commit's progress at another offset", progressed(b, func(p *fence.Progress) { p.Inputs[0].Next = 1 << 40 }), stream.ErrCorruptSnapshot, true},
		{"progress of a far incarnation", progressed(b, func(p *fence.Progress) { p.Incarnation, p.Nonce = math.MaxUint32, p.Nonce+1 }), stream.ErrOffsetMismatch, false},
		{"progress ahead", progressed(b, func(p *fence.Progress) { p.Inputs[0].Next, p.Nonce = 1<<40, p.Nonce+1 }), stream.ErrTruncated, false},
		{"progress of two inputs", progressed(b, func(p *fence.Progress) { p.Inputs = append(p.Inputs, p.Inputs[0]) }), stream.ErrCorruptSnapshot, true},
		{"progress of another group", progressed(b, func(p *fence.Progress) { p.Group = "other" }), stream.ErrOtherGroup, false},
	}
}

// read reads partition 0 of a topic up to its end.
func (b *bench) read(topic string) (rs []*kgo.Record) {
	b.t.Helper()
	_, err := wire.Log{Client: b.cl, Topic: topic}.Read(b.t.Context(), wire.ReadOptions{To: b.end(topic)}, func(r *kgo.Record) error {
		rs = append(rs, r)
		return nil
	})
	if err != nil {
		b.t.Fatal(err)
	}
	return rs
}

// folded is a bench whose flow has folded ten records and stopped, and the last snapshot that it wrote.
func folded(t *testing.T) (b *bench, good *kgo.Record) {
	t.Helper()
	b = newBench(t, holdfasttest.Broker(t), fencedState)
	b.send(10)
	r := b.start()
	r.committed(10)
	if err := r.stop(); err != nil {
		t.Fatal(err)
	}
	for _, r := range b.read(b.progress()) {
		if !snapshot.Reserved(r.Key) && len(r.Value) > 0 {
			good = r
		}
	}
	return b, good
}

func TestHostileSnapshots(t *testing.T) {
	names, _ := folded(t)
	for i, c := range hostiles(names) {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b, good := folded(t)
			bad := &kgo.Record{Topic: b.progress(), Key: good.Key, Value: good.Value, Headers: append([]kgo.RecordHeader{}, good.Headers...)}
			hostiles(b)[i].make(bad)
			b.write(bad)
			end := b.end(b.progress())
			b.send(5)
			err := b.start().refusal(15)
			var where *stream.Error
			if !errors.Is(err, c.want) || !errors.As(err, &where) || where.Hint == "" {
				t.Fatalf("the flow ended with %v, want %v with a next step", err, c.want)
			}
			if c.at && (where.Topic != b.progress() || where.Partition != 0 || where.Offset != bad.Offset || !bytes.Equal(where.Key, bad.Key)) {
				t.Errorf("%v is at %s/%d offset %d key %q, want offset %d key %q", err, where.Topic, where.Partition, where.Offset, where.Key, bad.Offset, bad.Key)
			}
			if at := b.offset(); at != 10 {
				t.Errorf("committed %d, want 10", at)
			}
			for _, r := range b.read(b.progress()) {
				if r.Offset >= end {
					t.Errorf("the flow has written offset %d, key %q", r.Offset, r.Key)
				}
			}
		})
	}
}
