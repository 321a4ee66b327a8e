// Command holdfast runs Holdfast's demo and development broker.
//
// It exits with 0 if all is well, 1 if a claim or a finding failed, 2 if it was used wrongly, 3 if a
// cluster cannot be reached or does not permit what was asked, and 4 if it was interrupted.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, cancel := context.WithCancelCause(context.Background())
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	code := make(chan int, 1)
	go func() { code <- run(ctx, os.LookupEnv, os.Args[1:], os.Stdin, os.Stdout, os.Stderr) }()
	for interrupted := false; ; interrupted = true {
		select {
		case c := <-code:
			os.Exit(c)
		case <-signals:
			if interrupted {
				// Whoever asks a second time does not want to wait for a clean end. Child processes
				// end because their standard input does.
				os.Exit(exitInterrupted)
			}
			cancel(errInterrupted)
		}
	}
}
