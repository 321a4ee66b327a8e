package member

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/stream"
)

// A transaction of somebody else that is open on the input holds back what is behind its first record, for as
// long as its timeout. Nothing comes then, and no error: it is found by asking for the ends of partitions that
// are idle, and named (R33). It is never aborted from here.
const (
	// inputLook is how often idle partitions are looked at.
	inputLook = 10 * time.Second
	// inputGrace is how long a transaction may be open without a word: producers that commit every few seconds
	// are no stall.
	inputGrace = 10 * time.Second
	// lookPatience bounds a look.
	lookPatience = 10 * time.Second
)

// ends are those of one partition of the input.
type ends struct{ stable, high int64 }

// inputStall is what is known of a partition that may wait.
type inputStall struct {
	arrived int64 // of the worker, when it was last looked at
	stable  int64
	since   time.Time // since when the last stable offset is seen to stay below the end; zero: it does not
	told    *stream.InputStalled
}

// looked goes on with what one look at an idle partition has found, and reports whether it waits for longer than
// is ordinary.
func (s *inputStall) looked(now time.Time, e ends) bool {
	if e.stable < 0 || e.stable >= e.high {
		s.since = time.Time{}
		return false
	}
	if s.since.IsZero() || s.stable != e.stable {
		s.stable, s.since = e.stable, now
	}
	return now.Sub(s.since) >= inputGrace
}

// watchInputs looks at partitions that are idle until ctx ends.
func (m *Member) watchInputs(ctx context.Context) {
	tick := time.NewTicker(inputLook)
	defer tick.Stop()
	stalls := map[*worker]*inputStall{}
	for {
		select {
		case <-tick.C:
			m.lookAtInputs(ctx, stalls)
		case <-ctx.Done():
			return
		}
	}
}

// lookAtInputs is one look.
func (m *Member) lookAtInputs(ctx context.Context, stalls map[*worker]*inputStall) {
	idle := m.idle(stalls)
	if len(idle) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, lookPatience)
	defer cancel()
	found, err := m.inputEnds(ctx, idle)
	if err != nil {
		return // the client's own fetch meets what is wrong, and tells it
	}
	now := time.Now()
	for w, s := range idle {
		e, ok := found[w.own.Partition()]
		if ok {
			w.tail.note(e.stable)
		}
		switch {
		case !ok:
		case s.looked(now, e):
			m.tellInputStall(ctx, w, s, e, now)
		default:
			m.goesOn(w, s)
		}
	}
}

// idle returns the workers that wait for records and got none since the last look. Those that did go on.
func (m *Member) idle(stalls map[*worker]*inputStall) map[*worker]*inputStall {
	m.mu.Lock()
	workers := slices.Collect(maps.Values(m.workers))
	m.mu.Unlock()
	idle := map[*worker]*inputStall{}
	for w := range stalls {
		if !slices.Contains(workers, w) || w.own.State() != fence.Held {
			delete(stalls, w) // another owner looks
		}
	}
	for _, w := range workers {
		if !w.begun.Load() || w.own.State() != fence.Held {
			continue
		}
		s, arrived := stalls[w], w.arrived.Load()
		if _, queued := w.queue.peek(); s != nil && s.arrived == arrived && !queued {
			idle[w] = s
			continue
		}
		if s != nil {
			m.goesOn(w, s)
		}
		stalls[w] = &inputStall{arrived: arrived}
	}
	return idle
}

// inputEnds asks for the ends of the topics that idle partitions are of. The last stable offsets come first: a
// record that is written between the two requests is no stall, as the next look shows.
func (m *Member) inputEnds(ctx context.Context, idle map[*worker]*inputStall) (map[stream.Partition]ends, error) {
	topics := map[string]bool{}
	for w := range idle {
		topics[w.own.Partition().Topic] = true
	}
	adm, names := kadm.NewClient(m.admin), slices.Collect(maps.Keys(topics))
	stable, err := adm.ListCommittedOffsets(ctx, names...)
	if err != nil {
		return nil, err
	}
	high, err := adm.ListEndOffsets(ctx, names...)
	if err != nil {
		return nil, err
	}
	found := map[stream.Partition]ends{}
	stable.Each(func(o kadm.ListedOffset) {
		if h, ok := high.Lookup(o.Topic, o.Partition); ok && o.Err == nil && h.Err == nil {
			found[stream.Partition{Topic: o.Topic, Partition: o.Partition}] = ends{stable: o.Offset, high: h.Offset}
		}
	})
	return found, nil
}

// tellInputStall names what the partition waits for: once in the log, and to the hooks at every look.
func (m *Member) tellInputStall(ctx context.Context, w *worker, s *inputStall, e ends, now time.Time) {
	first := s.told == nil || s.told.Offset != e.stable
	if first {
		m.goesOn(w, s) // from another transaction to this one
		s.told = w.holds(ctx, e)
	}
	s.told.HighWatermark, s.told.For = e.high, now.Sub(s.since)
	if first {
		w.log.Warn("the input waits for an open transaction of another producer", "offset", e.stable, "high_watermark", e.high,
			"producer", s.told.Diagnosis, "abort", w.input().AbortCommand(wire.Holder{FirstOffset: e.stable}))
	}
	call(w.hooks(), func(h stream.Hooks) func(stream.InputStalled) { return h.InputStalled }, *s.told)
}

// goesOn tells that a stall is over, if one was told.
func (m *Member) goesOn(w *worker, s *inputStall) {
	if s.told == nil {
		return
	}
	e := *s.told
	e.Over, e.For = true, time.Since(s.since)
	s.told = nil
	w.log.Info("the input goes on", "offset", e.Offset, "waited", e.For.Round(time.Second))
	call(w.hooks(), func(h stream.Hooks) func(stream.InputStalled) { return h.InputStalled }, e)
}

// holds asks who holds the last stable offset back. What this principal may not see is said.
func (w *worker) holds(ctx context.Context, e ends) *stream.InputStalled {
	told := &stream.InputStalled{Partition: w.own.Partition(), Offset: e.stable, ProducerID: -1}
	holders, err := w.input().Holders(ctx)
	h, ok := wire.At(holders, e.stable)
	switch {
	case err != nil:
		told.Diagnosis = fmt.Sprintf("unknown, as the leader could not be asked: %v", err)
	case !ok:
		told.Diagnosis = "unknown: the transaction has just ended"
	default:
		told.TransactionalID, told.ProducerID, told.Since, told.Timeout = h.TransactionalID, h.ProducerID, h.Started, h.Timeout
		told.Diagnosis = h.Producer() + h.Since()
	}
	return told
}
