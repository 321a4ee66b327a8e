package outputs

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/codec"
	"github.com/holdfast-go/holdfast/dlq"
	"github.com/holdfast-go/holdfast/internal/kafkatest"
	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/internal/wiretap"
	"github.com/holdfast-go/holdfast/stream"
)

// The generation moves on while a transaction is open: the broker refuses its offset, and the same
// bytes go again under the next generation.
// Public case N4.
func TestKafkaRefusedByGeneration(t *testing.T) {
	each(t, func(t *testing.T, l *lab) {
		w := newTap(t, l.k)
		m := l.start(t.Context(), "owner", w.through(l.conf))
		l.produce(0, 0, 10)
		m.committedTo(0, 10)
		hold := w.Fault(wiretap.HoldRequest, wiretap.First(1, on(l.id(0), kmsg.TxnOffsetCommit)))
		t.Cleanup(hold.Lift)
		l.produce(0, 10, 20)
		caught(t, hold, 1)
		other := l.start(t.Context(), "other", l.conf)
		l.awaitMembers(2)
		hold.Lift()
		refused := await(m, 0, func(e stream.Refused) bool { return true })
		if refused.Cause != "generation" || refused.Final {
			t.Errorf("refused: %+v, want one by generation that is not final", refused)
		}
		l.produce(0, 20, 30)
		m.committedTo(0, 30)
		m.stop()
		other.stop()
		w.orderly()
		l.verify()
		l.sameBytesAgain()
	})
}

// awaitMembers waits until the group has settled with n members.
func (l *lab) awaitMembers(n int) {
	l.t.Helper()
	limit := time.After(patience)
	for tick := time.NewTicker(20 * time.Millisecond); ; {
		groups, err := l.admin.DescribeGroups(l.t.Context(), l.conf.Group)
		if err == nil && groups[l.conf.Group].State == "Stable" && len(groups[l.conf.Group].Members) == n {
			return
		}
		select {
		case <-tick.C:
		case <-limit:
			l.t.Fatalf("the group has not settled with %d members: %v (%v)", n, groups, err)
		}
	}
}

// sameBytesAgain asserts that each aborted transaction was followed by one with the same records.
func (l *lab) sameBytesAgain() {
	l.t.Helper()
	if !l.epochs() {
		return
	}
	var before *transaction
	aborted := 0
	for _, tx := range l.transactions() {
		if before != nil && (!slices.Equal(before.outputs, tx.outputs) || before.progress[0].Inputs[0].Next != tx.progress[0].Inputs[0].Next) {
			l.t.Errorf("aborted up to %d with %q, and then up to %d with %q",
				before.progress[0].Inputs[0].Next, before.outputs, tx.progress[0].Inputs[0].Next, tx.outputs)
		}
		before = nil
		if tx.status == wire.StatusAborted {
			before, aborted = tx, aborted+1
		}
	}
	if aborted == 0 {
		l.t.Error("no transaction was aborted")
	}
}

// ask is one question to a policy.
type ask struct {
	offset  int64
	attempt int
}

// policy is an OnError that notes what it was asked.
type policy struct {
	mu     sync.Mutex
	asked  []ask
	errs   []error
	decide func(*stream.RecordError) stream.Action
}

func (p *policy) onError(_ context.Context, e *stream.RecordError) stream.Action {
	p.mu.Lock()
	p.asked, p.errs = append(p.asked, ask{e.Record.Offset, e.Attempt}), append(p.errs, e.Err)
	p.mu.Unlock()
	return p.decide(e)
}

// alter sets a configuration of a topic.
func (l *lab) alter(topic, name, value string) {
	l.t.Helper()
	rs, err := l.admin.AlterTopicConfigs(l.t.Context(), []kadm.AlterConfig{{Op: kadm.SetConfig, Name: name, Value: &value}}, topic)
	if err == nil {
		err = rs[0].Err
	}
	if err != nil {
		l.t.Fatal(err)
	}
}

// awaitRefusal waits until the broker refuses a record of a size in each partition of a topic: it carries
// out the change of a configuration, or a deletion, some time after it was accepted. What is tried is
// aborted.
func (l *lab) awaitRefusal(topic string, partitions int32, size int) {
	l.t.Helper()
	ctx, cancel := context.WithTimeout(l.t.Context(), patience)
	defer cancel()
	cl := l.k.Client(l.t, kgo.TransactionalID(kafkatest.UniqueName("probe")), kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerBatchCompression(kgo.NoCompression()), kgo.ProducerLinger(0))
	defer cl.Close()
	for p := range partitions {
		for refused := false; !refused; {
			if err := cl.BeginTransaction(); err != nil {
				l.t.Fatal(err)
			}
			err := cl.ProduceSync(ctx, &kgo.Record{Topic: topic, Partition: p, Value: make([]byte, size)}).FirstErr()
			refused = err != nil
			if ctx.Err() != nil {
				l.t.Fatalf("%s/%d still takes %d bytes", topic, p, size)
			}
			if err := cl.EndTransaction(ctx, kgo.TryAbort); err != nil && !refused {
				l.t.Fatal(err)
			}
		}
	}
}

// lower makes a topic take no more than size bytes.
func (l *lab) lower(topic string, partitions int32, size int) {
	l.t.Helper()
	l.alter(topic, "max.message.bytes", strconv.Itoa(size))
	l.awaitRefusal(topic, partitions, size+1)
}

// remove deletes a topic.
func (l *lab) remove(topic string, partitions int32) {
	l.t.Helper()
	if _, err := l.admin.DeleteTopics(l.t.Context(), topic); err != nil {
		l.t.Fatal(err)
	}
	l.awaitRefusal(topic, partitions, 1)
}

// large makes the output of one value 30 kB that cannot be compressed.
func large(value string) func(stream.Record) []byte {
	return func(r stream.Record) []byte {
		if string(r.Value) != value {
			return nil
		}
		rng := rand.New(rand.NewPCG(1, 2))
		b := make([]byte, 30_000)
		for i := range b {
			b[i] = byte(rng.IntN(256))
		}
		return b
	}
}

// The broker does not take one output of many, which the member could not know: the whole batch is
// aborted, the state goes back, and the policy is asked about the one record at fault. What it decides
// is done, and the rest is there once.
// Public case J1.
func TestKafkaOneRecordIsRefused(t *testing.T) {
	for name, c := range map[string]struct {
		action  stream.Action
		asked   []ask
		passes  bool // the record is passed over
		letters int
	}{
		"stop":                   {stream.Stop, []ask{{25, 1}}, false, 0},
		"skip":                   {stream.Skip, []ask{{25, 1}}, true, 0},
		"dead-letter":            {stream.DeadLetter, []ask{{25, 1}}, true, 1},
		"retry":                  {stream.Retry, []ask{{25, 1}, {25, 2}}, false, 0},
		"retry then dead-letter": {stream.RetryThenDeadLetter, []ask{{25, 1}, {25, 2}, {25, 3}}, true, 1},
	} {
		t.Run(name, func(t *testing.T) {
			each(t, func(t *testing.T, l *lab) {
				dead := l.k.CreateTopic(t, l.conf.Input+"-dead", 1, nil)
				p := &policy{}
				p.decide = func(e *stream.RecordError) stream.Action {
					if c.action == stream.Retry && e.Attempt == 2 {
						l.alter(l.conf.Output, "max.message.bytes", "1000000")
					}
					return c.action
				}
				l.conf.Payload = large("25")
				s := l.conf
				s.OnError = p.onError
				s.Commit.Interval = 200 * time.Millisecond // the ten records are one batch, unless the machine is slow
				s.DeadLetters = &dlq.Policy{Topic: dead, Attempts: 3, Backoff: func(int) time.Duration { return time.Millisecond }}
				m := l.start(t.Context(), "only", s)
				l.produce(0, 0, 20)
				m.committedTo(0, 20)
				l.lower(l.conf.Output, 2, 10_000)
				l.produce(0, 20, 30)
				if c.action == stream.Stop {
					e := m.failure(stream.ErrTooLarge)
					if e.Offset != 25 || l.committed()[0] != 25 {
						t.Errorf("stopped at offset %d with %d committed, want 25 and 25: %v", e.Offset, l.committed()[0], e)
					}
				} else {
					m.committedTo(0, 30)
					m.stop()
				}
				asked := p.asked
				if c.action == stream.Retry { // the broker may take its time to allow more
					asked = slices.DeleteFunc(asked, func(a ask) bool { return a.offset == 25 && a.attempt > 2 })
				}
				if !slices.Equal(asked, c.asked) {
					t.Errorf("the policy was asked about %v, want %v", p.asked, c.asked)
				}
				for _, err := range p.errs {
					if !errors.Is(err, stream.ErrTooLarge) || !errors.Is(err, stream.ErrOutput) {
						t.Errorf("the policy is asked about %v, want ErrTooLarge and ErrOutput", err)
					}
				}
				if c.passes {
					l.skipped[25] = true
				}
				l.verify()
				l.letters(dead, c.letters)
				if len(all[lost](m, 0)) == 0 {
					t.Error("the memory of the partition was not dropped")
				}
			})
		})
	}
}

// letters counts the letters that a reader under read_committed finds; each is of offset 25.
func (l *lab) letters(topic string, want int) {
	l.t.Helper()
	got := 0
	for _, e := range l.view(topic) {
		if !e.ReadCommitted() {
			continue
		}
		got++
		letter, err := dlq.Parse(wire.Record(e.Record))
		if err != nil || letter.Origin.Offset != 25 || string(e.Record.Value) != "25" {
			l.t.Errorf("letter of %+v with value %q: %v", letter.Origin, e.Record.Value, err)
		}
	}
	if got != want {
		l.t.Errorf("%d letters, want %d", got, want)
	}
}

// A topic that is written to is deleted under a running member: it stops with an error that names the
// topic and the record, and nothing of the batch is committed.
func TestKafkaOutputTopicIsDeleted(t *testing.T) {
	each(t, func(t *testing.T, l *lab) {
		m := l.start(t.Context(), "only", l.conf)
		l.produce(0, 0, 20)
		m.committedTo(0, 20)
		l.remove(l.conf.Output, 2)
		l.produce(0, 21, 31) // value 21 has no outputs: offset 21 is the first that needs the topic
		e := m.failure(stream.ErrTopic)
		if got := l.committed()[0]; e.Offset != 21 || got != 21 || !strings.Contains(e.Error(), l.conf.Output) {
			t.Errorf("committed %d, want 21, and the error names that offset and the topic: %v", got, e)
		}
	})
}

// An offset never passes a letter that the broker did not take, whatever the policy says about any
// error: the member stops, with an error that names the dead-letter topic.
func TestKafkaDeadLetterIsRefused(t *testing.T) {
	for name, c := range map[string]struct {
		spoil    func(l *lab, dead string)
		sentinel error
	}{
		"the topic is deleted":    {func(l *lab, dead string) { l.remove(dead, 1) }, stream.ErrTopic},
		"the letter is too large": {func(l *lab, dead string) { l.lower(dead, 1, 100) }, stream.ErrTooLarge},
	} {
		t.Run(name, func(t *testing.T) {
			each(t, func(t *testing.T, l *lab) {
				dead := l.k.CreateTopic(t, l.conf.Input+"-dead", 1, nil)
				s := l.conf
				s.DeadLetters = &dlq.Policy{Topic: dead}
				p := &policy{decide: func(e *stream.RecordError) stream.Action {
					if e.Attempt > 1 {
						return stream.Skip
					}
					return stream.DeadLetter
				}}
				s.OnError = p.onError
				s.Before = func(_ context.Context, r stream.Record) error {
					if r.Offset == 22 {
						return errors.New("not valid")
					}
					return nil
				}
				m := l.start(t.Context(), "only", s)
				l.produce(0, 0, 20)
				m.committedTo(0, 20)
				c.spoil(l, dead)
				l.produce(0, 20, 30)
				e := m.failure(c.sentinel)
				if e.Offset != 22 || !strings.Contains(e.Error(), dead) {
					t.Errorf("the error is not about offset 22 and topic %s: %v", dead, e)
				}
				if got := l.committed()[0]; got > 22 {
					t.Errorf("committed %d, past the letter of offset 22", got)
				}
				if len(p.asked) != 1 {
					t.Errorf("the policy was asked %v, want once", p.asked)
				}
				l.verify()
			})
		})
	}
}

// A letter that is refused for its size is written so that it is taken. The policy has decided: it is not asked again,
// and what it says of a second attempt lets no offset pass a record that is nowhere.
func TestKafkaDecisionStandsOverARefusedLetter(t *testing.T) {
	each(t, func(t *testing.T, l *lab) {
		dead := l.k.CreateTopic(t, l.conf.Input+"-dead", 1, nil)
		p := &policy{decide: func(e *stream.RecordError) stream.Action {
			if e.Attempt > 1 {
				return stream.Skip
			}
			return stream.DeadLetter
		}}
		s := l.conf
		s.DeadLetters, s.OnError = &dlq.Policy{Topic: dead}, p.onError
		s.Before = func(_ context.Context, r stream.Record) error {
			if r.Offset == 22 {
				return errors.New("not valid")
			}
			return nil
		}
		m := l.start(t.Context(), "only", s)
		l.produce(0, 0, 22)
		m.committedTo(0, 22)
		l.lower(dead, 1, 2000)
		big := kgo.RecordHeader{Key: "h", Value: large("22")(stream.Record{Value: []byte("22")})}
		r := &kgo.Record{Topic: l.conf.Input, Key: []byte(keyOf(0, 22)), Value: []byte("22"), Headers: []kgo.RecordHeader{big}}
		if err := l.write.ProduceSync(t.Context(), r).FirstErr(); err != nil {
			t.Fatal(err)
		}
		l.produce(0, 23, 30)
		m.committedTo(0, 30)
		m.stop()
		if !slices.Equal(p.asked, []ask{{22, 1}}) {
			t.Errorf("I4: the policy was asked %v, want once", p.asked)
		}
		var letters []dlq.Letter
		for _, e := range l.view(dead) {
			if !e.ReadCommitted() {
				continue
			}
			letter, err := dlq.Parse(wire.Record(e.Record))
			if letters = append(letters, letter); err != nil {
				t.Error(err)
			}
		}
		if len(letters) != 1 || letters[0].Origin.Offset != 22 || letters[0].Attempt != 1 || !letters[0].Reduced() {
			t.Errorf("I4: letters %+v, want one of offset 22 without what was refused, of the first attempt", letters)
		}
		l.skipped[22] = true
		l.verify()
	})
}

// counts is a state that holds references, and has no Clone.
type counts map[string]int

// A step changes the state in place and fails: nothing of what was not committed leaks, neither the
// spoiled state nor what was folded before it, and what was is folded again.
// Public case N1.
func TestKafkaTaintedStepLeavesNothing(t *testing.T) {
	for name, action := range map[string]stream.Action{"skip": stream.Skip, "retry": stream.Retry} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t, kafkatest.Start(t), isFlow, 1)
			failed := false // the policy and the fold are called by one goroutine at a time
			s := l.conf
			s.Commit.Interval = 200 * time.Millisecond
			s.OnError = func(context.Context, *stream.RecordError) stream.Action { return action }
			m := l.member("only")
			c := holdfast.Config[counts]{
				Kafka: s.Kafka, Group: s.Group, Inputs: []string{s.Input}, Outputs: []string{s.Output}, Guarantee: holdfast.FencedOutputs,
				Snapshots: holdfast.Snapshots{Create: &holdfast.TopicConfig{}}, Codec: codec.JSON[counts](),
				Commit: s.Commit, Member: s.Member, OnError: s.OnError, Hooks: []holdfast.Hooks{m.log.Hooks()},
				Fold: func(_ context.Context, k *holdfast.Key[counts], r stream.Record) error {
					state, ok := k.State()
					if !ok {
						state = counts{}
						k.Set(state)
					}
					state["N"]++
					n, err := strconv.Atoi(string(r.Value))
					if r.Offset == 25 && !failed {
						failed, err = true, errors.New("after the change")
					}
					state["Sum"] += n
					for i := range fanout(n) {
						k.Emit(stream.Message{Topic: s.Output, Key: r.Key, Value: []byte(text(isFlow, n, i, tally{state["N"], state["Sum"]}))})
					}
					return err
				},
			}
			h, err := holdfast.New(c)
			if err != nil {
				t.Fatal(err)
			}
			m.run(t.Context(), h)
			l.produce(0, 0, 20)
			m.committedTo(0, 20)
			l.produce(0, 20, 30)
			m.committedTo(0, 30)
			m.stop()
			if action == stream.Skip {
				l.skipped[25] = true
			}
			l.verify()
			if n := len(all[lost](m, 0)); n != 1 {
				t.Errorf("the memory was dropped %d times, want once", n)
			}
		})
	}
}
