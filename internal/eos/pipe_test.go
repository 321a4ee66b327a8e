package eos

import (
	"context"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/pipe"
	"github.com/holdfast-go/holdfast/stream"
)

// copyByPipe is an engine over package pipe.
func copyByPipe(ctx context.Context, c copierConfig, hooks stream.Hooks) error {
	s := c.session()
	p, err := pipe.New(pipe.Config{
		Kafka: c.kafka(), Group: c.Group, Inputs: []string{c.Input}, Outputs: []string{c.Output}, Progress: c.Progress,
		Func: func(_ context.Context, _ stream.Record, out *pipe.Out) error {
			out.Forward(c.Output)
			return nil
		},
		Commit: holdfast.Commit{Interval: 20 * time.Millisecond, MaxWrites: c.Records},
		Member: holdfast.Member{
			SessionTimeout: s.SessionTimeout, RebalanceTimeout: s.RebalanceTimeout, HeartbeatInterval: s.HeartbeatInterval,
			TransactionTimeout: c.TransactionTimeout,
		},
		Hooks: []stream.Hooks{hooks}, Logger: logger(),
	})
	if err != nil {
		return err
	}
	return p.Run(ctx)
}
