package prove

import (
	"context"
	"fmt"
	"strings"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/stream"
)

// eventHeader carries the id of an event, as an application would give it one.
const eventHeader = "event-id"

// Sends is what became of an event that was sent twice, and of two whose answer was cut off.
type Sends struct {
	First int64 `json:"firstOffset"`
	Again int64 `json:"againOffset"` // of the second send of the same event
	Found int   `json:"found"`       // records with the id that a reader finds
	// Retried had its answer cut off with idempotence on. Control had it without: it shows that the
	// fault is one that makes a second record where nothing prevents it.
	Retried Retried `json:"retried"`
	Control Retried `json:"control"`
}

// Retried is one event whose first answer never arrived.
type Retried struct {
	Cut    bool     `json:"cut"`    // an answer came in and was thrown away with its connection
	Sent   []Header `json:"sent"`   // one for each request that the client made
	Offset int64    `json:"offset"` // acknowledged in the end
	Found  int      `json:"found"`  // records with the id that a reader finds
}

func runSends(ctx context.Context, w *world) (observation, error) {
	topic, err := w.topic(ctx, sendsTopic, nil)
	if err != nil {
		return nil, err
	}
	var s Sends
	w.o.note("    sending one event twice")
	if err := s.sendTwice(ctx, w, topic); err != nil {
		return nil, err
	}
	w.o.note("    cutting the connection before the answer to a batch is read: with idempotence, then without")
	if s.Retried, err = w.retried(ctx, topic, "retried"); err != nil {
		return nil, err
	}
	if s.Control, err = w.retried(ctx, topic, "control", kgo.DisableIdempotentWrite()); err != nil {
		return nil, err
	}
	records, err := w.read(ctx, topic, false)
	if err != nil {
		return nil, err
	}
	found := map[string]int{}
	for _, r := range records {
		found[event(r)]++
	}
	s.Found, s.Retried.Found, s.Control.Found = found["twice"], found["retried"], found["control"]
	return s, nil
}

func (s *Sends) sendTwice(ctx context.Context, w *world, topic string) error {
	cl, err := w.o.Kafka.Client(kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		return err
	}
	defer cl.Close()
	for _, at := range []*int64{&s.First, &s.Again} {
		r := eventRecord(topic, "twice")
		if err := write(ctx, cl, r); err != nil {
			return err
		}
		*at = r.Offset
	}
	return nil
}

// retried sends one event over connections of which the first one to carry it is cut.
func (w *world) retried(ctx context.Context, topic, id string, more ...kgo.Opt) (Retried, error) {
	var c cutter
	opts, err := w.o.Kafka.ClientOpts(c.wrap)
	if err != nil {
		return Retried{}, err
	}
	cl, err := kgo.NewClient(append(append(opts, kgo.RecordPartitioner(kgo.ManualPartitioner())), more...)...)
	if err != nil {
		return Retried{}, stream.NewError("make client", fmt.Errorf("%w: %w", stream.ErrConfig, err))
	}
	defer cl.Close()
	r := eventRecord(topic, id)
	if err := write(ctx, cl, r); err != nil {
		return Retried{}, err
	}
	fired, sent := c.seen()
	return Retried{Cut: fired, Sent: sent, Offset: r.Offset}, nil
}

func eventRecord(topic, id string) *kgo.Record {
	return &kgo.Record{Topic: topic, Key: []byte("key"), Value: []byte("event " + id), Headers: []kgo.RecordHeader{{Key: eventHeader, Value: []byte(id)}}}
}

func event(r *kgo.Record) string {
	for _, h := range wire.Record(r).Headers {
		if h.Key == eventHeader {
			return string(h.Value)
		}
	}
	return ""
}

func (s Sends) judge() (Verdict, string) {
	switch {
	case s.First == s.Again || s.Found != 2:
		return Refuted, fmt.Sprintf("two sends of one event made %s, at offsets %d and %d", count(s.Found, "record"), s.First, s.Again)
	case !s.Retried.Cut || len(s.Retried.Sent) < 2:
		return NotShown, "no answer to a batch could be cut off on our own connection, so that the client had nothing to send again"
	case s.Retried.Found != 1:
		return Refuted, fmt.Sprintf("a batch that the client sent again within its session made %s", count(s.Retried.Found, "record"))
	case !sameBatch(s.Retried.Sent):
		return NotShown, "what the client sent again was not the same batch"
	case !s.Control.Cut || s.Control.Found < 2:
		return NotShown, "the same fault without idempotence made no second record either, so that it shows nothing"
	}
	return Proved, ""
}

// sameBatch reports whether all requests carried one and the same batch of one producer session.
func sameBatch(sent []Header) bool {
	for _, h := range sent {
		if h != sent[0] || h.ProducerID < 0 {
			return false
		}
	}
	return true
}

func (s Sends) lines() []string {
	return []string{
		fmt.Sprintf("one event, sent twice by one idempotent producer: offsets %d and %d; a reader finds it %s", s.First, s.Again, times(s.Found)),
		"answer cut off, idempotence on: " + s.Retried.line(),
		"control, answer cut off, idempotence off: " + s.Control.line(),
	}
}

func (r Retried) line() string {
	if !r.Cut {
		return "no answer could be cut off"
	}
	var sent []string
	for _, h := range r.Sent {
		sent = append(sent, h.String())
	}
	return fmt.Sprintf("the batch left %s (%s), acknowledged at offset %d; a reader finds it %s",
		times(len(r.Sent)), strings.Join(sent, "; "), r.Offset, times(r.Found))
}

func times(n int) string {
	switch n {
	case 1:
		return "once"
	case 2:
		return "twice"
	}
	return fmt.Sprintf("%d times", n)
}
