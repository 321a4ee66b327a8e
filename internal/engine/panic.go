package engine

import (
	"fmt"
	"runtime"
	"strings"

	"github.com/holdfast-go/holdfast/stream"
)

// stackFrames bounds the stack that the error of a panic carries. It begins where the panic was
// raised: what is deeper than this is seldom what raised it.
const stackFrames = 16

// panicError is a panic of user code with the stack it came from.
type panicError struct {
	value any
	stack string
}

// panicked is called while the panic is being recovered, so that the stack is the one of the panic.
func panicked(v any) error { return &panicError{value: v, stack: userStack()} }

func (p *panicError) Error() string {
	return fmt.Sprintf("panic: %v%s%s", p.value, stream.StackMark, p.stack)
}

// Unwrap returns the value of the panic if it was an error.
func (p *panicError) Unwrap() error {
	err, _ := p.value.(error)
	return err
}

// Protect calls f and makes an error of a panic in it, as the engine does with the user's functions
// that it calls itself.
func Protect[T any](f func() (T, error)) (out T, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = panicked(v)
		}
	}()
	return f()
}

// userStack returns the frames between the engine's call of user code and the panic, the innermost
// first. The frames of the runtime that raise and recover the panic are the same for each and left out.
func userStack() string {
	pcs := make([]uintptr, 128)
	frames := runtime.CallersFrames(pcs[:runtime.Callers(0, pcs)])
	var b strings.Builder
	raised, told := false, 0
	for more := true; more && told < stackFrames; {
		var f runtime.Frame
		f, more = frames.Next()
		inRuntime := strings.HasPrefix(f.Function, "runtime.")
		switch {
		case f.Function == "runtime.gopanic":
			raised = true
			continue
		case !raised, told == 0 && inRuntime:
			continue
		case strings.Contains(f.Function, "/internal/engine.(*Engine["), strings.Contains(f.Function, "/internal/engine.Protect["):
			return b.String()
		}
		fmt.Fprintf(&b, "%s\n\t%s:%d\n", f.Function, f.File, f.Line)
		told++
	}
	return b.String()
}
