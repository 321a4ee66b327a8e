package trial

import (
	"context"
	"fmt"
	"hash/fnv"
	"log/slog"
	"slices"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/codec"
	"github.com/holdfast-go/holdfast/holdfasttest"
	"github.com/holdfast-go/holdfast/internal/rule"
	"github.com/holdfast-go/holdfast/internal/wiretap"
	"github.com/holdfast-go/holdfast/kafka"
	"github.com/holdfast-go/holdfast/pipe"
	"github.com/holdfast-go/holdfast/stream"
)

// Kind is what runs.
type Kind string

// The kinds of an application.
const (
	Flow Kind = "flow" // counts, sums and chains the records of a key, and emits what it has then
	Pipe Kind = "pipe" // has an output or several for each record
	Copy Kind = "copy" // a pipe that forwards each record unchanged to the partition it came from
)

// App describes the application. It is plain data, which goes to the processes as JSON. What is zero is
// set by New.
type App struct {
	Kind      Kind
	Guarantee holdfast.Guarantee // of a flow
	Protocol  string             // of the group: "cooperative", "eager" or "server-side"
	// JavaAssignors are those of a Java member, see copier.Config. "": cooperative-sticky.
	JavaAssignors string
	InstanceID    string      // of a static member: it differs from member to member
	Off           []rule.Name // the rules that are switched off
	// Probe has the fence probed at each start. It speaks the same protocol as a member, for a group of its own,
	// so that what counts, holds or drops requests would meet it too.
	Probe bool
	Start holdfast.Start
	// FoldVersion is that of a flow.
	FoldVersion string
	Concurrency int // of a pipe

	Addrs         []string          // of the brokers
	Via           map[string]string // advertised address → address to dial; empty: directly
	Group         string
	Input, Output string

	Session, Rebalance, Heartbeat   time.Duration
	TransactionTimeout, Unreachable time.Duration
	Commit                          time.Duration // between two commits
	Persist                         time.Duration // of a changed state under FencedState and Unfenced
	RevokeBudget, StallTimeout      time.Duration
	// MaxWrites is the most records of a transaction. 0: the default of holdfast.Commit.
	MaxWrites int
	// Stats is the time between two Stats of a process. 0: none.
	Stats time.Duration
}

// withDefaults sets timings that are short, so that transactions run all the time and a dead member is
// missed soon.
func (a App) withDefaults() App {
	set := func(d *time.Duration, otherwise time.Duration) {
		if *d == 0 {
			*d = otherwise
		}
	}
	if a.Kind == "" {
		a.Kind = Flow
	}
	if a.Protocol == "" {
		a.Protocol = "cooperative"
	}
	set(&a.Session, 6*time.Second)
	set(&a.Rebalance, 20*time.Second)
	set(&a.Heartbeat, 300*time.Millisecond)
	set(&a.TransactionTimeout, 10*time.Second)
	set(&a.Commit, 20*time.Millisecond)
	set(&a.Persist, 60*time.Millisecond)
	return a
}

// off returns the rules that are switched off.
func (a App) off() []rule.Name {
	if a.Probe {
		return a.Off
	}
	return append(slices.Clone(a.Off), rule.FenceProbe)
}

// Progress is the topic of the progress records, which has a flow's snapshots as well.
func (a App) Progress() string {
	if a.Kind == Flow {
		return a.Group + "-snapshots"
	}
	return a.Group + "-progress"
}

// State is what a flow keeps of a key. The chain depends on every record and on their order.
type State struct {
	N     int    // records since the key was begun
	Sum   int    // of their values
	Chain uint64 // a hash over all of them, in order
}

func (s State) with(value int) State {
	h := fnv.New64a()
	fmt.Fprint(h, s.Chain, " ", value)
	return State{N: s.N + 1, Sum: s.Sum + value, Chain: h.Sum64()}
}

// What becomes of a value is the same for all applications.
func fanout(value int) int     { return value % 3 }     // outputs of a record; a pipe filters those that have none
func deletes(value int) bool   { return value%11 == 7 } // the key ends with the record
func persists(value int) bool  { return value%5 == 1 }  // the state is to be written with the next commit
func text(value, i int) string { return fmt.Sprintf("%d.%d", value, i) }

// Flow is the configuration of a flow.
func (a App) Flow() holdfast.Config[State] {
	c := holdfast.Config[State]{
		Kafka: a.kafka(), Group: a.Group, Inputs: []string{a.Input}, Outputs: []string{a.Output}, Guarantee: a.Guarantee,
		Snapshots: holdfast.Snapshots{Create: &holdfast.TopicConfig{}}, Codec: codec.JSON[State](), FoldVersion: a.FoldVersion,
		Start: a.Start, Member: a.member(), Commit: a.commit(), Restore: holdfast.Restore{StallTimeout: a.StallTimeout},
		Fold: func(_ context.Context, key *holdfast.Key[State], r stream.Record) error {
			value, err := strconv.Atoi(string(r.Value))
			if err != nil {
				return err
			}
			old, _ := key.State()
			s := old.with(value)
			key.Set(s)
			for i := range fanout(value) {
				out := fmt.Sprintf("%s after %d of sum %d, %x", text(value, i), s.N, s.Sum, s.Chain)
				key.Emit(stream.Message{Topic: a.Output, Key: r.Key, Value: []byte(out)})
			}
			if deletes(value) {
				key.Delete()
			}
			if persists(value) {
				key.Persist()
			}
			return nil
		},
	}
	if a.Guarantee != holdfast.FencedOutputs {
		c.Commit.Persist, c.Commit.PersistCooldown = a.Persist, time.Nanosecond
	}
	return c
}

// Pipe is the configuration of a pipe, and of a copy.
func (a App) Pipe() pipe.Config {
	c := pipe.Config{
		Kafka: a.kafka(), Group: a.Group, Inputs: []string{a.Input}, Outputs: []string{a.Output}, Create: &holdfast.TopicConfig{},
		Concurrency: a.Concurrency, Start: a.Start, Member: a.member(), Commit: a.commit(), Restore: holdfast.Restore{StallTimeout: a.StallTimeout},
		Func: func(_ context.Context, r stream.Record, out *pipe.Out) error {
			value, err := strconv.Atoi(string(r.Value))
			for i := range fanout(value) {
				out.Send(stream.Message{Topic: a.Output, Key: r.Key, Value: []byte(text(value, i))})
			}
			return err
		},
	}
	if a.Kind == Copy {
		c.KeepPartition = c.Outputs
		c.Func = func(_ context.Context, _ stream.Record, out *pipe.Out) error { out.Forward(a.Output); return nil }
	}
	return c
}

// protocols are the names of Protocol.
var protocols = map[string]holdfast.Protocol{
	"cooperative": holdfast.Cooperative, "eager": holdfast.Eager, "server-side": holdfast.ServerSide,
}

// member has the membership. New has set a server-side group's timings at the brokers.
func (a App) member() holdfast.Member {
	m := holdfast.Member{
		Protocol:   protocols[a.Protocol],
		InstanceID: a.InstanceID, SessionTimeout: a.Session, RebalanceTimeout: a.Rebalance, HeartbeatInterval: a.Heartbeat,
		TransactionTimeout: a.TransactionTimeout, UnreachableTimeout: a.Unreachable,
	}
	if m.Protocol == holdfast.ServerSide {
		m.SessionTimeout, m.HeartbeatInterval = 0, 0
	}
	return m
}

func (a App) commit() holdfast.Commit {
	return holdfast.Commit{Interval: a.Commit, MaxWrites: a.MaxWrites, RevokeBudget: a.RevokeBudget}
}

func (a App) kafka() kafka.Config {
	k := kafka.Config{Brokers: a.Addrs}
	if len(a.Via) > 0 {
		k.Opts = append(k.Opts, kgo.Dialer(wiretap.DialerFor(a.Via)))
	}
	return k
}

// Model is what the checker does the work again by.
func (a App) Model() holdfasttest.Model {
	if a.Kind == Flow {
		return holdfasttest.Flow(a.Flow())
	}
	return holdfasttest.Pipe(a.Pipe())
}

// Component is a flow or a pipe.
type Component interface {
	Run(context.Context) error
	Check(context.Context) (holdfast.Report, error)
}

// Build makes the application, which tells the recorder and the hooks what happens. log may be nil.
func (a App) Build(r *holdfasttest.Recorder, log *slog.Logger, hooks ...holdfast.Hooks) (Component, error) {
	if _, ok := protocols[a.Protocol]; !ok {
		return nil, fmt.Errorf("trial: no protocol %q", a.Protocol)
	}
	if a.Kind == Flow {
		c := a.Flow()
		c.Logger, c.Hooks = log, hooks
		return holdfast.New(holdfasttest.Watch(r, c))
	}
	c := a.Pipe()
	c.Logger, c.Hooks = log, append(hooks, r.Hooks())
	return pipe.New(c)
}
