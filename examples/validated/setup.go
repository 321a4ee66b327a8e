package main

import (
	"context"
	"errors"
	"flag"
	"log"
	"strings"

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

// setUp connects, makes the topics and writes the events. It returns the offset of the last one.
func setUp(ctx context.Context) (cluster kafka.Config, last int64, done func()) {
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
	last, err := write(ctx, cluster)
	if err != nil {
		log.Fatal(err)
	}
	return cluster, last, done
}

func write(ctx context.Context, cluster kafka.Config) (last int64, err error) {
	client, err := cluster.Client()
	if err != nil {
		return 0, err
	}
	defer client.Close()
	for _, topic := range []string{"events", "events-valid", "events-rejected"} {
		// One partition, so that the output has one order. -1: the broker's default replication.
		if _, err := kadm.NewClient(client).CreateTopic(ctx, 1, -1, nil, topic); err != nil && !errors.Is(err, kerr.TopicAlreadyExists) {
			return 0, kafka.Explain(err)
		}
	}
	for _, e := range events {
		r := &kgo.Record{Topic: "events", Value: []byte(e)}
		if err := client.ProduceSync(ctx, r).FirstErr(); err != nil {
			return 0, kafka.Explain(err)
		}
		last = r.Offset
	}
	return last, nil
}
