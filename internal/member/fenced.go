package member

import (
	"context"

	"github.com/holdfast-go/holdfast/fence"
)

func (m *Member) openFenced(ctx context.Context, w *worker) (store, fence.Committed, error) {
	p := w.own.Partition()
	input := m.input(p.Topic)
	writer, committed, err := fence.Open(ctx, fence.Config{
		Kafka: m.cfg.Kafka, Group: m.cfg.Session.Group, Ownership: w.own,
		Input: p, InputTopicID: input.ID, InputPartitions: input.Partitions,
		Progress: m.progress(p), Outputs: m.outputs(p), Kind: m.cfg.Component,
		MaxWrites: m.cfg.MaxWrites, MaxBytes: m.cfg.MaxBytes, MaxRecordBytes: m.cfg.Snapshots.MaxMessageBytes, TransactionTimeout: m.cfg.TransactionTimeout,
		FoldVersion: m.cfg.FoldVersion, Features: fence.Features(m.cfg.Features),
		Unknown: func(error) { w.doubt.Store(true) },
		Hooks:   w.hooks(), Logger: w.m.cfg.Logger, // it adds group, partition and ownership itself
	})
	if err != nil {
		return nil, fence.Committed{}, err
	}
	return writer, committed, nil
}
