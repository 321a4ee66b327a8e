package main

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/codec"
	"github.com/holdfast-go/holdfast/kafka"
	"github.com/holdfast-go/holdfast/stream"
)

const flowKeys = 10_000

func value(v []byte) int64 {
	n, _ := strconv.ParseInt(string(v), 10, 64)
	return n
}

// benchFlow sends small records through a flow with default intervals, beside a plain consumer that
// folds into a map and commits each 5 s: what a service without durable state does.
func benchFlow(ctx context.Context, e *env) error {
	input := unique("bench-flow")
	if _, err := e.topic(ctx, input, 1, false); err != nil {
		return err
	}
	if err := e.fill(ctx, input, 0, flowKeys, e.records, 0); err != nil {
		return err
	}
	ours, bare, err := e.inTurns(
		func() (time.Duration, error) { return e.flowOnce(ctx, input) },
		func() (time.Duration, error) { return e.consumeOnce(ctx, input) },
	)
	if err != nil {
		return err
	}
	e.row(fmt.Sprintf("%d records through a flow", e.records), ours, bare,
		fmt.Sprintf("%.0f records/s; bare folds into a map and keeps no state", float64(e.records)/ours.Seconds()))
	return nil
}

func (e *env) flowOnce(ctx context.Context, input string) (time.Duration, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var began time.Time
	took := time.Duration(0)
	last := int64(e.records - 1)
	f, err := holdfast.New(holdfast.Config[int64]{
		Kafka: kafka.Config{Brokers: e.addrs}, Group: unique("bench"), Inputs: []string{input},
		Snapshots: holdfast.Snapshots{Create: &holdfast.TopicConfig{}}, Codec: codec.JSON[int64](),
		Fold: func(_ context.Context, k *holdfast.Key[int64], r stream.Record) error {
			s, _ := k.State()
			k.Set(s + value(r.Value))
			if r.Offset == last {
				took = time.Since(began)
				cancel()
			}
			return nil
		},
		Hooks: []holdfast.Hooks{{Restored: func(stream.Restored) { began = time.Now() }}},
	})
	if err != nil {
		return 0, err
	}
	if err := f.Run(ctx); err != nil {
		return 0, err
	}
	return took, nil
}

func (e *env) consumeOnce(ctx context.Context, input string) (time.Duration, error) {
	cl, err := e.client(kgo.ConsumeTopics(input), kgo.ConsumerGroup(unique("bare")), kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.ConsumeStartOffset(kgo.NewOffset().AtStart()), kgo.FetchMaxWait(500*time.Millisecond))
	if err != nil {
		return 0, err
	}
	defer cl.Close()
	states := map[string]int64{}
	var began time.Time
	for n := 0; n < e.records; {
		fs := cl.PollFetches(ctx)
		if err := fs.Err(); err != nil {
			return 0, err
		}
		if began.IsZero() {
			began = time.Now()
		}
		fs.EachRecord(func(r *kgo.Record) {
			states[string(r.Key)] += value(r.Value)
			n++
		})
	}
	return time.Since(began), nil
}
