package member

import (
	"context"
	"errors"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/holdfast-go/holdfast/dlq"
	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/stream"
)

// deadLetter writes the letter of a record and goes past it. With whole batches it is in the
// transaction that has the offset. Elsewhere it is an output like any other: no commit passes the
// record before the letter is acknowledged (R18).
func (w *worker) deadLetter(r stream.Record, failure *stream.RecordError) (bool, error) {
	p, letters := w.own.Partition(), w.m.cfg.DeadLetters
	first := w.m.firstLetter(p, r.Offset)
	if first {
		if err := w.allowed(r); err != nil {
			e := stream.NewError("dead-letter", errors.Join(err, failure.Err)).At(p, r.Offset).
				Hinted("find what makes so many records fail, or raise DeadLetters.MaxPerMinute or DeadLetters.MaxShare; the next run begins at this record")
			e.Key, e.Group = r.Key, w.m.cfg.Session.Group
			return false, &stopError{e}
		}
	}
	cause := dlq.Cause{
		Topic: letters.Topic, TopicID: w.m.input(p.Topic).ID, Err: failure.Err, Panicked: failure.Panicked, Stage: w.stage(), Attempt: failure.Attempt,
		Group: w.m.cfg.Session.Group, AppVersion: w.m.cfg.FoldVersion, Now: time.Now(), Takes: w.m.cfg.Outputs[letters.Topic].Takes,
		Without: w.m.letterWithout(p, r.Offset),
	}
	if errors.Is(failure.Err, errNotRead) { // there is nothing to say but where the record stands
		cause.Without = dlq.Payload
	}
	if first || !w.m.cfg.Whole { // with whole batches the one before it went back, and this is the same one
		call(w.m.hooks, func(h stream.Hooks) func(stream.DeadLettered) { return h.DeadLettered }, stream.DeadLettered{
			Partition: p, Offset: r.Offset, Topic: letters.Topic, Attempt: failure.Attempt, Err: failure.Err,
		})
	}
	if w.m.cfg.Whole {
		w.engine.DeadLetter(r, dlq.New(r, cause))
	} else {
		if err := w.outputs.sendLetter(w.ctx, r, cause); err != nil {
			return false, err
		}
		w.engine.Skip(r)
	}
	w.pop()
	return true, nil
}

// allowed asks the breaker for one more letter. What an earlier run has written counts: it is asked for with the
// first letter of each partition. A record counts once, however many letters it has: a run that ended before it
// committed leaves letters of records that come again.
func (w *worker) allowed(r stream.Record) error {
	breaker := w.m.cfg.Breaker
	if w.m.firstOfPartition(w.own.Partition()) {
		w.recall(r)
	}
	w.countPassed()
	if w.m.recalledLetter(w.own.Partition(), r.Offset) {
		return nil
	}
	return breaker.Allow(time.Now())
}

// countPassed tells the breaker of the records that were processed since it was told last.
func (w *worker) countPassed() {
	if breaker := w.m.cfg.Breaker; breaker != nil && w.passed > 0 {
		breaker.Passed(time.Now(), w.passed)
		w.passed = 0
	}
}

// The bounds of what is read of the dead-letter topic for the breaker: what is behind them is not counted.
const (
	recallOffsets = 10_000
	recallBytes   = 8 << 20
	recallTime    = 5 * time.Second
)

var errRecalled = errors.New("enough letters were read")

// recall has the breaker count the letters of this partition that were written within the last minute, by another
// process or by one before this. They stand near the end of one partition of the dead-letter topic. Without the
// permission to read it, or an answer, none are counted.
func (w *worker) recall(r stream.Record) {
	topic := w.m.cfg.DeadLetters.Topic
	ctx, cancel := context.WithTimeout(w.ctx, recallTime)
	defer cancel()
	cl, err := w.m.cfg.Kafka.Client()
	if err == nil {
		defer cl.Close()
		err = w.recallFrom(ctx, wire.Log{Client: cl, Topic: topic,
			Partition: dlq.PartitionFor(r.Partition, w.m.cfg.Outputs[topic].Partitions)}, r)
	}
	if err != nil && w.ctx.Err() == nil {
		w.log.Warn("letters of an earlier run are not counted", "topic", topic, "error", err)
	}
}

func (w *worker) recallFrom(ctx context.Context, log wire.Log, r stream.Record) error {
	start, _, stable, err := log.Ends(ctx)
	if err != nil {
		return err
	}
	// Twice, since each letter may have a transaction of its own, whose marker takes an offset.
	from := max(start, stable-min(2*int64(w.m.cfg.DeadLetters.MaxPerMinute)+2, recallOffsets))
	bytes, before, now := 0, int64(-1), time.Now()
	seen := map[int64]bool{}
	_, err = log.Read(ctx, wire.ReadOptions{From: from, To: stable, Committed: true}, func(k *kgo.Record) error {
		if bytes += len(k.Key) + len(k.Value); bytes > recallBytes {
			return errRecalled
		}
		l, err := dlq.Parse(wire.Record(k))
		at := l.FailedAt
		if err != nil || l.WrittenAt.IsZero() || l.Group != w.m.cfg.Session.Group || at.Topic != r.Topic || at.Partition != r.Partition ||
			seen[at.Offset] {
			return nil
		}
		passed := int64(1)
		if before >= 0 && at.Offset > before {
			passed = at.Offset - before
		}
		before = max(before, at.Offset)
		if w.m.cfg.Breaker.Recall(now, l.WrittenAt, passed) {
			seen[at.Offset] = true
		}
		return nil
	})
	w.m.rememberRecalled(w.own.Partition(), r.Offset, seen)
	if errors.Is(err, errRecalled) {
		return nil
	}
	return err
}

// worse is what a letter is written without after a refusal; ok is false if nothing is left to leave out, or the
// refusal is not about what it has.
func worse(without dlq.Refused, err error) (dlq.Refused, bool) {
	switch {
	case !wire.OfRecord(err) && !errors.Is(err, stream.ErrTooLarge), without >= dlq.Payload:
		return without, false
	case errors.Is(err, kerr.InvalidTimestamp) && without < dlq.Timestamp:
		return dlq.Timestamp, true
	}
	return dlq.Payload, true
}

// letterWithout is what a record's letter is written without.
func (m *Member) letterWithout(p stream.Partition, offset int64) dlq.Refused {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.noteLocked(p, offset).without
}

// reduceLetter remembers that a record's letter was refused, and reports whether it is to be written with less. The step
// fails once more on the way to that letter, and this is the same failure: it is not counted twice.
func (m *Member) reduceLetter(p stream.Partition, offset int64, err error) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := m.noteLocked(p, offset)
	without, ok := worse(n.without, err)
	if n.without = without; ok && n.refusal == nil && n.failures > 0 {
		n.failures--
	}
	return ok
}

// firstOfPartition reports whether no letter of a partition was asked for in this process before.
func (m *Member) firstOfPartition(p stream.Partition) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	first := !m.recalled[p]
	m.recalled[p] = true
	return first
}

// lesser is the letter of a parcel with less, after a refusal; ok is false for what is no letter, and for one that has
// nothing left to leave out.
func (p *parcel) lesser(err error) bool {
	if p.letter == nil {
		return false
	}
	without, ok := worse(p.letter.Without, err)
	if !ok {
		return false
	}
	p.letter.Without = without
	partition := p.record.Partition
	p.record = toKafka(dlq.New(p.origin, *p.letter))
	p.record.Partition = partition
	return true
}

// sendLetter sends the letter of a record as send does an output.
func (o *outputs) sendLetter(ctx context.Context, r stream.Record, cause dlq.Cause) error {
	return o.put(ctx, r, dlq.New(r, cause), &cause)
}
