package kafkatest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// Child is a function that a test can run in a process of its own. Give it to Main.
type Child struct {
	Name string
	// Run's context ends at SIGTERM (Process.Stop) or an interrupt. A returned error goes to standard
	// error, and the process ends with code 1.
	Run func(ctx context.Context, p *Parent) error
}

// Parent is the child's side of the connection to the test that started it.
type Parent struct {
	mu  sync.Mutex
	out io.Writer
	arg string
}

// Arg decodes what the test gave to StartChild into v.
func (p *Parent) Arg(v any) error {
	if err := json.Unmarshal([]byte(p.arg), v); err != nil {
		return fmt.Errorf("kafkatest: argument of the child: %w", err)
	}
	return nil
}

// Event sends one line to the test. It is safe for concurrent use. Line breaks become spaces.
func (p *Parent) Event(format string, args ...any) error {
	line := strings.ReplaceAll(fmt.Sprintf(format, args...), "\n", " ")
	p.mu.Lock()
	defer p.mu.Unlock()
	_, err := fmt.Fprintln(p.out, line)
	return err
}

const (
	childEnv = "HOLDFAST_TEST_CHILD"
	argEnv   = "HOLDFAST_TEST_CHILD_ARG"
)

// runChild runs the child that the environment names, if it names one.
func runChild(children []Child) (ran bool, code int) {
	name := os.Getenv(childEnv)
	if name == "" {
		return false, 0
	}
	for _, c := range children {
		if c.Name != name {
			continue
		}
		ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
		defer stop()
		if err := c.Run(ctx, &Parent{out: os.Stdout, arg: os.Getenv(argEnv)}); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return true, 1
		}
		return true, 0
	}
	fmt.Fprintf(os.Stderr, "kafkatest: no child %q was given to Main\n", name)
	return true, 2
}

// Process is a running child, or a Java program. Its methods are safe for concurrent use.
type Process struct {
	Name string

	proc   *process
	events *lines
	stderr *lockedBuffer
}

// StartChild runs the named child with arg, any value that encodes to JSON, in a process of its own
// that dies with the test binary. At the test's end it is killed, and its standard error is logged if
// the test failed. env is added to the environment, as "NAME=value".
func StartChild(tb testing.TB, name string, arg any, env ...string) *Process {
	tb.Helper()
	p, err := startChild(name, arg, env)
	if err != nil {
		tb.Fatal(err)
	}
	ownProcess(tb, p)
	return p
}

func startChild(name string, arg any, env []string) (*Process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("kafkatest: start child %s: %w", name, err)
	}
	text, err := json.Marshal(arg)
	if err != nil {
		return nil, fmt.Errorf("kafkatest: argument of child %s: %w", name, err)
	}
	cmd := exec.Command(self)
	cmd.Env = append(append(os.Environ(), env...), childEnv+"="+name, argEnv+"="+string(text))
	return startProcess(name, cmd)
}

// Next waits for the next line that the child writes to standard output. The error is io.EOF after the
// last line of a child that has ended, or the cause of ctx.
func (p *Process) Next(ctx context.Context) (string, error) {
	for {
		line, ok, more := p.events.take()
		if ok {
			return line, nil
		}
		select {
		case <-more:
		case <-p.proc.exited:
			// Everything was written before the end was announced: one more look is enough.
			if line, ok, _ := p.events.take(); ok {
				return line, nil
			}
			return "", io.EOF
		case <-ctx.Done():
			return "", context.Cause(ctx)
		}
	}
}

// Await returns the next event that begins with prefix, and passes over those before it. The test
// fails when the child ends or limit passes first.
func (p *Process) Await(tb testing.TB, prefix string, limit time.Duration) string {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), limit)
	defer cancel()
	for {
		e, err := p.Next(ctx)
		switch {
		case errors.Is(err, io.EOF):
			tb.Fatalf("child %s ended (%v) before the event %q", p.Name, p.proc.err, prefix)
		case err != nil:
			tb.Fatalf("child %s: no event %q within %v: %v", p.Name, prefix, limit, err)
		case strings.HasPrefix(e, prefix):
			return e
		}
	}
}

// Pid returns the process id.
func (p *Process) Pid() int { return p.proc.cmd.Process.Pid }

// Kill ends the child with SIGKILL and waits for its end. Calling it for a child that has ended does
// nothing.
func (p *Process) Kill() error { return p.proc.kill() }

// Pause stops the child with SIGSTOP.
func (p *Process) Pause() error { return p.proc.signal(syscall.SIGSTOP) }

// Cont lets a paused child go on.
func (p *Process) Cont() error { return p.proc.signal(syscall.SIGCONT) }

// Stop ends the child's context (SIGTERM) and waits for its end. The error is the child's own: nil
// when Run returned nil.
func (p *Process) Stop(ctx context.Context) error {
	if err := errors.Join(p.proc.signal(syscall.SIGTERM), p.proc.signal(syscall.SIGCONT)); err != nil {
		return err
	}
	return p.Wait(ctx)
}

// Wait waits for the child's end and returns how it ended: nil when Run returned nil.
func (p *Process) Wait(ctx context.Context) error {
	select {
	case <-p.proc.exited:
	case <-ctx.Done():
		return fmt.Errorf("kafkatest: child %s has not ended: %w", p.Name, context.Cause(ctx))
	}
	if p.proc.err != nil {
		return fmt.Errorf("kafkatest: child %s: %w\n%s", p.Name, p.proc.err, tail(p.stderr.Bytes(), 4000))
	}
	return nil
}

// Stderr returns what the child has written to standard error so far.
func (p *Process) Stderr() []byte { return p.stderr.Bytes() }

// lines is a queue of the lines written to it. It has no bound, so that a child never waits for the
// test.
type lines struct {
	mu    sync.Mutex
	queue []string
	part  []byte        // the beginning of a line whose end has not come yet
	more  chan struct{} // closed, and replaced, when the queue grows
}

func newLines() *lines { return &lines{more: make(chan struct{})} }

func (l *lines) Write(data []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.part = append(l.part, data...)
	for {
		line, rest, found := bytes.Cut(l.part, []byte("\n"))
		if !found {
			return len(data), nil
		}
		l.queue, l.part = append(l.queue, string(line)), rest
		close(l.more)
		l.more = make(chan struct{})
	}
}

// take returns the oldest line. When there is none, more is closed as soon as there is one.
func (l *lines) take() (line string, ok bool, more <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.queue) == 0 {
		return "", false, l.more
	}
	line, l.queue = l.queue[0], l.queue[1:]
	return line, true, nil
}

type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(data []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(data)
}

func (b *lockedBuffer) Bytes() []byte {
	b.mu.Lock()
	defer b.mu.Unlock()
	return bytes.Clone(b.buf.Bytes())
}
