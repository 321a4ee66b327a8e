package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/holdfast-go/holdfast/snapshot"
	"github.com/holdfast-go/holdfast/stream"
)

const (
	restoreRecords    = 20_000
	restoreValueBytes = 10 << 10
)

// benchRestore reads a partition of 10 KiB records up to its high watermark, beside a consumer that
// reads the same records.
func benchRestore(ctx context.Context, e *env) error {
	topic := unique("bench-restore")
	if _, err := e.topic(ctx, topic, 1, true); err != nil {
		return err
	}
	if err := e.fill(ctx, topic, 0, restoreRecords, restoreRecords, restoreValueBytes); err != nil {
		return err
	}
	ours, bare, err := e.inTurns(
		func() (time.Duration, error) { return e.restoreOnce(ctx, topic) },
		func() (time.Duration, error) { return e.readOnce(ctx, topic) },
	)
	if err != nil {
		return err
	}
	megabytes := float64(restoreRecords*restoreValueBytes) / 1e6
	e.row(fmt.Sprintf("restore of %.0f MB", megabytes), ours, bare, fmt.Sprintf("%.0f MB/s, records of 10 KiB", megabytes/ours.Seconds()))
	return nil
}

func (e *env) restoreOnce(ctx context.Context, topic string) (time.Duration, error) {
	cl, err := e.client()
	if err != nil {
		return 0, err
	}
	defer cl.Close()
	began, n := time.Now(), 0
	_, err = snapshot.Restore(ctx, snapshot.RestoreConfig{Client: cl, Topic: topic, Each: func(stream.Record) error { n++; return nil }})
	if err == nil && n != restoreRecords {
		err = fmt.Errorf("%d records were restored, not %d", n, restoreRecords)
	}
	return time.Since(began), err
}

func (e *env) readOnce(ctx context.Context, topic string) (time.Duration, error) {
	cl, err := e.client(kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{
		topic: {0: kgo.NewOffset().AtStart()},
	}))
	if err != nil {
		return 0, err
	}
	defer cl.Close()
	began := time.Now()
	for n := 0; n < restoreRecords; {
		fs := cl.PollFetches(ctx)
		if err := errors.Join(fs.Err()); err != nil {
			return 0, err
		}
		n += fs.NumRecords()
	}
	return time.Since(began), nil
}
