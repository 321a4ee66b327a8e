package holdfast_test

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/claim"
	"github.com/holdfast-go/holdfast/codec"
	"github.com/holdfast-go/holdfast/kafka"
	"github.com/holdfast-go/holdfast/stream"
)

// Hooks tell what happens to each partition. Module prom turns them into Prometheus metrics.
func ExampleHooks() {
	s := open("visits")
	defer s.close()
	s.produce("visits", "ann home", "bob home")

	flow, err := holdfast.New(holdfast.Config[string]{
		Kafka:     s.Kafka(),
		Group:     "last-page",
		Inputs:    []string{"visits"},
		Snapshots: created,
		Codec:     codec.String(),
		Fold: func(_ context.Context, k *holdfast.Key[string], r stream.Record) error {
			k.Set(string(r.Value))
			if r.Offset == 1 {
				s.stop()
			}
			return nil
		},
		Hooks: []holdfast.Hooks{{
			Assigned: func(e stream.Assigned) { fmt.Println("assigned", e.Partition, "committed", e.Committed) },
			Restored: func(e stream.Restored) { fmt.Println("restored", e.Keys, "keys, folding from", e.Start) },
			Committed: func(e stream.Committed) {
				if e.Writes > 0 { // the first commit fixes where a new flow begins, and has none
					fmt.Println("committed offset", e.Next, "with", e.Writes, "snapshots")
				}
			},
			Revoked: func(e stream.Released) { fmt.Println("revoked, everything committed:", e.Flushed) },
		}},
	})
	if err == nil {
		err = flow.Run(s.ctx)
	}
	fmt.Println("run:", err)
	// Output:
	// assigned visits/0 committed -1
	// restored 0 keys, folding from 0
	// committed offset 2 with 2 snapshots
	// revoked, everything committed: true
	// run: <nil>
}

// Check looks at the cluster before anything is started. Here the output topic is missing.
func ExampleFlow_Check() {
	s := open("visits")
	defer s.close()

	flow, err := holdfast.New(holdfast.Config[string]{
		Kafka:     s.Kafka(),
		Group:     "last-page",
		Inputs:    []string{"visits"},
		Outputs:   []string{"pages"},
		Snapshots: created,
		Codec:     codec.String(),
		Fold:      func(context.Context, *holdfast.Key[string], stream.Record) error { return nil },
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	report, err := flow.Check(s.ctx)
	for _, f := range report.Findings {
		if f.Level() == claim.LevelFault {
			fmt.Printf("%s: %s, fixes: %d\n", f.ID, f.What, len(f.Fix))
		}
	}
	fmt.Println(errors.Is(err, holdfast.ErrTopic))
	// Output:
	// topic.output: output topic pages, fixes: 1
	// true
}

// Claims are what the flow promises, each with the crash it holds across and its boundary.
func ExampleFlow_Claims() {
	flow, err := holdfast.New(holdfast.Config[string]{
		Kafka:  kafka.Config{Brokers: []string{"localhost:9092"}},
		Group:  "last-page",
		Inputs: []string{"visits"},
		Codec:  codec.String(),
		Fold:   func(context.Context, *holdfast.Key[string], stream.Record) error { return nil },
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, c := range flow.Claims() {
		first, _, _ := strings.Cut(c.Statement, ":")
		fmt.Printf("%s, %s: %s\n", c.Hop, c.Guarantee, first)
	}
	// Output:
	// topic → state, FencedState: the state of a key is the result of its records up to its applied offset, each applied once, in offset order; the committed offset is never ahead of the snapshots; a stale owner cannot write
	// topic → topic, FencedState: outputs are at-least-once
}
