// Command fetch puts the jars of Apache Kafka into the cache that the tests use, so that the first test
// does not wait for them. It takes the versions as arguments, and without any the one that the tests
// run against.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"

	"github.com/holdfast-go/holdfast/internal/kafkatest"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	versions := os.Args[1:]
	if len(versions) == 0 {
		versions = []string{kafkatest.Version()}
	}
	for _, v := range versions {
		if err := kafkatest.Fetch(ctx, v); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
}
