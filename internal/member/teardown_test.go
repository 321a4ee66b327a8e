package member

import (
	"context"
	"errors"
	"net"
	"slices"
	"sync"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/kafka"
	"github.com/holdfast-go/holdfast/stream"
)

// closings are the clients that were closed.
type closings struct {
	made *kgo.Client // the last one

	mu     sync.Mutex
	closed []*kgo.Client
}

// OnNewClient implements kgo.HookNewClient.
func (c *closings) OnNewClient(cl *kgo.Client) { c.made = cl }

// OnClientClosed implements kgo.HookClientClosed.
func (c *closings) OnClientClosed(cl *kgo.Client) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = append(c.closed, cl)
}

// R13: nothing of an ownership leaves after its teardown. An output that is still buffered, or on its way to be
// sent again, is not sent once the broker answers: another owner may have folded its record since.
func TestNoOutputLeavesAfterTheTeardown(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*worker){
		"teardown": (*worker).teardown,
		"outputs":  func(w *worker) { w.outputs.close() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			seen := &closings{}
			nobody := func(ctx context.Context, _, _ string) (net.Conn, error) { // connects for ever
				<-ctx.Done()
				return nil, ctx.Err()
			}
			ctx, cancel := context.WithCancel(t.Context())
			w := &worker{
				m:   &Member{cfg: Config{Kafka: kafka.Config{Brokers: []string{"127.0.0.1:1"}, Opts: []kgo.Opt{kgo.Dialer(nobody), kgo.WithHooks(seen)}}}},
				own: &fence.Ownership{}, ctx: ctx, end: cancel,
			}
			w.outputs.w = w
			if err := w.outputs.open(); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(cancel)
			client := seen.made
			answered := make(chan error, 1)
			client.Produce(t.Context(), &kgo.Record{Topic: "out"}, func(_ *kgo.Record, err error) { answered <- err })
			end(w)
			seen.mu.Lock()
			closed := slices.Contains(seen.closed, client)
			seen.mu.Unlock()
			if !closed {
				client.Close()
				t.Fatal("I4: the outputs' client is open after the teardown, and its outputs leave when the broker answers")
			}
			if err := <-answered; !errors.Is(err, kgo.ErrClientClosed) {
				t.Errorf("I4: the output that was buffered ended with %v", err)
			}
			if err := w.outputs.open(); !errors.Is(err, stream.ErrOwnershipLost) || seen.made != client {
				t.Errorf("I4: an output after the teardown gets a client: %v", err)
			}
		})
	}
}
