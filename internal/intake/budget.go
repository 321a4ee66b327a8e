package intake

import (
	"context"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// DefaultBytes is the budget of a client that is given none.
const DefaultBytes = 256 << 20

// MinBytes is the least budget. A share of it has to hold the largest batch of a topic with default settings.
const MinBytes = 16 << 20

// What a record and a header cost beside their bytes: the client's structs and the pointers to them.
const (
	recordCost = 256
	headerCost = 64
)

// Budget counts the bytes of fetched records that are in memory. It is safe for concurrent use.
//
// A quarter of it is what may be held by clients that consume and by the queues behind them, and another quarter what
// readers by position may hold; a batch may be as large as that by itself. The rest is for what is copied on the way,
// and for the collector, which lets a heap grow to twice of what is in use. The quarters are apart: whoever folds may
// have to read before it can empty its queue.
type Budget struct {
	bytes   int64
	opener  kgo.Decompressor
	opening turn // of all
	reading turn // of readers by position: one at a time has opened what is not counted yet

	mu    sync.Mutex
	held  int64         // in queues
	pages []*page       // of consuming clients
	read  int64         // by readers
	freed chan struct{} // closed and made anew when something was given back
}

// page is what one connection has handed to its client, which takes it before it asks for more.
type page struct {
	cost  int64
	until time.Time // zero: not handed over as a whole yet
}

// pageLife ends a page for which the client does not come back: its partitions were paused or are another member's.
const pageLife = 2 * time.Second

// New returns a budget of that many bytes; 0 and less: DefaultBytes, and never less than MinBytes.
func New(bytes int64) *Budget {
	if bytes <= 0 {
		bytes = DefaultBytes
	}
	b := &Budget{bytes: max(bytes, MinBytes), opening: newTurn(), reading: newTurn(), freed: make(chan struct{})}
	b.opener = bounded(int(min(b.MaxBatch(), math.MaxInt32)))
	return b
}

// bounded returns the client's own decompressor with a bound. It has no constructor with one.
func bounded(bytes int) kgo.Decompressor {
	cl, err := kgo.NewClient(kgo.MaxDecompressBatchBytes(bytes))
	if err != nil {
		panic(err) // the option takes every number above 0
	}
	defer cl.Close()
	return cl.OptValue(kgo.WithDecompressor).(kgo.Decompressor)
}

// turn is had by one at a time. It has an element while nobody has it.
type turn chan struct{}

func newTurn() turn {
	t := make(turn, 1)
	t <- struct{}{}
	return t
}

func (t turn) await(ctx context.Context) error {
	select {
	case <-t:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (t turn) done() { t <- struct{}{} }

// OnNewClient makes the budget a hook of kgo, which is how several clients of one component are given the same one.
func (*Budget) OnNewClient(*kgo.Client) {}

// Bytes is the whole budget.
func (b *Budget) Bytes() int64 { return b.bytes }

// MaxBatch is what one batch may cost, opened.
func (b *Budget) MaxBatch() int64 { return b.bytes / 4 }

// Hold counts what a queue has, whether there is room or not. Release gives it back.
func (b *Budget) Hold(cost int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.held += cost
}

// Release gives back what Hold has counted.
func (b *Budget) Release(cost int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.held -= cost
	b.signal()
}

// Held is what is counted at present.
func (b *Budget) Held() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.fetched() + b.read
}

func (b *Budget) signal() {
	close(b.freed)
	b.freed = make(chan struct{})
}

// fetched is what consuming clients and queues hold. It is called with the lock held.
func (b *Budget) fetched() int64 {
	now := time.Now()
	b.pages = slices.DeleteFunc(b.pages, func(p *page) bool { return !p.until.IsZero() && now.After(p.until) })
	sum := b.held
	for _, p := range b.pages {
		sum += p.cost
	}
	return sum
}

// fill counts cost in a page if there is room, and reports whether there was. A batch has room by itself: whatever
// is too large for that was refused.
func (b *Budget) fill(p *page, cost int64) (ok bool, freed <-chan struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if used := b.fetched(); used > 0 && used+cost > b.MaxBatch() {
		return false, b.freed
	}
	p.cost += cost
	return true, nil
}

// take is fill for readers.
func (b *Budget) take(cost int64) (ok bool, freed <-chan struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.read > 0 && b.read+cost > b.MaxBatch() {
		return false, b.freed
	}
	b.read += cost
	return true, nil
}

// wait calls try until there is room or ctx ends.
func wait(ctx context.Context, try func() (ok bool, freed <-chan struct{})) error {
	for {
		ok, freed := try()
		if ok {
			return nil
		}
		select {
		case <-freed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// newPage begins a page of a connection.
func (b *Budget) newPage() *page {
	b.mu.Lock()
	defer b.mu.Unlock()
	p := &page{}
	b.pages = append(b.pages, p)
	return p
}

// handed says that the client has the page.
func (b *Budget) handed(p *page) {
	b.mu.Lock()
	defer b.mu.Unlock()
	p.until = time.Now().Add(pageLife)
}

// taken says that the client is done with the page.
func (b *Budget) taken(p *page) {
	if p == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.pages = slices.DeleteFunc(b.pages, func(q *page) bool { return p == q })
	b.signal()
}

// Cost is what a record costs in memory.
func Cost(r *kgo.Record) int64 {
	cost := int64(recordCost + len(r.Key) + len(r.Value))
	for _, h := range r.Headers {
		cost += int64(headerCost + len(h.Key) + len(h.Value))
	}
	return cost
}
