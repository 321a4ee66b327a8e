package holdfasttest

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/stream"
)

// Check recomputes everything that the input gives and returns each place at which the history differs
// from it, in the order of the invariants. No violations: the history is what m does. For a run that was
// interrupted early, set h.Unfinished.
func Check(h History, m Model) []Violation {
	c := &checker{h: h, m: m, ctx: context.Background()}
	units := c.units()
	c.checkShape(units)
	for _, u := range units {
		c.prepare(u)
		c.checkLog(u)
		c.checkEnd(u)
	}
	c.checkOutputs(units)
	c.checkLetters(units)
	c.checkMembers(units)
	slices.SortStableFunc(c.found, func(a, b Violation) int {
		return cmp.Or(cmp.Compare(a.Invariant, b.Invariant), cmp.Compare(a.Partition.Topic, b.Partition.Topic),
			cmp.Compare(a.Partition.Partition, b.Partition.Partition), cmp.Compare(a.Offset, b.Offset))
	})
	return c.found
}

// checker gathers violations.
type checker struct {
	ctx   context.Context
	h     History
	m     Model
	found []Violation
}

// unit is one input partition with all that belongs to it.
type unit struct {
	input     stream.Partition
	log       *Log // the input; nil: missing
	snapshots *Log // nil: missing
	final     *Offset

	progress    []commit        // committed, in log order
	commits     map[int64][]int // offset → indexes in progress
	incarnation uint64          // of the newest progress record
	passed      passedOver
	replay      *replay
	// aborted is the replay with the aborted records among the others. It is made when something differs.
	aborted *replay
}

// commit is one committed progress record.
type commit struct {
	at int64 // its offset
	fence.Progress
}

func (p commit) next() int64 { return p.Inputs[0].Next }

// committedAt returns the indexes of the commits of an offset.
func (u *unit) committedAt(next int64) []int { return u.commits[next] }

// next is the committed offset at the end, -1 if there is none.
func (u *unit) next() int64 {
	if u.final == nil {
		return -1
	}
	return u.final.Next
}

func (c *checker) violate(invariant, rule string, p stream.Partition, offset int64, key []byte, format string, args ...any) {
	c.found = append(c.found, Violation{
		Invariant: invariant, Rule: rule, Partition: p, Offset: offset, Key: key, What: fmt.Sprintf(format, args...),
	})
}

// units pairs each input partition with its partition of the snapshot or progress topic. Those of a
// second input follow the first one's.
func (c *checker) units() []*unit {
	var units []*unit
	base := int32(0)
	for _, topic := range c.m.inputs {
		logs := logsOf(c.h.Inputs, topic)
		for p, log := range logs {
			u := &unit{input: stream.Partition{Topic: topic, Partition: int32(p)}, log: log}
			for i, s := range c.h.Snapshots {
				if s.Partition.Partition == base+int32(p) {
					u.snapshots = &c.h.Snapshots[i]
				}
			}
			for i, o := range c.h.Offsets {
				if o.Partition == u.input && o.Next >= 0 {
					u.final = &c.h.Offsets[i]
				}
			}
			units = append(units, u)
		}
		base += int32(len(logs))
	}
	return units
}

// logsOf returns a topic's logs by partition number; a partition that the history lacks is nil.
func logsOf(logs []Log, topic string) []*Log {
	var out []*Log
	for i := range logs {
		p := logs[i].Partition
		if p.Topic != topic {
			continue
		}
		for int(p.Partition) >= len(out) {
			out = append(out, nil)
		}
		out[p.Partition] = &logs[i]
	}
	return out
}

// checkShape looks for what is missing, and for what nothing in the model explains.
func (c *checker) checkShape(units []*unit) {
	known := map[stream.Partition]bool{}
	for _, u := range units {
		known[u.input] = true
		if u.log == nil {
			c.violate("I2", "", u.input, -1, nil, "the history lacks the input partition")
			u.log = &Log{Partition: u.input}
		}
		if u.snapshots == nil {
			c.violate("I2", "", stream.Partition{Topic: c.m.progress, Partition: u.input.Partition}, -1, nil,
				"the history lacks the partition that goes with the input's")
			u.snapshots = &Log{Partition: stream.Partition{Topic: c.m.progress, Partition: u.input.Partition}}
		}
	}
	for _, o := range c.h.Offsets {
		if !known[o.Partition] && o.Next > 0 {
			c.violate("I1", "", o.Partition, o.Next, nil, "an offset is committed, and the history has no such input partition")
		}
	}
	for _, logs := range [][]Log{c.h.Inputs, c.h.Snapshots, c.h.Outputs, c.h.DeadLetters} {
		for _, log := range logs {
			c.checkStatuses(log)
		}
	}
}

// checkStatuses looks at a log as such: offsets rise, and each record's fate is known.
func (c *checker) checkStatuses(log Log) {
	last := int64(-1)
	input := slices.Contains(c.m.inputs, log.Partition.Topic)
	for _, r := range log.Records {
		if r.Offset <= last {
			c.violate("I2", "", log.Partition, r.Offset, r.Key, "the record comes after offset %d: the log is not in order", last)
		}
		last = r.Offset
		switch r.Status {
		case Committed, Aborted:
		case Open:
			if !input { // a foreign producer's may be open in an input, and I7 tells what it holds up
				c.violate("I6", "R12: a takeover ends what the last owner left open", log.Partition, r.Offset, r.Key,
					"the transaction of this record has not ended")
			}
		default:
			c.violate("I5", "", log.Partition, r.Offset, r.Key, "it is not known whether the record was committed")
		}
	}
}

// prepare reads the progress records and folds the input.
func (c *checker) prepare(u *unit) {
	u.commits = map[int64][]int{}
	for _, r := range u.snapshots.Records {
		if r.Status != Committed || !fence.IsProgressKey(r.Key) {
			continue
		}
		p, err := fence.DecodeProgress(r.Value)
		if err != nil || len(p.Inputs) != 1 {
			c.violate("I8", "", u.snapshots.Partition, r.Offset, nil, "the progress record cannot be read: %v", err)
			continue
		}
		u.commits[p.Inputs[0].Next] = append(u.commits[p.Inputs[0].Next], len(u.progress))
		u.progress = append(u.progress, commit{r.Offset, p})
		u.incarnation = max(u.incarnation, uint64(p.Incarnation))
	}
	u.passed = c.passedOver(u)
	u.replay = replayOf(c.ctx, c.m, *u.log, c.from(u), u.passed, func(r Record) bool { return r.Status == Committed })
}

// from returns the first offset that was to be folded.
func (c *checker) from(u *unit) int64 {
	switch {
	case u.log.From > 0:
		return u.log.From
	case c.m.fromStart && u.log.Start == 0:
		return 0
	}
	// The offset that the start policy gave, or a rebuild, is committed before the first fold.
	for _, p := range u.progress {
		if uint64(p.Incarnation) == u.incarnation && !u.snapshots.Compacted {
			if p.next() < u.log.Start {
				c.violate("I2", "", u.input, p.next(), nil,
					"records from here to offset %d were folded and are not in the history: nothing can be said about their states", u.log.Start)
			}
			return p.next()
		}
	}
	return u.log.Start
}

// withAborted returns the replay of a component that also reads what was aborted.
func (c *checker) withAborted(u *unit) *replay {
	if u.aborted == nil {
		u.aborted = replayOf(c.ctx, c.m, *u.log, u.replay.from, u.passed, func(r Record) bool {
			return r.Status == Committed || r.Status == Aborted
		})
	}
	return u.aborted
}
