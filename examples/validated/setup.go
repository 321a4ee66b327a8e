package main

import (
	"context"
	"errors"
	"flag"
	"log"
	"strings"
	"sync"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/holdfast-go/holdfast/devbroker"
	"github.com/holdfast-go/holdfast/kafka"
)

var brokers = flag.String("brokers", "", "host:port,... of a cluster; empty: an embedded broker")

var events = []string{
	`{"user":"ann","action":"login"}`,
	`{"user":"bob","action":"login"}`,
	`{"user":"ann"}`,
	`{"user":"bob","action":"buy"}`,
	`not JSON at all`,
	`{"user":"ann","action":"logout"}`,
}

// setUp connects, makes the topics and writes the events. last reports whether they
// are all behind an offset of a partition.
func setUp(ctx context.Context) (cluster kafka.Config, last func(partition int32, offset int64) bool, done func()) {
	flag.Parse()
	cluster, done = kafka.Config{Brokers: strings.Split(*brokers, ",")}, func() {}
	if *brokers == "" {
		broker, err := devbroker.Start(devbroker.Config{Listen: "127.0.0.1:0"})
		if err != nil {
			log.Fatal(err)
		}
		cluster, done = broker.Kafka(), func() {
			if err := broker.Close(); err != nil {
				log.Print(err)
			}
		}
	}
	written, err := write(ctx, cluster)
	if err != nil {
		log.Fatal(err)
	}
	return cluster, behind(written), done
}

// write returns the offset of the last one in each partition that has one.
func write(ctx context.Context, cluster kafka.Config) (last map[int32]int64, err error) {
	client, err := cluster.Client()
	if err != nil {
		return nil, err
	}
	defer client.Close()
	last = map[int32]int64{}
	for _, topic := range []string{"events", "events-valid", "events-rejected"} {
		// One partition, so that the output has one order; one that is there stays as it is. -1: the broker's default replication.
		if _, err := kadm.NewClient(client).CreateTopic(ctx, 1, -1, nil, topic); err != nil && !errors.Is(err, kerr.TopicAlreadyExists) {
			return nil, kafka.Explain(err)
		}
	}
	for _, e := range events {
		r := &kgo.Record{Topic: "events", Value: []byte(e)}
		if err := client.ProduceSync(ctx, r).FirstErr(); err != nil {
			return nil, kafka.Explain(err)
		}
		last[r.Partition] = r.Offset
	}
	return last, nil
}

// behind returns a function that reports whether all that was written is behind the offset that it is told, of one
// partition after the other. It may be called from several goroutines.
func behind(last map[int32]int64) func(partition int32, offset int64) bool {
	var mu sync.Mutex
	return func(partition int32, offset int64) bool {
		mu.Lock()
		defer mu.Unlock()
		if at, ok := last[partition]; ok && offset >= at {
			delete(last, partition)
		}
		return len(last) == 0
	}
}
