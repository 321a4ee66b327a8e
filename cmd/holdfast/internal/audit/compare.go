package audit

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/twmb/franz-go/pkg/kgo"
)

// lesson is one event of the input, as this package reads it.
type lesson struct {
	Event   int64  `json:"event"`
	Learner string `json:"learner"`
	Lesson  int    `json:"lesson"` // within the course, from 1
	Of      int    `json:"of"`     // lessons of the course, which ends the learner's state
	Minutes int64  `json:"minutes"`

	partition int32
	offset    int64
}

// course is the state of a learner, in a snapshot or in an output.
type course struct {
	Events  []int64 `json:"events"`
	Minutes int64   `json:"minutes"`
}

// comparison gathers the three topics.
type comparison struct {
	input    string
	learners map[string][]lesson // in the order of their partition
	ends     map[int32]int64
	states   map[string]course // absent: the learner has no state
	known    map[int64]bool    // events of the input
	outputs  int
	shown    map[int64][]course // event → the states that its outputs show

	missing, unfolded, silent, forgotten, twice, again map[int64]bool
	disordered                                         int
	examples                                           []string
}

func newComparison(input string) *comparison {
	return &comparison{
		input: input, learners: map[string][]lesson{}, ends: map[int32]int64{}, states: map[string]course{},
		known: map[int64]bool{}, shown: map[int64][]course{},
		missing: map[int64]bool{}, unfolded: map[int64]bool{}, silent: map[int64]bool{}, forgotten: map[int64]bool{},
		twice: map[int64]bool{}, again: map[int64]bool{},
	}
}

func place(r *kgo.Record) string {
	return fmt.Sprintf("audit: %s/%d offset %d", r.Topic, r.Partition, r.Offset)
}

func (c *comparison) addInput(records []*kgo.Record) error {
	for _, r := range records {
		l := lesson{partition: r.Partition, offset: r.Offset}
		if err := json.Unmarshal(r.Value, &l); err != nil {
			return fmt.Errorf("%s: %w", place(r), err)
		}
		if c.known[l.Event] {
			return fmt.Errorf("%s: event %d is in the input twice, so that nothing can be said about it", place(r), l.Event)
		}
		c.known[l.Event] = true
		c.learners[l.Learner] = append(c.learners[l.Learner], l)
		c.ends[r.Partition] = r.Offset + 1
	}
	return nil
}

// addStates keeps the newest value of each key. A key that begins with a zero byte is not a
// learner's; a value that is absent or empty means that the learner has no state.
func (c *comparison) addStates(records []*kgo.Record) error {
	for _, r := range records {
		if len(r.Key) == 0 || r.Key[0] == 0 {
			continue
		}
		if len(r.Value) == 0 {
			delete(c.states, string(r.Key))
			continue
		}
		var s course
		if err := json.Unmarshal(r.Value, &s); err != nil {
			return fmt.Errorf("%s: %w", place(r), err)
		}
		c.states[string(r.Key)] = s
	}
	return nil
}

func (c *comparison) addOutputs(records []*kgo.Record) error {
	for _, r := range records {
		var o struct {
			Event int64 `json:"event"`
			course
		}
		if err := json.Unmarshal(r.Value, &o); err != nil {
			return fmt.Errorf("%s: %w", place(r), err)
		}
		c.outputs++
		c.shown[o.Event] = append(c.shown[o.Event], o.course)
	}
	return nil
}

// foldUntil is this package's own fold: the course that a learner is in after the lessons below the
// offset.
func foldUntil(lessons []lesson, end int64) course {
	var s course
	for _, l := range lessons {
		if l.offset >= end {
			break
		}
		s.Events, s.Minutes = append(s.Events, l.Event), s.Minutes+l.Minutes
		if l.Lesson == l.Of {
			s = course{}
		}
	}
	return s
}

// difference returns the events that got lacks and those that it has too often.
func difference(want, got []int64) (lacks, extra []int64) {
	count := map[int64]int{}
	for _, e := range want {
		count[e]++
	}
	for _, e := range got {
		count[e]--
	}
	for e, n := range count {
		switch {
		case n > 0:
			lacks = append(lacks, e)
		case n < 0:
			extra = append(extra, e)
		}
	}
	slices.Sort(lacks)
	slices.Sort(extra)
	return lacks, extra
}

func (c *comparison) example(format string, args ...any) {
	const most = 5
	if len(c.examples) < most {
		c.examples = append(c.examples, fmt.Sprintf(format, args...))
	}
}

func mark(set map[int64]bool, events []int64) {
	for _, e := range events {
		set[e] = true
	}
}

// checkState compares the state of one learner with the input. A snapshot may be ahead of the
// committed offset, never behind it: the state has to be what the input gives up to the committed
// offset or up to one after it.
func (c *comparison) checkState(name string, lessons []lesson, committed int64) {
	got := c.states[name]
	best, at := []int64(nil), int64(-1)
	var lacks, extra []int64
	for _, end := range append([]int64{committed}, laterEnds(lessons, committed)...) {
		want := foldUntil(lessons, end)
		l, x := difference(want.Events, got.Events)
		if at < 0 || len(l)+len(x) < len(lacks)+len(extra) {
			best, at, lacks, extra = want.Events, end, l, x
		}
		if len(lacks)+len(extra) == 0 {
			break
		}
	}
	mark(c.missing, lacks)
	mark(c.twice, extra)
	if len(lacks) > 0 {
		c.example("%s lacks events %s in its state", name, list(lacks))
	}
	if len(extra) > 0 {
		c.example("%s has events %s once too often in its state", name, list(extra))
	}
	if len(lacks)+len(extra) == 0 && (!slices.Equal(best, got.Events) || foldUntil(lessons, at).Minutes != got.Minutes) {
		c.disordered++
		c.example("%s has the right events in the wrong order, or a wrong sum", name)
	}
	for _, l := range lessons {
		if l.offset >= max(at, committed) {
			c.unfolded[l.Event] = true
		}
	}
}

func laterEnds(lessons []lesson, committed int64) (ends []int64) {
	for _, l := range lessons {
		if l.offset >= committed {
			ends = append(ends, l.offset+1)
		}
	}
	return ends
}

// checkOutputs compares what each output shows with the state that its event has to lead to. An
// output may come several times; each time it has to be right.
func (c *comparison) checkOutputs(name string, lessons []lesson) {
	var s course
	told := false // one example a learner, for the first output that is wrong: the next ones repeat it
	for _, l := range lessons {
		s.Events = append(s.Events, l.Event)
		shown := c.shown[l.Event]
		if len(shown) == 0 && !c.unfolded[l.Event] {
			c.silent[l.Event] = true
			c.example("event %d of %s is folded and has no output", l.Event, name)
		}
		for _, o := range shown {
			lacks, extra := difference(s.Events, o.Events)
			mark(c.forgotten, lacks)
			mark(c.again, extra)
			if len(lacks) > 0 && !told {
				c.example("the output of event %d shows %s without events %s", l.Event, name, list(lacks))
			}
			if len(extra) > 0 && !told {
				c.example("the output of event %d shows %s with events %s once too often", l.Event, name, list(extra))
			}
			told = told || len(lacks)+len(extra) > 0
		}
		if l.Lesson == l.Of {
			s = course{}
		}
	}
}

func union(sets ...map[int64]bool) int {
	all := map[int64]bool{}
	for _, s := range sets {
		maps.Copy(all, s)
	}
	return len(all)
}

func (c *comparison) report(committed func(partition int32) int64) Report {
	names := slices.Sorted(maps.Keys(c.learners))
	for _, name := range names { // states first, so that examples are of them if there are any
		lessons := c.learners[name]
		c.checkState(name, lessons, committed(lessons[0].partition))
	}
	for _, name := range names {
		c.checkOutputs(name, c.learners[name])
	}
	r := Report{
		Events: len(c.known), Keys: len(c.learners), Outputs: c.outputs, Examples: c.examples,
		Missing: len(c.missing), Unfolded: len(c.unfolded), Silent: len(c.silent), Forgotten: len(c.forgotten),
		Twice: len(c.twice), Shown: len(c.again), Disordered: c.disordered,
		Lost:     union(c.missing, c.unfolded, c.silent, c.forgotten),
		Repeated: union(c.twice, c.again),
	}
	for _, p := range slices.Sorted(maps.Keys(c.ends)) {
		if at := committed(p); at != c.ends[p] {
			r.Lag = append(r.Lag, Lag{Partition: p, Committed: at, End: c.ends[p]})
		}
	}
	return r
}
