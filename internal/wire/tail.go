package wire

import (
	"context"
	"errors"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Tail is the end of a log: what is there from an offset on, whatever became of it.
type Tail struct {
	Records       []*kgo.Record // of aborted and of open transactions too, and control records
	HighWatermark int64
	LogStart      int64 // the log's first offset
	Position      int64 // next offset to be read; below HighWatermark if there is more than was wanted
	Outside       bool  // the offset is below the log's start or above its end
}

// IsCommitMarker reports whether a record is the marker that ends a transaction as committed.
func IsCommitMarker(r *kgo.Record) bool {
	if !r.Attrs.IsControl() {
		return false
	}
	status, _ := control(r)
	return status == StatusCommitMarker
}

// Tail reads the log from an offset on, with control records, until its end or more than limit records.
// If the records are what one answer holds, that is one fetch. A leader that moves or does not answer is
// waited for as long as ctx lasts; the errors are Read's.
func (l Log) Tail(ctx context.Context, from int64, limit int) (Tail, error) {
	f := fetcher{log: l, opts: ReadOptions{raw: true}, leader: leader{broker: -1}, budget: budgetOf(l.Client)}
	t := Tail{Position: from}
	for {
		var p page
		err := l.retry(ctx, "fetch", &f.leader, nil, func(on leader) (err error) {
			p, err = f.fetch(ctx, on, t.Position)
			if errors.Is(err, kerr.OffsetOutOfRange) {
				t.Outside, err = true, nil
			}
			return err
		})
		if err != nil || t.Outside {
			return t, err
		}
		stuck := p.next == t.Position
		p.opened.Release() // the records that are kept are a few
		t.Records, t.Position, t.HighWatermark = append(t.Records, p.records...), p.next, p.highWatermark
		t.LogStart = p.logStart
		if t.Position >= t.HighWatermark || len(t.Records) > limit || stuck {
			return t, nil
		}
	}
}
