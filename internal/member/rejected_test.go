package member_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/dlq"
	"github.com/holdfast-go/holdfast/stream"
)

// unwritable is a codec that has no words for a negative number.
type unwritable struct{}

func (unwritable) Append(dst []byte, n int) ([]byte, error) {
	if n < 0 {
		return nil, errors.New("negative")
	}
	return strconv.AppendInt(dst, int64(n), 10), nil
}

func (unwritable) Decode(src []byte) (int, error) { return strconv.Atoi(string(src)) }

// rejecting is a flow that adds the values of a key, in batches that only Interval closes.
func (p *place) rejecting(policy *dlq.Policy, action stream.Action) (c holdfast.Config[int], asked func() []stream.Failed) {
	p.create("dead", nil)
	p.create("out", nil)
	c = p.config()
	c.Guarantee, c.Codec, c.Outputs, c.DeadLetters = holdfast.FencedOutputs, unwritable{}, []string{"out"}, policy
	c.Commit = holdfast.Commit{Interval: 300 * time.Millisecond}
	c.Fold = func(_ context.Context, k *holdfast.Key[int], r stream.Record) error {
		by, err := strconv.Atoi(string(r.Value))
		n, _ := k.State()
		k.Set(n + by)
		return err
	}
	c.OnError = func(context.Context, *stream.RecordError) stream.Action { return action }
	var mu sync.Mutex
	var failed []stream.Failed
	c.Hooks = append(c.Hooks, holdfast.Hooks{Failed: func(f stream.Failed) {
		mu.Lock()
		defer mu.Unlock()
		failed = append(failed, f)
	}})
	return c, func() []stream.Failed {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(failed)
	}
}

func (p *place) values(keyed ...string) {
	p.t.Helper()
	var rs []*kgo.Record
	for i := 0; i < len(keyed); i += 2 {
		rs = append(rs, &kgo.Record{Key: []byte(keyed[i]), Value: []byte(keyed[i+1])})
	}
	if err := p.cl.ProduceSync(p.t.Context(), rs...).FirstErr(); err != nil {
		p.t.Fatal(err)
	}
}

// I7 and R10: two records of one batch are at fault, and each batch that is refused names one of them.
// What the policy decided about the one must not be forgotten when the other is found:
//
//  1. The batch is refused for record 1. The state goes back, the policy says DeadLetter.
//  2. The next batch has that letter, and is refused for record 3. The state goes back.
//  3. Record 3 is dead-lettered, and record 1 is folded as if nothing had been: refused for record 1.
//  4. As 2, for ever.
func TestTwoRecordsOfOneBatchAreRejected(t *testing.T) {
	t.Parallel()
	for name, action := range map[string]stream.Action{
		"dead-letter": stream.DeadLetter, "retry then dead-letter": stream.RetryThenDeadLetter, "skip": stream.Skip,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			p.values("a", "1", "b", "-1", "c", "1", "d", "-1", "a", "1")
			c, asked := p.rejecting(&dlq.Policy{Topic: "dead", Attempts: 2, Backoff: func(int) time.Duration { return time.Millisecond }}, action)
			if err := until(p, c, 5); err != nil {
				t.Fatal(err)
			}
			p.wantStored(map[string]string{"a": "2", "c": "1"})
			for _, f := range asked() {
				if f.Offset != 1 && f.Offset != 3 || f.Attempt > 2 {
					t.Errorf("asked about offset %d, attempt %d", f.Offset, f.Attempt)
				}
			}
		})
	}
}

// R10: the policy is asked about the record that caused the refusal, not about the last one that
// touched its key:
//
//  1. Record 1 makes a state that cannot be written, records 2 and 3 of the same key change it too.
//  2. The batch of all of them is refused at record 3, the last one.
//  3. Were that one dead-lettered, so would be record 2 and then record 1: two good ones are gone.
func TestOnlyTheRecordAtFaultIsRejected(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.values("a", "1", "b", "-9", "b", "1", "b", "1", "c", "2", "a", "-9", "a", "1")
	c, asked := p.rejecting(&dlq.Policy{Topic: "dead", MaxPerMinute: 2, RestartDelay: -1}, stream.DeadLetter)
	if err := until(p, c, 7); err != nil {
		t.Fatalf("I2: a good record was dead-lettered: %v", err)
	}
	p.wantStored(map[string]string{"a": "2", "b": "2", "c": "2"})
	for _, f := range asked() {
		if f.Offset != 1 && f.Offset != 5 {
			t.Errorf("I2: asked about offset %d: %v", f.Offset, f.Err)
		}
	}
}

// A letter that goes back with its batch is handed over again, and there is one of it in the end: the
// hook tells of it once.
func TestLetterThatGoesBackIsToldOnce(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.values("a", "1", "b", "-1", "c", "1", "d", "-1", "a", "1")
	c, _ := p.rejecting(&dlq.Policy{Topic: "dead"}, stream.DeadLetter)
	var mu sync.Mutex
	told := map[int64]int{}
	c.Hooks = append(c.Hooks, holdfast.Hooks{DeadLettered: func(e stream.DeadLettered) {
		mu.Lock()
		defer mu.Unlock()
		told[e.Offset]++
	}})
	if err := until(p, c, 5); err != nil {
		t.Fatal(err)
	}
	if len(told) != 2 || told[1] != 1 || told[3] != 1 {
		t.Errorf("letters told by offset: %v, want 1 and 3 once each", told)
	}
}

// I4: a policy that has dead-lettered a record is not asked again if the topic refuses the letter: one that skips at a
// second attempt would let the offset pass a record that is nowhere.
func TestDecisionStandsOverARefusedLetter(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	noise := make([]byte, 5000)
	for i, rng := 0, rand.New(rand.NewPCG(1, 2)); i < len(noise); i++ {
		noise[i] = byte(rng.IntN(256))
	}
	p.values("a", "1")
	p.must(p.cl.ProduceSync(t.Context(), &kgo.Record{Key: []byte("b"), Value: []byte("bad"), Headers: []kgo.RecordHeader{{Key: "h", Value: noise}}}).FirstErr())
	p.values("c", "1")
	c, _ := p.rejecting(&dlq.Policy{Topic: "dead"}, stream.DeadLetter)
	var asked []int
	c.OnError = func(ctx context.Context, e *stream.RecordError) stream.Action {
		if asked = append(asked, e.Attempt); len(asked) > 1 {
			return stream.Skip
		}
		limit := "2000" // after the flow has read what the topic takes
		if _, err := kadm.NewClient(p.cl).AlterTopicConfigs(ctx, []kadm.AlterConfig{{Op: kadm.SetConfig, Name: "max.message.bytes", Value: &limit}}, "dead"); err != nil {
			t.Error(err)
		}
		return stream.DeadLetter
	}
	var told []int
	c.Hooks = append(c.Hooks, holdfast.Hooks{Failed: func(e stream.Failed) { told = append(told, e.Attempt) }})
	p.must(until(p, c, 3))
	if !slices.Equal(asked, []int{1}) || !slices.Equal(told, []int{1, 1}) {
		t.Errorf("I4: the policy was asked at attempts %v and the hook was told %v, want 1, and 1 twice", asked, told)
	}
}
