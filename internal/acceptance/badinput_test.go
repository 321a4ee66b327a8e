package acceptance

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/stream"
)

// startError runs a flow whose start must be refused and returns why, within limit.
func startError(t *testing.T, c holdfast.Config[tally], limit time.Duration) error {
	t.Helper()
	h, err := holdfast.New(c)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- h.Run(ctx) }()
	select {
	case err := <-done:
		if err == nil {
			t.Fatal("the flow ended with nil, want an error")
		}
		return err
	case <-time.After(limit):
		cancel()
		<-done
		t.Fatalf("the flow was not refused within %v", limit)
		return nil
	}
}

// named checks that an error is what a person needs: the sentinel for a program, a next step, and the
// words.
func named(t *testing.T, err, sentinel error, words ...string) *stream.Error {
	t.Helper()
	if !errors.Is(err, sentinel) {
		t.Fatalf("error %v, want one that is %v", err, sentinel)
	}
	e := (*stream.Error)(nil)
	if !errors.As(err, &e) || e.Hint == "" {
		t.Fatalf("error %v has no next step", err)
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("error %q does not say %q", err, w)
		}
	}
	return e
}

// located checks where an error says that it happened.
func located(t *testing.T, err error, p stream.Partition, offset int64, key string) {
	t.Helper()
	e := (*stream.Error)(nil)
	if !errors.As(err, &e) {
		t.Fatalf("error %v is no *stream.Error", err)
	}
	if e.Topic != p.Topic || e.Partition != p.Partition || e.Offset != offset || string(e.Key) != key {
		t.Errorf("error at %s/%d offset %d key %q, want %v offset %d key %q: %v",
			e.Topic, e.Partition, e.Offset, e.Key, p, offset, key, err)
	}
}

// failure waits until a flow that started has stopped by itself, and returns why.
func (f *flow) failure() error {
	f.t.Helper()
	select {
	case <-f.done:
	case <-time.After(patience):
		f.t.Fatalf("flow %s has not stopped within %v", f.name, patience)
	}
	if f.err == nil {
		f.t.Fatalf("flow %s stopped without an error", f.name)
	}
	return f.err
}
