// Command ledger folds payments into one balance per account and writes each balance to a topic.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"os/signal"
	"strconv"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/codec"
	"github.com/holdfast-go/holdfast/stream"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	cluster, last, done := setUp(ctx) // an embedded broker, or -brokers; six payments
	defer done()

	flow, err := holdfast.New(holdfast.Config[int64]{
		Kafka:     cluster,
		Group:     "ledger",
		Inputs:    []string{"payments"},
		Outputs:   []string{"balances"},
		Snapshots: holdfast.Snapshots{Create: &holdfast.TopicConfig{}},
		Codec:     codec.JSON[int64](),
		Fold: func(_ context.Context, k *holdfast.Key[int64], r stream.Record) error {
			var p struct{ Cents int64 }
			if err := json.Unmarshal(r.Value, &p); err != nil {
				return err // the partition stops and says at which record; OnError can decide otherwise
			}
			cents, _ := k.State()
			cents += p.Cents
			k.Set(cents)
			k.Emit(stream.Message{Topic: "balances", Key: k.Bytes(), Value: strconv.AppendInt(nil, cents, 10)})
			fmt.Printf("%-5s %+6d  balance %5d\n", k.Bytes(), p.Cents, cents)
			if last(r.Partition, r.Offset) {
				stop() // an example ends; a service runs until it is told to stop
			}
			return nil
		},
		Hooks: []holdfast.Hooks{{Committed: func(c stream.Committed) {
			if c.Writes > 0 {
				fmt.Printf("committed offset %d with %d snapshots\n", c.Next, c.Writes)
			}
		}}},
	})
	if err == nil {
		err = flow.Run(ctx)
	}
	if err != nil {
		log.Fatal(err)
	}
}
