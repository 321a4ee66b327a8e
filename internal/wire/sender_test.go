package wire

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// outbox is a topic of two partitions on an embedded broker, and a sender to it that believes that the topic takes
// whatever the client does.
type outbox struct {
	t       *testing.T
	cluster *kfake.Cluster
	client  *kgo.Client
	sender  *Sender
}

func newOutbox(t *testing.T, limit string) *outbox {
	t.Helper()
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(2, "out"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	cl, err := kgo.NewClient(append(SenderOpts(), kgo.SeedBrokers(c.ListenAddrs()...), kgo.ProducerBatchCompression(kgo.NoCompression()))...)
	if err != nil {
		t.Fatal(err)
	}
	o := &outbox{t, c, cl, NewSender(cl, nil, nil)}
	t.Cleanup(o.sender.Close)
	if limit != "" {
		if _, err := kadm.NewClient(cl).AlterTopicConfigs(t.Context(), []kadm.AlterConfig{{Op: kadm.SetConfig, Name: "max.message.bytes", Value: &limit}}, "out"); err != nil {
			t.Fatal(err)
		}
	}
	return o
}

// refuse has the broker refuse each batch that has a record with one of the values.
func (o *outbox) refuse(code *kerr.Error, values ...string) {
	o.cluster.ControlKey(int16(kmsg.Produce), func(req kmsg.Request) (kmsg.Response, error, bool) {
		o.cluster.KeepControl()
		in := req.(*kmsg.ProduceRequest)
		out := in.ResponseKind().(*kmsg.ProduceResponse)
		found := false
		for _, t := range in.Topics {
			rt := kmsg.NewProduceResponseTopic()
			rt.Topic, rt.TopicID = t.Topic, t.TopicID
			for _, p := range t.Partitions {
				rp := kmsg.NewProduceResponseTopicPartition()
				rp.Partition, rp.ErrorCode, rp.BaseOffset = p.Partition, code.Code, -1
				rt.Partitions = append(rt.Partitions, rp)
				found = found || slices.ContainsFunc(values, func(v string) bool { return bytes.Contains(p.Records, []byte(v)) })
			}
			out.Topics = append(out.Topics, rt)
		}
		return out, nil, found
	})
}

func numbers(n int, change func(i int, r *kgo.Record)) []*kgo.Record {
	rs := make([]*kgo.Record, n)
	for i := range rs {
		rs[i] = &kgo.Record{Topic: "out", Key: fmt.Appendf(nil, "k%d", i%5), Value: fmt.Appendf(nil, "%0100d", i)}
		if change != nil {
			change(i, rs[i])
		}
	}
	return rs
}

// written is what the topic has, by key, in the order of the log.
func (o *outbox) written() map[string][]string {
	o.t.Helper()
	all := map[string][]string{}
	for p := range int32(2) {
		l := Log{Client: o.client, Topic: "out", Partition: p}
		_, end, _, err := l.Ends(o.t.Context())
		if err == nil {
			_, err = l.Read(o.t.Context(), ReadOptions{To: end}, func(r *kgo.Record) error {
				all[string(r.Key)] = append(all[string(r.Key)], string(r.Value))
				return nil
			})
		}
		if err != nil {
			o.t.Fatal(err)
		}
	}
	return all
}

// wantWritten asserts that of each key there are just these, in their order.
func (o *outbox) wantWritten(rs []*kgo.Record) {
	o.t.Helper()
	want := map[string][]string{}
	for _, r := range rs {
		want[string(r.Key)] = append(want[string(r.Key)], string(r.Value))
	}
	got := o.written()
	for key := range want {
		if !slices.Equal(got[key], want[key]) {
			o.t.Errorf("I4: of %s %d records are written, want %d, or not in their order", key, len(got[key]), len(want[key]))
		}
	}
}

// I4 and R34: what the topic does not take together goes in parts, in its order, and once. What the topic takes is learnt.
func TestSenderSendsInParts(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(int, *kgo.Record){
		"all alike": nil,
		"large ones among them": func(i int, r *kgo.Record) {
			if i%17 == 0 {
				r.Value = append(bytes.Repeat([]byte("x"), 2500), r.Value...)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := newOutbox(t, "3000")
			rs := numbers(600, change)
			var mu sync.Mutex
			acked := map[int]int{}
			for _, part := range [][]*kgo.Record{rs[:300], rs[300:]} {
				at, outcomes := o.sender.Send(t.Context(), part, func(i int) {
					mu.Lock()
					defer mu.Unlock()
					acked[i]++
				})
				if at >= 0 {
					t.Fatalf("record %d was refused: %v", at, outcomes[at])
				}
			}
			if len(acked) != 300 || acked[7] != 2 {
				t.Errorf("%d records were acknowledged, one of them %d times", len(acked), acked[7])
			}
			o.wantWritten(rs)
		})
	}
}

// I6 and R34: a batch is refused for one of its records, and the broker does not say for which: that one is found, what comes
// before it is written, and nothing behind it of its partition.
func TestSenderFindsTheRecordAtFault(t *testing.T) {
	t.Parallel()
	const bad = 333
	for _, code := range []*kerr.Error{kerr.MessageTooLarge, kerr.InvalidRecord, kerr.InvalidTimestamp, kerr.PolicyViolation} {
		t.Run(code.Message, func(t *testing.T) {
			t.Parallel()
			o := newOutbox(t, "")
			o.refuse(code, "culprit")
			rs := numbers(600, func(i int, r *kgo.Record) {
				r.Key = []byte("k")
				if i == bad {
					r.Value = []byte("culprit")
				}
			})
			at, outcomes := o.sender.Send(t.Context(), rs, func(int) {})
			if at != bad || !errors.Is(outcomes[at], code) {
				t.Fatalf("I6: record %d is named, want %d", at, bad)
			}
			for i, err := range outcomes {
				if (i < bad) != (err == nil) || i > bad && !errors.Is(err, ErrNotSent) && !OfRecord(err) {
					t.Fatalf("I4: the outcome of record %d is %v", i, err)
				}
			}
			o.wantWritten(rs[:bad])
		})
	}
}

// What is no refusal of a record is told of the first that met it, and nothing is looked for.
func TestSenderTellsOtherErrorsAtOnce(t *testing.T) {
	t.Parallel()
	o := newOutbox(t, "")
	o.refuse(kerr.TopicAuthorizationFailed, "0")
	if at, outcomes := o.sender.Send(t.Context(), numbers(10, nil), func(int) {}); at != 0 || !errors.Is(outcomes[0], kerr.TopicAuthorizationFailed) || !errors.Is(outcomes[9], ErrNotSent) {
		t.Errorf("record %d is named: %v", at, outcomes)
	}
}

// R16: what has to hold before anything is sent is asked before each part.
func TestSenderAsksBeforeEachPart(t *testing.T) {
	t.Parallel()
	o := newOutbox(t, "")
	asked, no := 0, errors.New("no")
	o.sender.before = func(context.Context) error {
		if asked++; asked > 1 {
			return no
		}
		return nil
	}
	rs := numbers(10, nil)
	if at, outcomes := o.sender.Send(t.Context(), rs, func(int) {}); at != 1 || !errors.Is(outcomes[1], no) {
		t.Errorf("record %d is named: %v", at, outcomes)
	}
	o.wantWritten(rs[:1])
}

// I6: a send ends with its context, although a broker is silent, and knows that it does not know.
func TestSenderEndsWithItsContext(t *testing.T) {
	t.Parallel()
	o := newOutbox(t, "")
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("enough")
	o.cluster.ControlKey(int16(kmsg.Produce), func(kmsg.Request) (kmsg.Response, error, bool) {
		o.cluster.KeepControl()
		cancel(why)
		return nil, errors.New("the connection is cut"), true
	})
	if at, outcomes := o.sender.Send(ctx, numbers(3, nil), func(int) {}); at != 0 || !errors.Is(outcomes[0], why) || !errors.Is(outcomes[2], ErrNotSent) {
		t.Errorf("record %d is named: %v", at, outcomes)
	}
	if at, _ := o.sender.Send(t.Context(), numbers(3, nil), func(int) {}); at != 0 {
		t.Errorf("a sender that is closed has sent up to record %d", at)
	}
}

// Each cause has a next step of its own, and only the one of sizes speaks of them.
func TestRemedyIsOfTheCause(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		err  error
		says string
	}{
		{kerr.MessageTooLarge, "max.message.bytes"}, {kerr.RecordListTooLarge, "max.message.bytes"},
		{kerr.InvalidTimestamp, "message.timestamp.before.max.ms"}, {kerr.InvalidRecord, "without a key"},
		{kerr.TopicAuthorizationFailed, "allow WRITE"}, {kerr.ClusterAuthorizationFailed, "allow WRITE"},
		{kerr.UnknownTopicOrPartition, "create it again"}, {kerr.UnknownTopicID, "create it again"}, {kerr.InvalidTopicException, "missing"},
		{kerr.PolicyViolation, "policy"}, {kerr.UnsupportedCompressionType, "compression.type"}, {errors.New("what"), "answer"},
	} {
		got := Remedy(fmt.Errorf("wrapped: %w", c.err), "output", "out")
		if !bytes.Contains([]byte(got), []byte(c.says)) || !bytes.Contains([]byte(got), []byte("topic out")) {
			t.Errorf("%v: %q, want one that says %q and names the topic", c.err, got, c.says)
		}
		if c.says != "max.message.bytes" && bytes.Contains([]byte(got), []byte("max.message.bytes")) {
			t.Errorf("%v: %q speaks of sizes", c.err, got)
		}
	}
}
