package main

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/holdfast-go/holdfast/devbroker"
	"github.com/holdfast-go/holdfast/dlq"
	"github.com/holdfast-go/holdfast/internal/kafkatest"
	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/stream"
)

// deadLetters are topics with letters: "orders" of three partitions, and "dead" of two.
type deadLetters struct {
	t            *testing.T
	cl           *kgo.Client
	brokers      string
	dead, orders string
	id           [16]byte
	when         time.Time
}

func newDeadLetters(t *testing.T, brokers string) *deadLetters {
	t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(brokers), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.MetadataMinAge(100*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	d := &deadLetters{t: t, cl: cl, brokers: brokers, dead: kafkatest.UniqueName("dead"), orders: kafkatest.UniqueName("orders"),
		// Not an old one: retention counts from the record's timestamp, and would delete the letters.
		when: time.Now().UTC().Truncate(time.Millisecond)}
	d.create(d.dead, 2)
	d.id = d.create(d.orders, 3)
	return d
}

// create makes a topic, waits until brokers tell of it, and returns its id.
func (d *deadLetters) create(topic string, partitions int32) [16]byte {
	d.t.Helper()
	if _, err := kadm.NewClient(d.cl).CreateTopic(d.t.Context(), partitions, -1, nil, topic); err != nil {
		d.t.Fatal(err)
	}
	for {
		f, err := wire.TopicShape(d.t.Context(), d.cl, topic)
		if err != nil {
			d.t.Fatal(err)
		}
		if f.Exists && f.Leaderless == 0 && f.Partitions == partitions {
			return f.ID
		}
	}
}

// write puts a message into a partition.
func (d *deadLetters) write(m stream.Message, partition int32) {
	d.t.Helper()
	r := &kgo.Record{Topic: m.Topic, Partition: partition, Key: m.Key, Value: m.Value, Timestamp: m.Timestamp}
	for _, h := range m.Headers {
		r.Headers = append(r.Headers, kgo.RecordHeader(h))
	}
	if err := d.cl.ProduceSync(d.t.Context(), r).FirstErr(); err != nil {
		d.t.Fatal(err)
	}
}

func (d *deadLetters) letter(key []byte, partition int32, offset int64, attempt int, reason string) {
	d.t.Helper()
	m := dlq.New(stream.Record{Topic: d.orders, Partition: partition, Offset: offset, Timestamp: d.when, Key: key, Value: []byte("payload"),
		Headers: []stream.Header{{Key: "mine", Value: []byte("1")}, {Key: "null"}}},
		dlq.Cause{Topic: d.dead, TopicID: d.id, Err: errors.New(reason), Stage: "fold", Attempt: attempt, Group: "ledger"})
	d.write(m, dlq.PartitionFor(partition, 2))
}

// standard fills the topic:
//
//	0:0 orders/0/5, 0:1 the same record again, 0:2 orders/2/9 without a key, 0:3 not a letter,
//	1:0 orders/1/7, 1:1 Spring's, of orders/1/8
func (d *deadLetters) standard() {
	d.t.Helper()
	d.letter([]byte("a"), 0, 5, 1, "no amount")
	d.letter([]byte("a"), 0, 5, 2, "no amount\x1b[2J yet")
	d.letter(nil, 2, 9, 3, "too late")
	d.write(stream.Message{Topic: d.dead, Value: []byte{0xff, 0x00}, Timestamp: d.when}, 0)
	d.letter([]byte("b"), 1, 7, 1, "no amount")
	d.write(stream.Message{Topic: d.dead, Key: []byte("c"), Value: nil, Timestamp: d.when, Headers: []stream.Header{
		{Key: "kafka_dlt-original-topic", Value: []byte(d.orders)},
		{Key: "kafka_dlt-original-partition", Value: binary.BigEndian.AppendUint32(nil, 1)},
		{Key: "kafka_dlt-original-offset", Value: binary.BigEndian.AppendUint64(nil, 8)},
		{Key: "kafka_dlt-exception-message", Value: []byte("spring says no")},
	}}, 1)
}

func (d *deadLetters) run(code int, args ...string) result {
	d.t.Helper()
	got := command(d.t.Context(), append([]string{"dlq", "--brokers", d.brokers, "--timeout", "1m"}, args...)...)
	if got.code != code {
		d.t.Fatalf("%v: exit code %d, want %d\n%s%s", args, got.code, code, got.stdout, got.stderr)
	}
	return got
}

// json runs a command with --json and returns its object.
func (d *deadLetters) json(code int, args ...string) map[string]any {
	d.t.Helper()
	got := d.run(code, append(args, "--json")...)
	var out map[string]any
	if err := json.Unmarshal([]byte(got.stdout), &out); err != nil {
		d.t.Fatalf("%v in %q", err, got.stdout)
	}
	return out
}

// places are the letters of a list, "partition:offset" and what else is asked for.
func places(out map[string]any, fields ...string) string {
	var words []string
	for _, l := range out["letters"].([]any) {
		l := l.(map[string]any)
		at := l
		if inner, ok := l["letter"].(map[string]any); ok {
			at = inner
		}
		word := fmt.Sprintf("%v:%v", at["partition"], at["offset"])
		for _, f := range fields {
			v := l[f]
			if m, ok := v.(map[string]any); ok {
				v = m["partition"]
			}
			word += fmt.Sprintf("/%v", v)
		}
		words = append(words, word)
	}
	return strings.Join(words, " ")
}

// arrived are the records of a topic, "partition:key:attempt:replayed from".
func (d *deadLetters) arrived(topic string) []string {
	d.t.Helper()
	var got []string
	f, err := wire.TopicShape(d.t.Context(), d.cl, topic)
	if err != nil {
		d.t.Fatal(err)
	}
	for p := range f.Partitions {
		l := wire.Log{Client: d.cl, Topic: topic, Partition: p}
		_, end, _, err := l.Ends(d.t.Context())
		if err == nil {
			_, err = l.Read(d.t.Context(), wire.ReadOptions{To: end}, func(r *kgo.Record) error {
				key := string(r.Key)
				if r.Key == nil {
					key = "-"
				}
				word := fmt.Sprintf("%d:%s", p, key)
				for _, h := range r.Headers {
					if h.Key == dlq.HeaderAttempt || h.Key == dlq.HeaderReplayed {
						word += ":" + strings.TrimPrefix(string(h.Value), d.dead+"/")
					}
				}
				if !r.Timestamp.Equal(d.when) {
					d.t.Errorf("record %s has timestamp %v", word, r.Timestamp)
				}
				got = append(got, word)
				return nil
			})
		}
		if err != nil {
			d.t.Fatal(err)
		}
	}
	return got
}

func (d *deadLetters) expectArrived(topic string, want ...string) {
	d.t.Helper()
	if got := d.arrived(topic); strings.Join(got, " ") != strings.Join(want, " ") {
		d.t.Errorf("%s has %q, want %q", topic, got, want)
	}
}

func development(t *testing.T) string {
	t.Helper()
	b, err := devbroker.Start(devbroker.Config{Listen: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	return b.Addr()
}
