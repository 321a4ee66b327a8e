package dlq

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/holdfast-go/holdfast/internal/kafkatest"
	"github.com/holdfast-go/holdfast/kafka"
	"github.com/holdfast-go/holdfast/stream"
)

func TestMain(m *testing.M) { kafkatest.Main(m) }

// embedded is a cluster with a dead-letter topic "dead" of two partitions and an empty topic.
func embedded(t *testing.T) (*kfake.Cluster, kafka.Config) {
	t.Helper()
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(2, "dead"), kfake.SeedTopics(1, "empty"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c, kafka.Config{Brokers: c.ListenAddrs()}
}

func producer(t *testing.T, k kafka.Config, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	cl, err := k.Client(append(opts, kgo.RecordPartitioner(kgo.ManualPartitioner()))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	return cl
}

// put writes a letter for the offset of partition 0 of orders, or without headers below 0.
func put(t *testing.T, cl *kgo.Client, partition int32, offset int64) {
	t.Helper()
	r := &kgo.Record{Topic: "dead", Partition: partition, Value: []byte("v")}
	if offset >= 0 {
		m := New(stream.Record{Topic: "orders", Offset: offset, Value: []byte("v")}, because(1))
		for _, h := range m.Headers {
			r.Headers = append(r.Headers, kgo.RecordHeader(h))
		}
	}
	if err := cl.ProduceSync(t.Context(), r).FirstErr(); err != nil {
		t.Fatal(err)
	}
}

// origins is one word a letter: where it stands and where it comes from.
func origins(t *testing.T, letters iter.Seq2[Letter, error]) []string {
	t.Helper()
	var got []string
	for l, err := range letters {
		if err != nil {
			t.Fatal(err)
		}
		word := fmt.Sprintf("%d:%d", l.Record.Partition, l.Record.Offset)
		if l.Fault != nil {
			word += "=" + strings.Fields(l.Fault.Error())[0]
		} else {
			word += fmt.Sprintf("=%d", l.Origin.Offset)
		}
		got = append(got, word)
	}
	return got
}

func expect(t *testing.T, what string, got []string, want ...string) {
	t.Helper()
	if len(got) != len(want) || len(want) > 0 && !reflect.DeepEqual(got, want) {
		t.Errorf("%s: got %q, want %q", what, got, want)
	}
}

func TestReadOnTheEmbeddedBroker(t *testing.T) {
	t.Parallel()
	_, k := embedded(t)
	readsLetters(t, k, "tx")
	expect(t, "empty topic", origins(t, All(t.Context(), k, "empty")))
}

// readsLetters fills the topic "dead" and reads it in every way.
func readsLetters(t *testing.T, k kafka.Config, id string) {
	t.Helper()
	plain := producer(t, k)
	put(t, plain, 1, 10)
	put(t, plain, 1, 11)
	put(t, plain, 1, 10)
	put(t, plain, 1, -1)
	tx := producer(t, k, kgo.TransactionalID(id))
	begin := func() {
		if err := tx.BeginTransaction(); err != nil {
			t.Fatal(err)
		}
	}
	end := func(how kgo.TransactionEndTry) {
		if err := tx.EndTransaction(t.Context(), how); err != nil {
			t.Fatal(err)
		}
	}
	begin()
	put(t, tx, 0, 20) // 0, and a marker at 1
	end(kgo.TryAbort)
	begin()
	put(t, tx, 0, 21) // 2, and a marker at 3
	end(kgo.TryCommit)
	begin()
	put(t, tx, 0, 22) // 4, open
	put(t, plain, 0, 23)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	all := func(c ReadConfig) []string {
		c.Kafka, c.Topic = k, "dead"
		return origins(t, Read(ctx, c))
	}
	// The end of a transaction is not visible at once.
	await := func(what string, want ...string) {
		got := all(ReadConfig{})
		for len(got) < len(want) && ctx.Err() == nil {
			got = all(ReadConfig{})
		}
		expect(t, what, got, want...)
	}
	await("beside an open transaction", "0:2=21", "1:0=10", "1:1=11", "1:2=10", "1:3=no")
	end(kgo.TryCommit)
	await("all", "0:2=21", "0:4=22", "0:5=23", "1:0=10", "1:1=11", "1:2=10", "1:3=no")
	expect(t, "a part", all(ReadConfig{Partitions: []int32{1, 0}, From: 2, To: 5}), "1:2=10", "1:3=no", "0:2=21", "0:4=22")
	expect(t, "nothing", all(ReadConfig{From: 6}))
	expect(t, "without repeats", origins(t, Dedup(All(t.Context(), k, "dead"))), "0:2=21", "0:4=22", "0:5=23", "1:0=10", "1:1=11", "1:3=no")
	for l := range All(t.Context(), k, "dead") {
		if l.Record.Topic != "dead" {
			t.Errorf("letter of topic %q", l.Record.Topic)
		}
		break // leaving the loop ends the read
	}
}

func TestReadErrors(t *testing.T) {
	t.Parallel()
	c, k := embedded(t)
	c.ControlKey(int16(kmsg.Fetch), func(req kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		return forbidFetch(req.(*kmsg.FetchRequest)), nil, true
	})
	put(t, producer(t, k), 0, 1)
	for _, tc := range []struct {
		name   string
		config ReadConfig
		is     error
		says   []string
	}{
		{"missing", ReadConfig{Kafka: k, Topic: "missing"}, stream.ErrTopic, []string{"missing", "does not exist", "--list"}},
		{"no such partition", ReadConfig{Kafka: k, Topic: "dead", Partitions: []int32{2}}, stream.ErrTopic, []string{"no partition 2", "0 to 1"}},
		{"bad name", ReadConfig{Kafka: k, Topic: "a b"}, stream.ErrConfig, []string{`"a b"`}},
		{"no broker", ReadConfig{Topic: "dead"}, stream.ErrConfig, []string{"Brokers is empty"}},
		{"forbidden", ReadConfig{Kafka: k, Topic: "dead"}, stream.ErrNotAuthorized, []string{"dead/0", "kafka-acls.sh", "--operation Read", "--topic dead"}},
		{"nobody listens", ReadConfig{Kafka: kafka.Config{Brokers: []string{"127.0.0.1:1"}}, Topic: "dead", Patience: time.Second},
			stream.ErrUnreachable, []string{"Next: "}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			n := 0
			for _, err := range Read(t.Context(), tc.config) {
				if n++; !errors.Is(err, tc.is) {
					t.Fatalf("got %v, want %v", err, tc.is)
				}
				for _, want := range tc.says {
					if !strings.Contains(err.Error(), want) {
						t.Errorf("%q is missing in %q", want, err)
					}
				}
			}
			if n != 1 {
				t.Errorf("%d answers, want the error alone", n)
			}
		})
	}
}

// forbidFetch answers a fetch as a broker does whose ACLs allow Describe and not Read.
func forbidFetch(req *kmsg.FetchRequest) kmsg.Response {
	resp := req.ResponseKind().(*kmsg.FetchResponse)
	for _, t := range req.Topics {
		rt := kmsg.NewFetchResponseTopic()
		rt.Topic, rt.TopicID = t.Topic, t.TopicID
		for _, p := range t.Partitions {
			rp := kmsg.NewFetchResponseTopicPartition()
			rp.Partition, rp.ErrorCode = p.Partition, 29
			rt.Partitions = append(rt.Partitions, rp)
		}
		resp.Topics = append(resp.Topics, rt)
	}
	return resp
}

func TestReadGivesUpOnASilentLeader(t *testing.T) {
	t.Parallel()
	c, k := embedded(t)
	put(t, producer(t, k), 0, 1)
	c.ControlKey(int16(kmsg.Fetch), func(kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		return nil, errors.New("the connection is cut"), true
	})
	for _, err := range Read(t.Context(), ReadConfig{Kafka: k, Topic: "dead", Patience: 100 * time.Millisecond}) {
		if !errors.Is(err, stream.ErrUnreachable) || !strings.Contains(err.Error(), "no answer within 100ms") {
			t.Errorf("got %v", err)
		}
	}
}

func TestReadEndsWithItsContext(t *testing.T) {
	t.Parallel()
	_, k := embedded(t)
	put(t, producer(t, k), 0, 1)
	put(t, producer(t, k), 0, 2)
	why := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	n := 0
	for _, err := range All(ctx, k, "dead") {
		if n++; err != nil && !errors.Is(err, why) {
			t.Errorf("got %v, want the cause", err)
		}
		cancel(why)
	}
	if n == 0 {
		t.Error("nothing came")
	}
}

func TestPatienceCountsFailuresInARow(t *testing.T) {
	t.Parallel()
	at := time.Unix(0, 0)
	p := patience{limit: time.Minute}
	if p.failed(at) || p.failed(at.Add(59*time.Second)) || !p.failed(at.Add(time.Minute)) {
		t.Error("the minute was not measured")
	}
	p.answered()
	if p.failed(at.Add(2*time.Minute)) || !p.failed(at.Add(3*time.Minute)) {
		t.Error("an answer did not begin anew")
	}
}

func TestKafkaReadsLetters(t *testing.T) {
	t.Parallel()
	k := kafkatest.New(t, kafkatest.Options{}) // the names of the topics are given
	k.CreateTopic(t, "dead", 2, nil)
	k.CreateTopic(t, "empty", 1, nil)
	config := kafka.Config{Brokers: k.Addrs}
	readsLetters(t, config, "letters")
	expect(t, "empty topic", origins(t, All(t.Context(), config, "empty")))
}
