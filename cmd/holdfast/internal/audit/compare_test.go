package audit

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
)

// world is what a run leaves behind, written short: the learner ada has events 1 to 4, of which 2
// graduates, at the offsets 0, 10, 20, 30 of one partition.
type world struct {
	committed int64
	state     []int64 // nil: none
	outputs   map[int64][]int64
}

func right() world {
	return world{committed: 31, state: []int64{3, 4}, outputs: map[int64][]int64{1: {1}, 2: {1, 2}, 3: {3}, 4: {3, 4}}}
}

// minutesOf gives each event minutes of its own, so that a wrong sum shows.
func minutesOf(events []int64) (sum int64) {
	for _, e := range events {
		sum += 10 * e
	}
	return sum
}

func value(t *testing.T, v any) []byte {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func (w world) report(t *testing.T) Report {
	t.Helper()
	c := newComparison("in")
	var input, states, outputs []*kgo.Record
	for e := int64(1); e <= 4; e++ {
		l := lesson{Event: e, Learner: "ada", Minutes: 10 * e, Lesson: int(1 + (e-1)%2), Of: 2 + 2*int((e-1)/2)}
		input = append(input, &kgo.Record{Key: []byte("ada"), Value: value(t, l), Offset: 10 * (e - 1)})
	}
	states = append(states, &kgo.Record{Key: []byte("\x00progress"), Value: []byte("not for this reader")},
		&kgo.Record{Key: []byte("ada"), Value: value(t, course{Events: []int64{99}})}, // overwritten
		&kgo.Record{Key: []byte("ada"), Value: []byte{}})
	if w.state != nil {
		states = append(states, &kgo.Record{Key: []byte("ada"), Value: value(t, course{Events: w.state, Minutes: minutesOf(w.state)})})
	}
	for e, shown := range w.outputs {
		o := map[string]any{"event": e, "learner": "ada", "events": shown, "minutes": minutesOf(shown)}
		outputs = append(outputs, &kgo.Record{Value: value(t, o)})
	}
	if err := errors.Join(c.addInput(input), c.addStates(states), c.addOutputs(outputs)); err != nil {
		t.Fatal(err)
	}
	return c.report(func(int32) int64 { return w.committed })
}

func TestCompare(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		damage func(*world)
		want   Report // the counts alone
	}{
		{"nothing wrong", func(*world) {}, Report{}},
		{"an event is not in the state", func(w *world) { w.state = []int64{3} }, Report{Lost: 1, Missing: 1}},
		{"the first event of the state is lost", func(w *world) { w.state = []int64{4} }, Report{Lost: 1, Missing: 1}},
		{"no state at all", func(w *world) { w.state = nil }, Report{Lost: 2, Missing: 2}},
		{"an event is in it twice", func(w *world) { w.state = []int64{3, 4, 4} }, Report{Repeated: 1, Twice: 1}},
		{"a graduated course came back", func(w *world) { w.state = []int64{2, 3, 4} }, Report{Repeated: 1, Twice: 1}},
		{"one lost, one twice", func(w *world) { w.state = []int64{3, 3} }, Report{Lost: 1, Missing: 1, Repeated: 1, Twice: 1}},
		{"wrong order", func(w *world) { w.state = []int64{4, 3} }, Report{Disordered: 1}},
		{"an output never came", func(w *world) { delete(w.outputs, 1) }, Report{Lost: 1, Silent: 1}},
		{"an output shows a state that lacked an event", func(w *world) { w.outputs[2] = []int64{2} }, Report{Lost: 1, Forgotten: 1}},
		{"an output shows a state with an event twice", func(w *world) { w.outputs[4] = []int64{3, 4, 4} }, Report{Repeated: 1, Shown: 1}},
		{"not folded to the end", func(w *world) {
			w.committed, w.state = 21, []int64{3}
			delete(w.outputs, 4)
		}, Report{Lost: 1, Unfolded: 1}},
		{"a snapshot ahead of the committed offset", func(w *world) { w.committed = 11 }, Report{}},
		{"a deleted state ahead of the committed offset", func(w *world) {
			w.committed, w.state, w.outputs = 1, nil, map[int64][]int64{1: {1}, 2: {1, 2}}
		}, Report{Lost: 2, Unfolded: 2}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := right()
			c.damage(&w)
			got := w.report(t)
			counts := func(r Report) string {
				return fmt.Sprint(r.Lost, r.Missing, r.Unfolded, r.Silent, r.Forgotten, r.Repeated, r.Twice, r.Shown, r.Disordered)
			}
			if counts(got) != counts(c.want) {
				t.Errorf("got  %s\nwant %s\n%v", counts(got), counts(c.want), got.Examples)
			}
			if got.Events != 4 || got.Keys != 1 {
				t.Errorf("%d events of %d keys", got.Events, got.Keys)
			}
			if clean := c.want.Lost+c.want.Repeated+c.want.Disordered == 0; got.Clean() != clean {
				t.Errorf("clean is %v, want %v", got.Clean(), clean)
			}
		})
	}
}

func TestCompareRefusesInputThatRepeats(t *testing.T) {
	t.Parallel()
	r := &kgo.Record{Value: value(t, lesson{Event: 1, Learner: "ada"})}
	if err := newComparison("in").addInput([]*kgo.Record{r, r}); err == nil {
		t.Error("an event that the input has twice was taken")
	}
}

func TestDifference(t *testing.T) {
	t.Parallel()
	lacks, extra := difference([]int64{1, 2, 3}, []int64{3, 2, 2, 7})
	if !slices.Equal(lacks, []int64{1}) || !slices.Equal(extra, []int64{2, 7}) {
		t.Errorf("lacks %v, extra %v", lacks, extra)
	}
}
