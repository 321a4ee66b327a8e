package wire

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"runtime"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/holdfast-go/holdfast/internal/intake"
	"github.com/holdfast-go/holdfast/stream"
)

// FuzzBatches gives a page whatever a broker may answer as record batches. What is decoded of it is
// bounded by what a page may hold, its offsets are not below the position, and every error of the client
// is one that stops the reader.
func FuzzBatches(f *testing.F) {
	f.Add(batchOf(func(*kmsg.RecordBatch) {}), int64(7))
	f.Add(batchOf(func(b *kmsg.RecordBatch) { b.NumRecords = 1 << 30 }), int64(0))
	f.Add(batchOf(func(b *kmsg.RecordBatch) { b.Attributes, b.Records = 4, []byte{40, 181, 47, 253, 0, 88, 1, 0, 0} }), int64(7))
	f.Add(batchOf(func(b *kmsg.RecordBatch) { b.Attributes, b.Records = 2, []byte{255, 255, 255, 255, 7, 0} }), int64(7))
	f.Add(append(batchOf(func(*kmsg.RecordBatch) {}), batchOf(func(b *kmsg.RecordBatch) { b.FirstOffset, b.Attributes = 8, 0x30 })...), int64(7))
	f.Add(flip(batchOf(func(*kmsg.RecordBatch) {}), 16), int64(7))
	budget := intake.New(intake.MinBytes)
	at := stream.Partition{Topic: "t"}
	f.Fuzz(func(t *testing.T, batches []byte, position int64) {
		if len(batches) > 1<<16 {
			t.Skip("larger ones tell no more")
		}
		batches = withCRCs(batches)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		opened, err := budget.Open(t.Context(), batches)
		if err != nil {
			t.Fatal(err)
		}
		defer opened.Release()
		part, _ := kgo.ProcessFetchPartition(kgo.ProcessFetchPartitionOpts{Offset: position, Topic: at.Topic, KeepControlRecords: true},
			&kmsg.FetchResponseTopicPartition{RecordBatches: opened.Batches}, kgo.DefaultDecompressor(), nil)
		runtime.ReadMemStats(&after)
		if n := after.TotalAlloc - before.TotalAlloc; n > 4*intake.MinBytes {
			t.Errorf("%d bytes had %d allocated", len(batches), n)
		}
		if part.Err != nil && Undecodable(at, position, part.Err) == nil {
			t.Errorf("the client's error is not known: %v", part.Err)
		}
		for _, r := range part.Records {
			if r.Offset < position {
				t.Errorf("offset %d below position %d", r.Offset, position)
			}
			Record(r)
			if r.Attrs.IsControl() {
				control(r)
			}
		}
	})
}

// withCRCs has each batch say the right checksum, as whoever writes to a topic can.
func withCRCs(in []byte) []byte {
	out := bytes.Clone(in)
	for b := out; len(b) > 21; {
		size := int(int32(binary.BigEndian.Uint32(b[8:]))) + 12
		if size < 21 || size > len(b) {
			break
		}
		binary.BigEndian.PutUint32(b[17:], crc32.Checksum(b[21:size], crc32.MakeTable(crc32.Castagnoli)))
		b = b[size:]
	}
	return out
}

// FuzzControl: the marker of a transaction is a commit only if it says so in full.
func FuzzControl(f *testing.F) {
	f.Add([]byte{0, 0, 0, 1}, []byte{0, 0, 0, 0, 0, 7})
	f.Add([]byte{0, 0, 0, 0}, []byte{0, 0, 0, 0, 0, 7})
	f.Add([]byte{0, 0}, []byte(nil))
	f.Fuzz(func(t *testing.T, key, value []byte) {
		status, epoch := control(&kgo.Record{Key: key, Value: value})
		if status == StatusCommitMarker && (len(key) < 4 || key[2] != 0 || key[3] != 1 || len(value) < 6) {
			t.Errorf("key %x, value %x is read as a commit of coordinator epoch %d", key, value, epoch)
		}
	})
}
