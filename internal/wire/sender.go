package wire

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/holdfast-go/holdfast/stream"
)

// Sender writes records beside any transaction. Those of one partition come in the order in which they were given,
// also where a broker refuses some: what was refused together goes again in smaller parts before anything behind it,
// until all is written or one record is refused alone, which is the one at fault (R34). So a limit of a topic that
// was lowered since it was asked for costs some refusals, and not the run.
//
// For that the client must have nothing to send while answers are out: it fails what a partition has buffered when a
// batch of it is refused, and takes what comes next for the beginning of another:
//
//  1. The outputs 1 to 500 of a key are given to the client, and go in one batch. The topic takes less.
//  2. The broker refuses them. Meanwhile output 501 was given to the client, and is written.
//  3. 1 to 500 go again, in parts, and are behind 501.
//
// It is for one goroutine; Close may be called by any.
type Sender struct {
	client *kgo.Client
	before func(context.Context) error // each sending; nil: nothing
	known  map[string]bool             // topics of which the client knows the partitions
	most   map[string]int64            // bytes that are sent together, for the topics that refused more

	closing atomic.Bool
	closed  chan struct{}
}

// ErrNotSent is the outcome of a record that was not given to a broker.
var ErrNotSent = errors.New("not sent, for another record could not be written")

// SenderOpts are the options of a client that a Sender sends with. The client's own bounds are off, since it holds
// what it was given until it is told to send. A RecordDeliveryTimeout would count from a record's timestamp, which may
// be that of an old input record.
func SenderOpts() []kgo.Opt {
	return []kgo.Opt{kgo.ManualFlushing(), kgo.MaxBufferedRecords(1 << 30), kgo.MaxBufferedBytes(0), kgo.RecordDeliveryTimeout(0)}
}

// NewSender returns a sender with a client that was made with SenderOpts. bounds has the bytes of a batch by topic, for
// those whose limit the client was not told; before, if not nil, is called before each sending, and its error ends it.
func NewSender(client *kgo.Client, bounds map[string]int64, before func(context.Context) error) *Sender {
	s := &Sender{client: client, before: before, known: map[string]bool{}, most: map[string]int64{}, closed: make(chan struct{})}
	for topic, n := range bounds {
		s.most[topic] = n
	}
	return s
}

// Send sends records and waits for all answers. acked is called for each that is acknowledged, by any goroutine. If
// one is not, at is the first record at fault, -1 if there is none, and outcomes has what became of each record: nil,
// ErrNotSent, or an error; one that OfRecord knows means that the record is not written, and of the others nobody knows.
// A sender whose context has ended has closed its client.
func (s *Sender) Send(ctx context.Context, rs []*kgo.Record, acked func(i int)) (at int, outcomes []error) {
	outcomes = make([]error, len(rs))
	left := make([]int, len(rs))
	for i := range rs {
		left[i], outcomes[i] = i, ErrNotSent
	}
	for len(left) > 0 {
		part := left[:s.fit(rs, left)]
		if s.before != nil {
			if err := s.before(ctx); err != nil {
				outcomes[part[0]] = err
				return part[0], outcomes
			}
		}
		s.send(ctx, rs, part, outcomes, acked)
		refused := unwritten(part, outcomes)
		if at := s.culprit(rs, refused, outcomes); at >= 0 {
			return at, outcomes
		}
		for _, i := range refused {
			outcomes[i] = ErrNotSent
		}
		s.lower(rs, refused)
		left = append(refused, left[len(part):]...)
	}
	return -1, outcomes
}

// fit returns how many of the records go together. Of a topic that the client does not know it is one: as soon as it
// does it would send the first while it is given the rest.
func (s *Sender) fit(rs []*kgo.Record, left []int) int {
	bytes, count := map[string]int64{}, map[string]int{}
	for n, i := range left {
		r := rs[i]
		size := recordBytes(r)
		most, bounded := s.most[r.Topic]
		if count[r.Topic] > 0 && (!s.known[r.Topic] || bounded && bytes[r.Topic]+size > most) {
			return n
		}
		count[r.Topic]++
		bytes[r.Topic] += size
	}
	return len(left)
}

// send sends some of the records, and notes what became of each.
func (s *Sender) send(ctx context.Context, rs []*kgo.Record, part []int, outcomes []error, acked func(int)) {
	type answer struct {
		i   int
		err error
	}
	answers := make(chan answer, len(part))
	for _, i := range part {
		r := rs[i] // a copy, since the client writes into the one that it is given
		given := &kgo.Record{Topic: r.Topic, Partition: r.Partition, Key: r.Key, Value: r.Value, Headers: r.Headers, Timestamp: r.Timestamp}
		s.client.Produce(ctx, given, func(_ *kgo.Record, err error) {
			if err == nil {
				acked(i)
			}
			answers <- answer{i, err}
		})
	}
	err := s.client.Flush(ctx)
	if err != nil {
		s.Close() // which answers what was not
	}
	for range part {
		a := <-answers
		if outcomes[a.i] = a.err; a.err != nil && err != nil && !OfRecord(a.err) {
			outcomes[a.i] = errors.Join(context.Cause(ctx), a.err)
		}
		if a.err == nil {
			s.known[rs[a.i].Topic] = true
		}
	}
}

// unwritten returns those of part that were not acknowledged, in their order.
func unwritten(part []int, outcomes []error) (refused []int) {
	for _, i := range part {
		if outcomes[i] != nil {
			refused = append(refused, i)
		}
	}
	return refused
}

// culprit returns the first record at fault: one whose error is no refusal for what it is, or the only one of its
// topic that was refused. -1: there are none, or several that have to be looked through.
func (s *Sender) culprit(rs []*kgo.Record, refused []int, outcomes []error) int {
	count := map[string]int{}
	for _, i := range refused {
		if !OfRecord(outcomes[i]) {
			return i
		}
		count[rs[i].Topic]++
	}
	for _, i := range refused {
		if count[rs[i].Topic] == 1 {
			return i
		}
	}
	return -1
}

// lower has half as much be sent together to each topic as what it has refused.
func (s *Sender) lower(rs []*kgo.Record, refused []int) {
	bytes := map[string]int64{}
	for _, i := range refused {
		bytes[rs[i].Topic] += recordBytes(rs[i])
		s.known[rs[i].Topic] = true
	}
	for topic, n := range bytes {
		if most, ok := s.most[topic]; ok {
			n = min(n, most)
		}
		s.most[topic] = n / 2
	}
}

// Close closes the client, which drops what is not sent. A second caller waits for the first: nothing can leave after
// either of them has returned.
func (s *Sender) Close() {
	if s.closing.Swap(true) {
		<-s.closed
		return
	}
	defer close(s.closed)
	s.client.Close()
}

// recordBytes is the most that a record takes in a batch.
func recordBytes(r *kgo.Record) int64 {
	m := stream.Message{Key: r.Key, Value: r.Value}
	for _, h := range r.Headers {
		m.Headers = append(m.Headers, stream.Header(h))
	}
	return m.BatchBytes() - batchBytes + laterBytes
}

const (
	batchBytes = 61 // what a batch takes without its records
	// laterBytes is what a record may take more behind another one, whose timestamp and offset it has the difference to.
	laterBytes = 9 + 4
)
