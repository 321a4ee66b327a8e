package kafkatest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
)

// process is a started child and the goroutine that waits for it.
type process struct {
	cmd    *exec.Cmd
	exited chan struct{} // closed when the process has ended and err is set
	err    error         // how it ended
}

// forks hands functions to a goroutine that never leaves its operating system thread. The kernel
// sends the parent death signal when the thread that forked ends, not when the process does:
//
//  1. A goroutine starts a broker on some thread.
//  2. A goroutine that is locked to this thread returns, and the runtime ends the thread.
//  3. The kernel kills the broker although the test binary lives on.
//
// A thread that lives as long as the process rules this out. It is the one goroutine of this package
// that nobody waits for: its end is the end of the process.
var forks = sync.OnceValue(func() chan<- func() {
	work := make(chan func())
	go func() {
		runtime.LockOSThread()
		for f := range work {
			f()
		}
	}()
	return work
})

// start starts cmd so that it dies with this process.
func start(cmd *exec.Cmd) (*process, error) {
	dieWithParent(cmd)
	started := make(chan error)
	forks() <- func() { started <- cmd.Start() }
	if err := <-started; err != nil {
		return nil, fmt.Errorf("kafkatest: start %s: %w", cmd.Path, err)
	}
	p := &process{cmd: cmd, exited: make(chan struct{})}
	go func() {
		p.err = cmd.Wait()
		close(p.exited)
	}()
	return p, nil
}

// running reports whether the process has not ended yet.
func (p *process) running() bool {
	select {
	case <-p.exited:
		return false
	default:
		return true
	}
}

// signal sends sig. A process that has ended is no error: it is what the caller finds out next.
func (p *process) signal(sig os.Signal) error {
	if err := p.cmd.Process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("kafkatest: signal %v to process %d: %w", sig, p.cmd.Process.Pid, err)
	}
	return nil
}

// kill ends the process with SIGKILL, which also reaches a stopped one, and waits for its end.
func (p *process) kill() error {
	if err := p.signal(syscall.SIGKILL); err != nil {
		return err
	}
	<-p.exited
	return nil
}
