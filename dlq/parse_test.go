package dlq

import (
	"encoding/binary"
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/stream"
)

// springHeaders are written as Spring does: the partition is an int, the offset a long, both as bytes.
func springHeaders(topic string, partition int32, offset int64) []stream.Header {
	return []stream.Header{
		{Key: "kafka_dlt-exception-fqcn", Value: []byte("org.springframework.kafka.listener.ListenerExecutionFailedException")},
		{Key: "kafka_dlt-exception-cause-fqcn", Value: []byte("java.lang.IllegalStateException")},
		{Key: "kafka_dlt-exception-message", Value: []byte("no amount")},
		{Key: "kafka_dlt-original-topic", Value: []byte(topic)},
		{Key: "kafka_dlt-original-partition", Value: binary.BigEndian.AppendUint32(nil, uint32(partition))},
		{Key: "kafka_dlt-original-offset", Value: binary.BigEndian.AppendUint64(nil, uint64(offset))},
		{Key: "kafka_dlt-original-timestamp", Value: binary.BigEndian.AppendUint64(nil, 1_700_000_000_123)},
		{Key: "kafka_dlt-original-timestamp-type", Value: []byte("CreateTime")},
		{Key: "kafka_dlt-original-consumer-group", Value: []byte("shop-app")},
	}
}

func connectHeaders() []stream.Header {
	return []stream.Header{
		h("__connect.errors.topic", "orders"), h("__connect.errors.partition", "3"), h("__connect.errors.offset", "42"),
		h("__connect.errors.connector.name", "sink"), h("__connect.errors.task.id", "0"), h("__connect.errors.stage", "VALUE_CONVERTER"),
		h("__connect.errors.class.name", "org.apache.kafka.connect.json.JsonConverter"),
		h("__connect.errors.exception.class.name", "org.apache.kafka.connect.errors.DataException"),
		h("__connect.errors.exception.message", "no amount"), h("__connect.errors.exception.stacktrace", "at a.b.C"),
	}
}

func streamsHeaders() []stream.Header {
	return []stream.Header{
		h("__streams.errors.exception", "java.lang.Exception"), h("__streams.errors.stacktrace", "at"), h("__streams.errors.message", "before"),
		h("__streams.errors.topic", "first"), h("__streams.errors.partition", "1"), h("__streams.errors.offset", "1"),
		h("__streams.errors.exception", "org.apache.kafka.common.errors.SerializationException"), h("__streams.errors.stacktrace", "at"),
		h("__streams.errors.message", "no amount"),
		h("__streams.errors.topic", "orders"), h("__streams.errors.partition", "3"), h("__streams.errors.offset", "42"),
	}
}

func TestParseGolden(t *testing.T) {
	t.Parallel()
	at := Origin{Topic: "orders", Partition: 3, Offset: 42}
	big := Origin{Topic: "shop", Partition: 1<<31 - 1, Offset: 1<<63 - 1}
	for _, c := range []struct {
		name    string
		headers []stream.Header
		want    Letter
	}{
		{"connect", connectHeaders(), Letter{Family: Connect, Origin: at, FailedAt: at, Reason: "no amount",
			Class: "org.apache.kafka.connect.errors.DataException", Stage: "VALUE_CONVERTER"}},
		{"connect keeps the first", append(connectHeaders(), h("__connect.errors.offset", "77")), Letter{Family: Connect, Origin: at, FailedAt: at,
			Reason: "no amount", Class: "org.apache.kafka.connect.errors.DataException", Stage: "VALUE_CONVERTER"}},
		{"streams appends", streamsHeaders(), Letter{Family: Streams, Origin: at, FailedAt: at, Reason: "no amount",
			Class: "org.apache.kafka.common.errors.SerializationException"}},
		{"spring is binary", springHeaders("orders", 3, 42), Letter{Family: Spring, Origin: at, FailedAt: at, Reason: "no amount",
			Class: "java.lang.IllegalStateException", Group: "shop-app"}},
		{"spring appends", append(append(springHeaders("first", 1, 1), springHeaders("shop", big.Partition, big.Offset)...),
			stream.Header{Key: "retry_topic-attempts", Value: []byte{0, 0, 0, 4}}), Letter{Family: Spring, Origin: big, FailedAt: big,
			Reason: "no amount", Class: "java.lang.IllegalStateException", Group: "shop-app", Attempt: 4}},
		{"spring without a cause", springHeaders("orders", 3, 42)[3:6], Letter{Family: Spring, Origin: at, FailedAt: at}},
		{"connect before spring", append(springHeaders("orders.DLT", 0, 1), connectHeaders()...), Letter{Family: Connect, Origin: at, FailedAt: at,
			Reason: "no amount", Class: "org.apache.kafka.connect.errors.DataException", Stage: "VALUE_CONVERTER"}},
		{"holdfast", []stream.Header{h("__connect.errors.topic", "orders"), h("__connect.errors.partition", "3"), h("__connect.errors.offset", "42"),
			h("dlq.topic.id", "AQAAAAAAAAAAAAAAAAAA_w"), h("dlq.failed.at", "orders/4/99"), h("dlq.reason", "r"), h("dlq.stage", "fold"),
			h("dlq.attempt", "5"), h("dlq.group", "g"), h("dlq.app.version", "v")},
			Letter{Family: Holdfast, Origin: Origin{"orders", id1, 3, 42}, FailedAt: Origin{Topic: "orders", Partition: 4, Offset: 99},
				Reason: "r", Stage: "fold", Attempt: 5, Group: "g", AppVersion: "v"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.want.Record = stream.Record{Topic: "d", Headers: c.headers}
			if got, err := Parse(c.want.Record); err != nil || !reflect.DeepEqual(got, c.want) {
				t.Errorf("got\n%+v, %v\nwant\n%+v", got, err, c.want)
			}
		})
	}
}

// replace returns hs with one header's value changed; nil removes it.
func replace(hs []stream.Header, key string, value []byte) []stream.Header {
	var out []stream.Header
	for _, x := range hs {
		if x.Key != key {
			out = append(out, x)
		} else if value != nil {
			out = append(out, stream.Header{Key: key, Value: value})
		}
	}
	return out
}

func TestParseIsStrict(t *testing.T) {
	t.Parallel()
	ours := New(input(), because(1)).Headers
	spring := springHeaders("orders", 3, 42)
	for _, c := range []struct {
		name    string
		headers []stream.Header
		family  Family
		says    string
	}{
		{"sign", replace(connectHeaders(), connectOffset, []byte("+42")), Connect, connectOffset},
		{"negative", replace(connectHeaders(), connectPartition, []byte("-1")), Connect, connectPartition},
		{"leading zero", replace(connectHeaders(), connectOffset, []byte("042")), Connect, `"042"`},
		{"space", replace(connectHeaders(), connectOffset, []byte(" 42")), Connect, connectOffset},
		{"over 31 bits", replace(connectHeaders(), connectPartition, []byte("2147483648")), Connect, connectPartition},
		{"over 63 bits", replace(connectHeaders(), connectOffset, []byte("9223372036854775808")), Connect, connectOffset},
		{"empty", replace(connectHeaders(), connectOffset, []byte{}), Connect, connectOffset},
		{"missing", replace(connectHeaders(), connectOffset, nil), Connect, "is missing"},
		{"no topic", replace(connectHeaders(), connectTopic, nil), Connect, "is missing"},
		{"topic with a slash", replace(connectHeaders(), connectTopic, []byte("a/b")), Connect, "no topic name"},
		{"topic with an escape", replace(connectHeaders(), connectTopic, []byte("\x1b[2J")), Connect, `"\x1b[2J"`},
		{"null", append(replace(connectHeaders(), connectOffset, nil), stream.Header{Key: connectOffset}), Connect, connectOffset},
		{"long", replace(connectHeaders(), connectOffset, []byte(strings.Repeat("9", 10_000))), Connect, "…"},
		{"spring as text", replace(spring, springPartition, []byte("3")), Spring, "has 1 bytes, not 4"},
		{"spring offset as int", replace(spring, springOffset, []byte{0, 0, 0, 1}), Spring, "has 4 bytes, not 8"},
		{"spring negative", springHeaders("orders", -1, 42), Spring, "is -1"},
		{"spring negative offset", springHeaders("orders", 1, -1), Spring, "is -1"},
		{"streams without offset", replace(streamsHeaders(), streamsOffset, nil), Streams, "is missing"},
		{"ours without attempt", replace(ours, HeaderAttempt, nil), Holdfast, HeaderAttempt},
		{"ours without origin", replace(ours, connectTopic, nil), Holdfast, connectTopic},
		{"ours with a bad id", replace(ours, HeaderTopicID, []byte("AQAAAAAAAAAAAAAAAAAA_x")), Holdfast, HeaderTopicID},
		{"ours with a short id", replace(ours, HeaderTopicID, []byte("AQ")), Holdfast, HeaderTopicID},
		{"ours with a bad place", append(ours[:len(ours):len(ours)], h(HeaderFailedAt, "a/1/2/3")), Holdfast, HeaderFailedAt},
		{"ours with half a place", append(ours[:len(ours):len(ours)], h(HeaderFailedAt, "a/1")), Holdfast, HeaderFailedAt},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			l, err := Parse(stream.Record{Topic: "d", Headers: c.headers})
			if !errors.Is(err, ErrMalformed) || !strings.Contains(err.Error(), c.says) || l.Family != c.family || l.Origin != (Origin{}) {
				t.Errorf("got %+v, %v", l, err)
			}
			if len(err.Error()) > 300 {
				t.Errorf("error of %d bytes", len(err.Error()))
			}
		})
	}
	for name, hs := range map[string][]stream.Header{"none": nil, "another's": {h("trace", "x")}, "like ours": {h("dlq", "x")}} {
		if l, err := Parse(stream.Record{Headers: hs}); !errors.Is(err, ErrNoFamily) || l.Family != Unknown {
			t.Errorf("%s: %+v, %v", name, l, err)
		}
	}
}

// FuzzParse gives the reader hostile headers. They come as bytes: per header a length and the key, a
// length and the value.
func FuzzParse(f *testing.F) {
	for _, hs := range [][]stream.Header{connectHeaders(), streamsHeaders(), springHeaders("orders", 3, 42), New(input(), because(1)).Headers} {
		f.Add(pack(hs))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		r := stream.Record{Topic: "d", Partition: 1, Offset: 2, Headers: unpack(data)}
		l, err := Parse(r)
		if err != nil {
			if !errors.Is(err, ErrMalformed) && !errors.Is(err, ErrNoFamily) || l.Origin != (Origin{}) {
				t.Fatalf("%+v, %v", l, err)
			}
		} else if !wire.TopicName(l.Origin.Topic) || l.Origin.Partition < 0 || l.Origin.Offset < 0 || l.Attempt < 0 {
			t.Fatalf("origin %+v, attempt %d", l.Origin, l.Attempt)
		}
		// Whatever a record carries, its letter can be read, and says where it comes from.
		again, lerr := Parse(written(New(r, because(1)), 0, 0))
		if lerr != nil || again.Family != Holdfast {
			t.Fatalf("letter: %v", lerr)
		}
		here := Origin{"d", id1, 1, 2}
		_, replayed := first(r.Headers, HeaderReplayed)
		if again.Origin != here && (!replayed || !sameTopic(again.Origin, here) || again.FailedAt.Offset != 2) {
			t.Fatalf("letter's origin %+v, record's %+v", again.Origin, l.Origin)
		}
		if m, rerr := Replay(l); (rerr == nil) != (err == nil) && !errors.Is(rerr, ErrElsewhere) && !errors.Is(rerr, ErrReduced) {
			t.Fatalf("replay: %v, parse: %v", rerr, err)
		} else if rerr == nil {
			if back, err := Parse(written(m, 0, 0)); err != nil || back.Origin != l.Origin || back.Attempt < l.Attempt {
				t.Fatalf("replayed: %+v, %v", back, err)
			}
		}
	})
}

func pack(hs []stream.Header) []byte {
	var out []byte
	for _, h := range hs {
		out = append(append(out, byte(len(h.Key))), h.Key...)
		out = append(append(out, byte(len(h.Value))), h.Value...)
	}
	return out
}

func unpack(data []byte) []stream.Header {
	take := func() []byte {
		if len(data) == 0 {
			return nil
		}
		n := min(int(data[0]), len(data)-1)
		v := data[1 : 1+n]
		data = data[1+n:]
		return v
	}
	var out []stream.Header
	for len(data) > 0 {
		key := take()
		out = append(out, stream.Header{Key: string(key), Value: take()})
	}
	return out
}
