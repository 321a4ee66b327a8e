package acceptance

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/stream"
)

// gate stops a flow's fold at the records of some partitions from an offset on, and tells what was
// folded.
type gate struct {
	from  int64
	doors map[int32]*door
}

type door struct {
	entered chan int64    // the offset of each record that waits
	folded  chan int64    // the offset of each record that was folded
	pass    chan struct{} // lets one record through; closed: all
	once    sync.Once
}

func newGate(from int64, partitions ...int32) *gate {
	g := &gate{from: from, doors: map[int32]*door{}}
	for _, p := range partitions {
		g.doors[p] = &door{entered: make(chan int64, 10000), folded: make(chan int64, 10000), pass: make(chan struct{})}
	}
	return g
}

// fold is the tests' fold behind the gate.
func (g *gate) fold(ctx context.Context, k *holdfast.Key[tally], r stream.Record) error {
	g.hold(r)
	if d := g.doors[r.Partition]; d != nil {
		defer func() { d.folded <- r.Offset }()
	}
	return fold(ctx, k, r)
}

// hold returns when a record may be folded. It does not heed the fold's context: user code may not
// either.
func (g *gate) hold(r stream.Record) {
	if d := g.doors[r.Partition]; d != nil && r.Offset >= g.from {
		d.entered <- r.Offset
		<-d.pass
	}
}

// open lets everything through from here on.
func (g *gate) open() {
	for _, d := range g.doors {
		d.once.Do(func() { close(d.pass) })
	}
}

// awaitOffset waits until a channel of offsets has told one.
func awaitOffset(t *testing.T, offsets <-chan int64, offset int64) {
	t.Helper()
	limit := time.After(patience)
	for {
		select {
		case o := <-offsets:
			if o >= offset {
				return
			}
		case <-limit:
			t.Fatalf("offset %d was not seen within %v", offset, patience)
		}
	}
}
