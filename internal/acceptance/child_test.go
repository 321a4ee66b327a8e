package acceptance

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"net"
	"os"
	"strings"
	"testing"

	"log/slog"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/kafkatest"
	"github.com/holdfast-go/holdfast/internal/rule"
	"github.com/holdfast-go/holdfast/stream"
)

func TestMain(m *testing.M) {
	// The tests wait for brokers and timeouts most of the time: more of them than there are cores
	// go side by side. -parallel on the command line still wins.
	if err := flag.Set("test.parallel", "6"); err != nil {
		panic(err)
	}
	kafkatest.Main(m, kafkatest.Child{Name: "flow", Run: runFlowChild})
}

// childConfig is what a flow in a process of its own is told.
type childConfig struct {
	Addrs        []string
	Group, Input string
	Outputs      []string          // the fold emits each record's value to the first
	Via          map[string]string // advertised address → address to dial
	Off          []rule.Name
	Unfenced     bool
	Short        bool // timings: see short
	TellFolds    bool // "folded <partition> <offset>", when a fold returns
	Rebuilding   bool // see rebuilding
	Countdown    bool // the fold is countdown, and nothing is persisted but what it asks for
}

// startChild runs a flow in a process that can be killed and stopped.
func startChild(t *testing.T, c childConfig) *kafkatest.Process {
	t.Helper()
	return kafkatest.StartChild(t, "flow", c)
}

// runFlowChild runs the flow and tells its parent what happens: "assigned 0 {…}" and so on, the
// partition and the event as JSON.
func runFlowChild(ctx context.Context, p *kafkatest.Parent) error {
	var arg childConfig
	if err := p.Arg(&arg); err != nil {
		return err
	}
	c := config(arg.Addrs, arg.Group, arg.Input)
	if arg.Short {
		c = short(c)
	}
	c.Outputs = arg.Outputs
	c.Logger = slog.New(slog.NewTextHandler(os.Stderr, nil))
	if arg.Unfenced {
		c.Guarantee = holdfast.Unfenced
	}
	if arg.Rebuilding {
		c = rebuilding(c)
	}
	if arg.Countdown {
		c = rarely(c)
		c.Fold = countdown
	}
	if len(arg.Outputs) > 0 {
		c.Fold = holdfast.Chain(c.Fold, func(_ context.Context, k *holdfast.Key[tally], r stream.Record) error {
			k.Emit(stream.Message{Topic: arg.Outputs[0], Key: r.Key, Value: r.Value})
			return nil
		})
	}
	if arg.TellFolds {
		c.Fold = holdfast.Chain(c.Fold, func(_ context.Context, _ *holdfast.Key[tally], r stream.Record) error {
			return p.Event("folded %d %d", r.Partition, r.Offset)
		})
	}
	if len(arg.Via) > 0 {
		c.Kafka.Opts = append(c.Kafka.Opts, kgo.Dialer(dialVia(arg.Via)))
	}
	c.Hooks = append(c.Hooks, tell(p))
	f, err := holdfast.New(c)
	if err != nil {
		return err
	}
	return f.Run(rule.Without(ctx, append(arg.Off, rule.FenceProbe)...))
}

func dialVia(via map[string]string) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, network, host string) (net.Conn, error) {
		if a, ok := via[host]; ok {
			host = a
		}
		return (&net.Dialer{}).DialContext(ctx, network, host)
	}
}

func tell(p *kafkatest.Parent) holdfast.Hooks {
	event := func(name string, at stream.Partition, e any) {
		text, err := json.Marshal(e)
		if err != nil {
			text = []byte(fmt.Sprintf("%q", fmt.Sprint(e))) // an event with an error in it
		}
		p.Event("%s %d %s", name, at.Partition, text)
	}
	return holdfast.Hooks{
		Assigned:  func(e stream.Assigned) { event("assigned", e.Partition, e) },
		Restored:  func(e stream.Restored) { event("restored", e.Partition, e) },
		Committed: func(e stream.Committed) { event("committed", e.Partition, e) },
		Refused:   func(e stream.Refused) { event("refused", e.Partition, strings.TrimSpace(fmt.Sprint(e))) },
		Revoked:   func(e stream.Released) { event("revoked", e.Partition, fmt.Sprint(e)) },
		Lost:      func(e stream.Released) { event("lost", e.Partition, fmt.Sprint(e)) },
	}
}
