package limits

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/codec"
	"github.com/holdfast-go/holdfast/internal/kafkatest"
	"github.com/holdfast-go/holdfast/kafka"
	"github.com/holdfast-go/holdfast/stream"
)

// groupOfOne is a cluster whose groups have one member at most, of either protocol, with short sessions.
func groupOfOne(t *testing.T) *kafkatest.Cluster {
	t.Helper()
	return kafkatest.New(t, kafkatest.Options{Properties: map[string]string{
		"group.max.size": "1", "group.consumer.max.size": "1",
		"group.min.session.timeout.ms": "3000", "group.max.session.timeout.ms": "20000",
		"group.consumer.min.session.timeout.ms": "3000", "group.consumer.session.timeout.ms": "3000",
		"group.consumer.min.heartbeat.interval.ms": "1000", "group.consumer.heartbeat.interval.ms": "1000",
	}})
}

// joiner is one member of a flow that does nothing but to be in its group.
type joiner struct {
	cancel  context.CancelFunc
	granted chan struct{} // closed at the first grant
	done    chan error
}

func join(t *testing.T, c *kafkatest.Cluster, group, input string, m holdfast.Member) *joiner {
	t.Helper()
	j := &joiner{granted: make(chan struct{}), done: make(chan error, 1)}
	var once sync.Once
	flow, err := holdfast.New(holdfast.Config[string]{
		Kafka: kafka.Config{Brokers: c.Addrs}, Group: group, Inputs: []string{input}, Codec: codec.String(), Member: m,
		Fold:  func(context.Context, *holdfast.Key[string], stream.Record) error { return nil },
		Hooks: []holdfast.Hooks{{Assigned: func(stream.Assigned) { once.Do(func() { close(j.granted) }) }}},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	j.cancel = cancel
	t.Cleanup(cancel)
	go func() { j.done <- flow.Run(ctx) }()
	return j
}

func (j *joiner) awaitGrant(t *testing.T) {
	t.Helper()
	select {
	case <-j.granted:
	case err := <-j.done:
		t.Fatalf("Run ended with %v before any grant", err)
	case <-time.After(patience):
		t.Fatalf("no grant within %v", patience)
	}
}

func (j *joiner) awaitEnd(t *testing.T) error {
	t.Helper()
	select {
	case err := <-j.done:
		return err
	case <-time.After(patience):
		t.Fatalf("I6: Run has not ended within %v", patience)
		return nil
	}
}

// topics makes an input and its snapshot topic.
func topics(t *testing.T, c *kafkatest.Cluster) (input, group string) {
	t.Helper()
	input, group = kafkatest.UniqueName("payments"), kafkatest.UniqueName("full")
	c.CreateTopic(t, input, 2, nil)
	c.CreateTopic(t, group+"-snapshots", 2, map[string]string{"cleanup.policy": "compact"})
	return input, group
}

// A group that is full refuses a member for ever. It is tried for as long as one that died has a session, in
// which it may be let in, and then Run ends by name.
func TestKafkaGroupIsFull(t *testing.T) {
	t.Parallel()
	c := groupOfOne(t)
	for name, m := range map[string]holdfast.Member{
		"classic":     {SessionTimeout: 3 * time.Second, HeartbeatInterval: 500 * time.Millisecond},
		"server-side": {Protocol: holdfast.ServerSide},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if m.Protocol == holdfast.ServerSide && kafkatest.Version() < "4.3" {
				t.Skip("these brokers are refused for ServerSide")
			}
			input, group := topics(t, c)
			first := join(t, c, group, input, m)
			first.awaitGrant(t)
			err := join(t, c, group, input, m).awaitEnd(t)
			var e *stream.Error
			if !errors.Is(err, holdfast.ErrGroupFull) || !errors.As(err, &e) || e.Group != group || e.Hint == "" {
				t.Errorf("I6: the second ended with %v, want ErrGroupFull", err)
			}
			third := join(t, c, group, input, m)
			select { // it is refused for a while, as behind a member that was killed
			case err := <-third.done:
				t.Fatalf("ended at once with %v", err)
			case <-time.After(2 * time.Second):
			}
			first.cancel()
			if err := first.awaitEnd(t); err != nil {
				t.Errorf("the first ended with %v", err)
			}
			third.awaitGrant(t)
			third.cancel()
			if err := third.awaitEnd(t); err != nil {
				t.Errorf("the third ended with %v", err)
			}
		})
	}
	t.Run("sessions that the brokers do not take", func(t *testing.T) {
		t.Parallel()
		input, group := topics(t, c)
		for _, session := range []time.Duration{time.Second, 30 * time.Second} {
			if err := join(t, c, group, input, holdfast.Member{SessionTimeout: session}).awaitEnd(t); !errors.Is(err, holdfast.ErrConfig) {
				t.Errorf("I6: a session of %v: Run ended with %v, want ErrConfig", session, err)
			}
		}
	})
}
