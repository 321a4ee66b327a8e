// Command flights folds 5,000 real flight records into statistics per airport, with two members of one
// consumer group of which the second joins half-way, and checks the result against an aggregation that
// does without Kafka. It exits with 1 if they differ.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/devbroker"
	"github.com/holdfast-go/holdfast/kafka"
)

func main() {
	brokers := flag.String("brokers", "", "host:port,... of a cluster; empty: an embedded broker")
	timeout := flag.Duration("timeout", 2*time.Minute, "give up after this time")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, *timeout)
	defer cancel()
	if err := run(ctx, os.Stdout, *brokers); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// run does all of it, and returns an error if the states differ from the independent aggregation.
func run(ctx context.Context, out io.Writer, brokers string) (err error) {
	cluster := kafka.Config{Brokers: strings.Split(brokers, ",")}
	if brokers == "" {
		broker, err := devbroker.Start(devbroker.Config{Listen: "127.0.0.1:0"})
		if err != nil {
			return err
		}
		defer broker.Close()
		cluster = broker.Kafka()
	}
	flights, err := readFlights()
	if err != nil {
		return err
	}
	j, err := newJob(ctx, cluster)
	if err != nil {
		return err
	}
	defer j.close()
	if err := j.fold(ctx, out, flights); err != nil {
		return err
	}
	states, err := j.readStates(ctx)
	if err != nil {
		return err
	}
	want := aggregate(flights)
	printTable(out, states, 10)
	return verdict(out, states, want, len(flights))
}
