package demo

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
)

// process is one member process as its parent sees it.
type process struct {
	name   string
	tap    *tap
	cmd    *exec.Cmd
	stdin  io.Closer
	errors *tail

	mu     sync.Mutex
	wanted bool   // its end was asked for
	cause  string // what it said when it stopped

	readers sync.WaitGroup
	done    chan struct{} // closed after the process has ended and its last report was read
	ended   error
}

// start starts a member. onReport is called for each of its reports, in order, from one goroutine.
func start(command []string, spec memberSpec, t *tap, log io.Writer, onReport func(*process, report)) (*process, error) {
	p := &process{name: spec.Name, tap: t, done: make(chan struct{}), errors: &tail{also: log}}
	p.cmd = exec.Command(command[0], command[1:]...)
	p.cmd.Env = withoutSettings(os.Environ())
	p.cmd.Stderr = p.errors
	detach(p.cmd)
	stdin, err := p.cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("start member %s: %w", spec.Name, err)
	}
	p.stdin = stdin
	stdout, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("start member %s: %w", spec.Name, err)
	}
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start member %s: %w", spec.Name, err)
	}
	p.readers.Go(func() { p.read(stdout, onReport) })
	go func() {
		p.readers.Wait()
		p.ended = p.cmd.Wait()
		close(p.done)
	}()
	line, err := json.Marshal(spec)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("start member %s: %w", spec.Name, err), p.end(kill))
	}
	if _, err := stdin.Write(append(line, '\n')); err != nil {
		return nil, errors.Join(fmt.Errorf("start member %s: %w", spec.Name, err), p.end(kill))
	}
	return p, nil
}

// withoutSettings leaves out the variables that stand for flags: a member gets its connection by
// the command line alone.
func withoutSettings(environment []string) (kept []string) {
	for _, e := range environment {
		if !strings.HasPrefix(e, "HOLDFAST_") {
			kept = append(kept, e)
		}
	}
	return kept
}

func (p *process) read(stdout io.Reader, onReport func(*process, report)) {
	lines := bufio.NewScanner(stdout)
	for lines.Scan() {
		var r report
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			continue // the last line of a killed process may be half a line
		}
		if r.What == didStop {
			p.mu.Lock()
			p.cause = r.Cause
			p.mu.Unlock()
		}
		onReport(p, r)
	}
}

// end asks for the end of the process and waits for it.
func (p *process) end(how func(*os.Process) error) error {
	p.mu.Lock()
	p.wanted = true
	p.mu.Unlock()
	err := how(p.cmd.Process)
	if errors.Is(err, os.ErrProcessDone) {
		err = nil
	}
	if err != nil {
		return fmt.Errorf("end member %s: %w", p.name, err)
	}
	<-p.done
	return nil
}

// kill kills the process in the middle of what it does, and waits for its end. What was held on its way
// is lost with it.
func (p *process) kill() error {
	p.tap.outlived(true)
	if err := p.end(kill); err != nil {
		return err
	}
	p.tap.Cut(nil)
	return nil
}

// suspend stops the process where it is. Until it is woken and granted a partition anew, what it has
// sent or sends is a stale writer's.
func (p *process) suspend() error {
	p.tap.outlived(false)
	return suspend(p.cmd.Process)
}

// drain asks the process to end in good order, and kills it when ctx ends.
func (p *process) drain(ctx context.Context) error {
	stop := context.AfterFunc(ctx, func() {
		// An error means that the process has ended, which end is waiting for.
		_ = kill(p.cmd.Process)
	})
	defer stop()
	return p.end(terminate)
}

// failure returns why the process ended by itself: nil if it runs, or if it was asked to end.
func (p *process) failure() error {
	select {
	case <-p.done:
	default:
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.wanted {
		return nil
	}
	why := p.cause
	if why == "" {
		why = p.errors.last()
	}
	if why == "" && p.ended != nil {
		why = p.ended.Error()
	}
	return fmt.Errorf("member %s stopped: %s", p.name, why)
}

// tail keeps the last lines of a process's standard error. It is safe for concurrent use.
type tail struct {
	mu    sync.Mutex
	also  io.Writer
	lines []byte
}

const tailBytes = 4096

func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.lines = append(t.lines, b...)
	if n := len(t.lines) - tailBytes; n > 0 {
		t.lines = t.lines[n:]
	}
	if t.also != nil {
		return t.also.Write(b)
	}
	return len(b), nil
}

func (t *tail) last() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.TrimSpace(string(t.lines))
}
