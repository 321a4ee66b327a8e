package holdfasttest

import (
	"encoding/binary"
	"maps"
	"slices"

	"github.com/holdfast-go/holdfast/stream"
)

// promised is one output that the input gives.
type promised struct {
	unit      *unit
	offset    int64 // of the input record
	n         int   // the how-manieth output of the unit, in the order of the steps
	message   stream.Message
	committed bool // the committed offset has passed the record
}

// outputs is what one topic has to hold.
type outputs struct {
	topic    string
	promised []promised
	by       map[string][]int // content → indexes into promised, in the order of the steps
	aborted  map[string][]int // by, if aborted records were folded too; made when something is unexplained
}

// found is a record of an output topic that a step explains.
type found struct {
	promised
	at stream.Partition
	on int64
}

// checkOutputs compares each output topic with what the steps give (I4).
func (c *checker) checkOutputs(units []*unit) {
	for _, topic := range c.m.outputs {
		want := promisedIn(units, topic, func(u *unit) *replay { return u.replay })
		logs := logsOf(c.h.Outputs, topic)
		if len(logs) == 0 {
			c.violate("I4", "", stream.Partition{Topic: topic, Partition: -1}, -1, nil, "the history lacks the output topic")
			continue
		}
		taken := map[string]int{} // content → how many were found
		var all []found
		for _, log := range logs {
			if log == nil {
				continue
			}
			all = append(all, c.matchOutputs(units, want, *log, taken)...)
		}
		c.checkMissing(want, taken)
		c.checkOrder(want, all)
	}
}

// promisedIn lists the outputs to a topic that the replays of all units give.
func promisedIn(units []*unit, topic string, of func(*unit) *replay) *outputs {
	o := &outputs{topic: topic, by: map[string][]int{}}
	for _, u := range units {
		n := 0
		for _, s := range of(u).steps {
			for _, m := range s.outputs {
				if m.Topic != topic {
					continue
				}
				content := contentOf(m.Key, m.Value, m.Headers, timeOf(m))
				o.by[content] = append(o.by[content], len(o.promised))
				o.promised = append(o.promised, promised{unit: u, offset: s.offset, n: n, message: m, committed: s.offset < u.next()})
				n++
			}
		}
	}
	return o
}

// matchOutputs finds the step that gives each committed record of a log.
func (c *checker) matchOutputs(units []*unit, want *outputs, log Log, taken map[string]int) (all []found) {
	for _, r := range log.Records {
		if r.Status != Committed {
			continue
		}
		content := contentOf(r.Key, r.Value, r.Headers, r.Timestamp.UnixMilli())
		if _, ok := want.by[content]; !ok {
			content = contentOf(r.Key, r.Value, r.Headers, 0)
		}
		indexes, ok := want.by[content]
		if !ok {
			c.unexplained(units, want, log.Partition, r)
			continue
		}
		i := taken[content]
		taken[content]++
		switch {
		case i >= len(indexes) && c.m.atomic:
			c.violate("I4", "an output is in the transaction of its offset", log.Partition, r.Offset, r.Key,
				"the output of input %s offset %d is here once more", want.promised[indexes[0]].unit.input, want.promised[indexes[0]].offset)
			continue
		case i >= len(indexes):
			continue // a repeat, which at-least-once allows
		}
		p := want.promised[indexes[i]]
		if c.m.atomic && !p.committed {
			c.violate("I4", "an output is in the transaction of its offset", log.Partition, r.Offset, r.Key,
				"the output of input %s offset %d is visible, and the committed offset is %d", p.unit.input, p.offset, p.unit.next())
		}
		all = append(all, found{promised: p, at: log.Partition, on: r.Offset})
	}
	return all
}

// unexplained tells of an output that no step gives.
func (c *checker) unexplained(units []*unit, want *outputs, at stream.Partition, r Record) {
	if want.aborted == nil {
		want.aborted = promisedIn(units, want.topic, c.withAborted).by
	}
	for _, ms := range []int64{r.Timestamp.UnixMilli(), 0} {
		if _, ok := want.aborted[contentOf(r.Key, r.Value, r.Headers, ms)]; ok {
			c.violate("I5", "inputs are read under read_committed", at, r.Offset, r.Key, "the output has an aborted input record in it: %.200q", r.Value)
			return
		}
	}
	c.violate("I4", "", at, r.Offset, r.Key, "no step gives this output: %.200q", r.Value)
}

// checkMissing looks for outputs of committed input that are not there.
func (c *checker) checkMissing(want *outputs, taken map[string]int) {
	for _, content := range slices.Sorted(maps.Keys(want.by)) {
		have := taken[content]
		for i, index := range want.by[content] {
			p := want.promised[index]
			if i >= have && p.committed {
				c.violate("I4", "R18: outputs are acknowledged before the snapshot that covers them", p.unit.input, p.offset, p.message.Key,
					"an output to %s is missing, and the committed offset is %d: %.200q", want.topic, p.unit.next(), p.message.Value)
			}
		}
	}
}

// lane is where outputs keep their order: from one input partition into one output partition, and
// without transactions, where outputs may be sent again, for one key. Those without a key have no order
// there: each time they are sent they may go to another partition.
type lane struct {
	unit *unit
	at   stream.Partition
	key  string
}

// checkOrder checks that the first occurrences of outputs come in the order of their steps.
func (c *checker) checkOrder(want *outputs, all []found) {
	last := map[lane]found{}
	homes := map[lane]stream.Partition{}
	for _, f := range all {
		content := contentOf(f.message.Key, f.message.Value, f.message.Headers, timeOf(f.message))
		if want.ambiguous(content, c.m.atomic) {
			continue
		}
		l := lane{unit: f.unit, at: f.at}
		if !c.m.atomic {
			if f.message.Key == nil {
				continue
			}
			l.key = string(f.message.Key)
		}
		if before, ok := last[l]; ok && before.n > f.n {
			c.violate("I4", "outputs of a key come in the order of its steps", f.at, f.on, f.message.Key,
				"the output of input %s offset %d comes after that of offset %d", f.unit.input, f.offset, before.offset)
			continue
		}
		last[l] = f
		if f.message.Key == nil {
			continue
		}
		home := lane{unit: f.unit, key: string(f.message.Key)}
		if p, ok := homes[home]; ok && p != f.at {
			c.violate("I4", "outputs of a key go to one partition", f.at, f.on, f.message.Key, "earlier outputs of the key are in partition %d: they have no order", p.Partition)
		}
		homes[home] = f.at
	}
}

// ambiguous reports whether it cannot be told which step a record with this content is of, and so
// nothing about its order: several input partitions give it, or several steps do and it may have been
// sent again.
func (o *outputs) ambiguous(content string, once bool) bool {
	indexes := o.by[content]
	for _, i := range indexes[1:] {
		if !once || o.promised[i].unit != o.promised[indexes[0]].unit {
			return true
		}
	}
	return false
}

func timeOf(m stream.Message) int64 {
	if m.Timestamp.IsZero() {
		return 0
	}
	return m.Timestamp.UnixMilli()
}

// contentOf is an injective encoding of what tells outputs apart. ms is 0 for a time that the component
// does not set.
func contentOf(key, value []byte, headers []stream.Header, ms int64) string {
	var b []byte
	add := func(part []byte) {
		n := uint64(0) // nil and empty are not the same
		if part != nil {
			n = uint64(len(part)) + 1
		}
		b = binary.AppendUvarint(b, n)
		b = append(b, part...)
	}
	add(key)
	add(value)
	for _, h := range headers {
		add([]byte(h.Key))
		add(h.Value)
	}
	return string(binary.AppendVarint(b, ms))
}
