package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/holdfast-go/holdfast/internal/visible"
	"github.com/holdfast-go/holdfast/stream"
)

// The exit codes.
const (
	exitOK          = 0
	exitFailed      = 1 // a claim or a finding failed
	exitUsage       = 2
	exitUnreachable = 3 // no broker answers, or what was asked is not permitted
	exitInterrupted = 4
)

// errInterrupted is the cause of the context that the first signal ends.
var errInterrupted = errors.New("interrupted")

// failure is an error that chooses its exit code and says what to try.
type failure struct {
	code int
	try  string
	err  error
}

func (f *failure) Error() string { return f.err.Error() }
func (f *failure) Unwrap() error { return f.err }

func usage(try, format string, args ...any) error {
	return &failure{code: exitUsage, try: try, err: fmt.Errorf(format, args...)}
}

// exitCode is the one place that turns an error into an exit code.
func exitCode(ctx context.Context, err error) int {
	var f *failure
	switch {
	case err == nil:
		return exitOK
	case errors.Is(err, errInterrupted), errors.Is(context.Cause(ctx), errInterrupted):
		return exitInterrupted
	case errors.As(err, &f):
		return f.code
	case errors.Is(err, stream.ErrUnreachable), errors.Is(err, stream.ErrNotAuthenticated),
		errors.Is(err, stream.ErrNotAuthorized), errors.Is(err, stream.ErrBrokerTooOld):
		return exitUnreachable
	case errors.Is(err, stream.ErrConfig), errors.Is(err, stream.ErrReservedOption):
		return exitUsage
	}
	return exitFailed
}

// further sets the further lines of an error in, so that no text of a stranger looks like a line of ours.
func further(text string) string {
	return strings.ReplaceAll(strings.TrimRight(visible.Lines(text), "\n"), "\n", "\n  ")
}

// printError prints the cause, then what to try.
func printError(w io.Writer, command string, err error) {
	cause, try := err.Error(), ""
	var f *failure
	if errors.As(err, &f) {
		try = f.try
	}
	var e *stream.Error
	if try == "" && errors.As(err, &e) && e.Hint != "" {
		cause, try = strings.Replace(cause, ". Next: "+visible.Lines(e.Hint), "", 1), e.Hint
	}
	// A hint of the library can begin with why it happened: that is a cause, and nothing to try.
	if why, what, ok := strings.Cut(try, ": "); ok && strings.HasPrefix(what, "check ") {
		cause, try = cause+" ("+why+")", what
	}
	fmt.Fprintf(w, "%s: %s\n", command, further(cause))
	if try != "" {
		fmt.Fprintf(w, "Try: %s\n", further(try))
	}
}
