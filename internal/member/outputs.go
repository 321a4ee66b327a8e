package member

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/holdfast-go/holdfast/dlq"
	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/stream"
)

// outputs sends what folds emit, at-least-once. Each ownership has a client of its own, made with
// the first output: closing it is what makes sure that no buffered output of a partition that was
// taken away can leave later. A goroutine of its own sends, all that has come meanwhile at once.
type outputs struct {
	w         *worker
	described map[string]fence.Output
	ended     once
	arrived   chan struct{} // an output waits to be sent; of one element
	failed    chan struct{} // closed when an output was refused

	mu      sync.Mutex
	sender  *wire.Sender
	parcels []parcel // not given to it yet
	closed  bool
	sent    int64
	acks    int64
	told    int64 // acknowledged outputs that hooks know of
	bytes   int64
	err     error         // the first output that was refused; it stays
	target  int64         // the newest output that acked waits for; 0: nobody waits
	left    int64         // outputs up to target that are not acknowledged
	reached chan struct{} // closed when none is left or an output was refused
	window  window        // of those that are not acknowledged
	room    chan struct{} // closed when there may be room in it; nil: nobody waits for it
}

// parcel is an output on its way.
type parcel struct {
	number int64         // from 1
	origin stream.Record // whose step made it
	record *kgo.Record
	size   int64
	queued time.Time
	letter *dlq.Cause // of a dead letter
}

func (o *outputs) init(w *worker) {
	o.w, o.described = w, w.m.outputs(w.own.Partition())
	o.window.most = windowFirst
	o.arrived, o.failed = make(chan struct{}, 1), make(chan struct{})
}

// fixed returns the one partition of a topic that is written to, if there is one.
func (o *outputs) fixed(topic string) (int32, bool) {
	if p := o.described[topic].Partition; p != nil {
		return *p, true
	}
	return 0, false
}

// send queues the outputs of one step, in order. It waits while the window is full, and while the group has
// not answered within the session timeout (R16). An output that was refused is its error.
func (o *outputs) send(ctx context.Context, origin stream.Record, ms []stream.Message) error {
	if err := o.open(); err != nil {
		return err
	}
	for _, m := range ms {
		if err := o.put(ctx, origin, m, nil); err != nil {
			return err
		}
	}
	return nil
}

// put queues one output.
func (o *outputs) put(ctx context.Context, origin stream.Record, m stream.Message, letter *dlq.Cause) error {
	if err := o.open(); err != nil {
		return err
	}
	size := m.BatchBytes()
	if err := o.take(ctx, size); err != nil {
		return err
	}
	if err := o.w.own.AwaitFresh(ctx); err != nil { // after every other wait
		return err
	}
	record := toKafka(m)
	record.Partition, _ = o.fixed(m.Topic)
	o.queue(parcel{number: o.next(), origin: origin, record: record, size: size, queued: time.Now(), letter: letter})
	return nil
}

func (o *outputs) queue(p parcel) {
	o.mu.Lock()
	o.parcels = append(o.parcels, p)
	o.mu.Unlock()
	select {
	case o.arrived <- struct{}{}:
	default:
	}
}

func (o *outputs) refusal() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.err
}

// run sends what is queued until the ownership ends or an output is refused.
func (o *outputs) run(ctx context.Context, sender *wire.Sender) {
	for {
		o.mu.Lock()
		ps := o.parcels
		o.parcels = nil
		o.mu.Unlock()
		if len(ps) == 0 {
			select {
			case <-o.arrived:
				continue
			case <-ctx.Done():
				return
			}
		}
		if !o.deliver(ctx, sender, ps) {
			return
		}
	}
}

// deliver sends parcels, and a letter that is refused again with less. It is false after an end, or a refusal.
func (o *outputs) deliver(ctx context.Context, sender *wire.Sender, ps []parcel) bool {
	for len(ps) > 0 {
		rs := make([]*kgo.Record, len(ps))
		for i, p := range ps {
			rs[i] = p.record
		}
		at, outcomes := sender.Send(ctx, rs, func(i int) {
			o.give(ps[i].size, ps[i].queued)
			o.answered(ps[i].number, ps[i].origin, ps[i].record, nil)
		})
		switch {
		case ctx.Err() != nil, at >= 0 && errors.Is(outcomes[at], stream.ErrOwnershipLost):
			return false // closed, or about to be
		case at < 0:
			return true
		case !wire.OfRecord(outcomes[at]) || !ps[at].lesser(outcomes[at]):
			o.answered(ps[at].number, ps[at].origin, ps[at].record, outcomes[at])
			return false
		}
		var left []parcel // nothing of these is in doubt: each was refused, or not given to a broker
		for i, err := range outcomes {
			if err != nil {
				left = append(left, ps[i])
			}
		}
		ps = left
	}
	return true
}

func toKafka(m stream.Message) *kgo.Record {
	r := &kgo.Record{Topic: m.Topic, Key: m.Key, Value: m.Value, Timestamp: m.Timestamp}
	for _, h := range m.Headers {
		r.Headers = append(r.Headers, kgo.RecordHeader{Key: h.Key, Value: h.Value})
	}
	return r
}

// unknownTopicRetries is how often a broker may say that an output topic does not exist before that is
// taken for the truth: with a tenth of a second between, some 15 s. One that has just started, or that
// has not heard yet of a topic that was just made, says so of a topic that is there.
const unknownTopicRetries = 150

// open makes the client, once. It returns the error of an output that was refused.
func (o *outputs) open() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case o.closed:
		return stream.NewError("write output", errors.Join(stream.ErrOwnershipLost, o.w.own.Cause())).At(o.w.own.Partition(), -1)
	case o.sender != nil:
		return o.err
	}
	client, err := o.w.m.cfg.Kafka.Client(append(wire.SenderOpts(),
		kgo.UnknownTopicRetries(unknownTopicRetries),
		kgo.RecordPartitioner(wire.Partitioner{Fixed: o.fixed}),
		kgo.ProducerBatchMaxBytesFn(func(topic string) int32 { return wire.BatchLimit(o.described[topic].MaxRecordBytes) }))...)
	if err != nil {
		return err
	}
	sender := wire.NewSender(client, nil, o.w.own.AwaitFresh)
	o.sender = sender
	o.w.m.wg.Go(func() { o.run(o.w.ctx, sender) })
	return nil
}

// take waits for room for an output in the window, and takes it. After a refusal there is none.
func (o *outputs) take(ctx context.Context, size int64) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	for !o.window.fits(size) {
		if o.err != nil {
			return o.err
		}
		if o.room == nil {
			o.room = make(chan struct{})
		}
		room := o.room
		o.mu.Unlock()
		err := o.await(ctx, room)
		o.mu.Lock()
		if err != nil {
			return err
		}
	}
	o.window.waiting += size
	return nil
}

// give gives the room back that an output took when it was sent.
func (o *outputs) give(size int64, sent time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.window.answered(size, sent, time.Now())
	o.wake()
}

// wake has whoever waits for room look again.
func (o *outputs) wake() {
	if o.room != nil {
		close(o.room)
		o.room = nil
	}
}

// next numbers an output that is about to be sent, from 1.
func (o *outputs) next() int64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.sent++
	return o.sent
}

func (o *outputs) answered(number int64, origin stream.Record, r *kgo.Record, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case err == nil:
		o.acks++
		if number <= o.target {
			o.left--
		}
		o.bytes += int64(len(r.Key) + len(r.Value))
	case o.err == nil:
		hint := wire.Remedy(err, "output", r.Topic)
		if errors.Is(err, kerr.UnknownTopicOrPartition) || errors.Is(err, kerr.UnknownTopicID) {
			err = errors.Join(stream.ErrTopic, err)
		}
		if errors.Is(err, kerr.MessageTooLarge) || errors.Is(err, kerr.RecordListTooLarge) {
			err = errors.Join(stream.ErrTooLarge, err)
		}
		e := stream.NewError("write output", fmt.Errorf("to topic %s: %w: %w", r.Topic, stream.ErrOutput, err)).
			At(o.w.own.Partition(), origin.Offset).
			Hinted("%s; the next run begins at this input record, or before it", hint)
		e.Key = origin.Key
		o.err = e
		o.wake()
		if o.failed != nil {
			close(o.failed)
		}
	}
	if o.target > 0 && (o.err != nil || o.left == 0) {
		o.target = 0
		close(o.reached)
	}
}

// acked waits until every output that was sent before the call is acknowledged (R18): a snapshot
// that covers the step would else make a replay skip it, and the output would be lost. One commit at
// a time calls it.
//
// It does not wait for a number of acknowledgements, since outputs go to many brokers and folding
// goes on:
//
//  1. Outputs 1 and 2 are sent, to two brokers. The commit of their steps waits for both; 1 is
//     acknowledged, the broker of 2 is slow.
//  2. The next record is folded. Its output 3 is sent and acknowledged: that makes two.
//  3. The commit goes on, and the process ends before 2 was taken. The replay skips the step of 2.
func (o *outputs) acked(ctx context.Context) error {
	o.mu.Lock()
	if o.err == nil && o.acks < o.sent {
		o.target, o.left, o.reached = o.sent, o.sent-o.acks, make(chan struct{})
		reached := o.reached
		o.mu.Unlock()
		if err := o.await(ctx, reached); err != nil {
			return err
		}
		o.mu.Lock()
	}
	err := o.err
	o.mu.Unlock()
	if err == nil {
		o.tell()
	}
	return err
}

// await waits for something that acknowledgements bring about, while any come.
func (o *outputs) await(ctx context.Context, reached <-chan struct{}) error {
	limit := o.w.m.tooSlow()
	tick := time.NewTicker(limit)
	defer tick.Stop()
	for before := int64(-1); ; {
		select {
		case <-reached:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
		}
		o.mu.Lock()
		acks, sent := o.acks, o.sent
		o.mu.Unlock()
		if acks == before {
			return o.w.slowWrite("write output", fmt.Errorf("none of %d outputs that wait was acknowledged within %v: %w", sent-acks, limit, stream.ErrTooSlow))
		}
		before = acks
	}
}

func (o *outputs) tell() {
	o.mu.Lock()
	e := stream.OutputAcked{Partition: o.w.own.Partition(), Count: int(o.acks - o.told), Bytes: o.bytes}
	o.told, o.bytes = o.acks, 0
	o.mu.Unlock()
	if e.Count > 0 {
		call(o.w.m.hooks, func(h stream.Hooks) func(stream.OutputAcked) { return h.OutputAcked }, e)
	}
}

// close drops what is buffered and closes the client. A second caller waits for the first: nothing can
// leave after either of them has returned.
func (o *outputs) close() {
	o.ended.do(func() {
		o.mu.Lock()
		sender := o.sender
		o.closed = true
		o.mu.Unlock()
		if sender != nil {
			sender.Close()
		}
	})
}
