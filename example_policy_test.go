package holdfast_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/codec"
	"github.com/holdfast-go/holdfast/stream"
)

// sum adds numbers, and fails on a value that is none.
func sum(_ context.Context, k *holdfast.Key[int], r stream.Record) error {
	n, err := strconv.Atoi(string(r.Value))
	if err != nil {
		return err
	}
	before, _ := k.State()
	k.Set(before + n)
	return nil
}

// OnError leaves out a record that the fold does not accept, and stops at any other failure.
func ExampleConfig_onError() {
	s := open("numbers")
	defer s.close()
	s.produce("numbers", "ann 1", "ann one", "ann 2")

	flow, err := holdfast.New(holdfast.Config[int]{
		Kafka:     s.Kafka(),
		Group:     "sums",
		Inputs:    []string{"numbers"},
		Snapshots: created,
		Codec:     codec.JSON[int](),
		Fold:      sum,
		OnError: func(_ context.Context, e *stream.RecordError) stream.Action {
			if errors.Is(e, strconv.ErrSyntax) {
				fmt.Printf("skipped offset %d: %s\n", e.Record.Offset, e.Record.Value)
				return stream.Skip
			}
			return stream.Stop
		},
		Commit: often,
		Hooks:  []holdfast.Hooks{s.until(3)},
	})
	if err == nil {
		err = flow.Run(s.ctx)
	}
	fmt.Println("run:", err)
	s.show("sums-snapshots")
	// Output:
	// skipped offset 1: one
	// run: <nil>
	// ann 3
}

// Without OnError the flow stops at the record. What was folded before it is committed, and the error
// says where it is.
func ExampleFlow_Run_stop() {
	s := open("numbers")
	defer s.close()
	s.produce("numbers", "ann 1", "ann one", "ann 2")

	flow, err := holdfast.New(holdfast.Config[int]{
		Kafka:     s.Kafka(),
		Group:     "sums",
		Inputs:    []string{"numbers"},
		Snapshots: created,
		Codec:     codec.JSON[int](),
		Fold:      sum,
	})
	if err == nil {
		err = flow.Run(s.ctx)
	}
	if e, ok := errors.AsType[*holdfast.Error](err); ok {
		fmt.Println(errors.Is(err, holdfast.ErrFold), e.Topic, e.Partition, e.Offset, string(e.Key))
	}
	s.show("sums-snapshots")
	// Output:
	// true numbers 0 1 ann
	// ann 1
}
