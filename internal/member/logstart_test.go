package member_test

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/stream"
)

// I2: a hundred keys whose input is long trimmed, and one new record that retention took before it was folded. The
// start policy goes on at the log's start with all of them, and says what was passed over.
func TestResumeAtLogStartKeepsTheStates(t *testing.T) {
	t.Parallel()
	for name, g := range map[string]holdfast.Guarantee{
		"FencedState": holdfast.FencedState, "FencedOutputs": holdfast.FencedOutputs, "Unfenced": holdfast.Unfenced,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			c := p.config()
			if c.Guarantee = g; g == holdfast.FencedOutputs {
				c.Commit.Persist = 0
			}
			want := map[string]string{}
			for i := range 100 {
				p.produce(fmt.Sprint("k", i), 1)
				want[fmt.Sprint("k", i)] = "1"
			}
			p.must(until(p, c, 100))
			p.produce("lost", 1)
			p.trim(101)
			p.produce("new", 1)
			want["new"] = "1"
			gone, restored := watched(&c)
			c.Start.Disagreement = holdfast.ResumeAtLogStart
			p.must(until(p, c, 102))
			p.wantStored(want)
			if got := gone(); len(got) != 1 || got[0].From != 100 || got[0].To != 101 {
				t.Errorf("I2: what was told to be gone is %v, want offset 100 alone", got)
			}
			if got := restored(); len(got) != 1 || got[0].Keys != 100 || got[0].Start != 101 {
				t.Errorf("I2: it was restored as %+v, want 100 keys and a start at 101", got)
			}
			p.produce("new", 1) // with the policy still in place, and nothing that is gone
			p.must(until(p, c, 103))
			if got := gone(); len(got) != 1 {
				t.Errorf("I2: told to be gone at a start at which nothing is: %v", got[1:])
			}
		})
	}
}

// I7: under the policy a member that runs goes on as well, and what is in its memory stays.
func TestResumeAtLogStartUnderAMember(t *testing.T) {
	t.Parallel()
	w := newWalk(t, false, holdfast.FencedState)
	goneWhileRunning(w)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	c := w.config()
	c.Start.Disagreement = holdfast.ResumeAtLogStart
	gone, restored := watched(&c)
	c.Hooks = append(c.Hooks, holdfast.Hooks{
		Restored: func(stream.Restored) { w.restored() },
		Committed: func(e stream.Committed) {
			if e.Next == 7 {
				cancel()
			}
		},
	})
	f, err := holdfast.New(c)
	w.must(err)
	w.must(f.Run(ctx))
	if got := gone(); len(got) != 1 || got[0].From != 5 || got[0].To != 6 || len(restored()) != 1 {
		t.Errorf("I7: told to be gone: %v, in %d restores; want offset 5 alone in one", got, len(restored()))
	}
	w.wantStored(map[string]string{"k0": "1", "k1": "1", "k2": "1", "k3": "1", "k4": "1", "new": "1"})
}

// watched has the flow tell what it passes over, and its restores.
func watched(c *holdfast.Config[int]) (gone func() []stream.Gone, restored func() []stream.Restored) {
	var mu sync.Mutex
	var gs []stream.Gone
	var rs []stream.Restored
	c.Hooks = append(c.Hooks, holdfast.Hooks{
		Gone:     func(e stream.Gone) { mu.Lock(); defer mu.Unlock(); gs = append(gs, e) },
		Restored: func(e stream.Restored) { mu.Lock(); defer mu.Unlock(); rs = append(rs, e) },
	})
	return func() []stream.Gone { mu.Lock(); defer mu.Unlock(); return append([]stream.Gone(nil), gs...) },
		func() []stream.Restored {
			mu.Lock()
			defer mu.Unlock()
			return append([]stream.Restored(nil), rs...)
		}
}
