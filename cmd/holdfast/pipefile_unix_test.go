//go:build unix

package main

import (
	"context"
	"errors"
	"path/filepath"
	"syscall"
	"testing"
)

// A pipe that nobody writes to does not keep the command from its end.
func TestFirstSignalEndsTheWaitForAFile(t *testing.T) {
	t.Parallel()
	fifo := filepath.Join(t.TempDir(), "fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errInterrupted)
	for _, c := range []connection{
		{commandConfig: fifo}, {brokers: []string{"b:1"}, tlsCA: fifo},
		{brokers: []string{"b:1"}, saslMechanism: "PLAIN", saslUser: "u", saslPasswordFile: fifo},
	} {
		if _, err := c.reach(ctx); !errors.Is(err, errInterrupted) {
			t.Errorf("I6: %+v: %v", c, err)
		}
	}
}
