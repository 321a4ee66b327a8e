package letters

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/holdfast-go/holdfast/dlq"
	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/kafka"
	"github.com/holdfast-go/holdfast/stream"
)

// TestPartition has the hashes of Kafka's own test of Utils.murmur2.
func TestPartition(t *testing.T) {
	t.Parallel()
	const partitions = 1000
	for key, murmur2 := range map[string]int32{
		"21": -973932308, "foobar": -790332482, "a-little-bit-long-string": -985981536, "a-little-bit-longer-string": -1486304829,
		"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971, "abc": 479470107,
	} {
		row := Row{failed: dlq.Origin{Topic: "orders", Partition: 5}, hash: hashOf([]byte(key))}
		want := murmur2 & 0x7fffffff % partitions
		if got := (Replay{To: "other"}).partition(row, partitions); got != want {
			t.Errorf("%s: partition %d, want %d", key, got, want)
		}
	}
	keyed, keyless := Row{failed: dlq.Origin{Topic: "orders", Partition: 5}, hash: hashOf([]byte("21"))}, Row{failed: dlq.Origin{Topic: "orders", Partition: 5}, hash: -1}
	hash := int32(-973932308) & 0x7fffffff
	empty := Row{failed: dlq.Origin{Topic: "orders", Partition: 5}, hash: hashOf([]byte{})}
	const emptyHash = 275646681 // murmur2 of no bytes: the seed 0x9747b28c through its last three lines
	for _, c := range []struct {
		name       string
		replay     Replay
		row        Row
		partitions int32
		want       int32
	}{
		{"back", Replay{}, keyed, 7, 5},
		{"back by name", Replay{To: "orders"}, keyed, 7, 5},
		{"back to fewer partitions", Replay{}, keyed, 5, hash % 5},
		{"back by key", Replay{ByKey: true}, keyed, 7, hash % 7},
		{"to another topic", Replay{To: "other"}, keyed, 7, hash % 7},
		{"an empty key", Replay{ByKey: true}, empty, 7, emptyHash % 7},
		{"an empty key to another topic", Replay{To: "other"}, empty, 1000, emptyHash % 1000},
		{"without a key", Replay{}, keyless, 7, 5},
		{"without a key to another topic", Replay{To: "other", ByKey: true}, keyless, 7, 5},
		{"without a key to fewer partitions", Replay{To: "other"}, keyless, 3, 2},
	} {
		if got := c.replay.partition(c.row, c.partitions); got != c.want {
			t.Errorf("%s: partition %d, want %d", c.name, got, c.want)
		}
	}
}

// fixture is an embedded cluster with letters for orders in the topic "dead".
type fixture struct {
	*kfake.Cluster
	replay Replay
	cl     *kgo.Client
}

func newFixture(t *testing.T, letters int) fixture {
	t.Helper()
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "dead", "orders"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	k := kafka.Config{Brokers: c.ListenAddrs()}
	cl, err := k.Client(kgo.DefaultProduceTopic("dead"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	var records []*kgo.Record
	for i := range letters {
		m := dlq.New(stream.Record{Topic: "orders", Offset: int64(i), Value: fmt.Append(nil, i)}, dlq.Cause{Topic: "dead", Attempt: 1})
		r := &kgo.Record{Value: m.Value}
		for _, h := range m.Headers {
			r.Headers = append(r.Headers, kgo.RecordHeader(h))
		}
		records = append(records, r)
	}
	if err := cl.ProduceSync(t.Context(), records...).FirstErr(); err != nil {
		t.Fatal(err)
	}
	return fixture{c, Replay{Filter: Filter{Kafka: k, Topic: "dead", Patience: time.Minute, Newest: true}}, cl}
}

func (f fixture) plan(t *testing.T) *Plan {
	t.Helper()
	p, err := f.replay.Plan(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// refuseAfter lets n records through and answers the produce requests behind them with code. No request
// has records of both sides, because a chunk is answered before the next one is sent, and the first letter alone.
func (f fixture) refuseAfter(n int, code int16) {
	f.ControlKey(int16(kmsg.Produce), func(req kmsg.Request) (kmsg.Response, error, bool) {
		f.KeepControl()
		in := req.(*kmsg.ProduceRequest)
		if n > 0 {
			n -= records(in)
			return nil, nil, false
		}
		out := in.ResponseKind().(*kmsg.ProduceResponse)
		for _, t := range in.Topics {
			rt := kmsg.NewProduceResponseTopic()
			rt.Topic, rt.TopicID = t.Topic, t.TopicID
			for _, p := range t.Partitions {
				rp := kmsg.NewProduceResponseTopicPartition()
				rp.Partition, rp.ErrorCode, rp.BaseOffset = p.Partition, code, -1
				rt.Partitions = append(rt.Partitions, rp)
			}
			out.Topics = append(out.Topics, rt)
		}
		return out, nil, true
	})
}

// records counts the records of a request: their number is in the header of each batch.
func records(in *kmsg.ProduceRequest) int {
	n := 0
	for _, t := range in.Topics {
		for _, p := range t.Partitions {
			var b kmsg.RecordBatch
			if b.ReadFrom(p.Records) == nil {
				n += int(b.NumRecords)
			}
		}
	}
	return n
}

func TestSendStopsAtARefusal(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		code int16
		is   error
		says []string
		// aside: it is about the letter, so that the ones behind it are sent.
		aside bool
	}{
		{"forbidden", 29, stream.ErrNotAuthorized, []string{"orders/0", "kafka-acls.sh", "--operation Write", "--topic orders"}, false},
		{"too large", 10, stream.ErrTooLarge, []string{"orders/0", "max.message.bytes"}, true},
		{"not valid", 87, nil, []string{"orders/0", "INVALID_RECORD"}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, 250)
			p := f.plan(t)
			f.refuseAfter(100, c.code)
			sent, err := p.Send(t.Context())
			left := 150
			if c.aside { // the broker takes none of the others either, and each is asked about
				if err != nil || len(sent.Refused) != left || sent.Refused[0].Letter.Offset != 100 {
					t.Fatalf("got %v, %d set aside, want %d", err, len(sent.Refused), left)
				}
				err, left = sent.Refused[0].Err(), 0
			}
			if err == nil || c.is != nil && !errors.Is(err, c.is) {
				t.Fatalf("got %v, want %v", err, c.is)
			}
			for _, want := range append(c.says, "letter 0:100") {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%q is missing in %q", want, err)
				}
			}
			if sent.Acknowledged != 100 || sent.Doubtful != 0 || sent.Untried != left || left > 0 && sent.Next[0] != 100 {
				t.Errorf("got %+v", sent)
			}
		})
	}
}

func TestSendGivesUpOnASilentBroker(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 3)
	p := f.plan(t)
	p.replay.Patience = 2 * time.Second // enough for the read before it on a busy machine
	f.ControlKey(int16(kmsg.Produce), func(kmsg.Request) (kmsg.Response, error, bool) {
		f.KeepControl()
		return nil, errors.New("the connection is cut"), true
	})
	sent, err := p.Send(t.Context())
	if !errors.Is(err, stream.ErrUnreachable) || !strings.Contains(err.Error(), "no acknowledgement within 2s") {
		t.Errorf("got %v", err)
	}
	if sent.Acknowledged != 0 || sent.Doubtful != 1 || sent.Untried != 2 || sent.Next[0] != 0 { // the first one goes alone
		t.Errorf("got %+v", sent)
	}
}

func TestSendEndsWithItsContext(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 3)
	p := f.plan(t)
	why := errors.New("interrupted")
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	f.ControlKey(int16(kmsg.Produce), func(kmsg.Request) (kmsg.Response, error, bool) {
		f.KeepControl()
		cancel(why)
		return nil, errors.New("the connection is cut"), true
	})
	if sent, err := p.Send(ctx); !errors.Is(err, why) || sent.Acknowledged != 0 || sent.Next[0] != 0 {
		t.Errorf("got %+v, %v", sent, err)
	}
}

func TestSendMissesDeletedLetters(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 3)
	p := f.plan(t)
	p.Items[1].Letter.Offset = 77 // as if retention had taken the letter of the plan
	sent, err := p.Send(t.Context())
	if !errors.Is(err, ErrNoLetter) || !strings.Contains(err.Error(), "1 of the letters") || sent.Acknowledged != 2 || sent.Untried != 1 {
		t.Errorf("got %+v, %v", sent, err)
	}
}

func TestPlanRefusesATopicThatWasCreatedAgain(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 0)
	m := dlq.New(stream.Record{Topic: "orders", Value: []byte("v")}, dlq.Cause{Topic: "dead", TopicID: [16]byte{1}, Attempt: 1})
	r := &kgo.Record{Value: m.Value}
	for _, h := range m.Headers {
		r.Headers = append(r.Headers, kgo.RecordHeader(h))
	}
	if err := f.cl.ProduceSync(t.Context(), r).FirstErr(); err != nil {
		t.Fatal(err)
	}
	if p := f.plan(t); len(p.Refused) != 1 || len(p.Items) != 0 || !errors.Is(p.Refused[0].Err(), stream.ErrTopic) ||
		!strings.Contains(p.Refused[0].Why, "created again") || !strings.Contains(p.Refused[0].Why, "--to orders") {
		t.Errorf("got %+v", p)
	}
	f.replay.To = "orders"
	if p, err := f.replay.Plan(t.Context()); err != nil || len(p.Items) != 1 {
		t.Errorf("with --to: %+v, %v", p, err)
	}
}

// badLetters fills the topic with letters of which some may go nowhere: 0:0 and 0:1 are good ones of orders.
func (f fixture) badLetters(t *testing.T) {
	t.Helper()
	admin := kadm.NewClient(f.cl)
	compact := "compact"
	for topic, configs := range map[string]map[string]*string{
		"snapshots": {"cleanup.policy": &compact}, "progress": {"cleanup.policy": &compact}, "table": {"cleanup.policy": &compact},
		"events": nil, "__consumer_offsets": nil,
	} {
		if _, err := admin.CreateTopic(t.Context(), 1, 1, configs, topic); err != nil {
			t.Fatal(err)
		}
	}
	state := []kgo.RecordHeader{{Key: "holdfast", Value: []byte{1}}}
	put := func(topic string, key, value string, hs ...kgo.RecordHeader) {
		if err := f.cl.ProduceSync(t.Context(), &kgo.Record{Topic: topic, Key: []byte(key), Value: []byte(value), Headers: hs}).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	put("snapshots", "k", "state", state...)
	put("progress", "\x00progress", "p")
	put("table", "k", "v")
	put("events", "k", "v", state...) // an input that anybody writes to is no snapshot topic for that
	from := func(topic string, changes ...stream.Header) {
		m := dlq.New(stream.Record{Topic: topic, Offset: int64(len(changes)), Timestamp: time.UnixMilli(1), Key: []byte("k"), Value: []byte("evil")}, dlq.Cause{Topic: "dead", Attempt: 1})
		hs := slices.Clone(state)
		for _, h := range append(m.Headers, changes...) {
			hs = append(hs, kgo.RecordHeader(h))
		}
		put("dead", "k", "evil", hs...)
	}
	for _, topic := range []string{"snapshots", "progress", "table", "events", "__consumer_offsets", "gone"} {
		from(topic)
	}
	from("orders", stream.Header{Key: dlq.HeaderFailedAt, Value: []byte("table/0/0")})
	from("orders", stream.Header{Key: dlq.HeaderChanged, Value: []byte("timestamp,value")}, stream.Header{Key: "mine"})
}

// Headers that name another place do not decide where a letter goes, and one that cannot go there does not keep
// the others back.
func TestPlanSetsBadLettersAside(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 2)
	f.badLetters(t)
	p := f.plan(t)
	var to, aside []string
	for _, i := range p.Items {
		to = append(to, i.To.Topic)
	}
	if want := []string{"orders", "orders", "table", "events"}; !slices.Equal(to, want) {
		t.Errorf("letters go to %q, want %q", to, want)
	}
	for i, want := range []struct{ topic, why string }{
		{"snapshots", "partition 0 has a snapshot at offset 0"}, {"progress", "partition 0 has a progress record at offset 0"},
		{"__consumer_offsets", "brokers' own"}, {"gone", "does not exist"},
		{"orders", "another topic than the one that its record failed in: orders/0/1, and it failed at table/0/0"},
		{"orders", "does not have its whole record"},
	} {
		if i >= len(p.Refused) || p.Refused[i].Origin.Topic != want.topic || !strings.Contains(p.Refused[i].Why, want.why) {
			t.Fatalf("set aside: %+v, want %d with %q", p.Refused, i, want)
		}
		aside = append(aside, p.Refused[i].Letter.String())
	}
	sent, err := p.Send(t.Context())
	if err != nil || sent.Acknowledged != 4 || len(aside) != len(p.Refused) {
		t.Fatalf("sent %+v, set aside %q, %v", sent, aside, err)
	}
	f.replay.To = "snapshots"
	if _, err := f.replay.Plan(t.Context()); !errors.Is(err, stream.ErrTopic) || !strings.Contains(err.Error(), "snapshot or progress topic") {
		t.Errorf("sent to a snapshot topic that was named: %v", err)
	}
	f.replay.To = "table"
	if p := f.plan(t); len(p.Items) != 9 || len(p.Refused) != 1 {
		t.Errorf("told where: %+v", p)
	}
	end := int64(0)
	l := wire.Log{Client: f.cl, Topic: "table"}
	if _, end, _, err = l.Ends(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Read(t.Context(), wire.ReadOptions{To: end}, func(r *kgo.Record) error {
		for _, h := range r.Headers {
			if h.Key == stream.SnapshotHeader {
				t.Errorf("the header of a snapshot was replayed at %d", r.Offset)
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}
