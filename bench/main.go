// Command bench measures the product beside a bare franz-go loop that does the same work, on a real
// Kafka broker, in one run and in turns, so that the ratios hold whatever else the machine does.
//
//	go run ./bench [-only NAME] [-rounds 3] [-records 1000000] [-brokers host:port]
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/holdfast-go/holdfast/internal/kafkatest"
)

// env is what the measurements share.
type env struct {
	addrs   []string
	rounds  int
	records int
	out     *tabwriter.Writer
}

// measurement is one line of the table, or several.
type measurement struct {
	name string
	run  func(context.Context, *env) error
}

var measurements = []measurement{
	{"write", benchWrite},
	{"flow", benchFlow},
	{"pipe", benchPipe},
	{"restore", benchRestore},
	{"retained", benchRetained},
	{"partitions", benchPartitions},
}

func main() {
	only := flag.String("only", "", "comma-separated names of measurements; empty: all")
	rounds := flag.Int("rounds", 3, "how often each measurement is taken; the least time counts")
	records := flag.Int("records", 1_000_000, "records that go through a flow")
	brokers := flag.String("brokers", "", "a given cluster; empty: one broker is started")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *only, *brokers, *rounds, *records); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, only, brokers string, rounds, records int) error {
	e := &env{rounds: rounds, records: records, out: tabwriter.NewWriter(os.Stdout, 0, 4, 2, ' ', 0)}
	if brokers != "" {
		e.addrs = strings.Split(brokers, ",")
	} else {
		c, err := kafkatest.Open(ctx, kafkatest.Options{})
		if err != nil {
			return err
		}
		defer c.Close()
		e.addrs = c.Addrs
	}
	fmt.Fprintf(e.out, "measurement\tholdfast\tbare kgo\tratio\tnote\n")
	for _, m := range measurements {
		if only != "" && !slices.Contains(strings.Split(only, ","), m.name) {
			continue
		}
		if err := m.run(ctx, e); err != nil {
			return fmt.Errorf("%s: %w", m.name, err)
		}
		e.out.Flush()
	}
	return nil
}

// row prints one measurement.
func (e *env) row(name string, ours, bare time.Duration, note string) {
	fmt.Fprintf(e.out, "%s\t%v\t%v\t%.2f\t%s\n", name, round(ours), round(bare), float64(ours)/float64(bare), note)
}

func round(d time.Duration) time.Duration {
	switch {
	case d > 10*time.Second:
		return d.Round(100 * time.Millisecond)
	case d > 10*time.Millisecond:
		return d.Round(time.Millisecond)
	}
	return d.Round(10 * time.Microsecond)
}

// inTurns runs both sides alternately and returns the least time of each.
func (e *env) inTurns(ours, bare func() (time.Duration, error)) (o, b time.Duration, err error) {
	for range e.rounds {
		for _, side := range []struct {
			run  func() (time.Duration, error)
			best *time.Duration
		}{{ours, &o}, {bare, &b}} {
			d, err := side.run()
			if err != nil {
				return 0, 0, err
			}
			if *side.best == 0 || d < *side.best {
				*side.best = d
			}
		}
	}
	return o, b, nil
}
