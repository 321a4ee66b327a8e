package holdfasttest

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/engine"
	"github.com/holdfast-go/holdfast/kafka"
	"github.com/holdfast-go/holdfast/pipe"
	"github.com/holdfast-go/holdfast/stream"
)

// Model says what a component does with each record, so that the checker can do it again. Make one
// with Flow or Pipe.
type Model struct {
	kafka       kafka.Config
	group       string
	inputs      []string
	progress    string // the snapshot topic, or a pipe's progress topic
	outputs     []string
	deadLetters string
	fromStart   bool // a new group begins at the input's first record
	fenced      bool // snapshots and offset are one transaction
	atomic      bool // outputs are in it
	stateful    bool

	// apply does what the component does with one record. It never keeps before.
	apply func(ctx context.Context, before value, r stream.Record) applied
	// route names the key of a record.
	route func(r stream.Record) (key []byte, ok bool, err error)
	// canonical brings a stored state into the form that apply gives.
	canonical func(stored []byte) ([]byte, error)
}

// value is a key's state as it is stored.
type value struct {
	has     bool
	deleted bool
	state   []byte // encoded
}

// same reports whether two values are the same for whoever reads the key.
func (v value) same(o value) bool { return v.has == o.has && bytes.Equal(v.state, o.state) }

func (v value) String() string {
	switch {
	case v.has:
		return fmt.Sprintf("%.200q", v.state)
	case v.deleted:
		return "deleted"
	}
	return "no state"
}

// applied is what one record did.
type applied struct {
	value   value // of its key, afterwards
	changed bool  // the key has a new applied offset
	outputs []stream.Message
	err     error // the step failed, and nothing of it remains
}

// Flow returns the model of a flow with this configuration. It calls Fold, Route and Codec as the flow
// does, from one goroutine. Fold must give the same for the same state and record, and Codec the same
// bytes for the same state.
func Flow[S any](c holdfast.Config[S]) Model {
	m := Model{
		kafka: c.Kafka, group: c.Group, inputs: c.Inputs, progress: c.Snapshots.Topic, outputs: c.Outputs,
		fromStart: c.Start.New == holdfast.Earliest, fenced: c.Guarantee != holdfast.Unfenced,
		atomic: c.Guarantee == holdfast.FencedOutputs, stateful: true,
	}
	if c.DeadLetters != nil {
		m.deadLetters = c.DeadLetters.Topic
	}
	if m.progress == "" {
		m.progress = c.Group + "-snapshots"
	}
	m.route = func(r stream.Record) ([]byte, bool, error) { return routed(c.Route, r) }
	m.apply = func(ctx context.Context, before value, r stream.Record) applied { return applyFold(ctx, c, before, r) }
	m.canonical = func(stored []byte) ([]byte, error) {
		s, err := c.Codec.Decode(stored)
		if err != nil {
			return nil, err
		}
		return c.Codec.Append(nil, s)
	}
	return m
}

// Pipe returns the model of a pipe with this configuration. It calls Func as the pipe does, from one
// goroutine.
func Pipe(c pipe.Config) Model {
	m := Model{
		kafka: c.Kafka, group: c.Group, inputs: c.Inputs, progress: c.Progress, outputs: c.Outputs,
		fromStart: c.Start.New == holdfast.Earliest, fenced: true, atomic: true,
	}
	if m.progress == "" {
		m.progress = c.Group + "-progress"
	}
	if c.DeadLetters != nil {
		m.deadLetters = c.DeadLetters.Topic
	}
	m.route = func(r stream.Record) ([]byte, bool, error) { return r.Key, true, nil }
	m.apply = func(ctx context.Context, before value, r stream.Record) applied {
		sent, err := c.Apply(ctx, r)
		for _, out := range sent {
			if !slices.Contains(c.Outputs, out.Topic) {
				err = cmp.Or(err, fmt.Errorf("%w: %q", stream.ErrUndeclaredOutput, out.Topic))
			}
		}
		if err != nil {
			return applied{value: before, err: err}
		}
		return applied{value: before, outputs: sent}
	}
	m.canonical = func(stored []byte) ([]byte, error) { return stored, nil }
	return m
}

func routed(route func(stream.Record) ([]byte, bool), r stream.Record) (key []byte, ok bool, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("the route panicked: %v", v)
		}
	}()
	key, ok = r.Key, true
	if route != nil {
		key, ok = route(r)
	}
	if ok && key == nil {
		return nil, false, stream.ErrNoKey
	}
	return key, ok, nil
}

// applyFold runs one step in an engine of its own, which has nothing but the key's encoded state: no
// memory of the record before can spoil the result.
func applyFold[S any](ctx context.Context, c holdfast.Config[S], before value, r stream.Record) applied {
	key, ok, err := routed(c.Route, r)
	if err != nil || !ok {
		return applied{value: before, err: err}
	}
	outputs := map[string]int{}
	for _, topic := range c.Outputs {
		outputs[topic] = 0
	}
	e := engine.New(engine.Config[S]{
		Settings: engine.Settings{Partition: stream.Partition{Topic: r.Topic, Partition: r.Partition}, Outputs: outputs},
		Fold: func(ctx context.Context, call *engine.Call[S], r stream.Record) error {
			return c.Fold(ctx, holdfast.KeyOf(call), r)
		},
		Route:  func(stream.Record) ([]byte, bool) { return key, true },
		Encode: c.Codec.Append,
		Decode: c.Codec.Decode,
		Plain:  !engine.HoldsReferences[S](),
	})
	if before.has || before.deleted {
		err := e.Load(engine.Snapshot{Key: key, Value: before.state, Applied: r.Offset - 1, Deleted: before.deleted})
		if err != nil {
			return applied{value: before, err: err}
		}
	}
	e.Start(time.Time{}, r.Offset, -1, nil)
	result := e.Step(ctx, time.Time{}, r)
	switch {
	case result.Failure != nil:
		return applied{value: before, err: result.Failure.Err}
	case result.Outcome != engine.Folded:
		return applied{value: before, err: errors.New("the step was " + result.Outcome.String())}
	}
	out := applied{value: before, outputs: result.Outputs}
	if view, ok := e.Get(key); ok && view.Applied == r.Offset {
		out.changed, out.value = true, value{has: view.Has, deleted: view.Deleted}
		if view.Has {
			if out.value.state, err = c.Codec.Append([]byte{}, view.State); err != nil {
				return applied{value: before, err: fmt.Errorf("%w: %w", stream.ErrEncode, err)}
			}
		}
	}
	return out
}
