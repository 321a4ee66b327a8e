package member_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/codec"
	"github.com/holdfast-go/holdfast/dlq"
	"github.com/holdfast-go/holdfast/stream"
)

// tallies is a state that holds references, and has no Clone.
type tallies = map[string]int

// spoiling counts the records of a key in place, and fails after that on the value "bad"; of these, on
// the first attempts only if attempts is set.
func spoiling(attempts int) func(context.Context, *holdfast.Key[tallies], stream.Record) error {
	var mu sync.Mutex
	tried := map[int64]int{}
	return func(_ context.Context, k *holdfast.Key[tallies], r stream.Record) error {
		s, ok := k.State()
		if !ok {
			s = tallies{}
			k.Set(s)
		}
		s["n"]++
		mu.Lock()
		defer mu.Unlock()
		tried[r.Offset]++
		if string(r.Value) == "bad" && (attempts == 0 || tried[r.Offset] <= attempts) {
			return errors.New("bad record")
		}
		return nil
	}
}

// noClone is a flow over such states. Its commits come from what the member does about failures, and at its end.
func (p *place) noClone(g holdfast.Guarantee, action stream.Action) (c holdfast.Config[tallies], told *ends) {
	ints, told := p.config(), &ends{}
	c = holdfast.Config[tallies]{
		Kafka: p.k, Group: ints.Group, Inputs: ints.Inputs, Member: ints.Member, Codec: codec.JSON[tallies](), Guarantee: g,
		Commit: holdfast.Commit{Persist: 50 * time.Millisecond, Interval: 50 * time.Millisecond},
		Fold:   spoiling(0), Hooks: []holdfast.Hooks{told.hooks()},
		OnError: func(context.Context, *stream.RecordError) stream.Action { return action },
	}
	switch action {
	case stream.Retry:
		c.Fold = spoiling(1)
	case stream.DeadLetter, stream.RetryThenDeadLetter:
		p.create("dead", nil)
		c.DeadLetters = &dlq.Policy{Topic: "dead", Attempts: 2, MaxPerMinute: 10_000, Backoff: func(int) time.Duration { return time.Millisecond }}
	}
	if g == holdfast.FencedOutputs {
		c.Commit.Persist = 0
	}
	return c, told
}

// spoil writes n records of seven keys, each of those bad that bad says, and returns the states that the
// others make.
func (p *place) spoil(n int, bad func(i int) bool, all bool) map[string]string {
	p.t.Helper()
	var rs []*kgo.Record
	good := map[string]int{}
	for i := range n {
		r := &kgo.Record{Key: []byte("k" + strconv.Itoa(i%7)), Value: []byte("good")}
		if bad(i) {
			r.Value = []byte("bad")
		}
		if all || !bad(i) {
			good[string(r.Key)]++
		}
		rs = append(rs, r)
	}
	p.must(p.cl.ProduceSync(p.t.Context(), rs...).FirstErr())
	want := map[string]string{}
	for key, n := range good {
		want[key] = fmt.Sprintf(`{"n":%d}`, n)
	}
	return want
}

// I7 and R29: a fold that fails after State, with states that nothing can copy, spoils a state once. Then
// each step is undone, whatever the share of bad records, and the flow comes to the end. Before the states
// were copied by the codec each bad record dropped the partition, which began again at the same offset:
//
//  1. Record 50 fails, and is skipped. The partition is restored, after a pause, at 0.
//  2. Record 150 fails before the commit that would have had the first hundred. As 1, with a longer pause.
//  3. After 163 s the committed offset was still 0.
func TestFoldsThatFailWithoutCloneGoForward(t *testing.T) {
	t.Parallel()
	shares := map[string]func(int) bool{
		"one in a hundred":  func(i int) bool { return i%100 == 50 },
		"every second":      func(i int) bool { return i%2 == 1 },
		"all that are left": func(i int) bool { return i >= 7 }, // once each key has a state
	}
	for _, g := range []holdfast.Guarantee{holdfast.FencedState, holdfast.FencedOutputs, holdfast.Unfenced} {
		for _, action := range []stream.Action{stream.Skip, stream.DeadLetter, stream.RetryThenDeadLetter, stream.Retry} {
			for share, bad := range shares {
				if action == stream.Retry && share != "one in a hundred" { // each has a pause of 100 ms
					continue
				}
				t.Run(fmt.Sprintf("%v %v %s", g, action, share), func(t *testing.T) {
					t.Parallel()
					p := newPlace(t)
					const n = 300
					want := p.spoil(n, bad, action == stream.Retry)
					c, told := p.noClone(g, action)
					c.Hooks = append(c.Hooks, holdfast.Hooks{Lost: func(e stream.Released) {
						told.mu.Lock()
						defer told.mu.Unlock()
						if len(told.lost) > 1 {
							t.Errorf("I7: the partition is dropped once more: %v", e.Cause)
						}
					}})
					p.must(until(p, c, n))
					p.wantStored(want)
					if len(told.lost) != 1 {
						t.Errorf("the partition was dropped %d times, want once: the test shows nothing", len(told.lost))
					}
				})
			}
		}
	}
}

// I7 and R29: before the memory is dropped, what precedes the record that failed is committed. Nothing else
// has this flow commit.
func TestWhatPrecedesASpoiledStateIsCommitted(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		g    holdfast.Guarantee
		keys []string // of the records; the last one fails
		want int64    // committed when the memory is dropped
	}{
		{"a clean key", holdfast.FencedState, []string{"a", "b", "c", "a", "z"}, 4},
		{"a key that waits for its snapshot", holdfast.FencedState, []string{"a", "b", "c", "a", "b"}, 1},
		{"a clean key of a whole batch", holdfast.FencedOutputs, []string{"a", "b", "c", "a", "z"}, 4},
		{"a key of a whole batch", holdfast.FencedOutputs, []string{"a", "b", "c", "a", "b"}, 0},
		{"unfenced", holdfast.Unfenced, []string{"a", "b", "c", "a", "b"}, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			conf, told := p.noClone(c.g, stream.Skip)
			p.must(p.cl.ProduceSync(t.Context(), &kgo.Record{Key: []byte("z"), Value: []byte("good")}).FirstErr())
			p.must(until(p, conf, 1)) // z has a state that is clean
			var rs []*kgo.Record
			for i, key := range c.keys {
				rs = append(rs, &kgo.Record{Key: []byte(key), Value: []byte([]string{"good", "bad"}[i/(len(c.keys)-1)])})
			}
			p.must(p.cl.ProduceSync(t.Context(), rs...).FirstErr())
			conf.Commit = holdfast.Commit{Persist: time.Hour, Interval: time.Hour}
			if c.g == holdfast.FencedOutputs {
				conf.Commit = holdfast.Commit{Interval: 14 * time.Second}
			}
			committed, atLoss := int64(1), int64(-1)
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			conf.Hooks = append(conf.Hooks, holdfast.Hooks{
				Committed: func(e stream.Committed) { committed = e.Next },
				Lost:      func(stream.Released) { atLoss = committed },
				Restored: func(stream.Restored) {
					if atLoss >= 0 {
						cancel()
					}
				},
			})
			f, err := holdfast.New(conf)
			p.must(err)
			p.must(f.Run(ctx))
			if atLoss != 1+c.want {
				t.Errorf("I7: %d is committed when the memory is dropped, want %d", atLoss, 1+c.want)
			}
			if len(told.lost) != 1 {
				t.Errorf("the partition was lost %d times, want once", len(told.lost))
			}
		})
	}
}

// I7 and R29: of a whole batch what precedes the record that the broker refused is committed before
// the policy is asked, so that the next refusal is behind it.
func TestWhatPrecedesARefusedRecordIsCommitted(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.values("a", "1", "b", "-1", "c", "1", "d", "-1", "e", "1", "f", "-1")
	c, _ := p.rejecting(nil, stream.Skip)
	var mu sync.Mutex
	var order []string
	tell := func(format string, args ...any) {
		mu.Lock()
		defer mu.Unlock()
		order = append(order, fmt.Sprintf(format, args...))
	}
	c.Hooks = append(c.Hooks, holdfast.Hooks{
		Committed: func(e stream.Committed) { tell("committed %d", e.Next) },
		Failed:    func(e stream.Failed) { tell("asked about %d", e.Offset) },
	})
	p.must(until(p, c, 6))
	mu.Lock()
	defer mu.Unlock()
	for offset := range []int64{1, 3, 5} {
		asked, before := slices.Index(order, fmt.Sprint("asked about ", 2*offset+1)), slices.Index(order, fmt.Sprint("committed ", 2*offset+1))
		if asked < 0 || before < 0 || before > asked {
			t.Errorf("I7: in %q, what precedes record %d is not committed before the policy is asked", order, 2*offset+1)
		}
	}
}

// The codec cannot copy a state, and the step fails: it stops as it would when the state is to be written.
func TestStateThatCannotBeCopiedStops(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	for _, value := range []string{"good", "bad", "mute", "bad"} {
		p.must(p.cl.ProduceSync(t.Context(), &kgo.Record{Key: []byte("k"), Value: []byte(value)}).FirstErr())
	}
	c, _ := p.noClone(holdfast.FencedState, stream.Skip)
	c.Commit = holdfast.Commit{Persist: time.Hour, Interval: time.Hour}
	c.Codec, c.Fold = muteOn{}, muting(c.Fold)
	err := until(p, c, 4)
	e, ok := errors.AsType[*stream.Error](err)
	if !errors.Is(err, stream.ErrEncode) || !ok || string(e.Key) != "k" || e.Offset != 2 {
		t.Errorf("run: %v, want %v of the key at offset 2", err, stream.ErrEncode)
	}
}

// I7 and R29: under KeepDirty it does not stop, as the state may become one that can be written. The partition is
// granted anew with pauses that grow, and not at once as after the first failed step: that would be for ever.
func TestStateThatCannotBeCopiedIsTriedWithPauses(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	const drops = 5
	for _, value := range []string{"mute", "bad", "bad", "bad", "bad", "bad"} { // one is decided on each time
		p.must(p.cl.ProduceSync(t.Context(), &kgo.Record{Key: []byte("k"), Value: []byte(value)}).FirstErr())
	}
	c, _ := p.noClone(holdfast.FencedState, stream.Skip)
	c.Commit = holdfast.Commit{Persist: time.Hour, Interval: time.Hour, OnPersistError: holdfast.KeepDirty}
	c.Codec, c.Fold = muteOn{}, muting(spoiling(0))
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var lost []time.Time
	c.Hooks = append(c.Hooks, holdfast.Hooks{Lost: func(stream.Released) {
		if lost = append(lost, time.Now()); len(lost) == drops {
			cancel()
		}
	}})
	f, err := holdfast.New(c)
	p.must(err)
	p.must(f.Run(ctx))
	if len(lost) < drops {
		t.Fatalf("the memory was dropped %d times, want %d: the test shows nothing", len(lost), drops)
	}
	for i, least := 1, 100*time.Millisecond; i < drops-1; i, least = i+1, 2*least {
		if took := lost[i+1].Sub(lost[i]); took < least {
			t.Errorf("I7: drop %d came %v after the one before, want %v or more", i+2, took, least)
		}
	}
}

// muting is a fold that makes a state on "mute" which muteOn has no words for.
func muting(fold func(context.Context, *holdfast.Key[tallies], stream.Record) error) func(context.Context, *holdfast.Key[tallies], stream.Record) error {
	return func(ctx context.Context, k *holdfast.Key[tallies], r stream.Record) error {
		err := fold(ctx, k, r)
		if s, _ := k.State(); string(r.Value) == "mute" {
			s["mute"] = 1
		}
		return err
	}
}

// muteOn is a codec that has no words for some states.
type muteOn struct{}

func (muteOn) Append(dst []byte, s tallies) ([]byte, error) {
	if s["mute"] > 0 {
		return nil, errors.New("no words")
	}
	b, err := json.Marshal(s)
	return append(dst, b...), err
}

func (muteOn) Decode(src []byte) (s tallies, err error) { return s, json.Unmarshal(src, &s) }
