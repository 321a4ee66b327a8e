package prove

import (
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	takeoverBefore  = 5 // committed before the transaction that stays open
	takeoverPending = 9 // bound in it
	takeoverRecords = 2
)

// Takeover is what became of a transaction that an owner left open.
type Takeover struct {
	ProducerID int64 `json:"producerID"`
	OldEpoch   int16 `json:"oldEpoch"`
	NewEpoch   int16 `json:"newEpoch"`
	// Open is the log while the transaction is open, Ended after the takeover.
	Open   Ends  `json:"open"`
	Ended  Ends  `json:"ended"`
	TookMs int64 `json:"tookMs"` // from the takeover's request until readers no longer wait

	Before  int64  `json:"committedBefore"`
	Pending int64  `json:"pendingOffset"`
	After   int64  `json:"committedAfter"`
	Answer  string `json:"lateCommit"` // to the old owner's commit; "": it was accepted
	Code    int16  `json:"code"`

	Written int `json:"written"` // records that the old owner had written, under read_uncommitted
	Visible int `json:"visible"` // those of them that a read_committed reader sees in the end
}

// Ends are the end of a log and where read_committed readers have to stop.
type Ends struct {
	HighWatermark int64 `json:"highWatermark"`
	LastStable    int64 `json:"lastStable"`
}

func runTakeover(ctx context.Context, w *world) (observation, error) {
	output, err := w.topic(ctx, takeoverOutput, nil)
	if err != nil {
		return nil, err
	}
	m, err := w.join(ctx, takeoverGroup, takeoverInput)
	if err != nil {
		return nil, err
	}
	defer m.leave(ctx)
	t, id := Takeover{Pending: takeoverPending}, w.name(takeoverID)
	if err := m.commit(ctx, w, id, takeoverBefore, eventRecord(output, "before")); err != nil {
		return nil, err
	}
	if t.Before, err = w.stable(ctx, m.group, m.input, m.id); err != nil {
		return nil, err
	}
	old, err := w.transactional(ctx, id)
	if err != nil {
		return nil, err
	}
	defer old.Close()
	w.o.note("    leaving a transaction open with %d records and an offset", takeoverRecords)
	if err := t.leaveOpen(ctx, w, m, old, id, output); err != nil {
		return nil, err
	}
	w.o.note("    taking its id over")
	if err := t.takeOver(ctx, w, id, output); err != nil {
		return nil, err
	}
	err = old.EndTransaction(ctx, kgo.TryCommit)
	if t.Answer, t.Code = code(err); err != nil && t.Answer == "" {
		return nil, err
	}
	return t, t.afterwards(ctx, w, m, output)
}

func (t *Takeover) leaveOpen(ctx context.Context, w *world, m *member, old *kgo.Client, id, output string) (err error) {
	token, err := m.own.Token(ctx)
	if err != nil {
		return err
	}
	if err := old.BeginTransaction(); err != nil {
		return err
	}
	for range takeoverRecords {
		if err := write(ctx, old, eventRecord(output, "pending")); err != nil {
			return err
		}
	}
	if err := m.bind(ctx, w, old, id, token, t.Pending); err != nil {
		return err
	}
	if t.ProducerID, t.OldEpoch, err = old.ProducerID(ctx); err != nil {
		return err
	}
	t.Open, err = w.ends(ctx, output)
	return err
}

// takeOver initialises the id as its next owner does, and waits until readers pass what was open.
func (t *Takeover) takeOver(ctx context.Context, w *world, id, output string) error {
	began := time.Now()
	next, err := w.transactional(ctx, id)
	if err != nil {
		return err
	}
	defer next.Close()
	if _, t.NewEpoch, err = next.ProducerID(ctx); err != nil {
		return err
	}
	until := began.Add(stepLimit)
	for {
		if t.Ended, err = w.ends(ctx, output); err != nil {
			return err
		}
		t.TookMs = time.Since(began).Milliseconds()
		if t.Ended.LastStable == t.Ended.HighWatermark || time.Now().After(until) {
			return nil
		}
		if err := pause(ctx); err != nil {
			return err
		}
	}
}

func (t *Takeover) afterwards(ctx context.Context, w *world, m *member, output string) (err error) {
	if t.After, err = w.stable(ctx, m.group, m.input, m.id); err != nil {
		return err
	}
	for committed, n := range map[bool]*int{false: &t.Written, true: &t.Visible} {
		records, err := w.read(ctx, output, committed)
		if err != nil {
			return err
		}
		for _, r := range records {
			if event(r) == "pending" {
				*n++
			}
		}
	}
	return nil
}

func (w *world) ends(ctx context.Context, topic string) (e Ends, err error) {
	_, e.HighWatermark, e.LastStable, err = w.log(topic).Ends(ctx)
	return e, err
}

func (t Takeover) judge() (Verdict, string) {
	switch {
	case t.Before != takeoverBefore || t.Written != takeoverRecords:
		return NotShown, fmt.Sprintf("the old owner could not write as it has to: committed offset %d, %s in its open transaction", t.Before, count(t.Written, "record"))
	case t.Open.LastStable >= t.Open.HighWatermark:
		return NotShown, "no transaction was open before the takeover"
	case t.Ended.LastStable < t.Ended.HighWatermark:
		return Refuted, fmt.Sprintf("readers still waited at offset %d of %d, %d ms after the takeover", t.Ended.LastStable, t.Ended.HighWatermark, t.TookMs)
	case t.Visible > 0:
		return Refuted, fmt.Sprintf("a read_committed reader sees %s of the transaction that was taken over", count(t.Visible, "record"))
	case t.After != t.Before:
		return Refuted, fmt.Sprintf("the committed offset went from %d to %d", t.Before, t.After)
	case t.Answer == "":
		return Refuted, "the old owner's commit after the takeover was accepted"
	}
	return Proved, ""
}

func (t Takeover) lines() []string {
	answer := "ACCEPTED"
	if t.Answer != "" {
		answer = fmt.Sprintf("refused, %s (%d)", t.Answer, t.Code)
	}
	return []string{
		fmt.Sprintf("old owner, producer %d epoch %d: %s written and offset %d bound, transaction open; readers wait at offset %d of %d",
			t.ProducerID, t.OldEpoch, count(t.Written, "record"), t.Pending, t.Open.LastStable, t.Open.HighWatermark),
		fmt.Sprintf("new owner initialised the id, epoch %d: after %d ms readers are at offset %d of %d", t.NewEpoch, t.TookMs, t.Ended.LastStable, t.Ended.HighWatermark),
		fmt.Sprintf("the old owner's commit afterwards: %s", answer),
		fmt.Sprintf("committed offset %d before and %d after; a read_committed reader sees %d of its records", t.Before, t.After, t.Visible),
	}
}
