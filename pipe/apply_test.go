package pipe_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/kafka"
	"github.com/holdfast-go/holdfast/pipe"
	"github.com/holdfast-go/holdfast/stream"
)

// A test of a function by Apply fails for what a running pipe would refuse.
func TestApplyRefusesAnUndeclaredOutput(t *testing.T) {
	t.Parallel()
	c := pipe.Config{Outputs: []string{"out"}, Func: func(_ context.Context, r stream.Record, out *pipe.Out) error {
		out.Send(stream.Message{Topic: string(r.Value)})
		return nil
	}}
	if _, err := c.Apply(t.Context(), stream.Record{Value: []byte("elsewhere")}); !errors.Is(err, stream.ErrUndeclaredOutput) {
		t.Errorf("an output to another topic: %v, want %v", err, stream.ErrUndeclaredOutput)
	}
	if sent, err := c.Apply(t.Context(), stream.Record{Value: []byte("out")}); err != nil || len(sent) != 1 {
		t.Errorf("a declared output: %v, %v", sent, err)
	}
}

// A pipe has no state that AdoptEmpty could be about.
func TestAdoptEmptyIsRefused(t *testing.T) {
	t.Parallel()
	c := pipe.Config{
		Kafka: kafka.Config{Brokers: []string{"127.0.0.1:1"}}, Group: "copy", Inputs: []string{"in"}, Outputs: []string{"out"},
		Func: func(context.Context, stream.Record, *pipe.Out) error { return nil },
	}
	if _, err := pipe.New(c); err != nil {
		t.Fatal(err)
	}
	c.Start.Disagreement = holdfast.AdoptEmpty
	if _, err := pipe.New(c); !errors.Is(err, stream.ErrConfig) || !strings.Contains(err.Error(), "AdoptEmpty") {
		t.Errorf("AdoptEmpty: %v, want %v", err, stream.ErrConfig)
	}
}
