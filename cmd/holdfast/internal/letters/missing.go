package letters

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/holdfast-go/holdfast/internal/wire"
)

// nearby is how many offsets before a place are looked through for a letter.
const nearby = 100

// missing is the error of a place without a letter: what is there instead, and where the nearest letter
// is. Who counts on from the last letter comes upon markers, of which lists show nothing.
func (f Filter) missing(ctx context.Context, p Place) error {
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(f.Patience, time.Minute))
	defer cancel()
	cl, err := f.Kafka.Client()
	if err != nil {
		return err
	}
	defer cl.Close()
	err = fmt.Errorf("%w at %s of %s", ErrNoLetter, p, f.Topic)
	why, end, looked := f.instead(ctx, cl, p)
	if looked != nil {
		return fmt.Errorf("%w; what is there instead could not be read: %w", err, looked)
	}
	near, found, looked := f.nearest(ctx, p, end)
	switch {
	case looked != nil:
		return fmt.Errorf("%w: %s; the letters beside it could not be read: %w", err, why, looked)
	case found:
		return fmt.Errorf("%w: %s; the nearest letter is %s", err, why, near)
	}
	return fmt.Errorf("%w: %s", err, why)
}

// instead says what is at a place, and returns the end of the partition.
func (f Filter) instead(ctx context.Context, cl *kgo.Client, p Place) (what string, end int64, err error) {
	l := wire.Log{Client: cl, Topic: f.Topic, Partition: p.Partition}
	start, end, _, err := l.Ends(ctx)
	switch {
	case err != nil:
		return "", end, err
	case p.Offset >= end:
		return fmt.Sprintf("the partition ends at offset %d", end), end, nil
	case p.Offset < start:
		return fmt.Sprintf("the partition begins at offset %d, and what was before it is deleted", start), end, nil
	}
	what = "compaction has removed what was there"
	_, err = l.View(ctx, wire.ViewOptions{From: p.Offset, To: p.Offset + 1, Refused: true}, func(e wire.Entry) error {
		what = describe(e)
		return nil
	})
	return what, end, err
}

func describe(e wire.Entry) string {
	switch {
	case e.Status.Control():
		return fmt.Sprintf("this is a transaction's %s, which takes an offset too", e.Status)
	case e.Status == wire.StatusAborted:
		return "the record there is of an aborted transaction"
	case e.Status == wire.StatusOpen:
		return "the record there is of a transaction that is open"
	case !e.Stable:
		return "the record there waits for a transaction that is open before it"
	}
	return "the record there became visible a moment ago"
}

// nearest returns the place of the letter that is nearest to p, of those after it and of some before it.
func (f Filter) nearest(ctx context.Context, p Place, end int64) (near Place, found bool, err error) {
	f.Partitions = []int32{p.Partition}
	before := f
	before.To = min(p.Offset, end)
	before.From = max(0, before.To-nearby)
	if before.To > 0 { // 0 would be the end
		for l, err := range before.read(ctx) {
			if err != nil {
				return near, false, err
			}
			near, found = Place{p.Partition, l.Record.Offset}, true
		}
	}
	after := f
	after.From, after.To = p.Offset+1, 0
	for l, err := range after.read(ctx) {
		if err != nil {
			return near, false, err
		}
		if !found || l.Record.Offset-p.Offset < p.Offset-near.Offset {
			near, found = Place{p.Partition, l.Record.Offset}, true
		}
		break
	}
	return near, found, nil
}
