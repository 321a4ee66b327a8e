package demo

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// written is an event and where it lies in the input.
type written struct {
	Event
	partition int32
	offset    int64
}

// generator produces the events of one seed. Its producer is idempotent, so that each is in the
// input once. It goes on until it has made as many as it was asked for and finish was called, so
// that there is load for as long as faults are made. It is safe for concurrent use.
type generator struct {
	client *kgo.Client
	atMost int // stops by itself there
	atEach int // events a tick
	wanted int

	mu       sync.Mutex
	made     int
	learners map[string][]written
	events   map[int64]written
	ends     map[int32]int64
	err      error

	finishing chan struct{}
	done      chan struct{}
}

// The pace of the input.
const (
	tickEvery  = 20 * time.Millisecond
	eventsOver = 1_000_000 // the generator stops so far above the events asked for, whatever happens
)

func newGenerator(p *place, events, perSecond int) (*generator, error) {
	cl, err := p.kafka.Client(kgo.DefaultProduceTopic(p.Input), kgo.ProducerLinger(0))
	if err != nil {
		return nil, err
	}
	return &generator{
		client: cl, wanted: events, atMost: events + eventsOver,
		atEach:   max(1, perSecond*int(tickEvery)/int(time.Second)),
		learners: map[string][]written{}, events: map[int64]written{}, ends: map[int32]int64{},
		finishing: make(chan struct{}), done: make(chan struct{}),
	}, nil
}

// run produces until the events are made. It closes done.
func (g *generator) run(ctx context.Context, seed uint64) {
	defer close(g.done)
	defer g.client.Close()
	events := newSource(seed)
	tick := time.NewTicker(tickEvery)
	defer tick.Stop()
	for g.more() {
		for range g.atEach {
			g.send(ctx, events.next())
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			g.fail(context.Cause(ctx))
			return
		}
	}
	if err := g.client.Flush(ctx); err != nil {
		g.fail(err)
	}
}

func (g *generator) more() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.err != nil || g.made >= g.atMost {
		return false
	}
	if g.made < g.wanted {
		return true
	}
	select {
	case <-g.finishing:
		return false
	default:
		return true
	}
}

func (g *generator) fail(err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.err == nil {
		g.err = fmt.Errorf("produce events: %w", err)
	}
}

// send produces an event.
func (g *generator) send(ctx context.Context, e Event) {
	g.mu.Lock()
	g.made++
	g.mu.Unlock()
	r := &kgo.Record{Key: []byte(e.Learner), Value: e.encode()}
	g.client.Produce(ctx, r, func(r *kgo.Record, err error) {
		if err != nil {
			g.fail(err)
			return
		}
		w := written{Event: e, partition: r.Partition, offset: r.Offset}
		g.mu.Lock()
		defer g.mu.Unlock()
		g.events[e.Event] = w
		g.learners[e.Learner] = append(g.learners[e.Learner], w)
		g.ends[r.Partition] = max(g.ends[r.Partition], r.Offset+1)
	})
}

// finish lets the generator end once it has made what it was asked for, and waits for it.
func (g *generator) finish(ctx context.Context) error {
	close(g.finishing)
	select {
	case <-g.done:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.err
}

// count returns how many events were made.
func (g *generator) count() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.made
}

// end returns the offset behind the last event of each partition.
func (g *generator) end() map[int32]int64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	return maps.Clone(g.ends)
}

// find returns where an event lies, if that is known yet.
func (g *generator) find(event int64) (written, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	w, ok := g.events[event]
	return w, ok
}

// graduation returns the first graduation of a learner at or behind an offset, and the first lesson
// of that course.
func (g *generator) graduation(learner string, from int64) (first, last written, ok bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, w := range g.learners[learner] {
		if w.Lesson == 1 {
			first = w
		}
		if w.graduates() && w.offset >= from {
			return first, w, first.Event.Event != 0
		}
	}
	return first, last, false
}
