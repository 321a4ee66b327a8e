package pipe_test

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/devbroker"
	"github.com/holdfast-go/holdfast/pipe"
	"github.com/holdfast-go/holdfast/stream"
)

// A pipe that leaves out debug lines and copies errors to a second topic.
func Example() {
	broker, err := devbroker.Start(devbroker.Config{
		Listen: "127.0.0.1:0",
		Topics: []devbroker.Topic{{Name: "lines", Partitions: 1}, {Name: "kept", Partitions: 1}, {Name: "errors", Partitions: 1}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer broker.Close()
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()
	client, err := broker.Kafka().Client(kgo.ConsumeTopics("kept", "errors"), kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()
	for _, line := range []string{"info started", "debug 42", "error disk full"} {
		if err := client.ProduceSync(ctx, &kgo.Record{Topic: "lines", Value: []byte(line)}).FirstErr(); err != nil {
			fmt.Println(err)
		}
	}

	p, err := pipe.New(pipe.Config{
		Kafka:   broker.Kafka(),
		Group:   "logs",
		Inputs:  []string{"lines"},
		Outputs: []string{"kept", "errors"},
		Create:  &holdfast.TopicConfig{},
		Func: func(_ context.Context, r stream.Record, out *pipe.Out) error {
			switch {
			case bytes.HasPrefix(r.Value, []byte("debug")):
				return nil // nothing is sent: the record is filtered
			case bytes.HasPrefix(r.Value, []byte("error")):
				out.Send(stream.Message{Topic: "errors", Value: bytes.ToUpper(r.Value)})
			}
			out.Forward("kept")
			return nil
		},
		Hooks: []holdfast.Hooks{{Committed: func(c stream.Committed) {
			if c.Next == 3 {
				stop()
			}
		}}},
	})
	if err == nil {
		err = p.Run(ctx)
	}
	fmt.Println("run:", err)
	for n := 0; n < 3; {
		for r := range client.PollFetches(context.Background()).RecordsAll() {
			fmt.Printf("%s: %s\n", r.Topic, r.Value)
			n++
		}
	}
	// Unordered output:
	// run: <nil>
	// kept: info started
	// kept: error disk full
	// errors: ERROR DISK FULL
}

// Apply calls the function of a pipe without a broker.
func ExampleConfig_Apply() {
	c := pipe.Config{Outputs: []string{"lengths"}, Func: func(_ context.Context, r stream.Record, out *pipe.Out) error {
		out.Send(stream.Message{Topic: "lengths", Value: fmt.Append(nil, len(r.Value))})
		return nil
	}}
	sent, err := c.Apply(context.Background(), stream.Record{Key: []byte("k"), Value: []byte("four")})
	fmt.Printf("%s: %s=%s %v\n", sent[0].Topic, sent[0].Key, sent[0].Value, err)
	// Output:
	// lengths: k=4 <nil>
}
