package tail

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/internal/wire"
)

// explainPatience bounds all questions together that are only asked for the explanation.
const explainPatience = 5 * time.Second

// explain says what was there, and what a reader of either isolation level makes of it.
func (t *tailer) explain(ctx context.Context) {
	sum := newCount()
	waits, empty := false, 0
	holders := t.ask(ctx)
	var unread []*part
	for i, p := range t.parts {
		if t.unread(p) {
			unread = append(unread, p)
			continue
		}
		if len(t.parts) > 1 && p.position <= p.from && !t.stopsAtOpen(p) {
			empty++
			continue
		}
		t.Note(t.counted(p))
		for s, n := range p.count.status {
			sum.status[s] += n
		}
		sum.committed += p.count.committed
		sum.uncommitted += p.count.uncommitted
		sum.held += p.count.held
		if t.stopsAtOpen(p) {
			waits = true
			t.Note(holders[i])
		}
	}
	if empty > 0 {
		t.Note(fmt.Sprintf("%d of %d partitions had nothing in this range.", empty, len(t.parts)))
	}
	if len(unread) > 0 {
		t.Note(t.goOn(unread))
	}
	t.Note(t.levels(sum, waits))
	t.legend()
	if line := t.nameless(); line != "" {
		t.Note(line)
	}
}

// limited reports whether the limit has ended the view.
func (t *tailer) limited() bool { return t.Limit > 0 && t.shown >= t.Limit }

// unread reports whether the limit has ended the view before it came to the partition, although there
// is something in its range.
func (t *tailer) unread(p *part) bool {
	return t.limited() && p.position <= p.from && p.from < min(p.to, p.ends.end(t.Committed))
}

// unreadNamed is how many unread partitions are told with the place to go on from.
const unreadNamed = 5

// goOn says which partitions were not read and how to read them. Each has a call of its own, because
// an offset means another record in each.
func (t *tailer) goOn(unread []*part) string {
	var calls []string
	for _, p := range unread[:min(len(unread), unreadNamed)] {
		calls = append(calls, fmt.Sprintf("--partition %d --from %d", p.log.Partition, p.from))
	}
	line := fmt.Sprintf("%d of %d partitions not read yet when --limit ended the view. Go on with one call each: %s",
		len(unread), len(t.parts), strings.Join(calls, ", "))
	if more := unread[len(calls):]; len(more) > 0 {
		var numbers []string
		for _, p := range more {
			numbers = append(numbers, fmt.Sprint(p.log.Partition))
		}
		line += fmt.Sprintf(", and likewise for the %s %s", plural(len(more), "partition"), strings.Join(numbers, ", "))
	}
	return line + "."
}

// legend tells the transactional ids, whose lines have the producer id alone. A follower has told each
// when it came.
func (t *tailer) legend() {
	if t.JSON || t.Follow {
		return
	}
	for _, by := range t.named {
		t.Note(by.legend())
	}
}

// ask asks of all partitions side by side, within one limit, how far readers have got by this time and who has
// the transactions that they stop at. It returns what is to be said of the latter, by the number of the part.
func (t *tailer) ask(ctx context.Context) []string {
	ctx, cancel := context.WithTimeout(ctx, explainPatience)
	defer cancel()
	holders := make([]string, len(t.parts))
	var asking sync.WaitGroup
	for i, p := range t.parts {
		if t.unread(p) {
			continue
		}
		asking.Go(func() {
			if t.Follow {
				settle(ctx, p)
			}
			if t.stopsAtOpen(p) {
				holders[i] = t.holders(ctx, p)
			}
		})
	}
	asking.Wait()
	return holders
}

// settle asks how far readers have got. Without an answer the count stays as it was shown.
func settle(ctx context.Context, p *part) {
	if _, _, lastStable, err := p.log.Ends(ctx); err == nil && lastStable >= p.position && p.count.status[wire.StatusOpen] == 0 {
		p.count.settle()
	}
}

// counted says what a partition had.
func (t *tailer) counted(p *part) string {
	at := p.log.At().String()
	if p.position <= p.from {
		return fmt.Sprintf("%s: nothing from offset %d on; %s.", at, p.from, p.ends)
	}
	n := p.count.status
	var records []string
	for _, s := range []wire.Status{wire.StatusCommitted, wire.StatusAborted, wire.StatusOpen, wire.StatusPlain} {
		if n[s] > 0 {
			records = append(records, fmt.Sprintf("%d %s", n[s], s))
		}
	}
	if len(records) == 0 {
		records = []string{"no"}
	}
	line := fmt.Sprintf("%s, offsets %d to %d: %s %s", at, p.from, p.position-1, strings.Join(records, ", "), plural(p.count.uncommitted, "record"))
	if m := n[wire.StatusCommitMarker] + n[wire.StatusAbortMarker] + n[wire.StatusControl]; m > 0 {
		line += fmt.Sprintf(", and %d %s", m, plural(m, "marker"))
	}
	line += "."
	if t.limited() && p.position < p.to {
		line += fmt.Sprintf(" Stopped by --limit; go on with --partition %d --from %d.", p.log.Partition, p.position)
	}
	return line
}

func plural(n int, word string) string {
	if n == 1 {
		return word
	}
	return word + "s"
}

// stopsAtOpen reports whether a reader under read_committed cannot get to the end of what was viewed.
func (t *tailer) stopsAtOpen(p *part) bool {
	if t.Committed && !t.Follow {
		return p.ends.lastStable < p.ends.highWatermark && p.to == p.ends.lastStable
	}
	return p.count.status[wire.StatusOpen] > 0 || p.count.held > 0
}

// holders says who has the transactions that are open.
func (t *tailer) holders(ctx context.Context, p *part) string {
	holders, err := p.log.Holders(ctx)
	if err != nil {
		return fmt.Sprintf("%s: who has the open transaction could not be asked: %v", p.log.At(), err)
	}
	if len(holders) == 0 {
		return fmt.Sprintf("%s: the transaction that was open has ended meanwhile.", p.log.At())
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s: readers under read_committed stop at offset %d.", p.log.At(), holders[0].FirstOffset)
	for _, h := range holders {
		fmt.Fprintf(&b, " Open from offset %d on: %s", h.FirstOffset, author{id: h.TransactionalID, pid: h.ProducerID, term: h.ProducerEpoch})
		if !h.Started.IsZero() {
			fmt.Fprintf(&b, ", since %s", h.Started.UTC().Format(timeLayout))
		}
		if h.Timeout > 0 {
			fmt.Fprintf(&b, ", aborted by the broker after %g s", h.Timeout.Seconds())
		}
		if h.Unknown != "" {
			fmt.Fprintf(&b, " (%s)", h.Unknown)
		}
		b.WriteByte('.')
	}
	return b.String()
}

// levels says what the isolation levels would have shown.
func (t *tailer) levels(sum count, waits bool) string {
	n := sum.status
	aborted, open := n[wire.StatusAborted], n[wire.StatusOpen]
	inTransactions := n[wire.StatusCommitted] + aborted + open + n[wire.StatusCommitMarker] + n[wire.StatusAbortMarker]
	switch {
	case sum.uncommitted == 0 && !waits:
		return "No records, so that there is nothing to compare the isolation levels by."
	case inTransactions == 0 && !waits:
		return "No transaction wrote here: read_committed and read_uncommitted return the same records. Were a transaction " +
			"open, a reader under read_committed would stop at it; there is no other difference."
	case aborted+open+sum.held == 0 && !waits:
		return fmt.Sprintf("Each transaction here was committed: read_committed and read_uncommitted return the same %d %s. They differ "+
			"once one is aborted, and while one is open.", sum.uncommitted, plural(sum.uncommitted, "record"))
	}
	var b strings.Builder
	fmt.Fprintf(&b, "read_committed returns %d of these records", sum.committed)
	if waits {
		b.WriteString(" so far")
	}
	fmt.Fprintf(&b, ", read_uncommitted %d", sum.uncommitted)
	var why []string
	if aborted > 0 {
		why = append(why, fmt.Sprintf("%d aborted", aborted))
	}
	if open > 0 {
		why = append(why, fmt.Sprintf("%d of an open transaction, which may yet be aborted", open))
	}
	if sum.held > 0 {
		why = append(why, fmt.Sprintf("%d that come after the start of an open transaction, for whose end read_committed waits", sum.held))
	}
	if len(why) > 0 {
		b.WriteString(": " + strings.Join(why, "; "))
	}
	b.WriteByte('.')
	if beyond := t.beyond(); beyond > 0 {
		fmt.Fprintf(&b, " read_uncommitted would go on for %d more %s, which were not looked at.", beyond, plural(int(beyond), "offset"))
	}
	return b.String()
}

// beyond is how many offsets a view under read_committed did not come to.
func (t *tailer) beyond() (n int64) {
	for _, p := range t.parts {
		if t.Committed && !t.unread(p) && t.stopsAtOpen(p) {
			n += p.ends.highWatermark - p.ends.lastStable
		}
	}
	return n
}

// nameless says why producers are shown without a transactional id.
func (t *tailer) nameless() string {
	n := len(t.names.unknown)
	switch {
	case n == 0:
		return ""
	case t.names.err != nil:
		return fmt.Sprintf("Some transactional ids are missing, because they could not be asked for: %v", t.names.err)
	}
	var ids []string
	for id := range t.names.unknown {
		ids = append(ids, fmt.Sprint(id))
	}
	slices.Sort(ids)
	if n > 5 {
		ids = append(ids[:5], "…")
	}
	return fmt.Sprintf("No coordinator shows a transactional id for producer %s %s: it is forgotten (transactional.id.expiration.ms) or has "+
		"another producer id by this time, or this principal may not see it. To let it: %s", plural(n, "id"), strings.Join(ids, ", "),
		wire.GrantTransactionalID(t.Client, "'*'", "Describe"))
}
