package member

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/stream"
)

// head is where the log of a snapshot partition begins. Kafka moves the start of a log for DeleteRecords and for
// retention, and not for compaction, however much of the head that takes:
//
//  1. The snapshot topic is set to cleanup.policy=delete by mistake, and back a while later.
//  2. Meanwhile Kafka has deleted the oldest segments. Keys whose last snapshot was in them have none any more.
//  3. The next owner restores what is left. Offset and progress record agree, and the keys begin at nothing.
//
// So each progress record says where the log began when it was written (R26), and a start above that proves a loss.
type head struct {
	start    int64 // of the log, when it was restored
	recorded int64 // by the newest progress record; -1: it does not say, or there is none
	keys     int   // that were restored
	moves    bool  // the brokers' compaction moves the start: nothing can be told from it
}

// headLost reports whether records that compaction keeps are missing at the head of the log.
//
// A progress record of before R26 does not say where the log began. It is taken to have been at 0, where every log
// begins: above that, something was deleted at some time, and whether it was of these states nobody can tell any
// more. So that stops once, and is adopted by hand. Without any progress record there is no state that could be
// whole: the partition was emptied, and not made again, which would have it begin at 0. A pipe has lost nothing as
// long as its newest progress record is there.
func (w witnesses) headLost() bool {
	switch {
	case w.head.moves:
		return false
	case w.stateless && w.progress == nil && w.committed.Next >= 0 && w.committed.Nonce == 0:
		return false // a person, or another client, has set where a pipe goes on
	case w.progress == nil:
		return w.head.start > 0 && (w.snapshotEmpty || w.committed.Next >= 0)
	case w.stateless:
		return false
	}
	return w.head.start > max(w.head.recorded, 0)
}

// decideHead is decide, behind the guard of the log's head.
func decideHead(w witnesses, policy Start, fenced, tornCommits bool) (v verdict, start int64, err error) {
	c := w.committed.Next
	switch {
	case !w.headLost():
	case policy.Rebuild:
		return rebuild, 0, nil
	case !policy.AdoptRemaining:
		return 0, 0, w.lostHead()
	case w.progress == nil && c < 0:
		return beginNew, 0, nil
	case w.progress == nil:
		return begin, c, nil
	}
	return decide(w, policy, fenced, tornCommits)
}

// lostHead is the error about deleted snapshots, with the ways out.
func (w witnesses) lostHead() error {
	what, rebuilt, left := "", "fold the input from its first record on, which gives the states of what the input still has", "with the states that are left"
	h := w.head
	switch {
	case w.progress == nil && w.committed.Next < 0:
		what = fmt.Sprintf("its log begins at %d, has nothing, and the group has no committed offset: there was something, and it was deleted", h.start)
		left = "as a new one, at Start.New"
	case w.progress == nil:
		what = fmt.Sprintf("its log begins at %d and has no progress record, and the group has committed offset %d", h.start, w.committed.Next)
		left = "at the committed offset, with what is left"
	case h.recorded < 0:
		what = fmt.Sprintf("its log begins at %d, where compaction leaves it at 0, and the progress record is of a version that did not note where it began", h.start)
	default:
		what = fmt.Sprintf("its log begins at %d, and began at %d when the last progress record was written", h.start, h.recorded)
	}
	if w.stateless {
		rebuilt = "process the input once more"
	}
	if h.keys > 0 {
		rebuilt += fmt.Sprintf(" and drops the %d that are left", h.keys)
	}
	return stream.NewError("start", fmt.Errorf("records of the partition's snapshot log were deleted: %s: %w", what, stream.ErrSnapshotsLost)).
		Hinted("the topic had cleanup.policy=delete for a while, or somebody ran DeleteRecords: see that it is compact, and nothing else. Then choose Rebuild (Start.Disagreement) to %s, "+
			"or AdoptRemaining to go on %s, once: take it out again after that", rebuilt, left)
}

// adopt goes on with what is left. The progress record that it commits says where the log begins now.
func (w *worker) adopt(ctx context.Context, f found, start int64) (int64, error) {
	w.log.Warn("snapshots were deleted, and what is left is adopted", "keys", f.head.keys, "log_start", f.head.start, "recorded", f.head.recorded)
	w.tellStore(&f)
	if err := w.store.Commit(ctx, fence.Offset{Next: start, LeaderEpoch: f.epochBefore(start)}); err != nil {
		return 0, err
	}
	w.committed.Next = start
	return start, w.ready(f, start)
}

// known is the log's start that progress records of this ownership note. It never falls: one answer of a broker that
// is behind must not have the next one look like a loss.
func (h head) known() int64 { return max(h.start, h.recorded) }

// headEvery is how often the snapshot topic is looked at while the member runs: what Kafka deletes after its policy
// was changed goes at its next look at retention, which is each 5 minutes by default (log.retention.check.interval.ms).
const headEvery = 30 * time.Second

// watchHead stops the member when its snapshot topic is not kept by compaction alone any more, or was deleted from.
func (m *Member) watchHead(ctx context.Context) {
	tick := time.NewTicker(headEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		err := m.lookAtHead(ctx)
		if err != nil && pauseBefore(ctx, looks) == nil { // not on one answer (R28)
			err = m.lookAtHead(ctx)
		}
		if ctx.Err() == nil && err != nil {
			m.fail(err)
			return
		}
	}
}

// lookAtHead returns what is wrong with the snapshot topic. What cannot be asked for is asked again at the next look.
func (m *Member) lookAtHead(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, headEvery)
	defer cancel()
	topic := m.cfg.Snapshots
	facts, err := wire.TopicFacts(ctx, m.admin, topic.Topic)
	if err != nil || !facts.Exists || facts.ID != topic.ID { // a topic that was made again is found out by the next write
		return nil
	}
	if facts.CleanupPolicy != topic.CleanupPolicy {
		return wire.NotCompacted(m.admin, facts, "snapshots of keys that do not change")
	}
	if m.cfg.Map != nil || topic.Embedded {
		return nil
	}
	starts, err := kadm.NewClient(m.admin).ListStartOffsets(ctx, topic.Topic)
	if err != nil {
		return nil
	}
	for _, w := range m.restoredWorkers() {
		at := m.progress(w.own.Partition())
		seen, ok := starts.Lookup(at.Topic, at.Partition)
		if known := w.logStart.Load(); ok && seen.Err == nil && known >= 0 && seen.Offset > known {
			return w.located(stream.NewError("watch snapshots", fmt.Errorf("the log of %v begins at %d, and began at %d when it was restored: %w", at, seen.Offset, known, stream.ErrSnapshotsLost)).
				Hinted("somebody deletes from it, with cleanup.policy=delete or DeleteRecords: stop that, and start again, which names the ways out"))
		}
	}
	return nil
}

// restoredWorkers are those that own a partition and have restored it.
func (m *Member) restoredWorkers() (ws []*worker) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, w := range m.workers {
		if w.own.State() == fence.Held && w.logStart.Load() >= 0 {
			ws = append(ws, w)
		}
	}
	return ws
}

var errHead = errors.New("where the log of the snapshot partition begins could not be asked for")

// logBegins asks where the log begins after it was read: a restore reads on at the start of a log that has moved under
// it, and would pass over what was deleted meanwhile.
func (w *worker) logBegins(ctx context.Context) (int64, error) {
	topic, at := w.m.cfg.Snapshots, w.m.progress(w.own.Partition())
	start, err := wire.Log{Client: w.m.admin, Topic: topic.Topic, TopicID: topic.ID, Partition: at.Partition}.Start(ctx)
	if err != nil {
		return 0, stream.NewError("restore", fmt.Errorf("%w: %w", errHead, err)).At(at, -1)
	}
	return start, nil
}
