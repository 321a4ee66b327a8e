package pipe_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/dlq"
	"github.com/holdfast-go/holdfast/pipe"
	"github.com/holdfast-go/holdfast/stream"
)

// number is the value of a test record.
func number(r stream.Record) int {
	n, err := strconv.Atoi(string(r.Value))
	if err != nil {
		panic(err)
	}
	return n
}

// One record makes none, one or several; a batch that only filters is committed too.
func TestFilterAndSplit(t *testing.T) {
	t.Parallel()
	l := embedded(t, "in", "out")
	l.numbers("in", 30)
	r := l.start(t.Context(), l.config(func(_ context.Context, r stream.Record, out *pipe.Out) error {
		for range number(r) % 3 {
			out.Send(stream.Message{Topic: "out", Value: r.Value})
		}
		return nil
	}))
	r.untilCommitted("in", 0, 30)
	l.produce(&kgo.Record{Topic: "in", Value: []byte("30")}) // 30 % 3 is 0: nothing but the offset moves
	r.untilCommitted("in", 0, 31)
	if err := r.stop(); err != nil {
		t.Fatal(err)
	}
	var want []string
	for i := range 31 {
		for range i % 3 {
			want = append(want, strconv.Itoa(i))
		}
	}
	if got := values(l.read("out", kgo.ReadCommitted())); got != strings.Join(want, " ") {
		t.Errorf("out has %s\nwant %s", got, strings.Join(want, " "))
	}
	if o := l.committed("copy", "in", 0); o.At != 31 || !strings.HasSuffix(o.Metadata, ":pipe") {
		t.Errorf("committed %d with metadata %q", o.At, o.Metadata)
	}
}

// Key, headers and timestamp come from the input unless they are given; SendBare takes nothing. A
// delivery timeout of the client's, which it counts from a record's timestamp, does not bite.
func TestWhatIsKept(t *testing.T) {
	t.Parallel()
	l := embedded(t, "in", "out")
	at := time.UnixMilli(1_700_000_000_000)
	l.produce(&kgo.Record{Topic: "in", Key: []byte("k"), Value: []byte("v"), Timestamp: at, Headers: []kgo.RecordHeader{{Key: "h", Value: []byte("1")}}},
		&kgo.Record{Topic: "in", Key: []byte("gone"), Timestamp: at})
	l.kafka.Opts = append(l.kafka.Opts, kgo.RecordDeliveryTimeout(5*time.Second))
	r := l.start(t.Context(), l.config(func(_ context.Context, r stream.Record, out *pipe.Out) error {
		out.Forward("out")
		if r.Value != nil {
			out.Send(stream.Message{Topic: "out", Value: []byte("sent")})
			out.Send(stream.Message{Topic: "out", Key: []byte("other"), Value: []byte("given"), Headers: []stream.Header{}, Timestamp: at.Add(time.Second)})
			out.SendBare(stream.Message{Topic: "out", Value: []byte("bare")})
		}
		return nil
	}))
	r.untilCommitted("in", 0, 2)
	var got []string
	for _, r := range l.read("out", kgo.ReadCommitted()) {
		stamp := "now"
		if d := r.Timestamp.Sub(at); d < time.Hour {
			stamp = d.String()
		}
		got = append(got, fmt.Sprintf("%q=%q tombstone:%v headers:%d at:%s", r.Key, r.Value, r.Value == nil, len(r.Headers), stamp))
	}
	want := []string{
		`"k"="v" tombstone:false headers:1 at:0s`,
		`"k"="sent" tombstone:false headers:1 at:0s`,
		`"other"="given" tombstone:false headers:0 at:1s`,
		`""="bare" tombstone:false headers:0 at:now`,
		`"gone"="" tombstone:true headers:0 at:0s`,
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// Calls run side by side and end in any order; outputs are in the order of the input.
func TestConcurrencyKeepsOrder(t *testing.T) {
	t.Parallel()
	const side = 4
	l := embedded(t, "in", "out")
	l.numbers("in", 40)
	// The calls of each four wait for the last of them: they return in the opposite order.
	gates := make([]chan struct{}, 41)
	for i := range gates {
		gates[i] = make(chan struct{})
	}
	for i := side; i <= 40; i += side {
		close(gates[i])
	}
	c := l.config(func(ctx context.Context, r stream.Record, out *pipe.Out) error {
		n := number(r)
		select {
		case <-gates[n+1]:
		case <-ctx.Done():
			return ctx.Err()
		}
		if n%side != 0 {
			close(gates[n])
		}
		out.Forward("out")
		return nil
	})
	c.Concurrency = side
	r := l.start(t.Context(), c)
	r.untilCommitted("in", 0, 40)
	var want []string
	for i := range 40 {
		want = append(want, strconv.Itoa(i))
	}
	if got := values(l.read("out", kgo.ReadCommitted())); got != strings.Join(want, " ") {
		t.Errorf("out has %s", got)
	}
}

// A record that fails is dealt with as the policy says, and only that one.
func TestPolicies(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		action stream.Action
		want   string
		stops  bool
	}{
		{"stop", stream.Stop, "0 1 2", true},
		{"skip", stream.Skip, "0 1 2 4 5", false},
		{"retry", stream.Retry, "0 1 2 3 4 5", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			l := embedded(t, "in", "out")
			l.numbers("in", 6)
			failures := 0
			config := l.config(func(_ context.Context, r stream.Record, out *pipe.Out) error {
				if number(r) == 3 && failures < 2 {
					failures++
					out.Forward("out") // dropped with the failure
					panic("three")
				}
				out.Forward("out")
				return nil
			})
			config.OnError = func(_ context.Context, e *stream.RecordError) stream.Action {
				if !e.Panicked || e.Record.Offset != 3 {
					t.Errorf("the policy is asked about %v", e)
				}
				return c.action
			}
			r := l.start(t.Context(), config)
			if c.stops {
				err := r.wait()
				e := (*stream.Error)(nil)
				if !errors.As(err, &e) || e.Offset != 3 || !errors.Is(err, stream.ErrFold) {
					t.Errorf("Run returned %v, want an error about offset 3", err)
				}
				if o := l.committed("copy", "in", 0); o.At != 3 {
					t.Errorf("committed %d, want 3: what came before is committed, nothing past it", o.At)
				}
			} else {
				r.untilCommitted("in", 0, 6)
			}
			if got := values(l.read("out", kgo.ReadCommitted())); got != c.want {
				t.Errorf("out has %s, want %s", got, c.want)
			}
		})
	}
}

// A dead letter is in the transaction that passes its record: bytes unchanged, origin in the headers,
// in the partition with its input's number.
func TestDeadLetters(t *testing.T) {
	t.Parallel()
	l := embedded(t, "in:3", "out", "dead:2")
	rs := []*kgo.Record{}
	for i := range 9 {
		rs = append(rs, &kgo.Record{Topic: "in", Partition: int32(i % 3), Key: fmt.Append(nil, i), Value: fmt.Append(nil, i)})
	}
	l.produce(rs...)
	c := l.config(func(_ context.Context, r stream.Record, out *pipe.Out) error {
		if number(r) < 6 {
			return errBad
		}
		out.Forward("out")
		return nil
	})
	c.OnError = dlq.Classes(dlq.On(errBad, stream.RetryThenDeadLetter))
	c.DeadLetters = &dlq.Policy{Topic: "dead", Attempts: 2, Backoff: func(int) time.Duration { return 0 }}
	r := l.start(t.Context(), c)
	for p := range int32(3) {
		r.untilCommitted("in", p, 3)
	}
	if err := r.stop(); err != nil {
		t.Fatal(err)
	}
	letters := l.read("dead", kgo.ReadCommitted())
	if len(letters) != 6 || len(l.read("out", kgo.ReadCommitted())) != 3 {
		t.Fatalf("%d letters: %s", len(letters), values(letters))
	}
	for _, r := range letters {
		letter, err := dlq.Parse(stream.Record{Topic: r.Topic, Partition: r.Partition, Offset: r.Offset, Key: r.Key, Value: r.Value, Headers: headers(r)})
		n, _ := strconv.Atoi(string(r.Value))
		if err != nil || letter.Origin.Topic != "in" || letter.Origin.Partition != int32(n%3) || letter.Origin.Offset != int64(n/3) || letter.Attempt != 2 {
			t.Errorf("letter %s has origin %+v, attempt %d, %v", r.Value, letter.Origin, letter.Attempt, err)
		}
		if r.Partition != letter.Origin.Partition%2 {
			t.Errorf("letter of partition %d is in %d", letter.Origin.Partition, r.Partition)
		}
	}
}

func headers(r *kgo.Record) (hs []stream.Header) {
	for _, h := range r.Headers {
		hs = append(hs, stream.Header{Key: h.Key, Value: h.Value})
	}
	return hs
}

// An output that is not declared, and one that its topic does not take, fail the record that made them.
func TestOutputsThatCannotBe(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		message stream.Message
		want    error
	}{
		{"undeclared", stream.Message{Topic: "elsewhere"}, stream.ErrUndeclaredOutput},
		{"too large", stream.Message{Topic: "out", Value: make([]byte, 2<<20)}, stream.ErrTooLarge},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			l := embedded(t, "in", "out")
			l.numbers("in", 4)
			r := l.start(t.Context(), l.config(func(_ context.Context, r stream.Record, out *pipe.Out) error {
				if out.Forward("out"); number(r) == 2 {
					out.Send(c.message)
				}
				return nil
			}))
			err := r.wait()
			e := (*stream.Error)(nil)
			if !errors.Is(err, c.want) || !errors.As(err, &e) || e.Offset != 2 || e.Topic != "in" {
				t.Errorf("Run returned %v, want %v at in/0 offset 2", err, c.want)
			}
			if got := values(l.read("out", kgo.ReadCommitted())); got != "0 1" {
				t.Errorf("out has %s, want 0 1", got)
			}
		})
	}
}

// KeepPartition writes to the partition with the input's number; else the key decides, by murmur2.
func TestPlacement(t *testing.T) {
	t.Parallel()
	l := embedded(t, "in:4", "same:4", "out:4")
	var rs []*kgo.Record
	for i := range 40 {
		rs = append(rs, &kgo.Record{Topic: "in", Partition: int32(i % 4), Key: fmt.Append(nil, "key-", i), Value: fmt.Append(nil, i)})
	}
	l.produce(rs...)
	c := l.config(func(_ context.Context, _ stream.Record, out *pipe.Out) error {
		out.Forward("same")
		out.Forward("out")
		return nil
	})
	c.Outputs, c.KeepPartition = []string{"same", "out"}, []string{"same"}
	r := l.start(t.Context(), c)
	for p := range int32(4) {
		r.untilCommitted("in", p, 10)
	}
	for _, r := range l.read("same", kgo.ReadCommitted()) {
		if n, _ := strconv.Atoi(string(r.Value)); r.Partition != int32(n%4) {
			t.Errorf("%d of partition %d is in partition %d", n, n%4, r.Partition)
		}
	}
	murmur := kgo.StickyKeyPartitioner(nil).ForTopic("out")
	for _, r := range l.read("out", kgo.ReadCommitted()) {
		if want := int32(murmur.Partition(r, 4)); r.Partition != want {
			t.Errorf("key %s is in partition %d, murmur2 says %d", r.Key, r.Partition, want)
		}
	}
}

// Several inputs have a progress partition each for all of their partitions.
func TestSeveralInputs(t *testing.T) {
	t.Parallel()
	l := embedded(t, "in:2", "more:3", "out")
	for p := range int32(3) {
		l.produce(&kgo.Record{Topic: "more", Partition: p, Value: fmt.Append(nil, "more-", p)})
		if p < 2 {
			l.produce(&kgo.Record{Topic: "in", Partition: p, Value: fmt.Append(nil, "in-", p)})
		}
	}
	c := l.config(func(_ context.Context, _ stream.Record, out *pipe.Out) error { out.Forward("out"); return nil })
	c.Inputs = []string{"in", "more"}
	r := l.start(t.Context(), c)
	for p := range int32(3) {
		r.untilCommitted("more", p, 1)
		if p < 2 {
			r.untilCommitted("in", p, 1)
		}
	}
	if err := r.stop(); err != nil {
		t.Fatal(err)
	}
	if got := len(l.read("out", kgo.ReadCommitted())); got != 5 {
		t.Errorf("%d outputs, want 5", got)
	}
	partitions := map[int32]bool{}
	for _, r := range l.read("copy-progress", kgo.ReadCommitted()) {
		partitions[r.Partition] = true
	}
	if len(partitions) != 5 {
		t.Errorf("progress records in partitions %v, want one for each of the 5 input partitions", partitions)
	}
}

// A pipe and a flow do not go on from each other's offsets. That is found by the offsets of the inputs: of a
// group whose other component is down, and has other inputs, nothing is said.
func TestGroupOfAnotherComponent(t *testing.T) {
	t.Parallel()
	l := embedded(t, "in", "other", "out")
	l.numbers("in", 3)
	r := l.start(t.Context(), l.config(func(context.Context, stream.Record, *pipe.Out) error { return nil }))
	r.untilCommitted("in", 0, 3)
	if err := r.stop(); err != nil {
		t.Fatal(err)
	}
	flow := func(input string) *holdfast.Flow[string] {
		f, err := holdfast.New(holdfast.Config[string]{
			Kafka: l.kafka, Group: "copy", Inputs: []string{input}, Snapshots: holdfast.Snapshots{Create: &holdfast.TopicConfig{}},
			Codec: text{}, Fold: func(context.Context, *holdfast.Key[string], stream.Record) error { return nil },
		})
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	if report, err := flow("other").Check(l.ctx); err != nil {
		t.Errorf("a flow of another input in a pipe's group is told %v: %+v", err, report)
	}
	if err := flow("in").Run(l.ctx); !errors.Is(err, stream.ErrOtherComponent) {
		t.Errorf("a flow in a pipe's group returned %v", err)
	}
}

type text struct{}

func (text) Append(dst []byte, s string) ([]byte, error) { return append(dst, s...), nil }
func (text) Decode(src []byte) (string, error)           { return string(src), nil }

// An offset that a person sets is where the pipe goes on, back or forward.
func TestOffsetsAreReset(t *testing.T) {
	t.Parallel()
	l := embedded(t, "in", "out")
	l.numbers("in", 10)
	copyAll := l.config(func(_ context.Context, _ stream.Record, out *pipe.Out) error { out.Forward("out"); return nil })
	r := l.start(t.Context(), copyAll)
	r.untilCommitted("in", 0, 10)
	if err := r.stop(); err != nil {
		t.Fatal(err)
	}
	for _, to := range []int64{7, 9} {
		l.reset("copy", "in", to)
		again := l.start(t.Context(), copyAll)
		again.untilCommitted("in", 0, 10)
		if err := again.stop(); err != nil {
			t.Fatal(err)
		}
	}
	if got := values(l.read("out", kgo.ReadCommitted())); got != "0 1 2 3 4 5 6 7 8 9 7 8 9 9" {
		t.Errorf("out has %s", got)
	}
}

// A pipe over one input goes on when that has got more partitions: it has no state that belongs to one.
func TestInputGetsMorePartitions(t *testing.T) {
	t.Parallel()
	l := embedded(t, "in", "out")
	l.numbers("in", 3)
	c := l.config(func(_ context.Context, _ stream.Record, out *pipe.Out) error { out.Forward("out"); return nil })
	r := l.start(t.Context(), c)
	r.untilCommitted("in", 0, 3)
	if err := r.stop(); err != nil {
		t.Fatal(err)
	}
	if _, err := l.admin.UpdatePartitions(l.ctx, 2, "in"); err != nil {
		t.Fatal(err)
	}
	p, err := pipe.New(c)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Run(l.ctx); !errors.Is(err, stream.ErrTopic) || !strings.Contains(err.Error(), "--partitions 2") {
		t.Fatalf("with a progress topic of 1 partition Run returned %v", err)
	}
	if _, err := l.admin.UpdatePartitions(l.ctx, 2, "copy-progress"); err != nil {
		t.Fatal(err)
	}
	l = newLab(t, l.kafka) // whose client knows the partitions
	l.produce(&kgo.Record{Topic: "in", Value: []byte("3")}, &kgo.Record{Topic: "in", Partition: 1, Value: []byte("4")})
	again := l.start(t.Context(), c)
	again.untilCommitted("in", 0, 4)
	again.untilCommitted("in", 1, 1)
	if got := l.read("out", kgo.ReadCommitted()); len(got) != 5 {
		t.Errorf("out has %s", values(got))
	}
}

// An output topic that is gone is no fault of a record: a policy that skips records which fail is not
// asked, for it would let every record pass.
func TestOutputTopicIsGone(t *testing.T) {
	t.Parallel()
	for _, action := range []stream.Action{stream.Skip, stream.Retry} {
		t.Run(action.String(), func(t *testing.T) {
			t.Parallel()
			l := embedded(t, "in", "out")
			l.numbers("in", 3)
			c := l.config(func(_ context.Context, _ stream.Record, out *pipe.Out) error { out.Forward("out"); return nil })
			c.OnError = func(context.Context, *stream.RecordError) stream.Action { return action }
			r := l.start(t.Context(), c)
			r.untilCommitted("in", 0, 3)
			if _, err := l.admin.DeleteTopics(l.ctx, "out"); err != nil {
				t.Fatal(err)
			}
			l.numbers("in", 3)
			err := r.wait()
			e := (*stream.Error)(nil)
			if !errors.Is(err, stream.ErrTopic) || !errors.As(err, &e) || e.Offset < 3 || !strings.Contains(e.Hint, "out is missing") {
				t.Errorf("Run returned %v, want ErrTopic at an offset from 3 on", err)
			}
			if at := l.committed("copy", "in", 0).At; at != 3 {
				t.Errorf("committed %d, want 3", at)
			}
		})
	}
}
