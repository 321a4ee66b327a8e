package kafkatest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// readyLimit bounds a start. It is generous because a killed broker replays its log, and on a busy
// machine that has taken 13 s.
const readyLimit = 2 * time.Minute

// Broker is one broker of a cluster. Its methods are safe for concurrent use, but two that start and
// stop the same broker at once make no sense.
type Broker struct {
	ID   int32
	Addr string // the plaintext address, host:port; the same after a Restart

	c       *Cluster
	conf    string
	logPath string

	mu   sync.Mutex
	proc *process // nil before the first launch
}

func (b *Broker) process() *process {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.proc
}

// Kill ends the broker with SIGKILL, as a crash would, and waits for its end. A broker that is not
// running is left as it is.
func (b *Broker) Kill() error {
	if p := b.process(); p != nil {
		return p.kill()
	}
	return nil
}

// Pause stops the broker with SIGSTOP. The kernel still completes TCP handshakes for it, so that
// clients see time-outs and not refusals.
func (b *Broker) Pause() error { return b.signal(syscall.SIGSTOP) }

// Cont lets a paused broker go on.
func (b *Broker) Cont() error { return b.signal(syscall.SIGCONT) }

func (b *Broker) signal(sig os.Signal) error {
	p := b.process()
	if p == nil || !p.running() {
		return fmt.Errorf("kafkatest: broker %d is not running", b.ID)
	}
	return p.signal(sig)
}

// Stop shuts the broker down in an orderly way (SIGTERM), so that leaders move first, and waits for
// its end or for ctx.
func (b *Broker) Stop(ctx context.Context) error {
	p := b.process()
	if p == nil || !p.running() {
		return nil
	}
	// A stopped process takes SIGTERM only after SIGCONT; for a running one SIGCONT does nothing.
	if err := errors.Join(p.signal(syscall.SIGTERM), p.signal(syscall.SIGCONT)); err != nil {
		return err
	}
	select {
	case <-p.exited:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("kafkatest: broker %d did not stop: %w", b.ID, context.Cause(ctx))
	}
}

// Restart starts the broker on its data and its ports again, after a Stop if it still runs, and waits
// until it is ready.
func (b *Broker) Restart(ctx context.Context) error {
	if err := b.Stop(ctx); err != nil {
		return err
	}
	if err := b.launch(); err != nil {
		return err
	}
	return b.awaitReady(ctx, 1)
}

// Log returns what the broker has printed so far, over all its starts.
func (b *Broker) Log() ([]byte, error) {
	log, err := os.ReadFile(b.logPath)
	if err != nil {
		return nil, fmt.Errorf("kafkatest: log of broker %d: %w", b.ID, err)
	}
	return log, nil
}

func (b *Broker) logSize() int64 {
	st, err := os.Stat(b.logPath)
	if err != nil {
		return 0 // not started yet
	}
	return st.Size()
}

// logSince returns what was printed after the first from bytes.
func (b *Broker) logSince(from int64) ([]byte, error) {
	f, err := os.Open(b.logPath)
	if err != nil {
		return nil, fmt.Errorf("kafkatest: log of broker %d: %w", b.ID, err)
	}
	defer f.Close()
	if _, err := f.Seek(from, io.SeekStart); err != nil {
		return nil, fmt.Errorf("kafkatest: log of broker %d: %w", b.ID, err)
	}
	return io.ReadAll(f)
}

func (b *Broker) java(class string, args ...string) *exec.Cmd {
	in := b.c.install
	flags := append([]string{}, jvmFlags...)
	if b.c.opts.HeapMiB > 0 {
		flags = append(flags, fmt.Sprintf("-Xmx%dm", b.c.opts.HeapMiB)) // the last one counts
	}
	if b.c.archive {
		flags = append(flags, "-XX:SharedArchiveFile="+in.archive())
	}
	return exec.Command(in.java, append(append(flags, "-cp", in.lib()+"/*", class), args...)...)
}

func (b *Broker) launch() error {
	log, err := os.OpenFile(b.logPath, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("kafkatest: log of broker %d: %w", b.ID, err)
	}
	defer log.Close() // the child has its own descriptor
	cmd := b.java("kafka.Kafka", b.conf)
	if path := b.c.record; path != "" {
		cmd.Args = slices.Insert(cmd.Args, 1, "-XX:ArchiveClassesAtExit="+path)
	}
	cmd.Stdout, cmd.Stderr = log, log
	p, err := start(cmd)
	if err != nil {
		return err
	}
	b.mu.Lock()
	b.proc = p
	b.mu.Unlock()
	return nil
}

// awaitReady waits until the broker's own metadata lists at least want brokers, itself among them.
// It polls because a broker gives no other sign that clients can use it.
func (b *Broker) awaitReady(ctx context.Context, want int) error {
	ctx, cancel := context.WithTimeoutCause(ctx, readyLimit, fmt.Errorf("not ready after %v", readyLimit))
	defer cancel()
	cl, err := kgo.NewClient(kgo.SeedBrokers(b.Addr), kgo.DialTimeout(time.Second), kgo.RequestRetries(0))
	if err != nil {
		return fmt.Errorf("kafkatest: client for broker %d: %w", b.ID, err)
	}
	defer cl.Close()
	p := b.process()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		n, err := b.alive(ctx, cl)
		if err == nil && n >= want {
			return nil
		}
		select {
		case <-p.exited:
			return b.exitError(p)
		case <-ctx.Done():
			log, logErr := b.Log()
			return errors.Join(fmt.Errorf("kafkatest: broker %d lists %d brokers (%v): %w\n%s",
				b.ID, n, err, context.Cause(ctx), tail(log, 3000)), logErr)
		case <-tick.C:
		}
	}
}

// alive returns how many brokers this one lists, or 0 while it does not list itself. The request goes
// to this broker and past the client's cache: a cached answer lacks the broker that came last.
func (b *Broker) alive(ctx context.Context, cl *kgo.Client) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	req := kmsg.NewPtrMetadataRequest()
	req.Topics = []kmsg.MetadataRequestTopic{} // no topics; nil would ask for all
	resp, err := req.RequestWith(ctx, cl.SeedBrokers()[0])
	if err != nil {
		return 0, err
	}
	for _, known := range resp.Brokers {
		if known.NodeID == b.ID {
			return len(resp.Brokers), nil
		}
	}
	return 0, nil
}

func (b *Broker) exitError(p *process) error {
	log, err := b.Log()
	reason := fmt.Errorf("kafkatest: broker %d ended before it was ready (%v)\n%s", b.ID, p.err, tail(log, 3000))
	if bytes.Contains(log, []byte("Address already in use")) {
		reason = fmt.Errorf("%w: %w", errPortTaken, reason)
	}
	return errors.Join(reason, err)
}
