package eos

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/holdfast-go/holdfast/internal/kafkatest"
)

// reader reads the copy from its beginning while it is made, and remembers what it saw.
type reader struct {
	t    *testing.T
	cl   *kgo.Client
	log  *eventLog // of the copiers
	done chan struct{}

	mu    sync.Mutex
	seen  history
	count int
	fault error
	grown chan struct{} // closed, and replaced, when something was read
}

// startReader starts a reader that ends with the test, or by stop.
func startReader(b *bench, isolation kgo.IsolationLevel) *reader {
	t := b.t
	t.Helper()
	from := map[int32]kgo.Offset{}
	for p := range b.partitions {
		from[p] = kgo.NewOffset().At(0)
	}
	r := &reader{t: t, log: b.log, seen: history{}, done: make(chan struct{}), grown: make(chan struct{})}
	r.cl = b.c.Client(t, kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{b.conf.Output: from}), kgo.FetchIsolationLevel(isolation))
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(func() { cancel(); <-r.done })
	go func() {
		defer close(r.done)
		for ctx.Err() == nil {
			r.take(ctx, r.cl.PollFetches(ctx))
		}
	}()
	return r
}

func (r *reader) take(ctx context.Context, fs kgo.Fetches) {
	r.mu.Lock()
	defer r.mu.Unlock()
	fs.EachError(func(topic string, p int32, err error) {
		if ctx.Err() == nil {
			r.fault = errors.Join(r.fault, fmt.Errorf("reader of %s/%d: %w", topic, p, err))
		}
	})
	fs.EachRecord(func(rec *kgo.Record) {
		v, err := strconv.Atoi(string(rec.Value))
		if err != nil {
			r.fault = errors.Join(r.fault, err)
		}
		r.seen[rec.Partition] = append(r.seen[rec.Partition], v)
		r.count++
	})
	close(r.grown)
	r.grown = make(chan struct{})
}

// await waits until the reader has seen at least n records.
func (r *reader) await(n int) {
	r.t.Helper()
	limit := time.NewTimer(patience)
	defer limit.Stop()
	last := -1
	for {
		r.mu.Lock()
		count, fault, grown := r.count, r.fault, r.grown
		r.mu.Unlock()
		switch {
		case fault != nil:
			r.t.Fatal(fault)
		case count >= n:
			return
		case count > last: // the limit is for a standstill, however slow the machine is
			last = count
			limit.Reset(patience)
		}
		select {
		case <-grown:
		case <-r.log.broken:
			r.t.Fatalf("the reader has seen %d records, %d wanted: %v", count, n, r.log.trouble())
		case <-limit.C:
			r.t.Fatalf("the reader has seen %d records, %d wanted, and no more within %v", count, n, patience)
		}
	}
}

// have returns how many records the reader has seen.
func (r *reader) have() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.count
}

// history returns what was seen so far.
func (r *reader) history() history {
	r.mu.Lock()
	defer r.mu.Unlock()
	h := history{}
	for p, vs := range r.seen {
		h[p] = append([]int(nil), vs...)
	}
	return h
}

// readAll reads a topic up to its end of this moment. It waits for the transactions that are open
// below that end, whatever the isolation: their records are counted when it is known what became of
// them.
func readAll(t *testing.T, c *kafkatest.Cluster, topic string, isolation kgo.IsolationLevel) history {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	ends, err := kadm.NewClient(c.Client(t)).ListEndOffsets(ctx, topic)
	if err == nil {
		err = ends.Error()
	}
	if err != nil {
		t.Fatal(err)
	}
	left, from := map[int32]int64{}, map[int32]kgo.Offset{}
	ends.Each(func(o kadm.ListedOffset) {
		if o.Offset > 0 {
			left[o.Partition], from[o.Partition] = o.Offset, kgo.NewOffset().At(0)
		}
	})
	h := history{}
	if len(left) == 0 {
		return h
	}
	cl := c.Client(t, kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: from}), kgo.FetchIsolationLevel(isolation), kgo.KeepControlRecords())
	defer cl.Close()
	for len(left) > 0 {
		fs := cl.PollFetches(ctx)
		if err := fs.Err(); err != nil {
			t.Fatalf("read %s, %v left: %v", topic, left, err)
		}
		fs.EachRecord(func(r *kgo.Record) {
			if !r.Attrs.IsControl() {
				v, err := strconv.Atoi(string(r.Value))
				if err != nil {
					t.Fatal(err)
				}
				h[r.Partition] = append(h[r.Partition], v)
			}
			if r.Offset+1 >= left[r.Partition] {
				delete(left, r.Partition)
			}
		})
	}
	return h
}
