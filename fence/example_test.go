package fence_test

import (
	"context"
	"fmt"
	"log"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/kafka"
	"github.com/holdfast-go/holdfast/stream"
)

// A consumer loop of your own, with a fenced writer for the partition it owns.
func Example() {
	broker, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "payments", "ledger-state"))
	if err != nil {
		log.Fatal(err)
	}
	defer broker.Close()
	cluster := kafka.Config{Brokers: broker.ListenAddrs()}

	ctx, done := context.WithCancel(context.Background())
	owned := make(chan *fence.Ownership, 1)
	group := fence.NewGroup(
		func(_ context.Context, o *fence.Ownership) { owned <- o },
		func(o *fence.Ownership, lost bool) { fmt.Println("released, lost:", lost) },
	)
	member, err := group.NewClient(ctx, cluster, fence.Session{Group: "ledger"}, kgo.ConsumeTopics("payments"))
	if err != nil {
		log.Fatal(err)
	}
	go func() {
		o := <-owned
		w, found, err := fence.Open(ctx, fence.Config{
			Kafka: cluster, Group: "ledger", Ownership: o,
			Input:    o.Partition(),
			Progress: stream.Partition{Topic: "ledger-state", Partition: o.Partition().Partition},
		})
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println("committed:", found.Next)
		// State and offset together: all or none, and from nobody but the owner.
		err = w.Commit(ctx, fence.Offset{Next: 3, LeaderEpoch: -1}, stream.Message{Key: []byte("alice"), Value: []byte("12.50")})
		fmt.Println("commit:", err)
		if err := w.Close(ctx); err != nil {
			log.Print(err)
		}
		done()
	}()
	for ctx.Err() == nil {
		member.PollFetches(ctx)
		member.AllowRebalance()
	}
	member.CloseAllowingRebalance()
	// Output:
	// committed: -1
	// commit: <nil>
	// released, lost: false
}
