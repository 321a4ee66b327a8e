package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/codec"
	"github.com/holdfast-go/holdfast/kafka"
	"github.com/holdfast-go/holdfast/stream"
)

const (
	retainedKeys       = 10_000
	retainedStateBytes = 10 << 10
)

// benchRetained takes the time from the takeover of a partition to its first fold, in a rebalance of an
// eager group that gives the partition back: with the states kept in memory, and beside it restored.
func benchRetained(ctx context.Context, e *env) error {
	input := unique("bench-retained")
	if _, err := e.topic(ctx, input, 1, false); err != nil {
		return err
	}
	if err := e.fill(ctx, input, 0, retainedKeys, retainedKeys, 0); err != nil {
		return err
	}
	group := unique("bench")
	ours, bare, err := e.inTurns(
		func() (time.Duration, error) { return e.resume(ctx, input, group, 0) },
		func() (time.Duration, error) { return e.resume(ctx, input, group, -1) },
	)
	if err != nil {
		return err
	}
	megabytes := float64(retainedKeys*retainedStateBytes) / 1e6
	e.row(fmt.Sprintf("resume with %.0f MB retained", megabytes), ours, bare, "beside it the same flow that retains nothing and restores")
	return nil
}

// errMoved: the assignor, which may choose either member, has chosen the one that joined.
var errMoved = errors.New("the group gave the partition to the member that joined")

// resume tries until the partition stays, which it does about every other time.
func (e *env) resume(ctx context.Context, input, group string, retain int64) (took time.Duration, err error) {
	for range 10 {
		if took, err = e.resumeOnce(ctx, input, group, retain); !errors.Is(err, errMoved) {
			break
		}
	}
	return took, err
}

// resumeOnce has a second member join the group, and returns how long the first one takes to go on.
func (e *env) resumeOnce(ctx context.Context, input, group string, retain int64) (took time.Duration, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	events := make(chan stream.Restored, 16)
	var assigned time.Time // only the partition's own calls touch it
	resumed := make(chan time.Duration, 16)
	ready := make(chan struct{}, 1) // everything is committed
	reached := func(next int64) {
		if next < retainedKeys {
			return
		}
		select {
		case ready <- struct{}{}:
		default:
		}
	}
	first, err := e.holder(input, group, retain, holdfast.Hooks{
		Assigned: func(a stream.Assigned) {
			assigned = time.Now()
			reached(a.Committed)
		},
		Restored: func(r stream.Restored) {
			resumed <- time.Since(assigned)
			events <- r
		},
		Committed: func(c stream.Committed) { reached(c.Next) },
	})
	if err != nil {
		return 0, err
	}
	moved := make(chan struct{}, 16)
	second, err := e.holder(input, group, retain, holdfast.Hooks{Restored: func(stream.Restored) { moved <- struct{}{} }})
	if err != nil {
		return 0, err
	}
	ended := make(chan error, 2)
	run := func(f *holdfast.Flow[[]byte]) { ended <- f.Run(ctx) }
	go run(first)
	select {
	case <-ready:
	case err := <-ended:
		return 0, fmt.Errorf("the flow ended early: %w", err)
	}
	<-resumed
	<-events
	go run(second)
	select {
	case took = <-resumed:
	case <-moved:
		cancel()
		return 0, errors.Join(errMoved, <-ended, <-ended)
	case err := <-ended:
		return 0, fmt.Errorf("a flow ended early: %w", err)
	}
	if r := <-events; r.Retained != (retain >= 0) || r.Keys != retainedKeys {
		return 0, fmt.Errorf("the partition came back as %+v", r)
	}
	cancel()
	for range 2 {
		if err := <-ended; err != nil {
			return 0, err
		}
	}
	return took, nil
}

// holder is a flow that has a state of 10 KiB for each key.
func (e *env) holder(input, group string, retain int64, h holdfast.Hooks) (*holdfast.Flow[[]byte], error) {
	return holdfast.New(holdfast.Config[[]byte]{
		Kafka: kafka.Config{Brokers: e.addrs}, Group: group, Inputs: []string{input},
		Snapshots: holdfast.Snapshots{Create: &holdfast.TopicConfig{}}, Codec: codec.Bytes(),
		Fold: func(_ context.Context, k *holdfast.Key[[]byte], r stream.Record) error {
			k.Set(bytes.Repeat(r.Value, retainedStateBytes/max(len(r.Value), 1)+1)[:retainedStateBytes])
			return nil
		},
		Member:  holdfast.Member{Protocol: holdfast.Eager, HeartbeatInterval: 200 * time.Millisecond},
		Commit:  holdfast.Commit{Persist: 100 * time.Millisecond, Interval: 100 * time.Millisecond},
		Restore: holdfast.Restore{RetainBytes: retain},
		Hooks:   []holdfast.Hooks{h},
	})
}
