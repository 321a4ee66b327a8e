package wire

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/holdfast-go/holdfast/internal/intake"
	"github.com/holdfast-go/holdfast/stream"
)

// batchOf is a record batch of one record at offset 7, with records as its payload.
func batchOf(change func(*kmsg.RecordBatch)) []byte {
	b := kmsg.RecordBatch{
		FirstOffset: 7, Magic: 2, ProducerID: -1, ProducerEpoch: -1, FirstSequence: -1, NumRecords: 1,
		Records: []byte{14, 0, 0, 0, 1, 2, 'v', 0}, // length 7, no attributes, deltas 0, no key, a value of one byte, no headers
	}
	change(&b)
	b.Length = int32(49 + len(b.Records))
	out := b.AppendTo(nil)
	binary.BigEndian.PutUint32(out[17:], crc32.Checksum(out[21:], crc32.MakeTable(crc32.Castagnoli)))
	return out
}

// Every error that the client has for a batch that it cannot take apart is one that stops a reader, with
// the place. The texts are the client's: a later version that words them anew is noticed here.
func TestUndecodable(t *testing.T) {
	t.Parallel()
	at := stream.Partition{Topic: "t", Partition: 3}
	plain := func(*kmsg.RecordBatch) {}
	for _, c := range []struct {
		name  string
		bytes []byte
		says  string
	}{
		{"crc", flip(batchOf(plain), 60), "encoded crc"},
		{"unknown format", flip(batchOf(plain), 16), "unknown magic"},
		{"negative count", batchOf(func(b *kmsg.RecordBatch) { b.NumRecords = -1 }), "negative record count"},
		{"records of no bytes", batchOf(func(b *kmsg.RecordBatch) { b.Records = nil }), "no record bytes"},
		{"not compressed as it says", batchOf(func(b *kmsg.RecordBatch) { b.Attributes = 4 }), "unable to decompress"},
		{"unknown compression", batchOf(func(b *kmsg.RecordBatch) { b.Attributes = 7 }), "unable to decompress"},
	} {
		part, _ := kgo.ProcessFetchPartition(kgo.ProcessFetchPartitionOpts{Offset: 7, Topic: at.Topic, Partition: at.Partition},
			&kmsg.FetchResponseTopicPartition{Partition: 3, RecordBatches: c.bytes}, kgo.DefaultDecompressor(), nil)
		err := Undecodable(at, 7, part.Err)
		var where *stream.Error
		if !errors.As(err, &where) || where.Topic != "t" || where.Partition != 3 || where.Offset != 7 || where.Hint == "" || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: the client says %v, which is told as %v", c.name, part.Err, err)
		}
	}
	for _, err := range []error{nil, io.EOF, context.Canceled, kerr.NotLeaderForPartition, kerr.OffsetOutOfRange, &kgo.ErrDataLoss{}} {
		if got := Undecodable(at, 7, err); got != nil {
			t.Errorf("%v is told as %v", err, got)
		}
	}
}

func flip(b []byte, at int) []byte {
	b[at] ^= 0xff
	return b
}

// bombBudget lets a batch of 16 MiB in.
const bombBudget = 64 << 20

// bombs is a fake cluster with a topic of one partition, and a client that writes to it batches of one
// record each, which compress to next to nothing.
func bombs(t *testing.T, sizes ...int) *kgo.Client {
	t.Helper()
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "state"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	cl, err := kgo.NewClient(kgo.SeedBrokers(c.ListenAddrs()...), kgo.DefaultProduceTopic("state"), kgo.WithHooks(intake.NewClient(intake.New(bombBudget))),
		kgo.ProducerBatchCompression(kgo.ZstdCompression()), kgo.ProducerBatchMaxBytes(1<<30-1), kgo.BrokerMaxWriteBytes(1<<30))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	for _, n := range sizes {
		if err := cl.ProduceSync(t.Context(), &kgo.Record{Value: make([]byte, n)}).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	return cl
}

// A batch that decompresses to more than the client allows ends a read with its place and what to do. The
// records before it are handed over, and the position is its own: nothing is passed over.
func TestDecompressionBombIsNamed(t *testing.T) {
	t.Parallel()
	cl := bombs(t, 10, 10, 17<<20, 10)
	var read []int64
	position, err := Log{Client: cl, Topic: "state"}.Read(within(t, time.Minute), ReadOptions{To: 4}, func(r *kgo.Record) error {
		read = append(read, r.Offset)
		return nil
	})
	var where *stream.Error
	if !errors.Is(err, stream.ErrTooLarge) || !errors.As(err, &where) || where.Topic != "state" || where.Partition != 0 || where.Offset != 2 ||
		!strings.Contains(where.Hint, "FetchBudget") {
		t.Errorf("the read ended with %v", err)
	}
	if position != 2 || len(read) != 2 {
		t.Errorf("read %v, position %d, want the two records before the batch", read, position)
	}
}

// Batches that are each within the client's bound are not decompressed all at once because one fetch has
// them all: together they are 288 MiB, of less than 100 kB in the log.
func TestManyBatchesAreNotDecompressedAtOnce(t *testing.T) {
	var sizes []int
	for range 24 {
		sizes = append(sizes, 12<<20)
	}
	cl := bombs(t, sizes...)
	runtime.GC()
	var peak, at runtime.MemStats
	runtime.ReadMemStats(&at)
	base, seen := at.HeapAlloc, int64(0)
	_, err := Log{Client: cl, Topic: "state"}.Read(within(t, time.Minute), ReadOptions{To: 24}, func(r *kgo.Record) error {
		if r.Offset != seen || !bytes.Equal(r.Value[:1], []byte{0}) {
			t.Errorf("offset %d, want %d", r.Offset, seen)
		}
		seen++
		runtime.GC() // what is left is held, and not garbage
		runtime.ReadMemStats(&at)
		if at.HeapAlloc > peak.HeapAlloc {
			peak = at
		}
		return nil
	})
	const most = bombBudget // half of it is for what is copied on the way
	if held := int64(peak.HeapAlloc) - int64(base); err != nil || seen != 24 || held > most {
		t.Errorf("read %d records holding up to %d MiB, %v; want 24 with at most %d MiB", seen, held>>20, err, most>>20)
	}
}
