package tail

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/holdfast-go/holdfast/internal/wire"
)

// show counts an entry and prints it if it is wanted.
func (t *tailer) show(ctx context.Context, p *part, e wire.Entry) error {
	r := e.Record
	p.count.add(e)
	p.position = r.Offset + 1
	if !t.Show[e.Status] {
		return nil
	}
	by := author{pid: r.ProducerID, term: r.ProducerEpoch}
	if r.Attrs.IsTransactional() {
		by.id = t.names.of(ctx, r.ProducerID, r.Offset >= p.ends.highWatermark)
	}
	t.meet(by)
	if err := t.print(e, by); err != nil {
		return fmt.Errorf("print offset %d: %w", r.Offset, err)
	}
	if t.shown++; t.shown == t.Limit {
		return errLimit
	}
	return nil
}

// meet keeps each producer with a transactional id for the legend. A follower, whose end may be far,
// is told at once.
func (t *tailer) meet(by author) {
	if by.id == "" || t.met[by.pid] {
		return
	}
	t.met[by.pid] = true
	t.named = append(t.named, by)
	if t.Follow && !t.JSON {
		t.Note(by.legend())
	}
}

// alignedOver is how many lines are held back to line up their columns, and alignedBytes how many bytes of text. A
// follower holds none.
const (
	alignedOver  = 100
	alignedBytes = 1 << 20
)

func (t *tailer) print(e wire.Entry, by author) error {
	if t.JSON {
		text, err := t.jsonLine(e, by)
		if err == nil {
			_, err = t.out.Write(append(text, '\n'))
		}
		return err
	}
	l := t.line(e, by)
	if !t.aligned {
		t.widths.fit(l)
		t.held, t.heldBytes = append(t.held, l), t.heldBytes+len(l.what)
		if len(t.held) == alignedOver || t.heldBytes > alignedBytes || t.Follow {
			t.align()
		}
		return nil
	}
	_, err := fmt.Fprintln(t.out, t.textLine(l, &t.widths))
	return err
}

// align prints the heading and what was held back. A write that failed fails the flush after it.
func (t *tailer) align() {
	if t.JSON || t.aligned {
		return
	}
	t.aligned = true
	fmt.Fprintln(t.out, t.heading(&t.widths))
	for _, l := range t.held {
		fmt.Fprintln(t.out, t.textLine(l, &t.widths))
	}
	t.held, t.heldBytes = nil, 0
}

// found is what a followed partition brought: an entry, something to say, or why it cannot go on.
type found struct {
	part  *part
	entry wire.Entry
	note  string
	err   error
}

// follow shows the entries of all partitions as they come. Each partition is viewed by a goroutine of
// its own, and this one, which waits for them, does everything else.
func (t *tailer) follow(ctx context.Context) error {
	viewing, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	all := make(chan found)
	var views sync.WaitGroup
	for _, p := range t.parts {
		views.Go(func() { view(viewing, p, t.Committed, all) })
	}
	go func() { views.Wait(); close(all) }()
	if !t.JSON {
		t.Note(fmt.Sprintf("Following %s; Ctrl-C ends it.", t.Topic))
	}
	var failed error
	for f := range all {
		if failed != nil {
			continue // until the views have noticed
		}
		if failed = t.handle(ctx, f); failed != nil {
			cancel(failed)
		}
	}
	if errors.Is(failed, errLimit) {
		return nil
	}
	return failed
}

func (t *tailer) handle(ctx context.Context, f found) error {
	switch {
	case f.err != nil:
		return f.err
	case f.note != "":
		t.Note(f.note)
		return nil
	}
	err := t.show(ctx, f.part, f.entry)
	if flushed := t.out.Flush(); err == nil {
		err = flushed
	}
	return err
}

// view sends what one partition brings until it is at its end or ctx ends.
func view(ctx context.Context, p *part, committed bool, all chan<- found) {
	send := func(f found) error {
		select {
		case all <- f:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	var silent atomic.Bool // the brokers do not answer, and it was said
	_, err := p.log.View(ctx, wire.ViewOptions{From: p.from, To: p.to, Stable: committed, Refused: true, OnRetry: func(err error) {
		if !silent.Swap(true) {
			_ = send(found{note: fmt.Sprintf("%s: waiting for an answer: %v", p.log.At(), err)}) // it fails at the end only
		}
	}}, func(e wire.Entry) error {
		silent.Store(false)
		return send(found{part: p, entry: e})
	})
	if err != nil && ctx.Err() == nil {
		_ = send(found{err: err}) // as above
	}
}
