package attack

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/codec"
	"github.com/holdfast-go/holdfast/dlq"
	"github.com/holdfast-go/holdfast/internal/kafkatest"
	"github.com/holdfast-go/holdfast/kafka"
	"github.com/holdfast-go/holdfast/pipe"
	"github.com/holdfast-go/holdfast/stream"
)

func TestMain(m *testing.M) {
	kafkatest.Main(m, kafkatest.Child{Name: "reader", Run: runReader})
}

// order is what a reader is told.
type order struct {
	Brokers []string
	Kind    string // "flow", "pipe" or "letters"
	Group   string
	Topic   string
	Budget  int64
	Partial bool // "flow": a slow fold, so that queues fill
}

// allowance is what a process may take beside its budget.
const allowance = 256 * mib

// runReader reads under a hard limit until it is stopped, and tells what it has met, line by line.
func runReader(ctx context.Context, p *kafkatest.Parent) error {
	var o order
	if err := p.Arg(&o); err != nil {
		return err
	}
	hard := uint64(o.Budget + allowance)
	if err := syscall.Setrlimit(syscall.RLIMIT_DATA, &syscall.Rlimit{Cur: hard, Max: hard}); err != nil {
		return err
	}
	err := o.read(ctx, p)
	if err != nil {
		_ = p.Event("error %v", err)
	}
	peak, perr := peakMemory()
	if perr != nil {
		return perr
	}
	return p.Event("peak %d", peak)
}

// peakMemory is the most that the process has had in memory at once, in bytes.
func peakMemory() (int64, error) {
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			kib, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64)
			return kib << 10, err
		}
	}
	return 0, fmt.Errorf("no VmHWM in %q", text)
}

func (o order) read(ctx context.Context, p *kafkatest.Parent) error {
	k := kafka.Config{Brokers: o.Brokers, FetchBudget: o.Budget}
	var folded atomic.Int64
	hooks := []holdfast.Hooks{{
		DeadLettered: func(e stream.DeadLettered) { _ = p.Event("letter %s %d", e.Partition, e.Offset) },
		Halted:       func(e stream.Halted) { _ = p.Event("halted %s %v", e.Partition, e.Err) },
		Committed:    func(e stream.Committed) { _ = p.Event("committed %s %d", e.Partition, e.Next) },
	}}
	letters := &dlq.Policy{Topic: o.Topic + "-dlq", MaxPerMinute: 10_000}
	onError := func(context.Context, *stream.RecordError) stream.Action { return stream.DeadLetter }
	logger := slog.New(slog.NewTextHandler(os.Stderr, nil))
	switch o.Kind {
	case "flow":
		f, err := holdfast.New(holdfast.Config[int]{
			Kafka: k, Group: o.Group, Inputs: []string{o.Topic}, Codec: codec.JSON[int](), Logger: logger,
			Fold: func(_ context.Context, key *holdfast.Key[int], r stream.Record) error {
				n, _ := key.State()
				key.Set(n + 1)
				folded.Add(1)
				return nil
			},
			Route:   func(stream.Record) ([]byte, bool) { return []byte("k"), true },
			OnError: onError, DeadLetters: letters, Hooks: hooks, Commit: holdfast.Commit{Interval: 100 * time.Millisecond, Persist: 100 * time.Millisecond},
		})
		if err != nil {
			return err
		}
		return f.Run(ctx)
	case "pipe":
		f, err := pipe.New(pipe.Config{
			Kafka: k, Group: o.Group, Inputs: []string{o.Topic}, Outputs: []string{o.Topic + "-out"}, Logger: logger,
			Func: func(_ context.Context, r stream.Record, out *pipe.Out) error {
				out.Send(stream.Message{Topic: o.Topic + "-out", Value: strconv.AppendInt(nil, r.Offset, 10)})
				return nil
			},
			OnError: onError, DeadLetters: letters, Hooks: hooks,
		})
		if err != nil {
			return err
		}
		return f.Run(ctx)
	}
	return fmt.Errorf("no reader %q", o.Kind)
}
