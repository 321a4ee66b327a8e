package member

import (
	"context"

	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/stream"
)

func (m *Member) openFenced(ctx context.Context, w *worker) (store, fence.Committed, error) {
	p := w.own.Partition()
	writer, committed, err := fence.Open(ctx, fence.Config{
		Kafka: m.cfg.Kafka, Group: m.cfg.Session.Group, Ownership: w.own,
		Input: p, InputTopicID: m.cfg.Input.ID, InputPartitions: m.cfg.Input.Partitions,
		Progress:  stream.Partition{Topic: m.cfg.Snapshots.Topic, Partition: p.Partition},
		MaxWrites: m.cfg.MaxWrites, MaxBytes: m.cfg.MaxBytes, MaxRecordBytes: m.cfg.Snapshots.MaxMessageBytes, TransactionTimeout: m.cfg.TransactionTimeout,
		FoldVersion: m.cfg.FoldVersion, Features: fence.Features(m.cfg.Features),
		Unknown: func(error) { w.doubt.Store(true) },
		Hooks:   m.cfg.Hooks, Logger: w.m.cfg.Logger, // it adds partition and ownership itself
	})
	if err != nil {
		return nil, fence.Committed{}, err
	}
	return writer, committed, nil
}
