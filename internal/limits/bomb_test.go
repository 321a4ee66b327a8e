package limits

import (
	"errors"
	"runtime"
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/holdfast-go/holdfast/dlq"
	"github.com/holdfast-go/holdfast/holdfasttest"
	"github.com/holdfast-go/holdfast/kafka"
	"github.com/holdfast-go/holdfast/stream"
)

const (
	bound    = 16 << 20 // the budget of the component
	exploded = 64 << 20
	mostHeap = exploded / 2 // what a run may allocate, all garbage counted, that meets a bomb
)

// bomb is a record of a few kB in the log that takes 64 MiB when it is read.
func bomb(topic string) *kgo.Record {
	return &kgo.Record{Topic: topic, Key: []byte("k0"), Value: make([]byte, exploded)}
}

func bounded(k kafka.Config, bytes int) kafka.Config {
	k.FetchBudget = int64(bytes)
	return k
}

// allocated returns what f has the process allocate.
func allocated(f func()) int64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return int64(after.TotalAlloc - before.TotalAlloc)
}

// A record of the input is larger than the budget allows. Without a policy the component stops and names it, and has
// not taken the memory for it. With the budget raised it goes on, and nothing is lost.
func TestBombInTheInput(t *testing.T) {
	for _, kind := range kinds {
		t.Run(kind, func(t *testing.T) {
			b := newBench(t, holdfasttest.Broker(t), kind)
			free := b.kafka
			b.send(10)
			b.write(bomb(b.input))
			b.send(5)
			b.kafka = bounded(free, bound)
			var err error
			if n := allocated(func() { err = b.start().failure() }); n > mostHeap {
				t.Errorf("the run allocated %d MiB, the batch is of %d", n>>20, exploded>>20)
			}
			located(t, err, stream.ErrTooLarge, b.input, 10, "FetchBudget")
			if at := b.offset(); at > 10 {
				t.Errorf("committed %d, past the batch that was not read", at)
			}
			b.kafka = bounded(free, 5*exploded)
			b.full = b.kafka
			b.finish(16)
		})
	}
}

// The same in the snapshot topic: the restore stops, and nothing is folded or written.
func TestBombInTheSnapshots(t *testing.T) {
	b := newBench(t, bounded(holdfasttest.Broker(t), bound), fencedState)
	b.send(10)
	r := b.start()
	r.committed(10)
	if err := r.stop(); err != nil {
		t.Fatal(err)
	}
	bad := bomb(b.progress())
	b.write(bad)
	end := b.end(b.progress())
	b.send(5)
	var err error
	if n := allocated(func() { err = b.start().failure() }); n > mostHeap {
		t.Errorf("the run allocated %d MiB, the batch is of %d", n>>20, exploded>>20)
	}
	located(t, err, stream.ErrTooLarge, b.progress(), bad.Offset, "FetchBudget")
	if at := b.offset(); at != 10 {
		t.Errorf("committed %d, want 10: nothing may be folded on a state that was not restored", at)
	}
	if now := b.end(b.progress()); now != end {
		t.Errorf("the snapshot topic ends at %d, want %d: something was written", now, end)
	}
}

// The same in a dead-letter topic: it is a letter without content, and the next one follows.
func TestBombAmongDeadLetters(t *testing.T) {
	b := newBench(t, holdfasttest.Broker(t), isPipe)
	b.write(&kgo.Record{Topic: b.output, Value: []byte("a")}, bomb(b.output), &kgo.Record{Topic: b.output, Value: []byte("b")})
	for _, c := range []struct {
		bytes, letters int
	}{{bound, 2}, {5 * exploded, 3}} {
		var faulty []int64
		letters := 0
		n := allocated(func() {
			for l, err := range dlq.All(t.Context(), bounded(b.kafka, c.bytes), b.output) {
				switch {
				case err != nil:
					t.Error(err)
				case errors.Is(l.Fault, stream.ErrTooLarge):
					faulty = append(faulty, l.Record.Offset)
				default:
					letters++
				}
			}
		})
		if letters != c.letters {
			t.Errorf("within %d bytes %d letters were read, want %d", c.bytes, letters, c.letters)
		}
		if c.bytes > exploded {
			continue
		}
		if !slices.Equal(faulty, []int64{1}) {
			t.Errorf("letters that were too large: %v, want that at offset 1", faulty)
		}
		if n > mostHeap {
			t.Errorf("the read allocated %d MiB, the batch is of %d", n>>20, exploded>>20)
		}
	}
}
