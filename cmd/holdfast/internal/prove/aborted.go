package prove

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kgo"
)

// abortedRecords is how many records each of the two transactions has.
const abortedRecords = 3

// Aborted is what readers saw of a transaction that was aborted, and of the same records in one that
// committed.
type Aborted struct {
	Records  int   `json:"records"` // of each transaction
	Replicas int16 `json:"replicas"`
	MinISR   int   `json:"minISR"`
	// AfterAbort and AfterCommit are what readers found once each transaction had ended.
	AfterAbort  Seen `json:"afterAbort"`
	AfterCommit Seen `json:"afterCommit"`
}

// Seen is the offsets at which a topic's records were found under the two isolation levels.
type Seen struct {
	Committed   []int64 `json:"readCommitted"`
	Uncommitted []int64 `json:"readUncommitted"`
	Distinct    int     `json:"distinct"` // different records under read_committed
}

func runAborted(ctx context.Context, w *world) (observation, error) {
	topic, err := w.topic(ctx, abortedTopic, nil)
	if err != nil {
		return nil, err
	}
	a := Aborted{Records: abortedRecords, Replicas: w.replicas, MinISR: w.minISR}
	for _, pass := range []struct {
		end  kgo.TransactionEndTry
		seen *Seen
		note string
	}{{kgo.TryAbort, &a.AfterAbort, "aborting a transaction of %d records"}, {kgo.TryCommit, &a.AfterCommit, "sending the %d records again and committing"}} {
		w.o.note("    "+pass.note, abortedRecords)
		if err := w.pass(ctx, topic, pass.end); err != nil {
			return nil, err
		}
		if *pass.seen, err = w.seen(ctx, topic); err != nil {
			return nil, err
		}
	}
	return a, nil
}

// pass sends the records in one transaction, by a client of its own as a process would that starts anew.
func (w *world) pass(ctx context.Context, topic string, end kgo.TransactionEndTry) error {
	cl, err := w.transactional(ctx, w.name(abortedID))
	if err != nil {
		return err
	}
	defer cl.Close()
	if err := cl.BeginTransaction(); err != nil {
		return err
	}
	var rs []*kgo.Record
	for i := range abortedRecords {
		rs = append(rs, eventRecord(topic, strconv.Itoa(i)))
	}
	if err := write(ctx, cl, rs...); err != nil {
		return err
	}
	return cl.EndTransaction(ctx, end)
}

func (w *world) seen(ctx context.Context, topic string) (s Seen, err error) {
	distinct := map[string]bool{}
	committed, err := w.read(ctx, topic, true)
	if err != nil {
		return s, err
	}
	for _, r := range committed {
		s.Committed, distinct[event(r)] = append(s.Committed, r.Offset), true
	}
	all, err := w.read(ctx, topic, false)
	for _, r := range all {
		s.Uncommitted = append(s.Uncommitted, r.Offset)
	}
	s.Distinct = len(distinct)
	return s, err
}

func (a Aborted) judge() (Verdict, string) {
	committed := len(a.AfterCommit.Committed)
	switch {
	case len(a.AfterAbort.Committed) > 0:
		return Refuted, fmt.Sprintf("a read_committed reader saw %s of the aborted transaction", count(len(a.AfterAbort.Committed), "record"))
	case len(a.AfterAbort.Uncommitted) != a.Records:
		return NotShown, fmt.Sprintf("a read_uncommitted reader saw %d of the %d records of the aborted transaction, so that it is not known that there was one",
			len(a.AfterAbort.Uncommitted), a.Records)
	case a.AfterCommit.Distinct < a.Records:
		return Refuted, fmt.Sprintf("a read_committed reader saw %d of the %d records that were committed", a.AfterCommit.Distinct, a.Records)
	case committed > a.Records:
		return Refuted, fmt.Sprintf("a read_committed reader saw %s where %d were committed", count(committed, "record"), a.Records)
	}
	return Proved, ""
}

func (a Aborted) lines() []string {
	return []string{
		fmt.Sprintf("%s acknowledged with %s and min.insync.replicas %d, then aborted", count(a.Records, "record"), count(int(a.Replicas), "replica"), a.MinISR),
		fmt.Sprintf("after the abort: read_committed sees %s, read_uncommitted sees %s", offsets(a.AfterAbort.Committed), offsets(a.AfterAbort.Uncommitted)),
		fmt.Sprintf("after the commit of the same records: read_committed sees %s (%d different ones), read_uncommitted sees %s",
			offsets(a.AfterCommit.Committed), a.AfterCommit.Distinct, offsets(a.AfterCommit.Uncommitted)),
	}
}

func offsets(at []int64) string {
	if len(at) == 0 {
		return "nothing"
	}
	var parts []string
	for _, o := range at {
		parts = append(parts, strconv.FormatInt(o, 10))
	}
	return "offsets " + strings.Join(parts, ", ")
}
