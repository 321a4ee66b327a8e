package attack

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const mib = 1 << 20

// zeros is a value of that many bytes in a record of its own.
func zeros(n int) []byte { return record(0, nil, make([]byte, n), 0) }

// headers is a record with that many empty headers.
func headers(n int) []byte { return record(0, []byte("k"), nil, n) }

// record is one record of a batch as it is in the log.
func record(delta int, key, value []byte, headers int) []byte {
	body := []byte{0, 0}
	body = binary.AppendVarint(body, int64(delta))
	if key == nil {
		body = append(body, 1)
	} else {
		body = append(binary.AppendVarint(body, int64(len(key))), key...)
	}
	body = append(binary.AppendVarint(body, int64(len(value))), value...)
	body = append(binary.AppendVarint(body, int64(headers)), make([]byte, 2*headers)...)
	return append(binary.AppendVarint(nil, int64(len(body))), body...)
}

// batch is a batch of records, compressed.
func batch(tb testing.TB, codec kgo.CompressionCodec, count int, records []byte) []byte {
	tb.Helper()
	b := kmsg.RecordBatch{
		Magic: 2, ProducerID: -1, ProducerEpoch: -1, FirstSequence: -1, PartitionLeaderEpoch: -1,
		NumRecords: int32(count), LastOffsetDelta: int32(count - 1), FirstTimestamp: 1_700_000_000_000, MaxTimestamp: 1_700_000_000_000,
		Records: records,
	}
	if codec != kgo.NoCompression() {
		c, err := kgo.DefaultCompressor(codec)
		if err != nil {
			tb.Fatal(err)
		}
		out, used := c.Compress(new(bytes.Buffer), records)
		b.Records, b.Attributes = bytes.Clone(out), int16(used)
	}
	b.Length = int32(49 + len(b.Records))
	out := b.AppendTo(nil)
	binary.BigEndian.PutUint32(out[17:], crc32.Checksum(out[21:], crc32.MakeTable(crc32.Castagnoli)))
	return out
}

// write has the broker take a batch as it is.
func write(tb testing.TB, cl *kgo.Client, topic string, id [16]byte, partition int32, batch []byte) {
	tb.Helper()
	req := kmsg.NewPtrProduceRequest()
	req.Acks, req.TimeoutMillis = -1, 60_000
	rt := kmsg.NewProduceRequestTopic()
	rt.Topic, rt.TopicID = topic, id
	rp := kmsg.NewProduceRequestTopicPartition()
	rp.Partition, rp.Records = partition, batch
	rt.Partitions = append(rt.Partitions, rp)
	req.Topics = append(req.Topics, rt)
	resp, err := req.RequestWith(tb.Context(), cl)
	if err == nil {
		err = kerr.ErrorForCode(resp.Topics[0].Partitions[0].ErrorCode)
	}
	if err != nil {
		tb.Fatalf("the broker does not take a batch of %d bytes: %v", len(batch), err)
	}
}
