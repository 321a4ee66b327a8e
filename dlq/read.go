package dlq

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/holdfast-go/holdfast/internal/intake"
	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/kafka"
	"github.com/holdfast-go/holdfast/stream"
)

// ReadConfig says what Read reads.
type ReadConfig struct {
	Kafka kafka.Config
	Topic string // the dead-letter topic
	// Partitions are the ones that are read, in this order; nil: all of them, from 0 on.
	Partitions []int32
	// From is the first offset that is read, in each partition; one below the log's start means the
	// log's start.
	From int64
	// To is the offset at which the read ends, in each partition; 0, and anything past the end, is the
	// end of the partition.
	To int64
	// Patience is how long brokers may fail to answer before the read fails with
	// stream.ErrUnreachable. Default: one minute.
	Patience time.Duration
}

const defaultPatience = time.Minute

// All is Read of a whole topic.
func All(ctx context.Context, k kafka.Config, topic string) iter.Seq2[Letter, error] {
	return Read(ctx, ReadConfig{Kafka: k, Topic: topic})
}

// Read returns the letters of a dead-letter topic up to the end that the topic has when the iteration
// begins, partition after partition, in the order of offsets. It reads under read_committed: letters
// of aborted transactions are left out, and the end is before the first transaction that is open, so
// that nothing is waited for. No group is joined and nothing is committed: it disturbs nobody, and each
// iteration reads anew.
//
// A record whose headers Parse refuses is a letter with a Fault, and no error. So is one that is larger in memory than
// a quarter of Kafka.FetchBudget; it has neither key nor value. An error ends the
// iteration: stream.ErrTopic if there is no such topic or partition, stream.ErrNotAuthorized with the
// command that grants what is missing, stream.ErrUnreachable, stream.ErrConfig for a wrong
// configuration, or the cause of ctx. The bytes of a letter may be kept.
func Read(ctx context.Context, c ReadConfig) iter.Seq2[Letter, error] {
	return func(yield func(Letter, error) bool) {
		err := c.read(ctx, func(l Letter) error {
			if !yield(l, nil) {
				return errEnough
			}
			return nil
		})
		if err != nil && !errors.Is(err, errEnough) {
			yield(Letter{}, err)
		}
	}
}

// errEnough ends a read whose caller has left its loop.
var errEnough = errors.New("the caller has read enough")

// span is what is read of one partition.
type span struct {
	log      wire.Log
	from, to int64
}

func (c ReadConfig) read(ctx context.Context, each func(Letter) error) error {
	if c.Patience <= 0 {
		c.Patience = defaultPatience
	}
	if !wire.TopicName(c.Topic) {
		return stream.NewError("read dead letters", fmt.Errorf("%w: topic %q", stream.ErrConfig, c.Topic)).
			Hinted(wire.TopicNameHint)
	}
	cl, err := c.Kafka.Client()
	if err != nil {
		return err
	}
	defer cl.Close()
	spans, err := c.spans(ctx, cl)
	if err != nil {
		return kafka.Explain(err)
	}
	for _, s := range spans {
		if err := c.readPartition(ctx, s, each); err != nil {
			return err
		}
	}
	return nil
}

// spans captures the ends of all partitions before the first record is read, so that what is written
// meanwhile is left out of all partitions alike.
func (c ReadConfig) spans(ctx context.Context, cl *kgo.Client) ([]span, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, c.Patience, c.silent(nil))
	defer cancel()
	shape, err := wire.TopicShape(ctx, cl, c.Topic)
	if err != nil {
		if cause := context.Cause(ctx); cause != nil {
			return nil, fmt.Errorf("%w: %w", cause, err)
		}
		return nil, err
	}
	if !shape.Exists {
		return nil, c.unusable("it does not exist").Hinted("see which topics there are: kafka-topics.sh --bootstrap-server %s --list", wire.Bootstrap(cl))
	}
	partitions := c.Partitions
	if partitions == nil {
		for p := range shape.Partitions {
			partitions = append(partitions, p)
		}
	}
	var spans []span
	for _, p := range partitions {
		if p < 0 || p >= shape.Partitions {
			return nil, c.unusable("it has no partition %d", p).Hinted("its partitions are 0 to %d", shape.Partitions-1)
		}
		l := wire.Log{Client: cl, Topic: c.Topic, TopicID: shape.ID, Partition: p}
		start, _, stable, err := l.Ends(ctx)
		if err != nil {
			return nil, err
		}
		to := stable
		if c.To > 0 {
			to = min(c.To, stable)
		}
		spans = append(spans, span{log: l, from: max(c.From, start), to: to})
	}
	return spans, nil
}

func (c ReadConfig) unusable(format string, args ...any) *stream.Error {
	return stream.NewError("read dead letters", fmt.Errorf("%w: "+format, append([]any{stream.ErrTopic}, args...)...)).
		At(stream.Partition{Topic: c.Topic, Partition: -1}, -1)
}

// silent is the error of brokers that do not answer; last is what the last attempt met.
func (c ReadConfig) silent(last error) error {
	err := fmt.Errorf("%w: no answer within %v", stream.ErrUnreachable, c.Patience)
	if last != nil {
		err = fmt.Errorf("%w; the last attempt met: %w", err, last)
	}
	return stream.NewError("read dead letters", err).At(stream.Partition{Topic: c.Topic, Partition: -1}, -1).
		Hinted("look at the brokers that lead the topic's partitions, and read again")
}

func (c ReadConfig) readPartition(ctx context.Context, s span, each func(Letter) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(context.Canceled)
	watch := patience{limit: c.Patience}
	opts := wire.ReadOptions{From: s.from, To: s.to, Committed: true, Refused: true,
		OnPosition: func(int64) { watch.answered() },
		OnRetry: func(err error) {
			if wire.IsThrottled(err) {
				watch.answered()
			} else if watch.failed(time.Now()) {
				cancel(c.silent(err))
			}
		},
	}
	_, err := s.log.Read(ctx, opts, func(r *kgo.Record) error {
		if refusal, ok := intake.Refused(r); ok {
			return each(notRead(r, refusal))
		}
		l, err := Parse(wire.Record(r))
		l.Fault = err
		return each(l)
	})
	return err
}

// notRead is the letter that stands for a record, or for a batch of records, that was too large to be read.
func notRead(r *kgo.Record, refusal intake.Refusal) Letter {
	l := Letter{Record: wire.Record(r), Fault: fmt.Errorf("%w: %s", stream.ErrTooLarge, refusal)}
	l.Record.Headers = nil
	return l
}

// patience measures for how long every attempt has failed.
type patience struct {
	limit time.Duration

	mu    sync.Mutex
	since time.Time // of the first failure without an answer after it; zero: none
}

func (p *patience) answered() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.since = time.Time{}
}

// failed reports whether the failures have lasted too long.
func (p *patience) failed(now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.since.IsZero() {
		p.since = now
	}
	return now.Sub(p.since) >= p.limit
}

// Identity tells letters of one record from those of others: the id of the origin's topic, or its name
// where the id is not known, partition and offset, and the record's content. It is comparable.
type Identity struct {
	Topic     string // empty if TopicID is known
	TopicID   [16]byte
	Partition int32
	Offset    int64
	// Content is a digest of key, value and the headers that are not Reserved. Without it a record that
	// claims to be a replay would stand for another one's letter.
	Content [sha256.Size]byte
}

// Identity returns the identity of the letter's record. A letter with a Fault has none of its own: its
// place in the dead-letter topic stands for it, so that it is nobody's repeat.
func (l Letter) Identity() Identity {
	if l.Fault != nil || l.Family == Unknown {
		return Identity{Topic: "\x00" + l.Record.Topic, Partition: l.Record.Partition, Offset: l.Record.Offset}
	}
	id := Identity{Topic: l.Origin.Topic, TopicID: l.Origin.TopicID, Partition: l.Origin.Partition, Offset: l.Origin.Offset}
	if id.TopicID != ([16]byte{}) {
		id.Topic = ""
	}
	id.Content = content(l.Record)
	return id
}

// content is the digest of what the record's author wrote. No two contents are hashed as the same bytes.
func content(r stream.Record) (sum [sha256.Size]byte) {
	h := sha256.New()
	write := func(b []byte) {
		n := int64(len(b))
		if b == nil {
			n = -1
		}
		h.Write(binary.BigEndian.AppendUint64(nil, uint64(n)))
		h.Write(b)
	}
	write(r.Key)
	write(r.Value)
	for _, header := range r.Headers {
		if !Reserved(header.Key) {
			write([]byte(header.Key))
			write(header.Value)
		}
	}
	h.Sum(sum[:0])
	return sum
}

// Dedup leaves out letters of a record that had one before. The first one is passed on, as soon as it
// comes; a letter that the record got after a replay is a repeat like any other. It remembers an
// Identity a record, and no letter. Errors are passed on.
func Dedup(letters iter.Seq2[Letter, error]) iter.Seq2[Letter, error] {
	return func(yield func(Letter, error) bool) {
		seen := map[Identity]bool{}
		for l, err := range letters {
			if err == nil {
				id := l.Identity()
				if seen[id] {
					continue
				}
				seen[id] = true
			}
			if !yield(l, err) {
				return
			}
		}
	}
}
