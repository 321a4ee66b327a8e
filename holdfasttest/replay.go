package holdfasttest

import (
	"context"
	"sort"

	"github.com/holdfast-go/holdfast/stream"
)

// replay is what an input partition gives when each of its records is applied once, in order.
type replay struct {
	log      Log
	from     int64
	steps    []step
	at       map[int64]int // offset → index in steps
	keys     map[string][]change
	failed   map[int64]error // records whose step failed and which nothing is known to have passed
	statuses map[int64]Status
}

// step is one record that was applied or passed over.
type step struct {
	offset  int64
	key     string
	before  value
	changed bool
	passed  bool // filtered, skipped or dead-lettered
	outputs []stream.Message
}

// change is a key's state after a record that changed it.
type change struct {
	offset int64
	value  value
}

// passedOver tells why records were left out by the component: by offset.
type passedOver map[int64]string

// replayOf applies the records of log from offset from on that take accepts.
func replayOf(ctx context.Context, m Model, log Log, from int64, passed passedOver, take func(Record) bool) *replay {
	r := &replay{
		log: log, from: from, at: map[int64]int{}, keys: map[string][]change{},
		failed: map[int64]error{}, statuses: map[int64]Status{},
	}
	for _, rec := range log.Records {
		r.statuses[rec.Offset] = rec.Status
		if rec.Offset < from || !take(rec) {
			continue
		}
		r.at[rec.Offset] = len(r.steps)
		r.steps = append(r.steps, r.step(ctx, m, rec.Record, passed))
	}
	return r
}

func (r *replay) step(ctx context.Context, m Model, rec stream.Record, passed passedOver) step {
	s := step{offset: rec.Offset}
	if _, ok := passed[rec.Offset]; ok {
		s.passed = true
		return s
	}
	key, ok, err := m.route(rec)
	if err != nil {
		r.failed[rec.Offset] = err
		s.passed = true
		return s
	}
	if !ok {
		s.passed = true
		return s
	}
	s.key = string(key)
	s.before = r.last(s.key)
	a := m.apply(ctx, s.before, rec)
	if a.err != nil {
		r.failed[rec.Offset] = a.err
		s.passed = true
		return s
	}
	s.changed, s.outputs = a.changed, a.outputs
	if a.changed {
		r.keys[s.key] = append(r.keys[s.key], change{rec.Offset, a.value})
	}
	return s
}

// last returns the newest state of a key.
func (r *replay) last(key string) value {
	if c := r.keys[key]; len(c) > 0 {
		return c[len(c)-1].value
	}
	return value{}
}

// below returns a key's state after its records below next, and how many had changed it.
func (r *replay) below(key string, next int64) (v value, steps int) {
	c := r.keys[key]
	steps = sort.Search(len(c), func(i int) bool { return c[i].offset >= next })
	if steps > 0 {
		v = c[steps-1].value
	}
	return v, steps
}

// changedAt returns the state of a key after the record at offset, if that record changed it.
func (r *replay) changedAt(key string, offset int64) (v value, ok bool) {
	i, ok := r.at[offset]
	if !ok || !r.steps[i].changed || r.steps[i].key != key {
		return value{}, false
	}
	v, _ = r.below(key, offset+1)
	return v, true
}

// stateAt looks for an offset at which a key had a state, to tell what a wrong one is.
func (r *replay) stateAt(key string, v value) (offset int64, ok bool) {
	for _, c := range r.keys[key] {
		if c.value.same(v) {
			return c.offset, true
		}
	}
	return 0, false
}

// lastAccepted returns the offset of the newest record that was to be folded, -1 if there is none.
func (r *replay) lastAccepted() int64 {
	if len(r.steps) == 0 {
		return -1
	}
	return r.steps[len(r.steps)-1].offset
}
