package demo

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/codec"
	"github.com/holdfast-go/holdfast/internal/rule"
	"github.com/holdfast-go/holdfast/internal/wiretap"
	"github.com/holdfast-go/holdfast/kafka"
	"github.com/holdfast-go/holdfast/stream"
)

// memberSpec is what the parent tells a member process, as one line of JSON on its standard input.
// The connection is not in it: it comes by the same flags as the parent's.
type memberSpec struct {
	Name                      string
	Group                     string
	Input, Snapshots, Outputs string
	Unfenced                  bool
	Timing                    timing
	Without                   []rule.Name       // rules that are switched off
	Via                       map[string]string // broker → the address of its tap
	Token                     string            // that the taps want
}

// timing are the intervals of a member.
type timing struct {
	Session, Rebalance, Heartbeat time.Duration
	Transaction                   time.Duration
	Persist, Cooldown, Interval   time.Duration
}

// report is one line that a member writes to its standard output.
type report struct {
	What      string `json:"what"` // one of the constants below
	Partition int32  `json:"partition"`
	TookOver  bool   `json:"took_over,omitempty"`
	Offset    int64  `json:"offset,omitempty"` // assigned, restored, committed: the next offset
	Keys      int    `json:"keys,omitempty"`
	Cause     string `json:"cause,omitempty"`
}

// What a member reports.
const (
	didAssign  = "assigned"
	didRestore = "restored"
	didWait    = "waiting" // a restore makes no progress
	didCommit  = "committed"
	didRefuse  = "refused"
	didRelease = "released"
	didStop    = "stopped" // the flow ended; Cause is its error
)

// RunMember is a member process: it reads its specification from stdin, runs the flow until ctx ends
// or stdin does, and writes reports to stdout.
func RunMember(ctx context.Context, k kafka.Config, logger *slog.Logger, stdin io.Reader, stdout io.Writer) error {
	in := bufio.NewReader(stdin)
	line, err := in.ReadBytes('\n')
	if err != nil {
		return fmt.Errorf("read the specification from standard input: %w", err)
	}
	var spec memberSpec
	if err := json.Unmarshal(line, &spec); err != nil {
		return fmt.Errorf("read the specification from standard input: %w", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	// The parent keeps the other end open. When it ends, however it ends, so does this process. The
	// goroutine cannot be waited for: a read of standard input has no other end.
	go func() {
		if _, err := io.Copy(io.Discard, in); err != nil {
			logger.Error("standard input broke", "error", err)
		}
		cancel()
	}()
	out := &reporter{to: json.NewEncoder(stdout)}
	err = spec.run(ctx, k, logger, out)
	last := report{What: didStop}
	if err != nil {
		last.Cause = err.Error()
	}
	out.write(last)
	return errors.Join(err, out.failed())
}

func (s memberSpec) run(ctx context.Context, k kafka.Config, logger *slog.Logger, out *reporter) error {
	k.Opts = append(k.Opts, kgo.ClientID("holdfast-demo-"+s.Name))
	k.TLS = nil // the tap makes the connection to the broker secure
	k.Opts = append(k.Opts, kgo.Dialer(wiretap.WithToken(s.Token, wiretap.DialerFor(s.Via))))
	config := holdfast.Config[Learner]{
		Kafka: k, Group: s.Group, Inputs: []string{s.Input}, Outputs: []string{s.Outputs},
		Snapshots: holdfast.Snapshots{Topic: s.Snapshots},
		Codec:     codec.JSON[Learner](),
		Clone:     cloneLearner,
		Fold:      fold(s.Outputs),
		Member: holdfast.Member{
			SessionTimeout: s.Timing.Session, RebalanceTimeout: s.Timing.Rebalance,
			HeartbeatInterval: s.Timing.Heartbeat, TransactionTimeout: s.Timing.Transaction,
		},
		Commit: holdfast.Commit{Persist: s.Timing.Persist, PersistCooldown: s.Timing.Cooldown, Interval: s.Timing.Interval},
		Logger: logger.With("member", s.Name),
		Hooks:  []holdfast.Hooks{out.hooks()},
	}
	if s.Unfenced {
		config.Guarantee = holdfast.Unfenced
	}
	flow, err := holdfast.New(config)
	if err != nil {
		return err
	}
	return flow.Run(rule.Without(ctx, s.Without...))
}

// reporter writes reports as lines. It is safe for concurrent use.
type reporter struct {
	mu  sync.Mutex
	to  *json.Encoder
	err error
}

func (r *reporter) write(line report) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.to.Encode(line); err != nil && r.err == nil {
		r.err = fmt.Errorf("report to the parent: %w", err)
	}
}

func (r *reporter) failed() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.err
}

func (r *reporter) hooks() holdfast.Hooks {
	released := func(e stream.Released) {
		line := report{What: didRelease, Partition: e.Partition.Partition}
		if e.Cause != nil {
			line.Cause = e.Cause.Error()
		}
		r.write(line)
	}
	return holdfast.Hooks{
		Assigned: func(e stream.Assigned) {
			r.write(report{What: didAssign, Partition: e.Partition.Partition, TookOver: e.TookOver, Offset: e.Committed})
		},
		Restored: func(e stream.Restored) {
			r.write(report{What: didRestore, Partition: e.Partition.Partition, Offset: e.Start, Keys: e.Keys})
		},
		Stalled: func(e stream.Stalled) {
			r.write(report{What: didWait, Partition: e.Partition.Partition, Offset: e.Position, Cause: e.Diagnosis})
		},
		Committed: func(e stream.Committed) {
			r.write(report{What: didCommit, Partition: e.Partition.Partition, Offset: e.Next})
		},
		Refused: func(e stream.Refused) {
			r.write(report{What: didRefuse, Partition: e.Partition.Partition, Cause: e.Cause})
		},
		Revoked: released,
		Lost:    released,
	}
}
