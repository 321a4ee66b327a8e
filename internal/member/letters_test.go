package member_test

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/dlq"
	"github.com/holdfast-go/holdfast/stream"
)

// lettered is a flow whose first record fails and becomes a letter beside the transactions.
func lettered(p *place, g holdfast.Guarantee) holdfast.Config[int] {
	p.create("letters", nil)
	p.must(p.cl.ProduceSync(p.t.Context(), &kgo.Record{Key: []byte("bad"), Value: []byte("1")}).FirstErr())
	p.produce("k", 1)
	c := p.config()
	c.Guarantee, c.DeadLetters = g, &dlq.Policy{Topic: "letters"}
	c.OnError = func(context.Context, *stream.RecordError) stream.Action { return stream.DeadLetter }
	c.Fold = func(_ context.Context, k *holdfast.Key[int], _ stream.Record) error {
		if string(k.Bytes()) == "bad" {
			return errors.New("it cannot be folded")
		}
		k.Set(1)
		return nil
	}
	return c
}

// beside are the guarantees under which a letter is no part of a transaction.
var beside = map[string]holdfast.Guarantee{"FencedState": holdfast.FencedState, "Unfenced": holdfast.Unfenced}

// R18: a letter that the broker refuses is noticed, and its record is not passed over.
func TestRefusedLetterIsNotPassedOver(t *testing.T) {
	t.Parallel()
	for name, g := range beside {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			c := lettered(p, g)
			p.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: "letters", Err: kerr.TopicAuthorizationFailed, Count: -1})
			var past atomic.Bool
			c.Hooks = []holdfast.Hooks{{Committed: func(e stream.Committed) {
				if e.Next > 0 {
					past.Store(true)
				}
			}}}
			err := until(p, c, 2)
			if past.Load() {
				t.Error("I4: the record is committed as passed, and its letter was refused")
			}
			if !errors.Is(err, stream.ErrOutput) {
				t.Errorf("I4: run: %v, want %v", err, stream.ErrOutput)
			}
		})
	}
}

// R18: the record is not committed as passed before its letter is acknowledged, and not either as the member
// ends: it waits for the letter as long as its budget is, and leaves the record to the next owner.
func TestLetterIsAwaited(t *testing.T) {
	t.Parallel()
	for name, g := range beside {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			c := lettered(p, g)
			c.Commit.RevokeBudget = 2 * time.Second
			letters := p.cluster.TopicInfo("letters").TopicID
			held, release := make(chan struct{}), make(chan struct{})
			t.Cleanup(func() { close(release) })
			p.cluster.ControlKey(int16(kmsg.Produce), func(req kmsg.Request) (kmsg.Response, error, bool) {
				if slices.ContainsFunc(req.(*kmsg.ProduceRequest).Topics, func(topic kmsg.ProduceRequestTopic) bool {
					return topic.Topic == "letters" || topic.TopicID == letters
				}) {
					close(held)
					p.cluster.SleepControl(func() { <-release })
					return nil, nil, false
				}
				p.cluster.KeepControl()
				return nil, nil, false
			})
			var past atomic.Int64
			c.Hooks = []holdfast.Hooks{{Committed: func(e stream.Committed) { past.Store(e.Next) }}}
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			fold := c.Fold
			c.Fold = func(ctx context.Context, k *holdfast.Key[int], r stream.Record) error {
				if err := fold(ctx, k, r); err != nil {
					return err
				}
				<-held
				cancel() // the end, with the letter on its way and the next record folded
				return nil
			}
			f, err := holdfast.New(c)
			p.must(err)
			if err := f.Run(ctx); err != nil {
				t.Errorf("run: %v", err)
			}
			select {
			case <-held:
			default:
				t.Fatal("no letter was sent")
			}
			if past.Load() > 0 {
				t.Errorf("I4: offset %d is committed, and the letter of record 0 is not acknowledged", past.Load())
			}
		})
	}
}
