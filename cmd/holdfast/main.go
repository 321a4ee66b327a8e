// Command holdfast runs Holdfast's demo and development broker, proves what is claimed on a cluster, shows
// what became of a topic's transactions, and lists and replays dead letters.
//
// It exits with 0 if all is well, 1 if a claim or a finding failed, 2 if it was used wrongly, 3 if a
// cluster cannot be reached or does not permit what was asked, and 4 if it was interrupted.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"
)

func main() {
	ctx, cancel := context.WithCancelCause(context.Background())
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	code := make(chan int, 1)
	go func() { code <- run(ctx, os.LookupEnv, os.Args[1:], os.Stdin, os.Stdout, os.Stderr) }()
	os.Exit(await(code, signals, func() { cancel(errInterrupted) }))
}

// repeatWithin is how soon after the first a signal is the same one: timeout(1) and terminals send it to
// the process and to its group.
const repeatWithin = time.Second

// await returns the exit code of the command, which the first signal interrupts. Whoever asks a second
// time does not want to wait for a clean end. Child processes end because their standard input does.
func await(code <-chan int, signals <-chan os.Signal, interrupt func()) int {
	var first time.Time
	for {
		select {
		case c := <-code:
			return c
		case <-signals:
			if first.IsZero() {
				first = time.Now()
				interrupt()
			} else if time.Since(first) >= repeatWithin {
				fmt.Fprintln(os.Stderr, "holdfast: interrupted again: ended at once, and what it made for the time of its run may be left")
				return exitInterrupted
			}
		}
	}
}
