package member

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/internal/intake"
	"github.com/holdfast-go/holdfast/internal/rule"
	"github.com/holdfast-go/holdfast/stream"
)

// Member is one member of the group. Make it with New and Run it once.
type Member struct {
	cfg   Config
	log   *slog.Logger // of cfg, with the group
	hooks hooks
	group *fence.Group
	poll  *kgo.Client   // the group member's client
	ready chan struct{} // closed when poll is set: the callbacks may come before it is returned
	// layout is nil for a component without state.
	layout *layout
	admin  *kgo.Client // group-less: offsets, restores, topic facts; shared by all partitions

	// renew is the group's, and asks it for a partition.
	renew func(context.Context, *fence.Ownership) (*fence.Ownership, error)

	refusals refusals  // of the polling goroutine
	noticed  sync.Once // another application in the group was looked for, by one that goes on

	ctx  context.Context // carries the rule switches; ends when Run returns
	stop context.CancelCauseFunc
	wg   sync.WaitGroup // all workers

	mu        sync.Mutex
	workers   map[stream.Partition]*worker          // the newest of each partition
	running   map[*worker]bool                      // that have not ended, or whose user function is under way
	posted    []func()                              // run by the polling goroutine between polls
	wake      context.CancelFunc                    // ends the poll that waits
	renewed   map[stream.Partition]int              // renewals in a row without a commit
	untaken   map[stream.Partition]untaken          // takeovers that fail, one after the other
	due       []*worker                             // to be granted anew, by the polling goroutine
	notes     map[stream.Partition]map[int64]*note  // about single records that are not committed yet
	recalled  map[stream.Partition]bool             // whose letters of earlier runs the breaker was told
	single    map[stream.Partition]map[string]int64 // keys whose steps are committed one by one, up to an offset
	refused   error                                 // what joining the group failed with last
	refusedAt time.Time
	failure   error // why the member stops
	failedAt  time.Time

	budget   *intake.Budget               // of all clients, and of the queues
	throttle throttle                     // of all clients
	paces    map[stream.Partition]*pacing // how much fits into a transaction

	retention *retention
	ending    atomic.Bool   // the group is left
	copying   atomic.Bool   // a failed step has spoiled a state: from then on states are copied by the codec
	restored  chan struct{} // has one element if a partition was restored since the last look
}

// New returns a member.
func New(c Config) *Member {
	m := &Member{
		cfg: c, log: c.Logger.With("group", c.Session.Group), hooks: c.Hooks, ready: make(chan struct{}),
		workers:  map[stream.Partition]*worker{},
		running:  map[*worker]bool{},
		renewed:  map[stream.Partition]int{},
		untaken:  map[stream.Partition]untaken{},
		notes:    map[stream.Partition]map[int64]*note{},
		recalled: map[stream.Partition]bool{},
		single:   map[stream.Partition]map[string]int64{}, refusals: refusals{},

		restored: make(chan struct{}, 1), paces: map[stream.Partition]*pacing{}, retention: newRetention(c.RetainBytes, c.RetainFor),
		budget: intake.New(c.Kafka.FetchBudget),
	}
	m.cfg.Kafka.Opts = append(slices.Clone(c.Kafka.Opts), kgo.WithHooks(&m.throttle, m.budget))
	m.throttle.Tell = m.throttled
	return m
}

// errAsked is the cause of a stop that the caller asked for.
var errAsked = errors.New("stop was asked for")

// Run joins the group and folds until ctx ends or a partition stops. Then it commits what was
// folded, leaves the group, waits for every goroutine, and returns nil or why it stopped.
func (m *Member) Run(ctx context.Context) (err error) {
	m.ctx, m.stop = context.WithCancelCause(context.WithoutCancel(ctx))
	defer m.stop(errAsked)
	admin, err := m.cfg.Kafka.Client()
	if err != nil {
		return err
	}
	defer admin.Close()
	m.admin = admin
	m.layout = m.newLayout()
	m.group = fence.NewGroup(m.assigned, m.released)
	m.renew = m.group.Renew
	m.poll, err = m.group.NewClient(m.ctx, m.cfg.Kafka, m.cfg.Session,
		kgo.ConsumeTopics(m.topics()...),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.KeepControlRecords(), // what was read is more than what is folded (R25)
		kgo.WithHooks(emptied{m}),
		// The longest that a partition waits which goes on after a pause: the fetch that is under way then
		// does not ask for it, and nothing ends it early.
		kgo.FetchMaxWait(100*time.Millisecond),
	)
	if err != nil {
		return err
	}
	close(m.ready)
	polling, cancel := context.WithCancel(m.ctx)
	unwatch := context.AfterFunc(ctx, cancel)
	m.wg.Go(func() { m.watchSilence(polling) })
	m.wg.Go(func() { m.watchLayout(polling) })
	m.wg.Go(func() { m.expireRetained(polling) })
	m.wg.Go(func() { m.watchProtocol(polling) })
	m.wg.Go(func() { m.watchInputs(polling) })
	m.wg.Go(func() { m.watchHead(polling) })
	m.wg.Go(func() { m.watchReady(polling) })
	defer func() { // also where a hook that polling has called panics or ends the goroutine
		unwatch()
		cancel()
		err = m.end()
	}()
	m.pollUntil(polling)
	return nil
}

// end leaves the group and waits for every goroutine. It returns why the member stopped.
func (m *Member) end() error {
	m.ending.Store(true)
	// Close leaves the group: the revoked callback drains every partition, as in a rebalance.
	if err := m.group.Close(m.ctx); err != nil {
		m.log.Warn("the group was not told that a static member goes", "error", err)
	}
	m.stop(errAsked)
	m.awaitWorkers()
	return m.failed()
}

// awaitWorkers waits for every goroutine. A fold that does not heed its context is named in the log, and
// after the rebalance timeout it is what Run fails with: nobody could tell else why the end does not
// come (I6). Nothing of it can leave any more, whenever it returns.
func (m *Member) awaitWorkers() {
	ended := make(chan struct{})
	go func() {
		m.wg.Wait()
		close(ended)
	}()
	began := time.Now()
	limit := time.NewTimer(m.cfg.Session.RebalanceTimeout)
	defer limit.Stop()
	tick := time.NewTicker(10 * time.Second)
	defer tick.Stop()
	for {
		select {
		case <-ended:
			return
		case <-tick.C:
			m.log.Warn("the end waits for a fold that does not heed its context")
		case <-limit.C:
			// Without a function under way what is left are clients that close, and that ends. If it does
			// not, a hook or the codec has not returned.
			if err := m.stuck(time.Since(began) >= 2*m.cfg.Session.RebalanceTimeout); err != nil {
				m.fail(err)
				return
			}
			limit.Reset(time.Second)
		}
	}
}

// stuck is the error of an end that does not wait any longer, nil if no user function is under way. It
// names the least of the partitions that one is called for, and with every of those whose worker has not ended.
func (m *Member) stuck(every bool) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	var at []stream.Partition
	for w := range m.running {
		if every || w.calling.Load() > 0 {
			at = append(at, w.own.Partition())
		}
	}
	if len(at) == 0 {
		return nil
	}
	least := slices.MinFunc(at, func(a, b stream.Partition) int {
		return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition))
	})
	return stream.NewError("end", fmt.Errorf("the user's function, a hook or the codec has not returned within %v after its context ended: %w", m.cfg.Session.RebalanceTimeout, stream.ErrFold)).
		At(least, -1).Hinted("have it heed its context; what it does is not committed and its goroutine goes on, so end the process")
}

// fail stops the member with err; the first one counts.
func (m *Member) fail(err error) {
	m.mu.Lock()
	stopped := m.failure == nil
	if stopped {
		m.failure, m.failedAt = err, time.Now()
	}
	m.mu.Unlock()
	if stopped {
		cause := stream.Cause(err)
		m.log.Error("flow stops", "cause", cause, "error", err)
		call(m.hooks, func(h stream.Hooks) func(stream.Stopped) { return h.Stopped },
			stream.Stopped{Group: m.cfg.Session.Group, Cause: cause, Err: err})
	}
	m.post(func() {})
}

// pollUntil polls until ctx ends or the member failed.
func (m *Member) pollUntil(ctx context.Context) {
	var late kgo.Fetches // with the rule off: what the poll before returned
	for {
		pollCtx, wake := context.WithCancel(ctx)
		m.mu.Lock()
		m.wake = wake
		if len(m.posted) > 0 {
			wake()
		}
		m.mu.Unlock()
		fetches := m.poll.PollFetches(pollCtx)
		wake()
		// Rebalances are blocked from here to AllowRebalance: what is tagged with the present
		// ownership was fetched under it or is dropped by its engine for being below its start (R14).
		batches := fetches
		if !rule.On(m.ctx, rule.OwnershipTag) { // as if they were tagged after rebalances were allowed
			batches, late = late, fetches
		}
		m.polled(fetches, batches)
		m.poll.AllowRebalance()
		if ctx.Err() != nil || m.failed() != nil || fetches.IsClientClosed() {
			return
		}
	}
}

// polled does what belongs between two polls. A poll that returns nothing at all, and not even the end of its
// context, does not keep rebalances back until AllowRebalance: what is posted waits for the next one then.
//
//  1. A poll waits, and a fetch wakes it. A rebalance begins before it looks, and drops what was fetched.
//  2. It looks when the callback is done, finds nothing, and returns.
//  3. The next callback of the rebalance runs while posted functions do.
func (m *Member) polled(fetches, batches kgo.Fetches) {
	m.dispatch(batches)
	if len(fetches) > 0 {
		m.runPosted()
	}
}

// post has f run by the polling goroutine between two polls, while rebalances are blocked.
func (m *Member) post(f func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.posted = append(m.posted, f)
	if m.wake != nil {
		m.wake()
	}
}

func (m *Member) runPosted() {
	m.mu.Lock()
	fs := m.posted
	m.posted = nil
	m.mu.Unlock()
	for _, f := range fs {
		f()
	}
}

// dispatch tags each batch with the ownership that holds its partition and queues it.
func (m *Member) dispatch(fetches kgo.Fetches) {
	fetches.EachPartition(func(ftp kgo.FetchTopicPartition) {
		if len(ftp.Records) == 0 {
			return
		}
		p := stream.Partition{Topic: ftp.Topic, Partition: ftp.Partition}
		w := m.worker(p)
		o := m.group.Owned(p)
		if w == nil || o == nil || w.own != o {
			return // nobody holds it any more: the next owner reads it again
		}
		w.fetched, w.outOfRange = ftp.Records[len(ftp.Records)-1].Offset+1, 0
		w.tail.heard(ftp.LastStableOffset)
		m.enqueue(w, ftp.Records)
	})
	fetches.EachError(m.fetchError) // that of a partition is about what comes behind its records
}

// enqueue hands records to the worker. It runs between polls.
func (m *Member) enqueue(w *worker, records []*kgo.Record) {
	w.arrived.Add(int64(len(records)))
	chunkOf(records)
	if w.queue.put(records, m.share()) {
		m.pause(w)
	}
}

func (m *Member) worker(p stream.Partition) *worker {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.workers[p]
}

func only(p stream.Partition) map[string][]int32 {
	return map[string][]int32{p.Topic: {p.Partition}}
}

func (m *Member) pause(w *worker) {
	w.paused = true
	m.poll.PauseFetchPartitions(only(w.own.Partition()))
}

// resume lets the partition be fetched again, unless another ownership has come meanwhile. It runs
// between polls.
func (m *Member) resume(w *worker) {
	p := w.own.Partition()
	if m.group.Owned(p) == w.own && w.own.State() == fence.Held && !w.halted.Load() {
		w.paused = false
		m.poll.ResumeFetchPartitions(only(p))
	}
}

// begin sets the position that folding begins at and lets the partition be fetched.
func (m *Member) begin(w *worker, start int64) {
	if m.group.Owned(w.own.Partition()) != w.own || w.own.State() != fence.Held {
		return
	}
	// With the epoch of the record before it the client asks, when the leader changes, whether the log was
	// truncated below the position. A position without one would be taken for valid until the first record:
	//
	//  1. A member restarts at 20, the end of the input, and takes no record.
	//  2. An unclean election loses what is from 15 on. Other records come, up to 30.
	//  3. It goes on at 20, and those from 15 to 19 are nobody's.
	if start != w.position || w.after >= 0 {
		m.seek(w, start, w.after)
	}
	w.begun.Store(true)
	m.resume(w)
}

func (m *Member) seek(w *worker, offset int64, epoch int32) {
	p := w.own.Partition()
	w.position, w.fetched = offset, offset
	m.poll.SetOffsets(map[string]map[int32]kgo.EpochOffset{
		p.Topic: {p.Partition: {Epoch: epoch, Offset: offset}},
	})
}

// assigned is called in the group's callback. The takeover and the stable offset fetch happen here,
// before the client fetches offsets itself; the restore does not.
func (m *Member) assigned(_ context.Context, o *fence.Ownership) {
	<-m.ready
	w := m.adopt(o)
	m.pause(w)
	limit, cancel := context.WithTimeoutCause(m.ctx, m.cfg.Session.RebalanceTimeout/3, errLate)
	defer cancel()
	start := int64(0)
	if err := w.open(limit); err == nil {
		start = max(w.committed.Next, 0)
	} else if errors.Is(err, errLate) {
		w.log.Info("takeover goes on behind the callback", "error", err)
	} else {
		w.openErr = err
	}
	m.seek(w, start, -1)
	m.launch(w)
}

var errLate = errors.New("takeover takes too long for the callback")

// adopt makes the worker of an ownership.
func (m *Member) adopt(o *fence.Ownership) *worker {
	w := newWorker(m, o)
	w.kept = m.retention.take(o.Partition())
	m.mu.Lock()
	if before := m.workers[o.Partition()]; before != nil {
		w.view.refused.Store(before.view.refused.Load())
	}
	m.workers[o.Partition()] = w
	m.mu.Unlock()
	return w
}

func (m *Member) launch(w *worker) {
	m.mu.Lock()
	m.running[w] = true
	m.mu.Unlock()
	m.wg.Go(func() {
		defer m.left(w)
		w.run()
	})
}

// released is called in the group's callback, and returns when nothing of the ownership can leave
// any more.
func (m *Member) released(o *fence.Ownership, lost bool) {
	w := m.worker(o.Partition())
	if w == nil || w.own != o {
		return // it was replaced, and released before that
	}
	begin := time.Now()
	if !lost {
		w.drainWithin(m.cfg.RevokeBudget)
	}
	flushed := w.flushed.Load()
	o.Lose(o.Cause())
	w.teardown()
	m.drop(w)
	e := stream.Released{
		Partition: o.Partition(), Ownership: o.Number(), Took: time.Since(begin),
		Flushed: flushed, Cause: o.Cause(),
	}
	stop := w.stopped.Load()
	switch {
	case stop != nil: // gone by the worker's own end, with what was folded before it committed
		e.Cause = *stop
	case lost:
		w.tellLost(e)
		return
	}
	w.told.last(func() {
		attrs := []any{"partition", o.Partition(), "ownership", o.Number(), "flushed", flushed, "took", e.Took}
		if e.Cause != nil {
			attrs = append(attrs, "cause", e.Cause)
		}
		m.log.Info("partition revoked", attrs...)
		call(m.hooks, func(h stream.Hooks) func(stream.Released) { return h.Revoked }, e)
	})
}

// left forgets a worker that has ended and for which no user function is under way.
func (m *Member) left(w *worker) {
	m.mu.Lock()
	defer m.mu.Unlock()
	select {
	case <-w.done:
		if w.calling.Load() == 0 {
			delete(m.running, w)
		}
	default:
	}
}

// drop forgets a worker whose partition was taken away: its states would stay in memory for as long
// as the partition is another's.
func (m *Member) drop(w *worker) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if p := w.own.Partition(); m.workers[p] == w {
		delete(m.workers, p)
	}
}

func (m *Member) failed() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.failure
}
