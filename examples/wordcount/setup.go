package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"maps"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/holdfast-go/holdfast/devbroker"
	"github.com/holdfast-go/holdfast/kafka"
	"github.com/holdfast-go/holdfast/stream"
)

var brokers = flag.String("brokers", "", "host:port,... of a cluster; empty: an embedded broker")

var lines = []string{
	"All streams lead to Kafka",
	"Hello Kafka streams",
	"Join Kafka Summit",
}

// partitions of each topic: words of one line go to several, and are counted side by side.
const partitions = 3

// setUp connects, makes the topics and writes the lines. It returns how many words they have.
func setUp(ctx context.Context) (cluster kafka.Config, words int64, done func()) {
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
	if err := write(ctx, cluster, "lines", "words", "counts"); err != nil {
		log.Fatal(err)
	}
	for _, line := range lines {
		words += int64(len(strings.Fields(line)))
	}
	return cluster, words, done
}

func write(ctx context.Context, cluster kafka.Config, topics ...string) error {
	client, err := cluster.Client()
	if err != nil {
		return err
	}
	defer client.Close()
	for _, topic := range topics {
		// -1: the broker's default replication.
		if _, err := kadm.NewClient(client).CreateTopic(ctx, partitions, -1, nil, topic); err != nil && !errors.Is(err, kerr.TopicAlreadyExists) {
			return kafka.Explain(err)
		}
	}
	for _, line := range lines {
		if err := client.ProduceSync(ctx, &kgo.Record{Topic: "lines", Value: []byte(line)}).FirstErr(); err != nil {
			return kafka.Explain(err)
		}
	}
	return nil
}

// tally calls stop when as many outputs as there are words are committed.
func tally(words int64, stop func()) func(stream.Committed) {
	var committed atomic.Int64
	return func(c stream.Committed) {
		if committed.Add(int64(c.Outputs)) >= words {
			stop()
		}
	}
}

// read returns the last count of each word, as a reader on read_committed finds it.
func read(ctx context.Context, cluster kafka.Config) ([]string, error) {
	client, err := cluster.Client(kgo.ConsumeTopics("counts"), kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.ConsumeStartOffset(kgo.NewOffset().AtStart()), kgo.KeepControlRecords())
	if err != nil {
		return nil, err
	}
	defer client.Close()
	left, err := kadm.NewClient(client).ListCommittedOffsets(ctx, "counts")
	if err != nil {
		return nil, err
	}
	remaining := int64(0)
	left.Each(func(o kadm.ListedOffset) { remaining += o.Offset })
	counts := map[string]string{}
	for remaining > 0 {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return nil, err
		}
		fetches.EachRecord(func(r *kgo.Record) {
			remaining-- // the marks of transactions, which are kept, take offsets too
			if !r.Attrs.IsControl() {
				counts[string(r.Key)] = string(r.Value)
			}
		})
	}
	var out []string
	for _, word := range slices.Sorted(maps.Keys(counts)) {
		out = append(out, fmt.Sprintf("%-8s %s", word, counts[word]))
	}
	return out, nil
}
