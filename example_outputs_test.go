package holdfast_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/codec"
	"github.com/holdfast-go/holdfast/dlq"
	"github.com/holdfast-go/holdfast/stream"
)

// Under FencedOutputs an output is in the transaction of its state and of the offset past its record: a
// reader that sets isolation.level=read_committed finds each once.
func ExampleConfig_fencedOutputs() {
	s := open("readings", "alarms")
	defer s.close()
	s.produce("readings", "boiler 70", "boiler 95", "boiler 97")

	flow, err := holdfast.New(holdfast.Config[string]{
		Kafka:     s.Kafka(),
		Group:     "watch",
		Inputs:    []string{"readings"},
		Outputs:   []string{"alarms"},
		Guarantee: holdfast.FencedOutputs,
		Snapshots: created,
		Codec:     codec.String(),
		Fold: func(_ context.Context, k *holdfast.Key[string], r stream.Record) error {
			k.Set(string(r.Value))
			if string(r.Value) > "90" {
				k.Emit(stream.Message{Topic: "alarms", Key: k.Bytes(), Value: r.Value})
			}
			return nil
		},
		Hooks: []holdfast.Hooks{s.until(3)},
	})
	if err == nil {
		err = flow.Run(s.ctx)
	}
	fmt.Println("run:", err)
	for _, r := range s.read("alarms") {
		fmt.Printf("%s %s\n", r.Key, r.Value)
	}
	s.show("watch-snapshots")
	// Output:
	// run: <nil>
	// boiler 95
	// boiler 97
	// boiler 97
}

// A record that cannot be folded goes to the dead-letter topic, and the next one is folded.
func ExampleConfig_deadLetters() {
	s := open("numbers", "numbers-dead")
	defer s.close()
	s.produce("numbers", "ann 1", "ann one", "ann 2")

	flow, err := holdfast.New(holdfast.Config[int]{
		Kafka:       s.Kafka(),
		Group:       "sums",
		Inputs:      []string{"numbers"},
		Guarantee:   holdfast.FencedOutputs, // the letter is in the transaction that passes its record
		Snapshots:   created,
		Codec:       codec.JSON[int](),
		Fold:        sum,
		OnError:     dlq.Classes(dlq.On(strconv.ErrSyntax, stream.DeadLetter)), // anything else stops
		DeadLetters: &dlq.Policy{Topic: "numbers-dead"},
		Hooks:       []holdfast.Hooks{s.until(3)},
	})
	if err == nil {
		err = flow.Run(s.ctx)
	}
	fmt.Println("run:", err)
	for letter, err := range dlq.All(context.Background(), s.Kafka(), "numbers-dead") {
		fmt.Printf("offset %d, %s: %s %v\n", letter.Origin.Offset, letter.Record.Value, letter.Reason, errors.Unwrap(err))
	}
	s.show("sums-snapshots")
	// Output:
	// run: <nil>
	// offset 1, one: strconv.Atoi: parsing "one": invalid syntax <nil>
	// ann 3
}
