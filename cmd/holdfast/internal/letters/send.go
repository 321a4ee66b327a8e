package letters

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/holdfast-go/holdfast/dlq"
	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/kafka"
	"github.com/holdfast-go/holdfast/stream"
)

// Sent says what became of a plan.
type Sent struct {
	Acknowledged int // written
	// Doubtful were handed to the brokers, which have given no answer: each may be written or not.
	Doubtful int
	Untried  int       // not written: not handed over
	Refused  []Refused // not written: their topics refuse them as they are
	// Next is where to go on, by partition of the dead-letter topic: the first letter of the plan
	// that is not known to be written. What stands behind it may be.
	Next map[int32]int64
	// Later is where letters stand that are written after the plan was made, by partition, for the
	// partitions that the plan has letters of.
	Later map[int32]int64
}

// How much is sent before the answers are waited for. It bounds what is in doubt after a failure.
const (
	chunkRecords = 100
	chunkBytes   = 1 << 20
)

// Send sends the letters of the plan, in batches that their topics take: what a broker refuses together goes again
// in parts, in its order. A letter that is refused alone for what it is, is set aside. One that is refused for
// another reason, or not taken within the patience of the filter, ends it: Sent then says what was done, beside the error. Producing is idempotent with acks=all, so that a retry of the client
// makes no second record.
func (p *Plan) Send(ctx context.Context) (Sent, error) {
	s := &sender{plan: p, open: map[Place]Item{}, sent: Sent{Untried: len(p.Items)}}
	limits, bounds, err := p.limits(ctx)
	if err != nil {
		return s.sent, err
	}
	cl, err := p.replay.Kafka.Client(append(wire.SenderOpts(),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerBatchMaxBytesFn(func(topic string) int32 { return wire.BatchLimit(limits[topic]) }),
		// A flush ends with its context. Without this option a record that was on its way when its broker
		// went silent would be waited for all the same; nothing is produced after it by this client, so
		// that idempotence loses nothing.
		kgo.AllowIdempotentProduceCancellation())...)
	if err != nil {
		return s.sent, err
	}
	s.client, s.sender = cl, wire.NewSender(cl, bounds, nil)
	defer s.sender.Close()
	s.sent.Later = map[int32]int64{}
	for _, i := range p.Items {
		s.open[i.Letter] = i
		s.sent.Later[i.Letter.Partition] = max(s.sent.Later[i.Letter.Partition], i.Letter.Offset+1)
	}
	err = s.run(ctx)
	s.sent.Next = s.next()
	return s.sent, err
}

// limits asks what the topics of the plan take in one batch. Of those that do not tell, for the permission to
// describe their configuration is another one than to write, bounds has what most topics take: a letter that is larger
// goes alone, and the broker decides.
func (p *Plan) limits(ctx context.Context) (limits map[string]int, bounds map[string]int64, err error) {
	limits, bounds = map[string]int{}, map[string]int64{}
	cl, err := p.replay.Kafka.Client()
	if err != nil {
		return nil, nil, err
	}
	defer cl.Close()
	ctx, cancel := context.WithTimeout(ctx, p.replay.Patience)
	defer cancel()
	for _, i := range p.Items {
		topic := i.To.Topic
		if _, ok := limits[topic]; ok {
			continue
		}
		f, err := wire.TopicFacts(ctx, cl, topic)
		if limits[topic] = f.MaxMessageBytes; err != nil || limits[topic] <= 0 {
			limits[topic], bounds[topic] = math.MaxInt32, int64(wire.BatchLimit(0))
		}
	}
	return limits, bounds, nil
}

// sender is one Send. It reads the letters a second time: the plan has no payloads, which would not
// fit in memory for a large topic.
type sender struct {
	plan   *Plan
	client *kgo.Client
	sender *wire.Sender
	open   map[Place]Item // not acknowledged
	chunk  []*kgo.Record
	places []Place // of the records in chunk
	bytes  int
	sent   Sent
}

func (s *sender) run(ctx context.Context) error {
	f := s.plan.replay.Filter
	first, end := map[int32]int64{}, map[int32]int64{}
	for at := range s.open {
		if from, ok := first[at.Partition]; !ok || at.Offset < from {
			first[at.Partition] = at.Offset
		}
		end[at.Partition] = max(end[at.Partition], at.Offset+1)
	}
	for _, partition := range s.partitions(first) {
		f.Partitions, f.From, f.To = []int32{partition}, first[partition], end[partition]
		for l, err := range f.read(ctx) {
			if err == nil {
				err = s.take(ctx, l)
			}
			if err != nil {
				return err
			}
		}
	}
	if err := s.flush(ctx); err != nil {
		return err
	}
	if len(s.open) > 0 {
		return stream.NewError("replay", fmt.Errorf("%w: %d of the letters are gone: they were deleted meanwhile",
			ErrNoLetter, len(s.open))).Hinted("list the topic again, and look at its retention")
	}
	return nil
}

// partitions returns the partitions in the order of the plan.
func (s *sender) partitions(of map[int32]int64) []int32 {
	if order := s.plan.replay.Partitions; order != nil {
		return slices.DeleteFunc(slices.Clone(order), func(p int32) bool { _, ok := of[p]; return !ok })
	}
	return slices.Sorted(maps.Keys(of))
}

func (s *sender) take(ctx context.Context, l dlq.Letter) error {
	place := Place{l.Record.Partition, l.Record.Offset}
	item, ok := s.open[place]
	if !ok {
		return nil
	}
	m, err := dlq.ReplayTo(l, item.To.Topic)
	if err != nil {
		return err
	}
	r := &kgo.Record{Topic: item.To.Topic, Partition: item.To.Partition, Key: m.Key, Value: m.Value, Timestamp: m.Timestamp}
	s.bytes += len(m.Key) + len(m.Value)
	for _, h := range m.Headers {
		r.Headers = append(r.Headers, kgo.RecordHeader(h))
		s.bytes += len(h.Key) + len(h.Value)
	}
	s.chunk, s.places = append(s.chunk, r), append(s.places, place)
	if len(s.chunk) >= chunkRecords || s.bytes >= chunkBytes {
		return s.flush(ctx)
	}
	return nil
}

// flush sends the chunk and waits for all of its answers.
func (s *sender) flush(ctx context.Context) error {
	within, cancel := context.WithTimeout(ctx, s.plan.replay.Patience)
	defer cancel()
	rs, places := s.chunk, s.places
	s.chunk, s.places, s.bytes = nil, nil, 0
	for len(rs) > 0 {
		at, outcomes := s.sender.Send(within, rs, func(int) {})
		aside := at >= 0 && wire.OfRecord(outcomes[at]) && ctx.Err() == nil
		var restRecords []*kgo.Record
		var restPlaces []Place
		for i, err := range outcomes {
			switch {
			case err == nil:
				s.sent.Untried--
				s.sent.Acknowledged++
				delete(s.open, places[i])
			case i == at && aside:
			case errors.Is(err, wire.ErrNotSent), answered(err):
				restRecords, restPlaces = append(restRecords, rs[i]), append(restPlaces, places[i])
			default:
				s.sent.Untried--
				s.sent.Doubtful++
			}
		}
		if at < 0 {
			return nil
		}
		failed := s.refused(ctx, places[at], outcomes[at])
		if !aside {
			return failed
		}
		s.setAside(places[at], failed)
		rs, places = restRecords, restPlaces
	}
	return nil
}

// setAside leaves a letter out that its topic does not take as it is.
func (s *sender) setAside(place Place, why error) {
	item := s.open[place]
	s.sent.Untried--
	s.sent.Refused = append(s.sent.Refused, Refused{Letter: place, Origin: item.Origin, Why: why.Error(), err: why})
	delete(s.open, place)
}

// answered reports whether a broker has said that it does not take a record, which is not written then.
func answered(err error) bool {
	code, ok := errors.AsType[*kerr.Error](err)
	return ok && !code.Retriable
}

// refused says which letter was not taken, and what to do.
func (s *sender) refused(ctx context.Context, place Place, err error) error {
	item := s.open[place]
	named := func(err error) *stream.Error {
		return stream.NewError("replay", fmt.Errorf("letter %s: %w", place, err)).
			At(stream.Partition{Topic: item.To.Topic, Partition: item.To.Partition}, -1)
	}
	switch {
	case ctx.Err() != nil:
		return named(context.Cause(ctx))
	// Who may write to no topic at all is refused a producer id by the cluster, before any topic is named.
	case errors.Is(err, kerr.TopicAuthorizationFailed), errors.Is(err, kerr.ClusterAuthorizationFailed):
		return named(fmt.Errorf("%w: %w", stream.ErrNotAuthorized, err)).
			Hinted("%s", wire.GrantTopic(s.client, item.To.Topic, "Write", "Describe"))
	case errors.Is(err, kerr.MessageTooLarge), errors.Is(err, kerr.RecordListTooLarge):
		return named(fmt.Errorf("%w: %w", stream.ErrTooLarge, err)).
			Hinted("raise max.message.bytes of %s by %d, which is room for the headers of a letter", item.To.Topic, dlq.MaxOverhead)
	case wire.OfRecord(err):
		return named(err).Hinted("%s", wire.Remedy(err, "letter", item.To.Topic))
	case errors.Is(err, context.DeadlineExceeded):
		return named(fmt.Errorf("%w: no acknowledgement within %v: %w", stream.ErrUnreachable, s.plan.replay.Patience, err)).
			Hinted("look at the brokers that lead %s, and at its min.insync.replicas", item.To.Topic)
	}
	explained := kafka.Explain(err)
	e := named(explained)
	var inner *stream.Error
	if errors.As(explained, &inner) {
		e.Hint = inner.Hint
		e.Err = fmt.Errorf("letter %s: %w", place, inner.Err)
	}
	return e
}

func (s *sender) next() map[int32]int64 {
	next := map[int32]int64{}
	for at := range s.open {
		if offset, ok := next[at.Partition]; !ok || at.Offset < offset {
			next[at.Partition] = at.Offset
		}
	}
	return next
}
