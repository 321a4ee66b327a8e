package eos

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/internal/kafkatest"
	"github.com/holdfast-go/holdfast/internal/rule"
	"github.com/holdfast-go/holdfast/internal/wiretap"
	"github.com/holdfast-go/holdfast/kafka"
	"github.com/holdfast-go/holdfast/stream"
)

func TestMain(m *testing.M) {
	// The tests wait for brokers and timeouts most of the time. -parallel on the command line still wins.
	if err := flag.Set("test.parallel", "4"); err != nil {
		panic(err)
	}
	kafkatest.Main(m, kafkatest.Child{Name: "copier", Run: runCopier})
}

// copierConfig is what a copier of ours in a process of its own is told.
type copierConfig struct {
	Engine                         string            // a key of engines
	Addrs                          []string          // of the brokers
	Via                            map[string]string // advertised address → address to dial
	Group, Input, Output, Progress string
	Session                        time.Duration // of the membership
	TransactionTimeout             time.Duration
	Records                        int // of one transaction, at most
	Off                            []rule.Name
}

// engine copies Input to Output as one member of the group until ctx ends, and returns nil then. The
// key decides the output's partition, as it has decided the input's.
type engine func(ctx context.Context, c copierConfig, hooks stream.Hooks) error

// engines are the ways of ours to copy: the product, and a consumer loop of one's own over its fence.
var engines = map[string]engine{"fence": copyByFence, "pipe": copyByPipe}

// runCopier tells its parent what happens: the event's name, the partition, and what belongs to it.
func runCopier(ctx context.Context, p *kafkatest.Parent) error {
	var c copierConfig
	if err := p.Arg(&c); err != nil {
		return err
	}
	e, ok := engines[c.Engine]
	if !ok {
		return fmt.Errorf("no engine %q", c.Engine)
	}
	return e(rule.Without(ctx, c.Off...), c, tell(p))
}

// tell sends the events that the tests wait for. One that cannot be sent has no reader any more: the
// test binary has ended, and this process with it.
func tell(p *kafkatest.Parent) stream.Hooks {
	return stream.Hooks{
		Assigned: func(e stream.Assigned) {
			name := "assigned"
			if e.TookOver {
				name = "took"
			}
			_ = p.Event("%s %d at %d", name, e.Partition.Partition, e.Committed)
		},
		Committed: func(e stream.Committed) {
			_ = p.Event("committed %d next %d read back %t", e.Partition.Partition, e.Next, e.ReadBack)
		},
		Refused: func(e stream.Refused) {
			_ = p.Event("refused %d %s final %t: %v", e.Partition.Partition, e.Cause, e.Final, e.Err)
		},
		Revoked: func(e stream.Released) { _ = p.Event("revoked %d", e.Partition.Partition) },
		Lost:    func(e stream.Released) { _ = p.Event("lost %d: %v", e.Partition.Partition, e.Cause) },
	}
}

// kafka is the connection of a copier.
func (c copierConfig) kafka() kafka.Config {
	k := kafka.Config{Brokers: c.Addrs}
	if len(c.Via) > 0 {
		k.Opts = append(k.Opts, kgo.Dialer(wiretap.DialerFor(c.Via)))
	}
	return k
}

func (c copierConfig) session() fence.Session {
	return fence.Session{
		Group: c.Group, SessionTimeout: c.Session, RebalanceTimeout: max(20*time.Second, c.Session), HeartbeatInterval: 300 * time.Millisecond,
	}
}

func logger() *slog.Logger { return slog.New(slog.NewTextHandler(os.Stderr, nil)) }
