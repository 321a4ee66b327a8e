package acceptance

import (
	"context"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/dlq"
	"github.com/holdfast-go/holdfast/internal/kafkatest"
	"github.com/holdfast-go/holdfast/internal/wiretap"
	"github.com/holdfast-go/holdfast/stream"
)

// lettered is a flow that sets "bad" records aside, outside of its transactions.
type lettered struct {
	t     *testing.T
	k     *kafkatest.Cluster
	admin *kadm.Client
	pr    *kgo.Client
	dead  string
	conf  holdfast.Config[tally]
}

func newLettered(t *testing.T, guarantee holdfast.Guarantee) *lettered {
	t.Helper()
	k := kafkatest.Start(t)
	input := k.CreateTopic(t, kafkatest.UniqueName("input"), 1, nil)
	l := &lettered{t: t, k: k, pr: producer(t, k), dead: k.CreateTopic(t, input+"-dead", 1, nil), conf: config(k.Addrs, input+"-flow", input)}
	l.admin = kadm.NewClient(k.Client(t))
	l.conf.Guarantee, l.conf.Fold = guarantee, failing("error")
	l.conf.OnError = func(context.Context, *stream.RecordError) stream.Action { return stream.DeadLetter }
	l.conf.DeadLetters = &dlq.Policy{Topic: l.dead}
	return l
}

// origins are the places of the letters, in their order.
func (l *lettered) origins() (at []string) {
	l.t.Helper()
	for _, r := range readAll(l.t, l.k, l.dead, kgo.ReadCommitted()) {
		origin := ""
		for _, h := range r.Headers {
			if h.Key == "__connect.errors.offset" {
				origin = string(h.Value)
			}
		}
		at = append(at, origin)
	}
	return at
}

func (l *lettered) committed() int64 { return committed(l.t, l.k, l.conf.Group, l.conf.Inputs[0])[0] }

// set changes the dead-letter topic's most bytes of a batch.
func (l *lettered) set(bytes string) {
	l.t.Helper()
	rs, err := l.admin.AlterTopicConfigs(l.t.Context(), []kadm.AlterConfig{{Op: kadm.SetConfig, Name: "max.message.bytes", Value: &bytes}}, l.dead)
	if err == nil {
		err = rs[0].Err
	}
	if err != nil {
		l.t.Fatal(err)
	}
}

// outside runs a test under the guarantees whose letters go beside the transaction.
func outside(t *testing.T, test func(t *testing.T, l *lettered)) {
	for _, g := range []holdfast.Guarantee{holdfast.FencedState, holdfast.Unfenced} {
		t.Run(g.String(), func(t *testing.T) {
			t.Parallel()
			test(t, newLettered(t, g))
		})
	}
}

// The broker refuses a letter that went outside a transaction: the flow stops at the record, no offset passes it, and once
// the topic takes it the letter is there, once.
func TestKafkaLetterOutsideATransactionIsRefused(t *testing.T) {
	outside(t, func(t *testing.T, l *lettered) {
		send(t, l.pr, l.conf.Inputs[0], "k", "1", "2")
		f := start(t, t.Context(), "refused", l.conf)
		f.committedTo(0, 2)
		l.set("100")
		send(t, l.pr, l.conf.Inputs[0], "k", "bad", "4")
		e := named(t, f.failure(), holdfast.ErrOutput, "MESSAGE_TOO_LARGE")
		if e.Offset != 2 || !strings.Contains(e.Error(), l.dead) {
			t.Errorf("the error is not about offset 2 and topic %s: %v", l.dead, e)
		}
		if got := l.committed(); got > 2 {
			t.Errorf("I4: committed %d, past a record whose letter is nowhere", got)
		}
		if at := l.origins(); len(at) != 0 {
			t.Errorf("letters of %v, want none", at)
		}

		l.set("1048588")
		f = start(t, t.Context(), "mended", l.conf)
		f.committedTo(0, 4)
		if err := f.stop(); err != nil {
			t.Fatal(err)
		}
		if at := l.origins(); len(at) != 1 || at[0] != "2" {
			t.Errorf("I4: letters of %v, want one of offset 2", at)
		}
	})
}

// The broker has a letter, and its answer is lost: the client asks again, and the letter is there once.
func TestKafkaLetterOutsideATransactionIsNotAnswered(t *testing.T) {
	outside(t, func(t *testing.T, l *lettered) {
		a := newTap(t, l.k)
		lost := a.Fault(wiretap.CutOnResponse, wiretap.First(1, l.ofLetters()))
		send(t, l.pr, l.conf.Inputs[0], "k", "1", "bad", "3")
		f := start(t, t.Context(), "only", tapped(l.conf, a, "only"))
		caught(t, lost, 1)
		f.committedTo(0, 3)
		if err := f.stop(); err != nil {
			t.Fatal(err)
		}
		if at := l.origins(); len(at) != 1 || at[0] != "1" {
			t.Errorf("letters of %v, want one of offset 1", at)
		}
	})
}

// A letter is on its way when the process is cut off for good: no offset has passed the record, and the next owner
// writes a letter of the same origin, by which a reader tells a repeat.
func TestKafkaLetterOutsideATransactionIsLost(t *testing.T) {
	for name, action := range map[string]wiretap.Action{"the request": wiretap.HoldRequest, "the answer": wiretap.HoldResponse} {
		t.Run(name, func(t *testing.T) {
			outside(t, func(t *testing.T, l *lettered) {
				a := newTap(t, l.k)
				held := a.Fault(action, l.ofLetters())
				send(t, l.pr, l.conf.Inputs[0], "k", "1", "bad", "3")
				conf := tapped(short(l.conf), a, "first")
				first := start(t, t.Context(), "first", conf)
				caught(t, held, 1)
				// Many commit intervals long: an offset that does not wait for the letter has gone by then.
				a.awaitSeen("heartbeats", a.mark(), 3, isRequest[*kmsg.HeartbeatRequest](answeredWith(nil)))
				if got := l.committed(); got > 1 {
					t.Errorf("I4: committed %d before the letter of offset 1 was acknowledged", got)
				}
				a.Refuse(true)
				a.Cut(func(string) bool { return true })
				first.cancel()

				second := start(t, t.Context(), "second", l.conf)
				second.committedTo(0, 3)
				if err := second.stop(); err != nil {
					t.Fatal(err)
				}
				at, most := l.origins(), 1
				if action == wiretap.HoldResponse {
					most = 2
				}
				if len(at) == 0 || len(at) > most || strings.Trim(strings.Join(at, ""), "1") != "" {
					t.Errorf("I4: letters of %v, want one or, where the first one has arrived, two of offset 1", at)
				}
				if err := first.stop(); err != nil {
					t.Logf("the process that was cut off ended with %v", err)
				}
			})
		})
	}
}

// ofLetters accepts what is written to the dead-letter topic.
func (l *lettered) ofLetters() wiretap.Match {
	id := topicID(l.t, l.k, l.dead)
	return func(r wiretap.Request) bool {
		req, err := r.Decoded()
		if err != nil {
			return false
		}
		p, ok := req.(*kmsg.ProduceRequest)
		if !ok {
			return false
		}
		for _, topic := range p.Topics {
			if topic.Topic == l.dead || topic.TopicID == id {
				return true
			}
		}
		return false
	}
}
