package intake

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"net"
	"reflect"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// entry is one record as it is in the log.
func entry(delta int, value []byte, headers int) []byte {
	body := []byte{0, 0}
	body = binary.AppendVarint(body, int64(delta))
	body = append(body, 1)
	body = append(binary.AppendVarint(body, int64(len(value))), value...)
	body = append(binary.AppendVarint(body, int64(headers)), make([]byte, 2*headers)...)
	return append(binary.AppendVarint(nil, int64(len(body))), body...)
}

// logged is a batch of records as it is in the log.
func logged(tb testing.TB, first int64, codec kgo.CompressionCodec, entries ...[]byte) []byte {
	tb.Helper()
	b := kmsg.RecordBatch{
		FirstOffset: first, Magic: 2, ProducerID: 9, ProducerEpoch: 1, Attributes: 0x10, FirstTimestamp: 1e12, MaxTimestamp: 1e12,
		NumRecords: int32(len(entries)), LastOffsetDelta: int32(len(entries) - 1), Records: bytes.Join(entries, nil),
	}
	if codec != kgo.NoCompression() {
		c, err := kgo.DefaultCompressor(codec)
		if err != nil {
			tb.Fatal(err)
		}
		out, used := c.Compress(new(bytes.Buffer), b.Records)
		b.Records, b.Attributes = bytes.Clone(out), b.Attributes|int16(used)
	}
	b.Length = int32(batchHeader - beforeLength + len(b.Records))
	out := b.AppendTo(nil)
	binary.BigEndian.PutUint32(out[atCRC:], crc32.Checksum(out[atAttributes:], castagnoli))
	return out
}

// answered has a connection of a consuming client read an answer to a fetch, and returns what the client is given.
func answered(t *testing.T, b *Budget, resp *kmsg.FetchResponse) *kmsg.FetchResponse {
	t.Helper()
	near, far := net.Pipe()
	defer far.Close()
	c := NewClient(b)
	c.consumes.Store(true)
	in := c.Conn(near)
	defer in.Close()
	request := []byte{0, 0, 0, 8, 0, keyFetch, 0, byte(resp.Version), 0, 0, 0, 77}
	body := binary.BigEndian.AppendUint32(nil, 77)
	if resp.IsFlexible() {
		body = append(body, 0)
	}
	body = resp.AppendTo(body)
	go func() {
		got := make([]byte, len(request))
		_, _ = far.Read(got)
		_, _ = far.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(body))), body...))
	}()
	if _, err := in.Write(request); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	chunk := make([]byte, 4096)
	for out.Len() < 4 || out.Len() < 4+int(binary.BigEndian.Uint32(out.Bytes())) {
		n, err := in.Read(chunk)
		if err != nil {
			t.Fatal(err)
		}
		out.Write(chunk[:n])
	}
	rest := out.Bytes()[8:]
	if resp.IsFlexible() {
		rest = rest[1:]
	}
	got := kmsg.NewPtrFetchResponse()
	got.Version = resp.Version
	if err := got.ReadFrom(rest); err != nil {
		t.Fatal(err)
	}
	return got
}

func records(t *testing.T, batches []byte) []*kgo.Record {
	t.Helper()
	part, _ := kgo.ProcessFetchPartition(kgo.ProcessFetchPartitionOpts{Topic: "t", KeepControlRecords: true},
		&kmsg.FetchResponseTopicPartition{RecordBatches: batches}, kgo.DefaultDecompressor(), nil)
	if part.Err != nil {
		t.Fatal(part.Err)
	}
	return part.Records
}

// In every version of the answer all but the compression is as the broker sent it.
func TestAnswersOfEveryVersion(t *testing.T) {
	t.Parallel()
	codecs := []kgo.CompressionCodec{kgo.NoCompression(), kgo.GzipCompression(), kgo.SnappyCompression(), kgo.Lz4Compression(), kgo.ZstdCompression()}
	for version := int16(4); version <= kmsg.NewPtrFetchRequest().MaxVersion(); version++ {
		resp := kmsg.NewPtrFetchResponse()
		resp.Version, resp.ThrottleMillis, resp.SessionID = version, 5, 6
		for topic := range 2 {
			rt := kmsg.NewFetchResponseTopic()
			rt.Topic, rt.TopicID = fmt.Sprint("topic", topic), [16]byte{1, byte(topic)}
			for p := range int32(len(codecs) + 1) {
				rp := kmsg.NewFetchResponseTopicPartition()
				rp.Partition, rp.HighWatermark, rp.LastStableOffset, rp.LogStartOffset = p, 100, 90, 3
				a := kmsg.NewFetchResponseTopicPartitionAbortedTransaction()
				a.ProducerID, a.FirstOffset = 9, int64(p)
				rp.AbortedTransactions = append(rp.AbortedTransactions, a)
				rp.DivergingEpoch.Epoch, rp.DivergingEpoch.EndOffset = 2, 4
				if int(p) < len(codecs) {
					for i := range int64(3) {
						rp.RecordBatches = append(rp.RecordBatches, logged(t, 10+2*i, codecs[p], entry(0, []byte("one"), 2), entry(1, []byte("two"), 0))...)
					}
					rp.RecordBatches = append(rp.RecordBatches, 0, 0, 0, 0, 0, 0, 0, 20, 0, 0) // the next one, cut off
				}
				rt.Partitions = append(rt.Partitions, rp)
			}
			resp.Topics = append(resp.Topics, rt)
		}
		want := kmsg.NewPtrFetchResponse()
		want.Version = version
		if err := want.ReadFrom(resp.AppendTo(nil)); err != nil {
			t.Fatal(err)
		}
		got := answered(t, New(0), resp)
		for i := range want.Topics {
			for j := range want.Topics[i].Partitions {
				w, g := &want.Topics[i].Partitions[j], &got.Topics[i].Partitions[j]
				was, is := records(t, w.RecordBatches), records(t, g.RecordBatches)
				for _, r := range was {
					r.Attrs = kgo.RecordAttrs{}
				}
				for _, r := range is {
					if r.Attrs.CompressionType() != 0 || !r.Attrs.IsTransactional() {
						t.Errorf("version %d: attributes %+v", version, r.Attrs)
					}
					r.Attrs = kgo.RecordAttrs{}
				}
				if !reflect.DeepEqual(was, is) {
					t.Errorf("I2: version %d, partition %d: records %v, want %v", version, j, is, was)
				}
				w.RecordBatches, g.RecordBatches = nil, nil
			}
		}
		if !reflect.DeepEqual(want, got) {
			t.Errorf("version %d: the client is given %+v, want %+v", version, got, want)
		}
	}
}

// A record that is too large is replaced by one that says so, at its offset; what is beside it comes as it is.
func TestHeadersAreCountedBeforeTheyAreAllocated(t *testing.T) {
	t.Parallel()
	b := New(MinBytes)
	o := b.open(logged(t, 10, kgo.ZstdCompression(), entry(0, []byte("a"), 0), entry(1, nil, 1_000_000), entry(2, []byte("c"), 3)))
	if o.cost > b.MaxBatch() {
		t.Fatalf("I7: the batch costs %d, over the bound of %d", o.cost, b.MaxBatch())
	}
	rs := records(t, bytes.Join(o.parts, nil))
	if len(rs) != 3 || string(rs[0].Value) != "a" || string(rs[2].Value) != "c" || len(rs[2].Headers) != 3 {
		t.Fatalf("I2: %d records come of three", len(rs))
	}
	refusal, ok := Refused(rs[1])
	if !ok || refusal.Offset != 11 || refusal.First != 11 || refusal.Headers != 1_000_000 || refusal.Whole || !rs[1].Timestamp.Equal(rs[0].Timestamp) {
		t.Errorf("I2: the second record is %+v, with %d headers", refusal, len(rs[1].Headers))
	}
}

// A batch that cannot be opened is one record at its last offset, so that a read from its middle meets it as well.
func TestBatchThatCannotBeOpened(t *testing.T) {
	t.Parallel()
	b := New(MinBytes)
	large := make([]byte, 3<<20)
	for _, codec := range []kgo.CompressionCodec{kgo.NoCompression(), kgo.GzipCompression(), kgo.SnappyCompression(), kgo.Lz4Compression(), kgo.ZstdCompression()} {
		resp := kmsg.NewPtrFetchResponse()
		resp.Version = 12
		rt, rp := kmsg.NewFetchResponseTopic(), kmsg.NewFetchResponseTopicPartition()
		rp.RecordBatches = append(logged(t, 10, codec, entry(0, large, 0), entry(1, large, 0)), logged(t, 12, codec, entry(0, large, 0))...)
		rt.Partitions = append(rt.Partitions, rp)
		resp.Topics = append(resp.Topics, rt)
		rs := records(t, answered(t, b, resp).Topics[0].Partitions[0].RecordBatches)
		if len(rs) != 2 || rs[0].Offset != 11 || rs[1].Offset != 12 {
			t.Fatalf("I2: %v: %d records", codec, len(rs))
		}
		refusal, ok := Refused(rs[0])
		if _, too := Refused(rs[1]); !ok || too || !refusal.Whole || refusal.First != 10 || refusal.Records != 2 {
			t.Errorf("I2: %v: %+v", codec, refusal)
		}
	}
}

// What is held is bounded: an answer ends before the batch that there is no room for, and the batch comes when there is.
func TestAnswerEndsWhereThereIsNoRoom(t *testing.T) {
	t.Parallel()
	b := New(MinBytes)
	resp := kmsg.NewPtrFetchResponse()
	resp.Version = 12
	rt, rp := kmsg.NewFetchResponseTopic(), kmsg.NewFetchResponseTopicPartition()
	for i := range int64(3) {
		rp.RecordBatches = append(rp.RecordBatches, logged(t, i, kgo.ZstdCompression(), entry(0, make([]byte, 3<<20), 0))...)
	}
	rt.Partitions = append(rt.Partitions, rp)
	resp.Topics = append(resp.Topics, rt)
	if rs := records(t, answered(t, b, resp).Topics[0].Partitions[0].RecordBatches); len(rs) != 1 {
		t.Errorf("I7: %d records of 3 MiB come, where 4 MiB may be held", len(rs))
	}
	b.Hold(2 << 20)
	if rs := records(t, answered(t, b, resp).Topics[0].Partitions[0].RecordBatches); len(rs) != 0 {
		t.Errorf("I7: %d records of 3 MiB come, where 2 MiB are free", len(rs))
	}
	b.Release(2 << 20)
	if held := b.Held(); held != 0 {
		t.Errorf("%d bytes are held by nobody", held)
	}
}

// What ends before it is an answer goes to the client as it came: it tells an alert of TLS from a broker that is gone.
func TestWhatIsNoAnswerIsHandedOn(t *testing.T) {
	t.Parallel()
	near, far := net.Pipe()
	in := NewClient(New(0)).Conn(near)
	defer in.Close()
	alert := []byte{0x15, 3, 3, 0, 2, 2, 10}
	go func() {
		_, _ = far.Write(alert)
		_ = far.Close()
	}()
	got, err := io.ReadAll(in)
	if err != nil || !bytes.Equal(got, alert) {
		t.Errorf("read %x, %v, want %x and the end", got, err, alert)
	}
}
