package wire

import (
	"context"
	"time"

	"github.com/holdfast-go/holdfast/internal/intake"
)

// ViewOptions says what View looks at.
type ViewOptions struct {
	From int64 // first offset wanted; below the log's start the view begins at the log's start

	// To is where the view ends; entries at and past it are left out. Past the high watermark it
	// waits for more; math.MaxInt64 waits until ctx ends.
	To int64

	// Stable waits below the first open transaction, as readers under read_committed do. Otherwise
	// everything up to the high watermark comes.
	Stable bool

	MaxBytes int32 // as in ReadOptions
	Refused  bool  // as in ReadOptions

	// OnFetched is told each answer that brought something, those of reading ahead included, from the
	// goroutine that called View; nil: nobody is told.
	OnFetched func()

	// OnRetry is told each error that the view is about to retry, from any goroutine; nil: nobody is
	// told.
	OnRetry func(err error)
}

const (
	// followPause is waited at the end of the log before it is looked at again.
	followPause = 200 * time.Millisecond

	// markerLimit is how many markers are held in memory at once, at 24 bytes each and what a map
	// of producer ids costs.
	markerLimit = 1 << 20
)

// View hands every entry of the partition from o.From to o.To to each, in offset order: all records,
// whatever became of their transactions, and the control records. What compaction removed is not
// there, which includes records of aborted transactions and, later, markers.
//
// A record's status is that of its whole transaction, also when that began before o.From or ended
// past o.To: below the last stable offset the broker tells which ones were aborted, and past it the log
// is read ahead to the high watermark for the markers, and then again. StatusOpen means that there was
// no marker up to the high watermark when the view came to that part of the log; the marker may come
// as an entry later.
//
// It ends by position, as Read does, and returns Read's errors; an error of each ends it and comes
// back as it is. The returned position is the next offset to look at, and valid beside an error too.
func (l Log) View(ctx context.Context, o ViewOptions, each func(Entry) error) (position int64, err error) {
	v := view{log: l, opts: o, each: each, position: o.From, limit: markerLimit}
	err = v.run(ctx)
	return v.position, err
}

type view struct {
	log        Log
	opts       ViewOptions
	each       func(Entry) error
	position   int64
	limit      int // of markers in memory
	outOfRange int // times in a row that the log ended before the position
}

func (v *view) run(ctx context.Context) error {
	for v.position < v.opts.To {
		_, hw, lso, err := v.log.ends(ctx, v.opts.OnRetry)
		if err != nil {
			return err
		}
		if v.position <= hw {
			v.outOfRange = 0
		}
		switch {
		case v.position < lso:
			err = v.stable(ctx, min(lso, v.opts.To))
		case v.position < hw && !v.opts.Stable:
			err = v.unstable(ctx, hw)
		default:
			err = v.wait(ctx, hw)
		}
		if err != nil {
			return err
		}
		if ctx.Err() != nil && v.position < v.opts.To {
			return context.Cause(ctx)
		}
	}
	return nil
}

// wait is at the end of the log, or at the first open transaction.
func (v *view) wait(ctx context.Context, hw int64) error {
	if v.position > hw {
		if v.outOfRange++; v.outOfRange >= rangePatience {
			return v.log.truncated("view", v.position, hw)
		}
	}
	sleep(ctx, followPause) // run looks at ctx
	return nil
}

// pages hands over the pages from the position to an end.
func (v *view) pages(ctx context.Context, to int64, committed bool, each func(page) error) error {
	o := ReadOptions{From: v.position, To: to, MaxBytes: v.opts.MaxBytes, OnRetry: v.opts.OnRetry, Committed: committed, raw: true}
	return v.log.eachPage(ctx, o, func(p page) error {
		if v.opts.OnFetched != nil {
			v.opts.OnFetched()
		}
		return each(p)
	})
}

// stable hands over what is below the last stable offset.
func (v *view) stable(ctx context.Context, to int64) error {
	return v.pages(ctx, to, true, func(p page) error {
		return v.hand(p, to, newAbortedList(p.aborted), true)
	})
}

// unstable hands over what is past the last stable offset, up to the high watermark or as far as the
// markers that fit in memory tell it.
func (v *view) unstable(ctx context.Context, hw int64) error {
	m := newMarkers(v.limit)
	ahead := v.position
	err := v.pages(ctx, hw, false, func(p page) error {
		for _, r := range p.records {
			if r.Offset < hw {
				m.gather(r)
			}
		}
		ahead = p.next
		return nil
	})
	if err != nil || ahead < hw { // ctx has ended
		return err
	}
	to := min(m.end(hw), v.opts.To)
	return v.pages(ctx, to, false, func(p page) error {
		return v.hand(p, to, m, false)
	})
}

// hand hands over the entries of a page that are below to.
func (v *view) hand(p page, to int64, by verdicts, stable bool) error {
	for _, r := range p.records {
		if r.Offset >= to {
			break
		}
		if refusal, ok := intake.Refused(r); ok && !v.opts.Refused {
			return v.log.tooLarge(refusal)
		}
		if err := v.each(classify(r, by, stable)); err != nil {
			return err
		}
		v.position = r.Offset + 1
	}
	v.position = max(v.position, min(p.next, to))
	return nil
}
