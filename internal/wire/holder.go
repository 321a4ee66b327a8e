package wire

import (
	"fmt"
	"time"
)

// abortScan is how often a coordinator looks for transactions that are over their timeout
// (transaction.abort.timed.out.transaction.cleanup.interval.ms), with room for the markers.
const abortScan = 15 * time.Second

// Producer names the holder: by its transactional id, where a coordinator shows it, and its producer id.
func (h Holder) Producer() string {
	who := fmt.Sprintf("producer id %d epoch %d", h.ProducerID, h.ProducerEpoch)
	if h.TransactionalID != "" {
		who = fmt.Sprintf("transactional id %q (%s)", h.TransactionalID, who)
	}
	return who
}

// Since is what is known of the transaction's age, and why no more is: what follows its name in a sentence.
func (h Holder) Since() string {
	text := fmt.Sprintf(", from offset %d", h.FirstOffset)
	if !h.LastWrite.IsZero() {
		text += ", last write here " + h.LastWrite.UTC().Format(time.RFC3339)
	}
	switch {
	case h.Forgotten():
		text += fmt.Sprintf(". Its coordinator has moved on (state %s, epoch %d), so this transaction hangs: no timeout ends it", h.State, h.CurrentEpoch)
	case !h.Started.IsZero():
		text += fmt.Sprintf(", state %s, open since %s (%s ago), transaction timeout %s", h.State,
			h.Started.UTC().Format(time.RFC3339), time.Since(h.Started).Round(time.Second), h.Timeout)
		if h.Overdue() {
			text += ". It is past its timeout and was not aborted: it hangs, or its coordinator does not run"
		}
	}
	if h.Unknown != "" {
		text += "; " + h.Unknown
	}
	return text
}

// Ends returns when the coordinator aborts the transaction at the latest; zero: that is not known.
func (h Holder) Ends() time.Time {
	if h.Started.IsZero() {
		return time.Time{}
	}
	return h.Started.Add(h.Timeout + abortScan)
}

// Forgotten reports that the coordinator has no transaction open that could be this one.
func (h Holder) Forgotten() bool {
	switch h.State {
	case "Empty", "CompleteCommit", "CompleteAbort", "Dead":
		return true
	case "":
		return false
	}
	return int(h.CurrentEpoch) > int(h.ProducerEpoch)+1 // an epoch is raised by one to abort the open transaction
}

// Overdue reports that the coordinator should have aborted the transaction by now.
func (h Holder) Overdue() bool {
	return h.Timeout > 0 && !h.Ends().IsZero() && time.Now().After(h.Ends())
}

// At returns the holder of a last stable offset among those of a partition, by first offset.
func At(holders []Holder, stable int64) (Holder, bool) {
	for _, h := range holders {
		if h.FirstOffset == stable {
			return h, true
		}
	}
	if len(holders) > 0 {
		return holders[0], true
	}
	return Holder{ProducerID: -1, FirstOffset: stable}, false
}
