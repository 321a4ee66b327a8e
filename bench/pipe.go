package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/kafka"
	"github.com/holdfast-go/holdfast/pipe"
	"github.com/holdfast-go/holdfast/stream"
)

// pipeShare is the part of the records that the measurement of a pipe uses: each is read and written.
const pipeShare = 4

// benchPipe copies small records from topic to topic, exactly-once inside Kafka, for read_committed readers, beside franz-go's own
// GroupTransactSession: one transaction for each poll, as its documentation has it.
func benchPipe(ctx context.Context, e *env) error {
	input, output := unique("bench-pipe-in"), unique("bench-pipe-out")
	records := max(e.records/pipeShare, 1)
	for _, topic := range []string{input, output} {
		if _, err := e.topic(ctx, topic, 1, false); err != nil {
			return err
		}
	}
	if err := e.fill(ctx, input, 0, flowKeys, records, 0); err != nil {
		return err
	}
	var commits int
	ours, bare, err := e.inTurns(
		func() (d time.Duration, err error) {
			d, commits, err = e.pipeOnce(ctx, input, output, int64(records))
			return d, err
		},
		func() (time.Duration, error) { return e.sessionOnce(ctx, input, output, records) },
	)
	if err != nil {
		return err
	}
	e.row(fmt.Sprintf("%d records through a pipe", records), ours, bare,
		fmt.Sprintf("%.0f records/s in %d transactions; bare is a GroupTransactSession", float64(records)/ours.Seconds(), commits))
	return nil
}

// pipeOnce returns the time from the first call to the commit of the last record.
func (e *env) pipeOnce(ctx context.Context, input, output string, records int64) (took time.Duration, commits int, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var began time.Time
	p, err := pipe.New(pipe.Config{
		Kafka: kafka.Config{Brokers: e.addrs}, Group: unique("bench"), Inputs: []string{input}, Outputs: []string{output},
		Create: &holdfast.TopicConfig{},
		Func:   func(_ context.Context, _ stream.Record, out *pipe.Out) error { out.Forward(output); return nil },
		Hooks: []holdfast.Hooks{{
			Restored: func(stream.Restored) { began = time.Now() },
			Committed: func(c stream.Committed) {
				commits++
				if c.Next == records {
					took = time.Since(began)
					cancel()
				}
			},
		}},
	})
	if err != nil {
		return 0, 0, err
	}
	if err := p.Run(ctx); err != nil {
		return 0, 0, err
	}
	return took, commits, nil
}

func (e *env) sessionOnce(ctx context.Context, input, output string, records int) (time.Duration, error) {
	s, err := kgo.NewGroupTransactSession(
		kgo.SeedBrokers(e.addrs...), kgo.MetadataMinAge(100*time.Millisecond), kgo.AlwaysRetryEOF(),
		kgo.TransactionalID(unique("bare")), kgo.ConsumerGroup(unique("bare")), kgo.ConsumeTopics(input), kgo.DefaultProduceTopic(output),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.ConsumeStartOffset(kgo.NewOffset().AtStart()),
		kgo.FetchMaxWait(100*time.Millisecond),
	)
	if err != nil {
		return 0, err
	}
	defer s.Close()
	var began time.Time
	for n := 0; n < records; {
		fs := s.PollFetches(ctx)
		if err := fs.Err(); err != nil {
			return 0, err
		}
		if began.IsZero() {
			began = time.Now()
		}
		if err := s.Begin(); err != nil {
			return 0, err
		}
		promise := kgo.AbortingFirstErrPromise(s.Client())
		fs.EachRecord(func(r *kgo.Record) {
			s.Produce(ctx, &kgo.Record{Key: r.Key, Value: r.Value, Headers: r.Headers, Timestamp: r.Timestamp}, promise.Promise())
			n++
		})
		committed, err := s.End(ctx, promise.Err() == nil)
		if err == nil && !committed {
			err = errors.New("a transaction of the session was aborted")
		}
		if err != nil {
			return 0, err
		}
	}
	return time.Since(began), nil
}
