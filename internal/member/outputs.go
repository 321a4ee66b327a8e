package member

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/stream"
)

// outputs sends what folds emit, at-least-once. Each ownership has a client of its own, made with
// the first output: closing it is what makes sure that no buffered output of a partition that was
// taken away can leave later.
type outputs struct {
	w         *worker
	described map[string]fence.Output
	ended     once

	mu      sync.Mutex
	client  *kgo.Client
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

func (o *outputs) init(w *worker) {
	o.w, o.described = w, w.m.outputs(w.own.Partition())
	o.window.most = windowFirst
}

// fixed returns the one partition of a topic that is written to, if there is one.
func (o *outputs) fixed(topic string) (int32, bool) {
	if p := o.described[topic].Partition; p != nil {
		return *p, true
	}
	return 0, false
}

// send hands the outputs of one step to the client, in order. It waits while the window is full, and while
// the group has not answered within the session timeout (R16).
func (o *outputs) send(ctx context.Context, origin stream.Record, ms []stream.Message) error {
	client, err := o.open()
	if err != nil {
		return err
	}
	for _, m := range ms {
		size := m.BatchBytes()
		if err := o.take(ctx, size); err != nil {
			return err
		}
		if err := o.w.own.AwaitFresh(ctx); err != nil { // after every other wait
			return err
		}
		record := toKafka(m)
		record.Partition, _ = o.fixed(m.Topic)
		number, sent := o.next(), time.Now()
		client.Produce(ctx, record, func(r *kgo.Record, err error) {
			o.give(size, sent)
			o.answered(number, origin, r, err)
		})
	}
	return nil
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

func (o *outputs) open() (*kgo.Client, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed {
		return nil, stream.NewError("write output", errors.Join(stream.ErrOwnershipLost, o.w.own.Cause())).At(o.w.own.Partition(), -1)
	}
	if o.client == nil {
		// The client counts a delivery timeout from the timestamp of a record, which a letter has from its
		// old input record.
		client, err := o.w.m.cfg.Kafka.Client(kgo.ProducerLinger(0), kgo.RecordDeliveryTimeout(0),
			kgo.UnknownTopicRetries(unknownTopicRetries),
			kgo.RecordPartitioner(wire.Partitioner{Fixed: o.fixed}),
			kgo.ProducerBatchMaxBytesFn(func(topic string) int32 { return batchBytes(o.described[topic].MaxRecordBytes) }))
		if err != nil {
			return nil, err
		}
		o.client = client
	}
	return o.client, nil
}

// take waits for room for an output in the window, and takes it.
func (o *outputs) take(ctx context.Context, size int64) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	for !o.window.fits(size) {
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
		if errors.Is(err, kerr.UnknownTopicOrPartition) || errors.Is(err, kerr.UnknownTopicID) {
			err = errors.Join(stream.ErrTopic, err)
		}
		e := stream.NewError("write output", fmt.Errorf("to topic %s: %w: %w", r.Topic, stream.ErrOutput, err)).
			At(o.w.own.Partition(), origin.Offset).
			Hinted("mend the output topic or the ACL (WRITE on topic %s); the next run begins at this input record", r.Topic)
		e.Key = origin.Key
		o.err = e
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
		client := o.client
		o.client, o.closed = nil, true
		o.mu.Unlock()
		if client != nil {
			client.Close()
		}
	})
}

// batchBytes is what a client may send in one batch for a topic that takes n bytes: not below the
// client's own default, and not above what it can be set to.
func batchBytes(n int) int32 { return int32(min(max(n, 1_000_012), 100<<20)) }
