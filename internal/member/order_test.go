package member_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/codec"
	"github.com/holdfast-go/holdfast/internal/rule"
	"github.com/holdfast-go/holdfast/snapshot"
	"github.com/holdfast-go/holdfast/stream"
)

// A takeover that the callback does not wait out goes on behind it, and folding begins where it says.
func TestLateTakeoverSetsThePosition(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.produce("k", 3)
	p.must(until(p, p.config(), 3))
	p.produce("k", 2)
	release, fetched := make(chan struct{}), make(chan struct{})
	held := atomic.Bool{}
	p.cluster.ControlKey(int16(kmsg.InitProducerID), func(kmsg.Request) (kmsg.Response, error, bool) {
		held.Store(true)
		p.cluster.SleepControl(func() { <-release })
		return nil, nil, false
	})
	p.cluster.ControlKey(int16(kmsg.OffsetFetch), func(kmsg.Request) (kmsg.Response, error, bool) {
		p.cluster.KeepControl()
		if held.Load() { // the group's client fetches its offsets after the callback
			select {
			case <-fetched:
			default:
				close(fetched)
			}
		}
		return nil, nil, false
	})
	go func() {
		select {
		case <-fetched:
		case <-time.After(patience / 2):
			t.Error("I6: the callback waits for a takeover for as long as that takes, and is far past the rebalance timeout")
		}
		close(release)
	}()
	c := p.config()
	c.Member.SessionTimeout, c.Member.RebalanceTimeout = time.Second, 3*time.Second
	var begun []int64
	c.Hooks = []holdfast.Hooks{{Restored: func(e stream.Restored) { begun = append(begun, e.Start) }}}
	p.must(until(p, c, 5))
	p.wantStored(map[string]string{"k": "5"})
	select {
	case <-fetched:
	default:
		t.Error("the takeover was not late")
	}
	if len(begun) != 1 || begun[0] != 3 {
		t.Errorf("folding began at %v, want 3", begun)
	}
}

// An output that the broker refuses keeps the snapshot that covers its step from being written (R18):
// with the rule off the snapshot is there, and the output is lost for good.
// Public case J1.
func TestOutputsComeBeforeTheSnapshot(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name      string
		guarantee holdfast.Guarantee
		off       []rule.Name
	}{
		{"the rule", holdfast.FencedState, nil},
		{"with the rule off", holdfast.FencedState, []rule.Name{rule.OutputsFirst}},
		{"the rule, Unfenced", holdfast.Unfenced, nil},
		{"with the rule off, Unfenced", holdfast.Unfenced, []rule.Name{rule.OutputsFirst}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			p.create("out", nil)
			p.produce("k", 1)
			p.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: "out", Err: kerr.TopicAuthorizationFailed})
			conf := p.config()
			conf.Guarantee, conf.Outputs = c.guarantee, []string{"out"}
			conf.Fold = func(_ context.Context, k *holdfast.Key[int], _ stream.Record) error {
				k.Set(1)
				k.Emit(stream.Message{Topic: "out", Key: k.Bytes(), Value: []byte("1")})
				return nil
			}
			ctx, cancel := context.WithTimeout(rule.Without(t.Context(), c.off...), patience)
			defer cancel()
			conf.Hooks = []holdfast.Hooks{{Committed: func(e stream.Committed) {
				if e.Next == 1 {
					cancel()
				}
			}}}
			f, err := holdfast.New(conf)
			p.must(err)
			err = f.Run(ctx)
			if _, written := p.stored()["k"]; written != (c.off != nil) {
				t.Errorf("I4: snapshot written: %v", written)
			}
			if c.off == nil && !errors.Is(err, stream.ErrOutput) {
				t.Errorf("run: %v", err)
			}
		})
	}
}

// Two workers of one partition in one process: the fold of the first ignores that its ownership is
// lost. The second folds beside it; nothing of the first may leave when it returns at last.
func TestNothingLeavesAStuckFold(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.create("out", nil)
	p.produce("k", 1)
	c := p.config()
	c.Outputs = []string{"out"}
	release := make(chan struct{})
	calls := atomic.Int32{}
	c.Fold = func(_ context.Context, k *holdfast.Key[int], _ stream.Record) error {
		value := "second"
		if calls.Add(1) == 1 {
			value = "first"
			p.expel()
			<-release
		}
		n, _ := k.State()
		k.Set(n + 1)
		k.Emit(stream.Message{Topic: "out", Key: k.Bytes(), Value: []byte(value)})
		return nil
	}
	c.Hooks = []holdfast.Hooks{{Committed: func(e stream.Committed) {
		if e.Next == 1 {
			close(release) // once: the offset of the one record is committed once
		}
	}}}
	p.must(until(p, c, 1)) // Run returns after the stuck fold
	p.wantStored(map[string]string{"k": "1"})
	var left []string
	_, err := snapshot.Restore(t.Context(), snapshot.RestoreConfig{Client: p.cl, Topic: "out", Each: func(r stream.Record) error {
		left = append(left, string(r.Value))
		return nil
	}})
	p.must(err)
	if calls.Load() != 2 || len(left) != 1 || left[0] != "second" {
		t.Errorf("%d folds, outputs %v", calls.Load(), left)
	}
}

// The client's own limit of a batch is lower than what the topic allows.
func TestStateAboveTheClientsOwnLimit(t *testing.T) {
	t.Parallel()
	for _, g := range []holdfast.Guarantee{holdfast.FencedState, holdfast.Unfenced} {
		t.Run(g.String(), func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			_, err := kadm.NewClient(p.cl).AlterTopicConfigs(t.Context(), []kadm.AlterConfig{
				{Op: kadm.SetConfig, Name: "max.message.bytes", Value: kadm.StringPtr("4194304")}}, states)
			p.must(err)
			p.produce("k", 2)
			c := holdfast.Config[string]{
				Kafka: p.k, Group: "flow", Inputs: []string{input}, Codec: codec.JSON[string](), Guarantee: g,
				Commit: holdfast.Commit{Persist: time.Millisecond, Interval: time.Millisecond},
				Fold: func(_ context.Context, k *holdfast.Key[string], _ stream.Record) error {
					s, _ := k.State()
					k.Set(s + strings.Repeat("x", 1<<20))
					return nil
				},
			}
			p.must(until(p, c, 2))
			p.produce("k", 1)
			p.must(until(p, c, 3)) // restored, and folded on
			if n := len(p.stored()["k"]); n != 3<<20+2 {
				t.Errorf("the state has %d bytes", n)
			}
		})
	}
}

// What a commit meets again under each grant must stop the flow and not be met for ever.
func TestUnfencedCommitThatIsNotAllowed(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.produce("k", 1)
	p.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.OffsetCommit}, Err: kerr.GroupAuthorizationFailed})
	c := p.config()
	c.Guarantee = holdfast.Unfenced
	if err := until(p, c, 1); !errors.Is(err, stream.ErrNotAuthorized) {
		t.Errorf("run: %v", err)
	}
}
