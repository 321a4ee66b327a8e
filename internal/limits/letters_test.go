package limits

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"math"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/dlq"
	"github.com/holdfast-go/holdfast/internal/kafkatest"
	"github.com/holdfast-go/holdfast/kafka"
	"github.com/holdfast-go/holdfast/pipe"
	"github.com/holdfast-go/holdfast/stream"
)

// anyTime is a limit of timestamps that bounds nothing.
var anyTime = strconv.FormatInt(math.MaxInt64, 10)

// stamped writes a record with a timestamp that the client cannot write: any number.
func (b *bench) stamped(topic string, ms int64, value string) {
	b.t.Helper()
	r := kmsg.Record{Key: []byte("k"), Value: []byte(value)}
	r.Length = int32(len(r.AppendTo(nil)) - 1)
	batch := kmsg.RecordBatch{Magic: 2, PartitionLeaderEpoch: -1, FirstTimestamp: ms, MaxTimestamp: ms, ProducerID: -1, ProducerEpoch: -1,
		FirstSequence: -1, NumRecords: 1, Records: r.AppendTo(nil)}
	raw := batch.AppendTo(nil)
	batch.Length = int32(len(raw) - 12)
	raw = batch.AppendTo(nil)
	binary.BigEndian.PutUint32(raw[17:], crc32.Checksum(raw[21:], crc32.MakeTable(crc32.Castagnoli)))
	req := kmsg.NewPtrProduceRequest()
	req.Acks, req.TimeoutMillis = -1, 10_000
	rt := kmsg.NewProduceRequestTopic()
	rt.Topic = topic
	shapes, err := b.admin.ListTopics(b.t.Context(), topic)
	if err != nil {
		b.t.Fatal(err)
	}
	rt.TopicID = shapes[topic].ID
	rp := kmsg.NewProduceRequestTopicPartition()
	rp.Records = raw
	rt.Partitions = append(rt.Partitions, rp)
	req.Topics = append(req.Topics, rt)
	resp, err := req.RequestWith(b.t.Context(), b.cl.Broker(int(shapes[topic].Partitions[0].Leader)))
	if err == nil {
		err = kerr.ErrorForCode(resp.Topics[0].Partitions[0].ErrorCode)
	}
	if err != nil {
		b.t.Fatal(err)
	}
}

// wantLetter asserts where a letter comes from, what it has not, and what its record's timestamp was.
func wantLetter(t *testing.T, r stream.Record, offset int64, changed string, ms int64) {
	t.Helper()
	l, err := dlq.Parse(r)
	if err != nil || l.Origin.Offset != offset || l.Changed != changed || l.Timestamp.UnixMilli() != ms {
		t.Errorf("I4: letter of %v, changed %q, timestamp %d, %v; want offset %d, %q, %d", l.Origin, l.Changed, l.Timestamp.UnixMilli(), err, offset, changed, ms)
	}
	if strings.Contains(changed, "timestamp") && time.Since(r.Timestamp).Abs() > time.Hour {
		t.Errorf("I4: the letter of offset %d is stamped %v", offset, r.Timestamp)
	}
}

// A dead-letter topic as it is by default takes no letter as far ahead, as long ago or as large as its record was: the
// letter is written all the same, and says what it has not.
func TestKafkaLetterIsTaken(t *testing.T) {
	k := kafkatest.Start(t)
	for _, g := range guarantees {
		t.Run(g.String(), func(t *testing.T) {
			t.Parallel()
			b := newBench(t, kafka.Config{Brokers: k.Addrs}, fencedState)
			b.input = k.CreateTopic(t, b.group+"-any", 1, map[string]string{"message.timestamp.after.max.ms": anyTime, "max.message.bytes": "5000000"})
			dead := k.CreateTopic(t, b.group+"-dead", 1, map[string]string{"message.timestamp.before.max.ms": "86400000"})
			now := time.Now().UnixMilli()
			const micros, year = 1_700_000_000_123_456, 365 * 24 * 3_600_000
			times := []int64{now + 7_200_000, now - year, micros, -1, -micros, math.MaxInt32}
			for _, ms := range times {
				b.stamped(b.input, ms, "bad")
			}
			b.write(&kgo.Record{Topic: b.input, Key: []byte("k"), Value: make([]byte, 2_000_000)},
				&kgo.Record{Topic: b.input, Key: make([]byte, 2_000_000), Value: []byte("bad")},
				&kgo.Record{Topic: b.input, Key: []byte("k"), Value: []byte("bad"), Headers: []kgo.RecordHeader{{Key: "h", Value: make([]byte, 2_000_000)}, {Key: "holdfast", Value: []byte{1, 0}}}})
			c := b.counting(g, dead)
			count := c.Fold
			c.Fold = func(ctx context.Context, k *holdfast.Key[int], r stream.Record) error {
				if len(r.Value) > 1000 {
					return errors.New("too much")
				}
				return count(ctx, k, r)
			}
			until(b, c, 9)
			letters := b.visible(dead)
			if len(letters) != 9 {
				t.Fatalf("I4: %d letters, want 9", len(letters))
			}
			for i, ms := range times {
				changed := "timestamp"
				if ms == -1 {
					changed = ""
				}
				wantLetter(t, letters[i], int64(i), changed, ms)
				if !bytes.Equal(letters[i].Value, []byte("bad")) {
					t.Errorf("I4: the letter of offset %d has value %q", i, letters[i].Value)
				}
			}
			for i, changed := range map[int]string{6: "value", 7: "value,headers,key", 8: "value,headers,reserved headers"} {
				wantLetter(t, letters[i], int64(i), changed, letters[i].Timestamp.UnixMilli())
			}
		})
	}
}

// The dead-letter topic's limits are lowered under a flow that knows the earlier ones: what the brokers refuse is
// written again with less, and nothing else is held up or lost.
func TestKafkaLetterIsRefusedOnceMore(t *testing.T) {
	k := kafkatest.Start(t)
	for _, g := range guarantees {
		t.Run(g.String(), func(t *testing.T) {
			t.Parallel()
			b := newBench(t, kafka.Config{Brokers: k.Addrs, Opts: []kgo.Opt{kgo.ProducerBatchCompression(kgo.NoCompression())}}, fencedState)
			dead := k.CreateTopic(t, b.group+"-dead", 1, map[string]string{"max.message.bytes": "20000000"})
			b.sendAtOnce(1, "1")
			old := time.Now().Add(-2 * time.Hour).Truncate(time.Millisecond)
			c, lowered := b.counting(g, dead), false
			c.Hooks = append(c.Hooks, holdfast.Hooks{Committed: func(e stream.Committed) {
				if e.Next >= 1 && !lowered {
					lowered = true
					b.alter(dead, "message.timestamp.before.max.ms", "3600000", &kgo.Record{Topic: dead, Timestamp: old})
					b.alter(dead, "max.message.bytes", "2000", &kgo.Record{Topic: dead, Value: make([]byte, 2000)})
					b.sendAtOnce(2, "bad")
					b.write(&kgo.Record{Topic: b.input, Key: []byte("k"), Value: []byte("bad"), Timestamp: old},
						&kgo.Record{Topic: b.input, Key: []byte("k"), Value: []byte("bad"), Timestamp: old, Headers: []kgo.RecordHeader{{Key: "h", Value: b.numbered(0, 0)}, {Key: "n", Value: make([]byte, 5000)}}})
					b.sendAtOnce(2, "bad")
				}
			}})
			until(b, c, 7)
			letters := b.visible(dead)
			if len(letters) != 6 {
				t.Fatalf("I4: %d letters, want 6", len(letters))
			}
			for i, changed := range []string{"", "", "timestamp", "timestamp,value,headers,key", "", ""} {
				ms := letters[i].Timestamp.UnixMilli()
				if changed != "" {
					ms = old.UnixMilli()
				}
				wantLetter(t, letters[i], int64(i+1), changed, ms)
			}
		})
	}
}

// A pipe that forwards a record whose timestamp cannot be written fails that record by name, and writes all others as
// they are.
func TestKafkaForwardedTimes(t *testing.T) {
	k := kafkatest.Start(t)
	b := newBench(t, kafka.Config{Brokers: k.Addrs}, isPipe)
	b.input = k.CreateTopic(t, b.group+"-any", 1, map[string]string{"message.timestamp.after.max.ms": anyTime})
	b.output = k.CreateTopic(t, b.group+"-any-out", 1, map[string]string{"message.timestamp.after.max.ms": anyTime})
	dead := k.CreateTopic(t, b.group+"-dead", 1, nil)
	times := []int64{0, -1, 1, -7_000_000_000_000, 9_000_000_000_000, -62_135_596_800_000, 1_700_000_000_123_456, 2}
	for _, ms := range times {
		b.stamped(b.input, ms, "v")
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var failures []string
	p, err := pipe.New(pipe.Config{
		Kafka: b.kafka, Group: b.group, Inputs: []string{b.input}, Outputs: []string{b.output}, Create: &holdfast.TopicConfig{}, Member: b.member(),
		Func: func(_ context.Context, _ stream.Record, out *pipe.Out) error { out.Forward(b.output); return nil },
		OnError: func(_ context.Context, e *stream.RecordError) stream.Action {
			failures = append(failures, e.Err.Error())
			return stream.DeadLetter
		},
		DeadLetters: &dlq.Policy{Topic: dead},
		Hooks: []holdfast.Hooks{{Committed: func(e stream.Committed) {
			if e.Next >= int64(len(times)) {
				cancel()
			}
		}}},
	})
	if err == nil {
		err = p.Run(ctx)
	}
	if err != nil {
		t.Fatal(err)
	}
	if text := strings.Join(failures, "\n"); len(failures) != 2 || !strings.Contains(text, "-62135596800000 ms") || !strings.Contains(text, "1700000000123456 ms") {
		t.Errorf("failures %q, want two that name their timestamps", failures)
	}
	var got []int64
	for _, r := range b.visible(b.output) {
		got = append(got, r.Timestamp.UnixMilli())
	}
	if want := append(append([]int64{}, times[:5]...), 2); len(got) != len(want) || !equal(got, want) {
		t.Errorf("timestamps %d, want %d", got, want)
	}
	for i, r := range b.visible(dead) {
		wantLetter(t, r, int64(5+i), "timestamp", times[5+i])
	}
}

func equal(a, b []int64) bool {
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}

// The largest record that the client writes to a topic is written, though it be the first; one byte more is too large,
// and no broker is asked.
func TestKafkaLargestOutput(t *testing.T) {
	k := kafkatest.Start(t)
	for _, g := range guarantees {
		for _, limit := range []int{1000, 100_000, 1_048_588} {
			t.Run(g.String()+"/"+strconv.Itoa(limit), func(t *testing.T) {
				t.Parallel()
				b := newBench(t, kafka.Config{Brokers: k.Addrs, Opts: []kgo.Opt{kgo.ProducerBatchCompression(kgo.NoCompression())}}, fencedState)
				b.output = k.CreateTopic(t, b.group+"-exact", 1, map[string]string{"max.message.bytes": strconv.Itoa(limit)})
				b.sendAtOnce(2, "1")
				c := b.many(g, 1)
				c.Fold = func(_ context.Context, k *holdfast.Key[int], r stream.Record) error {
					k.Set(1)
					m := stream.Message{Topic: b.output, Key: []byte("k"), Headers: []stream.Header{{Key: "a"}, {Key: "b", Value: []byte{}}}}
					most := int(stream.MaxBatchBytes(limit))
					m.Value = make([]byte, most-int(m.BatchBytes())-8)
					m.Value = make([]byte, len(m.Value)+most-int(m.BatchBytes())+int(r.Offset))
					k.Emit(m)
					return nil
				}
				err := ended(b, c)
				located(t, err, stream.ErrTooLarge, b.input, 1, strconv.Itoa(int(stream.MaxBatchBytes(limit))+1)+" bytes")
				if got := b.visible(b.output); len(got) != 1 {
					t.Errorf("%d outputs, want the largest one that a topic of %d bytes takes", len(got), limit)
				}
			})
		}
	}
}
