package member_test

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/codec"
	"github.com/holdfast-go/holdfast/pipe"
	"github.com/holdfast-go/holdfast/stream"
)

// walk is one component on a place of its own, and what an operator changes.
type walk struct {
	*place
	pipe      bool
	guarantee holdfast.Guarantee
	codec     codec.Codec[int]
	start     holdfast.Start
	group     string
	snapshots string
	version   string
	restored  func() // called at each restore; may be nil
}

func newWalk(t *testing.T, isPipe bool, g holdfast.Guarantee) *walk {
	t.Helper()
	w := &walk{place: newPlace(t), pipe: isPipe, guarantee: g, group: "flow", snapshots: states, codec: codec.JSON[int]()}
	w.create("out", nil)
	for i := range 5 {
		w.produce(fmt.Sprint("k", i), 1)
		if i == 2 {
			w.must(w.run(3))
		}
	}
	w.must(w.run(5))
	return w
}

// component is the component as it is configured now.
func (w *walk) component(hooks holdfast.Hooks) (interface {
	Run(context.Context) error
	Check(context.Context) (holdfast.Report, error)
}, error) {
	c := w.config()
	if w.pipe {
		return pipe.New(pipe.Config{
			Kafka: w.k, Group: w.group, Inputs: []string{input}, Outputs: []string{"out"}, Progress: w.snapshots, Create: &holdfast.TopicConfig{},
			Start: w.start, Member: c.Member, Commit: holdfast.Commit{Interval: c.Commit.Interval}, Hooks: []holdfast.Hooks{hooks},
			Func: func(_ context.Context, _ stream.Record, out *pipe.Out) error { out.Forward("out"); return nil },
		})
	}
	c.Group, c.Snapshots = w.group, holdfast.Snapshots{Topic: w.snapshots, Create: &holdfast.TopicConfig{}}
	c.Start, c.FoldVersion, c.Codec, c.Guarantee, c.Hooks = w.start, w.version, w.codec, w.guarantee, []holdfast.Hooks{hooks}
	return holdfast.New(c)
}

// run runs the component until the committed offset is next, and returns what Run does.
func (w *walk) run(next int64) error {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), patience)
	defer cancel()
	var reached atomic.Bool
	var once sync.Once
	c, err := w.component(holdfast.Hooks{
		Committed: func(e stream.Committed) {
			if e.Next >= next {
				reached.Store(true)
				cancel()
			}
		},
		Restored: func(stream.Restored) {
			if w.restored != nil {
				once.Do(w.restored)
			}
		},
	})
	w.must(err)
	if err := c.Run(ctx); err != nil {
		return err
	}
	if !reached.Load() {
		w.t.Fatalf("%d was not committed", next)
	}
	return nil
}

// step is one thing that a hint says to do.
type step struct {
	name string
	do   func(*walk)
}

var (
	policies = map[string]holdfast.Disagreement{
		"ResumeAtProgress": holdfast.ResumeAtProgress, "AdoptEmpty": holdfast.AdoptEmpty, "Rebuild": holdfast.Rebuild, "ResumeAtLogStart": holdfast.ResumeAtLogStart, "AdoptRemaining": holdfast.AdoptRemaining,
	}
	policyName = regexp.MustCompile(`ResumeAtProgress|AdoptEmpty|AdoptRemaining|Rebuild|ResumeAtLogStart`)
	resetTo    = regexp.MustCompile(`--to-offset (\d+) --execute`)
	// others are what a hint says in words.
	others = []struct {
		words string
		do    func(*walk)
	}{
		{"a group of its own", func(w *walk) { w.group, w.snapshots = "another", "another-snapshots" }},
		{"give each component a group", func(w *walk) { w.group, w.snapshots = "another", "another-snapshots" }},
		{"use another group", func(w *walk) { w.group, w.snapshots = "another", "another-snapshots" }},
		{"an empty progress topic", func(w *walk) { w.snapshots = "another-snapshots" }},
		{"an empty snapshot topic", func(w *walk) { w.snapshots = "another-snapshots" }},
		{"choose another Snapshots.Topic", func(w *walk) { w.snapshots = "another-snapshots" }},
		{"set FoldVersion back", func(w *walk) { w.version = "" }},
		{"give a codec that reads old states", func(w *walk) { w.codec = codec.JSON[int]() }},
		{"start it again", func(*walk) {}},
	}
	alternatives = regexp.MustCompile(`; or, |, or |; |\. Choose |, and give `)
)

// steps are the alternatives of a hint. One may take two things: a reset and a policy.
func steps(hint string) (all []step) {
	seen := map[string]bool{}
	hint, _, _ = strings.Cut(hint, ". Rebuild drops ")
	for _, part := range alternatives.Split(hint, -1) {
		var names []string
		var does []func(*walk)
		for _, o := range others {
			if strings.Contains(part, o.words) {
				names, does = append(names, o.words), append(does, o.do)
			}
		}
		for _, m := range resetTo.FindAllStringSubmatch(part, -1) {
			next, _ := strconv.ParseInt(m[1], 10, 64)
			names, does = append(names, "reset to "+m[1]), append(does, func(w *walk) { w.commitAsAnother(next) })
		}
		for _, name := range policyName.FindAllString(part, -1) {
			names, does = append(names, name), append(does, func(w *walk) { w.start.Disagreement = policies[name] })
		}
		if name := strings.Join(names, " and "); name != "" && !seen[name] {
			seen[name] = true
			all = append(all, step{name, func(w *walk) {
				for _, do := range does {
					do(w)
				}
			}})
		}
	}
	return all
}

// I7: each hint of each stop leads to an end: what it says is done, on a place of its own for each of its
// alternatives, until the component goes on. A stop that comes again on the way is a circle.
func TestEveryHintLeadsForward(t *testing.T) {
	t.Parallel()
	for _, s := range stops {
		for name, g := range map[string]holdfast.Guarantee{"flow": holdfast.FencedState, "pipe": holdfast.FencedOutputs} {
			if name == "pipe" && !s.pipes || name == "flow" && s.alone {
				continue
			}
			t.Run(name+"/"+s.name, func(t *testing.T) {
				t.Parallel()
				w := &explorer{t: t, stop: s, isPipe: name == "pipe", guarantee: g}
				w.explore(nil, nil)
				if s.keeps > 0 && name == "flow" && w.kept < s.keeps {
					t.Errorf("I2: no way out keeps %d keys; the best one keeps %d", s.keeps, w.kept)
				}
			})
		}
	}
}

// explorer goes all ways out of one stop.
type explorer struct {
	t         *testing.T
	stop      stop
	isPipe    bool
	guarantee holdfast.Guarantee
	kept      int // of the five keys, at the best end
}

var digits = regexp.MustCompile(`\d+`)

func (x *explorer) explore(path []step, seen []string) {
	x.t.Helper()
	names := make([]string, len(path))
	w := newWalk(x.t, x.isPipe, x.guarantee)
	x.stop.spoil(w)
	for i, s := range path {
		if i == 0 && w.restored != nil { // it has to have stopped once
			if err := w.run(w.end(input) + 3); !errors.Is(err, x.stop.is) {
				x.t.Fatalf("I7: the first run: %v, want %v", err, x.stop.is)
			}
			w.restored = nil
		}
		s.do(w)
		names[i] = s.name
	}
	for range len(path) + 1 { // there is more than what the hint before knew of
		w.place.write("last")
	}
	checked := x.check(w)
	err := w.run(w.end(input))
	switch {
	case err == nil && len(path) == 0:
		x.t.Fatalf("I2: it goes on, and %v is what it should stop with", x.stop.is)
	case err == nil:
		x.end(w, names)
		return
	}
	e := (*stream.Error)(nil)
	if !errors.As(err, &e) || e.Hint == "" {
		x.t.Errorf("I7: after %q: %v, without a hint", names, err)
		return
	}
	if len(path) == 0 && !errors.Is(err, x.stop.is) {
		x.t.Fatalf("I7: %v, want %v", err, x.stop.is)
	}
	x.t.Logf("%q: %v", names, err)
	x.told(e, names)
	if len(path) == 0 && !x.isPipe && !strings.Contains(e.Hint, x.stop.costs) {
		x.t.Errorf("I2: the hint does not say %q: %s", x.stop.costs, e.Hint)
	}
	if !x.stop.silent {
		x.sameVerdict(checked, e, names)
	}
	what := digits.ReplaceAllString(e.Err.Error(), "N")
	for _, before := range seen {
		if before == what {
			x.t.Errorf("I7: the hints lead in a circle: %q has come to %v again", names, err)
			return
		}
	}
	ways := steps(e.Hint)
	if len(ways) == 0 {
		x.t.Errorf("I7: after %q the hint says nothing that could be done: %s", names, e.Hint)
	}
	for _, s := range ways {
		x.explore(append(path[:len(path):len(path)], s), append(seen[:len(seen):len(seen)], what))
	}
}

// told checks that a hint which names Rebuild says what that costs.
func (x *explorer) told(e *stream.Error, names []string) {
	x.t.Helper()
	if strings.Contains(e.Hint, "Rebuild") && !strings.Contains(e.Hint, "Rebuild drops ") {
		x.t.Errorf("I2: after %q the hint names Rebuild and does not say what it drops: %s", names, e.Hint)
	}
}

// check returns what Check says; nil where it sees nothing wrong.
func (x *explorer) check(w *walk) error {
	x.t.Helper()
	c, err := w.component(holdfast.Hooks{})
	w.must(err)
	_, err = c.Check(x.t.Context())
	return err
}

// sameVerdict compares what Check said with what the start did.
func (x *explorer) sameVerdict(checked error, e *stream.Error, names []string) {
	x.t.Helper()
	c := (*stream.Error)(nil)
	if !errors.As(checked, &c) {
		x.t.Errorf("I7: after %q the start stops with %v, and Check says %v", names, e, checked)
		return
	}
	hint, _, _ := strings.Cut(e.Hint, ". Rebuild drops ")
	told, _, _ := strings.Cut(c.Hint, ". Rebuild drops ")
	if c.Err.Error() != e.Err.Error() || hint != told {
		x.t.Errorf("I7: after %q the start stops with\n%v\nhint: %s\nand Check says\n%v\nhint: %s", names, e.Err, hint, c.Err, told)
	}
}

// end looks at what is left where the component goes on.
func (x *explorer) end(w *walk, names []string) {
	x.t.Helper()
	n := 0
	if !x.isPipe && w.group == "flow" && w.snapshots == states {
		for key := range w.stored() {
			if strings.HasPrefix(key, "k") {
				n++
			}
		}
	}
	x.kept = max(x.kept, n)
	x.t.Logf("%q: it goes on, with %d of 5 keys", names, n)
}

// write writes one record through a client that knows the topic as it is.
func (p *place) write(key string) {
	p.t.Helper()
	cl := p.stranger()
	defer cl.Close()
	p.must(cl.ProduceSync(p.t.Context(), &kgo.Record{Topic: input, Key: []byte(key), Value: []byte("1")}).FirstErr())
}
