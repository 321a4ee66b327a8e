// Command validated forwards the events that are well formed, and writes the others to a dead-letter
// topic with the reason. A reader on read_committed follows the validated topic.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"os"
	"os/signal"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/dlq"
	"github.com/holdfast-go/holdfast/pipe"
	"github.com/holdfast-go/holdfast/stream"
)

var errInvalid = errors.New("event is not valid")

// validate is what makes an event worth forwarding.
func validate(value []byte) error {
	var e struct {
		User   string `json:"user"`
		Action string `json:"action"`
	}
	if err := json.Unmarshal(value, &e); err != nil {
		return fmt.Errorf("%w: %w", errInvalid, err)
	}
	if e.User == "" || e.Action == "" {
		return fmt.Errorf("%w: user and action are required", errInvalid)
	}
	return nil
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	cluster, last, done := setUp(ctx) // an embedded broker, or -brokers; six events, two of them bad
	defer done()

	validator, err := pipe.New(pipe.Config{
		Kafka:   cluster,
		Group:   "validator",
		Inputs:  []string{"events"},
		Outputs: []string{"events-valid"},
		Create:  &holdfast.TopicConfig{}, // of the progress topic
		Func: func(_ context.Context, r stream.Record, out *pipe.Out) error {
			if err := validate(r.Value); err != nil {
				return err
			}
			out.Forward("events-valid")
			return nil
		},
		OnError:     dlq.Classes(dlq.On(errInvalid, stream.DeadLetter)), // everything else stops
		DeadLetters: &dlq.Policy{Topic: "events-rejected"},
		Hooks: []holdfast.Hooks{{Committed: func(c stream.Committed) {
			if last(c.Partition.Partition, c.Next-1) {
				stop() // an example ends; a service runs until it is told to stop
			}
		}}},
	})
	if err == nil {
		err = validator.Run(ctx)
	}
	if err == nil {
		err = report(context.Background(), cluster)
	}
	if err != nil {
		log.Fatal(err)
	}
}
