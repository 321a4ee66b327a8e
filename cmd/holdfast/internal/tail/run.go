package tail

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/stream"
)

// A RangeError is an offset that the log does not have.
type RangeError struct {
	Partition stream.Partition
	Flag      string
	err       error
}

func (e *RangeError) Error() string { return fmt.Sprintf("--%s: %s: %v", e.Flag, e.Partition, e.err) }
func (e *RangeError) Unwrap() error { return e.err }

// errLimit ends a view when enough was shown.
var errLimit = errors.New("limit reached")

// tailer shows entries. It belongs to the goroutine of Run.
type tailer struct {
	Config
	out       *bufio.Writer
	names     names
	named     []author       // producers with a transactional id, in the order in which they came
	met       map[int64]bool // their producer ids
	widths    widths
	held      []line // until the widths of the columns are known
	heldBytes int
	aligned   bool // and they are
	shown     int
	parts     []*part
}

// part is one partition and what was seen of it.
type part struct {
	log      wire.Log
	ends     ends
	from, to int64
	position int64
	count    count
}

// count is how many entries there were of each kind.
type count struct {
	status      map[wire.Status]int
	committed   int // records that a reader under read_committed is given
	uncommitted int // and under read_uncommitted
	held        int // committed and plain ones that the former has to wait for

	openOf map[int64]int // open records by producer id
}

func newCount() count { return count{status: map[wire.Status]int{}, openOf: map[int64]int{}} }

func (c *count) add(e wire.Entry) {
	c.status[e.Status]++
	c.follow(e)
	if e.ReadCommitted() {
		c.committed++
	}
	if e.ReadUncommitted() {
		c.uncommitted++
	}
	if !e.Stable && (e.Status == wire.StatusCommitted || e.Status == wire.StatusPlain) {
		c.held++
	}
}

// follow takes records that were open when they were shown for what their marker makes of them.
func (c *count) follow(e wire.Entry) {
	id, became := e.Record.ProducerID, wire.StatusCommitted
	switch e.Status {
	case wire.StatusOpen:
		c.openOf[id]++
		return
	case wire.StatusAbortMarker:
		became = wire.StatusAborted
	case wire.StatusCommitMarker:
	default:
		return
	}
	c.status[wire.StatusOpen] -= c.openOf[id]
	c.status[became] += c.openOf[id]
	delete(c.openOf, id)
}

// settle takes records for given that a reader under read_committed had to wait for when they were
// shown, and does not have to any more.
func (c *count) settle() {
	c.held = 0
	c.committed = c.status[wire.StatusCommitted] + c.status[wire.StatusPlain]
}

// Run shows the entries and, at its end, what the isolation levels make of them. A follower runs until
// ctx ends, which is then no error. Errors are *RangeError, stream.ErrTopic, stream.ErrUnreachable and
// those of wire.Log.View.
func Run(ctx context.Context, c Config) error {
	t := &tailer{Config: c, out: bufio.NewWriter(c.Out), met: map[int64]bool{},
		names: names{client: c.Client, patience: c.Patience, unknown: map[int64]bool{}}}
	for _, n := range c.Partitions {
		p, err := t.place(ctx, wire.Log{Client: c.Client, Topic: c.Topic, Partition: n})
		if err != nil {
			return err
		}
		t.parts = append(t.parts, p)
	}
	var err error
	if c.Follow {
		err = t.follow(ctx)
	} else {
		err = t.read(ctx)
	}
	t.align()
	if flushed := t.out.Flush(); err == nil {
		err = flushed
	}
	if err == nil {
		if !c.JSON {
			c.Note("")
		}
		t.explain(context.WithoutCancel(ctx)) // a follower ends by the end of ctx
	}
	return err
}

// place finds out where the partition's part of the view begins and ends.
func (t *tailer) place(ctx context.Context, l wire.Log) (*part, error) {
	p := &part{log: l, count: newCount()}
	bounded, cancel := context.WithTimeoutCause(ctx, t.Patience, silent(l, t.Patience, nil))
	defer cancel()
	var err error
	if p.ends.start, p.ends.highWatermark, p.ends.lastStable, err = l.Ends(bounded); err != nil {
		return nil, err
	}
	end := p.ends.end(t.Committed)
	if p.from, err = p.ends.resolve(t.From, end); err != nil {
		return nil, &RangeError{Partition: l.At(), Flag: "from", err: err}
	}
	p.position, p.to = p.from, math.MaxInt64
	if t.Follow && !t.To.Absolute() {
		return p, nil
	}
	if p.to, err = p.ends.resolve(t.To, end); err != nil && !t.Follow {
		return nil, &RangeError{Partition: l.At(), Flag: "to", err: err}
	} else if err != nil {
		p.to = t.To.n // a follower waits for offsets that are not there yet
	}
	if t.To.Absolute() && p.to < p.from {
		return nil, &RangeError{Partition: l.At(), Flag: "to", err: fmt.Errorf("offset %d is before the start of the view at %d", p.to, p.from)}
	}
	if !t.Follow {
		p.to = min(p.to, end)
	}
	return p, nil
}

// silent is the error of brokers that do not answer in time.
func silent(l wire.Log, patience time.Duration, last error) error {
	err := fmt.Errorf("%w: no answer about this partition within %v", stream.ErrUnreachable, patience)
	if last != nil {
		err = fmt.Errorf("%w; the last attempt met: %w", err, last)
	}
	return stream.NewError("view", err).At(l.At(), -1).Hinted("see whether the partition has a leader: %s", l.DescribeCommand())
}

// read shows one partition after the other.
func (t *tailer) read(ctx context.Context) error {
	for _, p := range t.parts {
		bounded, cancel := context.WithCancelCause(ctx)
		w := waiter{patience: t.Patience, give: func(err error) { cancel(silent(p.log, t.Patience, err)) }}
		_, err := p.log.View(bounded, wire.ViewOptions{From: p.from, To: p.to, Stable: t.Committed,
			OnRetry: w.retried, OnFetched: w.answered}, func(e wire.Entry) error { return t.show(ctx, p, e) })
		cancel(nil)
		if errors.Is(err, errLimit) {
			return nil
		}
		if err != nil {
			return err
		}
		p.position = max(p.position, p.to)
	}
	return nil
}

// waiter gives up on a partition whose leader has failed to answer for a while. It is safe for
// concurrent use: retries and answers come from different goroutines.
type waiter struct {
	patience time.Duration
	give     func(last error) // up

	mu    sync.Mutex
	since time.Time // of the first failure after the last answer; zero: there is none
}

func (w *waiter) answered() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.since = time.Time{}
}

func (w *waiter) retried(err error) {
	if wire.IsThrottled(err) {
		w.answered()
		return
	}
	w.mu.Lock()
	if w.since.IsZero() {
		w.since = time.Now()
	}
	over := time.Since(w.since) >= w.patience
	w.mu.Unlock()
	if over {
		w.give(err)
	}
}
