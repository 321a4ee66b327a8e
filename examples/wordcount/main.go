// Command wordcount counts words: a pipe splits lines into words, keyed by the word, and a flow counts
// each. Both hops are exactly-once inside Kafka, for read_committed readers. streams/WordCount.java is the same program for Kafka Streams.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"os/signal"
	"strconv"
	"strings"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/codec"
	"github.com/holdfast-go/holdfast/kafka"
	"github.com/holdfast-go/holdfast/pipe"
	"github.com/holdfast-go/holdfast/stream"
)

// splitter is the stateless half: one record a word, in the partition that the word's key picks, so
// that all of a word's records have one owner downstream.
func splitter(cluster kafka.Config) (*pipe.Pipe, error) {
	return pipe.New(pipe.Config{
		Kafka: cluster, Group: "wordcount-split", Inputs: []string{"lines"}, Outputs: []string{"words"},
		Create: &holdfast.TopicConfig{},
		Func: func(_ context.Context, r stream.Record, out *pipe.Out) error {
			for _, word := range strings.Fields(strings.ToLower(string(r.Value))) {
				out.Send(stream.Message{Topic: "words", Key: []byte(word), Value: []byte("1")})
			}
			return nil
		},
	})
}

// counter is the stateful half. committed is called after each transaction.
func counter(cluster kafka.Config, committed func(stream.Committed)) (*holdfast.Flow[int64], error) {
	return holdfast.New(holdfast.Config[int64]{
		Kafka: cluster, Group: "wordcount-count", Inputs: []string{"words"}, Outputs: []string{"counts"},
		Guarantee: holdfast.FencedOutputs,
		Snapshots: holdfast.Snapshots{Create: &holdfast.TopicConfig{}},
		Codec:     codec.JSON[int64](),
		Fold: func(_ context.Context, k *holdfast.Key[int64], _ stream.Record) error {
			n, _ := k.State()
			k.Set(n + 1)
			k.Emit(stream.Message{Topic: "counts", Key: k.Bytes(), Value: strconv.AppendInt(nil, n+1, 10)})
			return nil
		},
		Hooks: []holdfast.Hooks{{Committed: committed}},
	})
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	cluster, words, done := setUp(ctx) // an embedded broker, or -brokers; three lines
	defer done()

	split, err := splitter(cluster)
	if err != nil {
		log.Fatal(err)
	}
	outputs := tally(words, stop) // an example ends; a service runs until it is told to stop
	count, err := counter(cluster, outputs)
	if err != nil {
		log.Fatal(err)
	}
	ended := make(chan error)
	for _, run := range []func(context.Context) error{split.Run, count.Run} {
		go func() {
			defer stop() // neither half goes on without the other
			ended <- run(ctx)
		}()
	}
	for range 2 {
		if err := <-ended; err != nil {
			log.Print(err)
		}
	}
	counts, err := read(context.Background(), cluster)
	if err != nil {
		log.Fatal(err)
	}
	for _, c := range counts {
		fmt.Println(c)
	}
}
