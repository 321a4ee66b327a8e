package acceptance

import (
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/kafkatest"
	"github.com/holdfast-go/holdfast/stream"
)

// load writes to every partition until stop is called; stop returns how many records each got.
func load(t *testing.T, c *kafkatest.Cluster, input string, partitions int32) (stop func() int) {
	t.Helper()
	pr := producer(t, c)
	end := make(chan struct{})
	written := 0
	var wg sync.WaitGroup
	wg.Go(func() {
		for tick := time.NewTicker(5 * time.Millisecond); ; {
			for p := range partitions {
				produce(t, pr, input, p, 20, written, written+10)
			}
			written += 10
			select {
			case <-tick.C:
			case <-end:
				tick.Stop()
				return
			}
		}
	})
	var once sync.Once
	stop = func() int {
		once.Do(func() { close(end) })
		wg.Wait()
		return written
	}
	t.Cleanup(func() { stop() })
	return stop
}

// Members join, leave and are killed while records come; in the end the stored states are what the
// input gives.
// Public case E1.
func TestKafkaJoinLeaveKillUnderLoad(t *testing.T) {
	c := kafkatest.Start(t)
	const partitions = 4
	input := c.CreateTopic(t, kafkatest.UniqueName("input"), partitions, nil)
	group := input + "-flow"
	stop := load(t, c, input, partitions)
	arg := childConfig{Addrs: c.Addrs, Group: group, Input: input}

	first := startChild(t, arg)
	for _, p := range []string{"0", "1", "2", "3"} {
		first.Await(t, "committed "+p, patience)
	}
	joined := startChild(t, arg)
	joined.Await(t, "committed", patience) // it owns a partition and has committed
	third := start(t, t.Context(), "third", config(c.Addrs, group, input))
	await(third, 0, any1[stream.Committed])
	if err := first.Kill(); err != nil { // in mid-work
		t.Fatal(err)
	}
	mark := third.mark()
	await(third, mark, func(e stream.Assigned) bool { return e.TookOver })
	fourth := start(t, t.Context(), "fourth", config(c.Addrs, group, input))
	await(fourth, 0, any1[stream.Committed])
	if err := joined.Stop(t.Context()); err != nil { // leaves in order
		t.Fatal(err)
	}
	written := stop()
	awaitCommitted(t, c, group, input, partitions, int64(written))
	for _, f := range []*flow{third, fourth} {
		if err := f.stop(); err != nil {
			t.Error(err)
		}
	}
	for _, d := range check(t, c, group, input, group+"-snapshots") {
		t.Error(d)
	}
	if n := len(stored(t, c, group+"-snapshots")); n != partitions*20 {
		t.Errorf("%d keys are stored, want %d", n, partitions*20)
	}
}

// awaitCommitted waits until the group has committed next for every partition.
func awaitCommitted(t *testing.T, c *kafkatest.Cluster, group, input string, partitions int32, next int64) {
	t.Helper()
	limit := time.After(patience)
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		os := committed(t, c, group, input)
		done := true
		for p := range partitions {
			done = done && os[p] >= next
		}
		if done {
			return
		}
		select {
		case <-tick.C:
		case <-limit:
			t.Fatalf("group %s has committed %v, want %d everywhere", group, os, next)
		}
	}
}
