package main

import (
	"os"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// TestSignals: a signal that comes twice at once, as from timeout(1), leaves time for a clean end. One
// that is sent again does not.
func TestSignals(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name        string
		apart       time.Duration
		clean       time.Duration // how long the clean end takes
		takes       time.Duration
		code        int
		interrupted int
	}{
		{"two at once", 0, 5 * time.Second, 5 * time.Second, exitOK, 1},
		{"again after a while", 2 * time.Second, 5 * time.Second, 2 * time.Second, exitInterrupted, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				signals, code := make(chan os.Signal, 2), make(chan int, 1)
				interrupted := 0
				go func() {
					signals <- syscall.SIGTERM
					time.Sleep(c.apart)
					signals <- syscall.SIGTERM
				}()
				start := time.Now()
				got := await(code, signals, func() {
					interrupted++
					time.AfterFunc(c.clean, func() { code <- exitOK })
				})
				if took := time.Since(start); got != c.code || took != c.takes || interrupted != c.interrupted {
					t.Errorf("exit code %d after %v, %d interruptions; want %d after %v, %d",
						got, took, interrupted, c.code, c.takes, c.interrupted)
				}
				time.Sleep(c.clean) // the clean end comes in any case
			})
		})
	}
}
