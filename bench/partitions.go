package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/codec"
	"github.com/holdfast-go/holdfast/kafka"
	"github.com/holdfast-go/holdfast/stream"
)

// benchPartitions shows what one client a partition costs: connections, goroutines, heap and resident
// memory of a flow that owns n partitions and has committed for each, beside one plain group member.
func benchPartitions(ctx context.Context, e *env) error {
	for _, n := range []int32{1, 64, 256} {
		input := unique("bench-partitions")
		if _, err := e.topic(ctx, input, n, false); err != nil {
			return err
		}
		bare, err := e.idleConsumer(ctx, input)
		if err != nil {
			return err
		}
		ours, err := e.idleFlow(ctx, input, n)
		if err != nil {
			return err
		}
		name := fmt.Sprintf("%d partitions", n)
		fmt.Fprintf(e.out, "%s: connections\t%d\t%d\t\t\n", name, ours.connections, bare.connections)
		fmt.Fprintf(e.out, "%s: goroutines\t%d\t%d\t\t\n", name, ours.goroutines, bare.goroutines)
		fmt.Fprintf(e.out, "%s: heap, KiB\t%d\t%d\t\t\n", name, ours.heapBytes>>10, bare.heapBytes>>10)
		fmt.Fprintf(e.out, "%s: resident, KiB\t%d\t%d\t\tof the whole benchmark process\n", name, ours.residentKiB, bare.residentKiB)
		fmt.Fprintf(e.out, "%s: start to all assigned, restored, committed\t%v\t\t\t\n", name, round(ours.took))
		e.out.Flush()
	}
	return nil
}

// cost is what one side holds while it is idle.
type cost struct {
	connections int64
	goroutines  int
	heapBytes   uint64
	residentKiB int
	took        time.Duration
}

// dials counts open connections.
type dials struct{ open atomic.Int64 }

type counted struct {
	net.Conn
	d    *dials
	once atomic.Bool
}

func (c *counted) Close() error {
	if !c.once.Swap(true) {
		c.d.open.Add(-1)
	}
	return c.Conn.Close()
}

func (d *dials) dialer() kgo.Opt {
	return kgo.Dialer(func(ctx context.Context, network, host string) (net.Conn, error) {
		c, err := (&net.Dialer{}).DialContext(ctx, network, host)
		if err != nil {
			return nil, err
		}
		d.open.Add(1)
		return &counted{Conn: c, d: d}, nil
	})
}

func measure(d *dials, goroutines int, heap uint64) (cost, error) {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	rss, err := residentKiB()
	return cost{
		connections: d.open.Load(), goroutines: runtime.NumGoroutine() - goroutines,
		heapBytes: m.HeapAlloc - min(heap, m.HeapAlloc), residentKiB: rss,
	}, err
}

func before() (goroutines int, heap uint64) {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return runtime.NumGoroutine(), m.HeapAlloc
}

func residentKiB() (int, error) {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(status)) {
		if rest, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			return strconv.Atoi(strings.Fields(rest)[0])
		}
	}
	return 0, nil
}

func (e *env) idleFlow(ctx context.Context, input string, partitions int32) (c cost, err error) {
	goroutines, heap := before()
	var d dials
	var committed atomic.Int64
	ready := make(chan struct{})
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	f, err := holdfast.New(holdfast.Config[int64]{
		Kafka: kafka.Config{Brokers: e.addrs, Opts: []kgo.Opt{d.dialer()}}, Group: unique("bench"), Inputs: []string{input},
		Snapshots: holdfast.Snapshots{Create: &holdfast.TopicConfig{}}, Codec: codec.JSON[int64](),
		Fold: func(context.Context, *holdfast.Key[int64], stream.Record) error { return nil },
		Hooks: []holdfast.Hooks{{Restored: func(stream.Restored) { // a new flow commits its start before this
			if committed.Add(1) == int64(partitions) {
				close(ready)
			}
		}}},
	})
	if err != nil {
		return c, err
	}
	began := time.Now()
	done := make(chan error, 1)
	go func() { done <- f.Run(ctx) }()
	select {
	case <-ready:
	case err := <-done:
		return c, fmt.Errorf("the flow ended: %w", err)
	case <-time.After(5 * time.Minute):
		return c, fmt.Errorf("%d of %d partitions were ready after 5 minutes", committed.Load(), partitions)
	}
	took := time.Since(began)
	c, err = measure(&d, goroutines, heap)
	c.took = took
	cancel()
	if runErr := <-done; runErr != nil {
		return c, runErr
	}
	return c, err
}

func (e *env) idleConsumer(ctx context.Context, input string) (cost, error) {
	goroutines, heap := before()
	var d dials
	assigned := make(chan struct{})
	cl, err := e.client(d.dialer(), kgo.ConsumeTopics(input), kgo.ConsumerGroup(unique("bare")),
		kgo.OnPartitionsAssigned(func(_ context.Context, _ *kgo.Client, m map[string][]int32) {
			if len(m) > 0 {
				close(assigned)
			}
		}))
	if err != nil {
		return cost{}, err
	}
	defer cl.Close()
	polling, cancel := context.WithCancel(ctx)
	defer cancel()
	polled := make(chan struct{})
	go func() {
		defer close(polled)
		for polling.Err() == nil {
			cl.PollFetches(polling)
		}
	}()
	select {
	case <-assigned:
	case <-time.After(time.Minute):
		return cost{}, fmt.Errorf("nothing was assigned within a minute")
	}
	c, err := measure(&d, goroutines, heap)
	cancel()
	<-polled
	return c, err
}
