package holdfasttest

import (
	"bytes"
	"cmp"
	"slices"

	"github.com/holdfast-go/holdfast/dlq"
	"github.com/holdfast-go/holdfast/stream"
)

// origin returns where the record of a dead letter was read when it failed, in the headers of any family that dlq
// reads.
func origin(r Record) (p stream.Partition, offset int64, ok bool) {
	l, err := dlq.Parse(r.Record)
	return stream.Partition{Topic: l.FailedAt.Topic, Partition: l.FailedAt.Partition}, l.FailedAt.Offset, err == nil
}

// reduced reports whether a dead letter has not its whole record, which was too large for the topic.
func reduced(r Record) bool {
	l, _ := dlq.Parse(r.Record)
	return l.Reduced()
}

// passedOver lists the records of a unit that the members' logs or the dead-letter topic say were not
// folded.
func (c *checker) passedOver(u *unit) passedOver {
	passed := passedOver{}
	for _, log := range c.h.DeadLetters {
		for _, r := range log.Records {
			if p, offset, ok := origin(r); ok && p == u.input && r.Status == Committed {
				passed[offset] = "dead-lettered"
			}
		}
	}
	for _, m := range c.h.Members {
		for _, e := range m.Events {
			if e.Partition == u.input && e.Kind == EventFailed && e.Action == stream.Skip {
				passed[e.Offset] = "skipped"
			}
		}
	}
	return passed
}

// checkLetters checks the dead-letter topic: each letter is a record of the input, unchanged, and each
// record that was given up is there, once where letters are in the transaction.
func (c *checker) checkLetters(units []*unit) {
	type place struct {
		stream.Partition
		offset int64
	}
	of := map[stream.Partition]*unit{}
	for _, u := range units {
		of[u.input] = u
	}
	count := map[place]int{}
	for _, log := range c.h.DeadLetters {
		for _, r := range log.Records {
			if r.Status != Committed {
				continue
			}
			p, offset, ok := origin(r)
			u := of[p]
			if !ok || u == nil {
				continue // another component's: a dead-letter topic may be shared
			}
			count[place{p, offset}]++
			c.checkLetter(u, log.Partition, r, offset)
			if n := count[place{p, offset}]; n > 1 && c.m.atomic {
				c.violate("I4", "a dead letter is in the transaction of its offset", log.Partition, r.Offset, r.Key,
					"input %s offset %d is dead-lettered %d times", p, offset, n)
			}
		}
	}
	for _, m := range c.h.Members {
		for _, e := range m.Events {
			u := of[e.Partition]
			if e.Kind == EventDeadLettered && u != nil && e.Offset < u.next() && count[place{e.Partition, e.Offset}] == 0 {
				c.violate("I4", "the offset does not pass a record before its letter is written", e.Partition, e.Offset, nil,
					"member %s gave the record up, the committed offset is %d, and there is no dead letter of it", m.Name, u.next())
			}
		}
	}
}

func (c *checker) checkLetter(u *unit, at stream.Partition, letter Record, offset int64) {
	i, ok := slices.BinarySearchFunc(u.log.Records, offset, func(r Record, offset int64) int { return cmp.Compare(r.Offset, offset) })
	if !ok {
		c.violate("I4", "", at, letter.Offset, letter.Key, "the dead letter is of input %s offset %d, which does not exist", u.input, offset)
		return
	}
	switch r := u.log.Records[i]; {
	case r.Status != Committed:
		c.violate("I5", "", at, letter.Offset, letter.Key, "the dead letter is of input %s offset %d, which is %s", u.input, offset, r.Status)
	case reduced(letter):
	case !sameBytes(r.Key, letter.Key) || !sameBytes(r.Value, letter.Value):
		c.violate("I4", "", at, letter.Offset, letter.Key, "the dead letter's bytes are not those of input %s offset %d", u.input, offset)
	case c.m.atomic && offset >= u.next():
		c.violate("I4", "a dead letter is in the transaction of its offset", at, letter.Offset, letter.Key,
			"the dead letter of input %s offset %d is visible, and the committed offset is %d", u.input, offset, u.next())
	}
}

// sameBytes compares as Kafka does: nil and empty are two things, in a key as in a value.
func sameBytes(a, b []byte) bool { return (a == nil) == (b == nil) && bytes.Equal(a, b) }
