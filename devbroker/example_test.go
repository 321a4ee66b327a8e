package devbroker_test

import (
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/holdfast-go/holdfast/devbroker"
)

func ExampleStart() {
	b, err := devbroker.Start(devbroker.Config{
		Listen: "127.0.0.1:0",
		Topics: []devbroker.Topic{{Name: "payments", Partitions: 2}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer b.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	cl, err := b.Kafka().Client(kgo.ConsumeTopics("payments"))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer cl.Close()
	if err := cl.ProduceSync(ctx, kgo.StringRecord("hello")).FirstErr(); err != nil {
		fmt.Println("a record needs a topic")
	}
	if err := cl.ProduceSync(ctx, &kgo.Record{Topic: "payments", Value: []byte("hello")}).FirstErr(); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%s\n", cl.PollFetches(ctx).Records()[0].Value)
	// Output:
	// a record needs a topic
	// hello
}
