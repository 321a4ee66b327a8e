package dlq

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/holdfast-go/holdfast/stream"
)

var (
	id1 = [16]byte{0: 1, 15: 255}
	at0 = time.UnixMilli(1_700_000_000_123)
)

func h(key, value string) stream.Header { return stream.Header{Key: key, Value: []byte(value)} }

func input(hs ...stream.Header) stream.Record {
	return stream.Record{Topic: "orders", Partition: 3, Offset: 42, Timestamp: at0, Key: []byte("k"), Value: []byte("v"), Headers: hs}
}

func because(attempt int) Cause {
	return Cause{Topic: "orders.dlq", TopicID: id1, Err: stream.NewError("fold", fmt.Errorf("%w: no amount", errBad)),
		Stage: "fold", Attempt: attempt, Group: "ledger", AppVersion: "v7"}
}

// written is the record that m becomes in its topic.
func written(m stream.Message, partition int32, offset int64) stream.Record {
	return stream.Record{Topic: m.Topic, Partition: partition, Offset: offset, Timestamp: m.Timestamp, Key: m.Key, Value: m.Value, Headers: m.Headers}
}

func TestNewGolden(t *testing.T) {
	t.Parallel()
	m := New(input(h("trace", "x"), stream.Header{Key: "nil"}, stream.Header{Key: "empty", Value: []byte{}}, h("trace", "y")), because(2))
	want := stream.Message{Topic: "orders.dlq", Key: []byte("k"), Value: []byte("v"), Timestamp: at0, Headers: []stream.Header{
		h("trace", "x"), {Key: "nil"}, {Key: "empty", Value: []byte{}}, h("trace", "y"),
		h("__connect.errors.topic", "orders"), h("__connect.errors.partition", "3"), h("__connect.errors.offset", "42"),
		h("__connect.errors.exception.class.name", "errors.errorString"),
		h("__connect.errors.exception.message", "fold: bad payload: no amount"),
		h("dlq.topic.id", "AQAAAAAAAAAAAAAAAAAA_w"), h("dlq.reason", "fold: bad payload: no amount"),
		h("dlq.stage", "fold"), h("dlq.attempt", "2"), h("dlq.group", "ledger"), h("dlq.app.version", "v7"),
	}}
	if !reflect.DeepEqual(m, want) {
		t.Errorf("got\n%q\nwant\n%q", m, want)
	}
}

func TestNewKeepsNilAndEmptyApart(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name       string
		key, value []byte
	}{{"nil", nil, nil}, {"empty", []byte{}, []byte{}}} {
		r := input()
		r.Key, r.Value = c.key, c.value
		m := New(r, Cause{Topic: "d"})
		if (m.Key == nil) != (c.key == nil) || (m.Value == nil) != (c.value == nil) || len(m.Key)+len(m.Value) != 0 {
			t.Errorf("%s: got %#v, %#v", c.name, m.Key, m.Value)
		}
	}
}

func TestNewWithNothingKnown(t *testing.T) {
	t.Parallel()
	l, err := Parse(written(New(input(), Cause{Topic: "d"}), 0, 0))
	if err != nil || l.Reason != "no reason was given" || l.Attempt != 1 || l.Origin != (Origin{Topic: "orders", Partition: 3, Offset: 42}) ||
		l.Class != "" || l.Group != "" || l.Stage != "" {
		t.Errorf("got %+v, %v", l, err)
	}
}

func TestFirstOriginIsKeptAndAttemptsCount(t *testing.T) {
	t.Parallel()
	first := Origin{Topic: "orders", TopicID: id1, Partition: 3, Offset: 42}
	letter := written(New(input(), because(3)), 1, 7)
	parsed, err := Parse(letter)
	if err != nil || parsed.Origin != first || parsed.FailedAt != first || parsed.Attempt != 3 {
		t.Fatalf("letter: %+v, %v", parsed, err)
	}
	again, err := Replay(parsed)
	if err != nil {
		t.Fatal(err)
	}
	if again.Topic != "orders" {
		t.Errorf("replayed to %s", again.Topic)
	}
	replayed := written(again, 3, 99)
	if l, err := Parse(replayed); err != nil || l.Attempt != 4 || l.Origin != first {
		t.Errorf("replayed: %+v, %v", l, err)
	}
	if v, _ := last(replayed.Headers, HeaderReplayed); string(v) != "orders.dlq/1/7" {
		t.Errorf("replayed from %q", v)
	}

	// The replay has counted the attempt that it asks for, so failing once leaves the number.
	c := because(1)
	c.Err, c.Group, c.AppVersion = errors.New("still bad"), "", "v8"
	for failures, want := range map[int]int{1: 4, 2: 5} {
		c.Attempt = failures
		l, err := Parse(written(New(replayed, c), 1, 8))
		if err != nil || l.Attempt != want || l.Origin != first || l.FailedAt != (Origin{Topic: "orders", Partition: 3, Offset: 99}) ||
			l.Reason != "still bad" || l.AppVersion != "v8" || l.Group != "" {
			t.Errorf("failed %d times after a replay: %+v, %v", failures, l, err)
		}
		if _, ok := last(l.Record.Headers, HeaderReplayed); ok {
			t.Error("a letter claims to be a replayed record")
		}
	}

	// Read from the dead-letter topic itself, it is a record of that topic.
	c = because(1)
	c.TopicID = [16]byte{2}
	l, err := Parse(written(New(letter, c), 0, 0))
	if here := (Origin{Topic: "orders.dlq", TopicID: c.TopicID, Partition: 1, Offset: 7}); err != nil || l.Attempt != 1 || l.Origin != here || l.FailedAt != here {
		t.Errorf("letter of a letter: %+v, %v", l, err)
	}
}

func TestNewHeadersAreThereOnce(t *testing.T) {
	t.Parallel()
	r := written(New(input(h("mine", "1")), because(1)), 0, 0)
	for range 5 {
		r = written(New(r, because(1)), 0, 0)
	}
	seen := map[string]int{}
	for _, h := range r.Headers {
		if seen[h.Key]++; seen[h.Key] > 1 {
			t.Errorf("header %s is there %d times", h.Key, seen[h.Key])
		}
	}
	if seen["mine"] != 1 {
		t.Error("the record's own header is gone")
	}
}

func TestOverheadIsBounded(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("ä\xff", 100_000)
	r := input()
	r.Topic, r.Partition, r.Offset = strings.Repeat("t", 249), math.MaxInt32, math.MaxInt64
	r.Headers = []stream.Header{{Key: stream.SnapshotHeader}}
	// The longest case is a record that was dead-lettered before.
	first := because(1)
	first.Topic = strings.Repeat("d", 249)
	r = written(replayed(t, written(New(r, first), math.MaxInt32, math.MaxInt64)), math.MaxInt32, math.MaxInt64-1)
	for i := range r.Headers {
		if r.Headers[i].Key == HeaderAttempt {
			r.Headers[i].Value = []byte("2147483647")
		}
	}
	r.Headers = append(r.Headers, stream.Header{Key: stream.SnapshotHeader})
	m := New(r, Cause{Topic: "d", TopicID: id1, Now: time.UnixMilli(math.MinInt64), Without: Payload, Err: errors.New(long + stream.StackMark + long), Stage: long, Attempt: math.MaxInt, Group: long, AppVersion: long})
	size := 0
	for _, h := range m.Headers {
		size += len(h.Key) + len(h.Value) + 10
		if !utf8.Valid(h.Value) {
			t.Errorf("header %s is not UTF-8", h.Key)
		}
	}
	if size > MaxOverhead {
		t.Errorf("%d bytes of headers, and MaxOverhead is %d", size, MaxOverhead)
	}
	l, err := Parse(written(m, 0, 0))
	if err != nil || l.Attempt != MaxAttempt || l.FailedAt == l.Origin || len(l.Reason) > MaxReason || !strings.HasSuffix(l.Reason, "…") {
		t.Errorf("got attempt %d, reason of %d bytes, %v", l.Attempt, len(l.Reason), err)
	}
}

func TestStackIsLeftOut(t *testing.T) {
	t.Parallel()
	m := New(input(), Cause{Topic: "d", Err: errors.New("panic: boom" + stream.StackMark + "goroutine 1"), Panicked: true})
	l, err := Parse(written(m, 0, 0))
	if err != nil || l.Reason != "panic: boom" || l.Class != "panic" {
		t.Errorf("got %+v, %v", l, err)
	}
}

func TestPartitionFor(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ origin, partitions, want int32 }{
		{0, 1, 0}, {5, 1, 0}, {5, 3, 2}, {2, 3, 2}, {5, 0, 0}, {-1, 3, 0},
	} {
		if got := PartitionFor(c.origin, c.partitions); got != c.want {
			t.Errorf("%+v: got %d", c, got)
		}
	}
}

// A letter does not inherit what its topic refuses its record for, and says what it has changed.
func TestLetterIsTaken(t *testing.T) {
	t.Parallel()
	now := at0.Add(time.Hour)
	big := func(n int) []byte { return make([]byte, n) }
	for name, c := range map[string]struct {
		change  func(*stream.Record, *Cause)
		at      time.Time // of the letter; zero: of the record
		changed string
	}{
		"as it is":                    {change: func(*stream.Record, *Cause) {}},
		"within the limits":           {change: func(_ *stream.Record, c *Cause) { c.Takes = Takes{Before: time.Hour, After: 1} }},
		"behind the limits":           {func(_ *stream.Record, c *Cause) { c.Takes = Takes{Before: time.Hour - 1} }, now, "timestamp"},
		"ahead of the limits":         {func(r *stream.Record, c *Cause) { r.Timestamp, c.Takes = now.Add(2*time.Millisecond), Takes{After: 1} }, now, "timestamp"},
		"no timestamp":                {change: func(r *stream.Record, c *Cause) { r.Timestamp, c.Takes = time.UnixMilli(-1), Takes{Before: 1} }},
		"no time that can be carried": {func(r *stream.Record, _ *Cause) { r.Timestamp = time.UnixMilli(1_700_000_000_123_000) }, now, "timestamp"},
		"the time was refused":        {func(_ *stream.Record, c *Cause) { c.Without = Timestamp }, now, "timestamp"},
		"times of the topic":          {func(_ *stream.Record, c *Cause) { c.Takes.AppendTime = true }, at0, "timestamp"},
		"the reason is too much":      {change: func(_ *stream.Record, c *Cause) { c.Err, c.Takes.Bytes = errors.New(strings.Repeat("r", 1000)), 1500 }},
		"the value is too much":       {change: func(r *stream.Record, c *Cause) { r.Value, c.Takes.Bytes = big(5000), 1500 }, changed: "value"},
		"the headers are too much": {change: func(r *stream.Record, c *Cause) {
			r.Headers, c.Takes.Bytes = []stream.Header{{Key: "h", Value: big(5000)}}, 1500
		}, changed: "value,headers"},
		"the key is too much":     {change: func(r *stream.Record, c *Cause) { r.Key, c.Takes.Bytes = big(5000), 1500 }, changed: "value,headers,key"},
		"the record was refused":  {func(_ *stream.Record, c *Cause) { c.Without = Payload }, now, "timestamp,value,headers,key"},
		"the header of snapshots": {change: func(r *stream.Record, _ *Cause) { r.Headers = []stream.Header{h("holdfast", "x"), h("a", "b")} }, changed: "reserved headers"},
	} {
		r, cause := input(h("mine", "1")), because(1)
		cause.Now = now
		c.change(&r, &cause)
		m := New(r, cause)
		want := c.at
		if want.IsZero() {
			want = r.Timestamp
		}
		l, err := Parse(written(m, 0, 0))
		if err != nil || !m.Timestamp.Equal(want) || !l.Timestamp.Equal(r.Timestamp) || l.Changed != c.changed || !l.WrittenAt.Equal(now) {
			t.Errorf("I4: %s: %v, timestamp %v, told %v, changed %q", name, err, m.Timestamp, l.Timestamp, l.Changed)
		}
		if limit := cause.Takes.Bytes; limit > 0 && m.BatchBytes() > int64(limit) {
			t.Errorf("%s: %d bytes for a topic that takes %d", name, m.BatchBytes(), limit)
		}
		if kept := bytes.Equal(m.Value, r.Value) && bytes.Equal(m.Key, r.Key); kept == l.Reduced() {
			t.Errorf("%s: key and value are kept: %v, and the letter is reduced: %v", name, kept, l.Reduced())
		}
		if again, err := Replay(l); !l.Reduced() && (err != nil || stream.Carried(r.Timestamp) && !again.Timestamp.Equal(r.Timestamp)) {
			t.Errorf("%s: replayed at %v: %v", name, again.Timestamp, err)
		}
	}
}
