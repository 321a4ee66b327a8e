package member

import (
	"errors"
	"testing"

	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/stream"
)

// What the witnesses say is held against what the input still has, from its start to its end at 20.
func TestStartWithinTheLog(t *testing.T) {
	t.Parallel()
	ours := func(next int64) fence.Committed { return fence.Committed{Next: next, Nonce: 1, Sequence: 2} }
	person := func(next int64) fence.Committed { return fence.Committed{Next: next} }
	resume, rebuilds := Start{LogStart: true}, Start{Rebuild: true}
	for _, c := range []struct {
		name      string
		c         fence.Committed
		p         int64 // -1: none
		first     int64
		head      int64 // of the snapshot log, which began at 0
		policy    Start
		unfenced  bool
		stateless bool
		verdict   verdict
		start     int64
		gone      int64
		stops     error
	}{
		{name: "at the start of the log", c: ours(7), p: 7, first: 7, verdict: begin, start: 7, gone: -1},
		{name: "at its end", c: ours(20), p: 20, first: 20, verdict: begin, start: 20, gone: -1},
		{name: "below the start", c: ours(7), p: 7, first: 8, stops: stream.ErrTruncated},
		{name: "below the start, resume", c: ours(7), p: 7, first: 8, policy: resume, verdict: begin, start: 8, gone: 7},
		{name: "below the start, rebuild", c: ours(7), p: 7, first: 8, policy: rebuilds, verdict: rebuild, gone: -1},
		{name: "below the start, adopt empty with snapshots", c: ours(7), p: 7, first: 8, policy: Start{AdoptEmpty: true}, stops: stream.ErrTruncated},
		{name: "below the start, adopt empty", c: person(7), p: -1, first: 8, policy: Start{AdoptEmpty: true}, verdict: begin, start: 8, gone: 7},
		{name: "below the start, adopt what is left of the snapshots", c: ours(7), p: 7, first: 8, head: 3, policy: Start{AdoptRemaining: true}, verdict: begin, start: 8, gone: 7},
		{name: "below the start, and snapshots are lost, resume", c: ours(7), p: 7, first: 8, head: 3, policy: resume, stops: stream.ErrSnapshotsLost},
		{name: "not known", c: ours(7), p: 7, first: -1, verdict: begin, start: 7, gone: -1},
		{name: "past the end", c: ours(21), p: 21, first: 0, stops: stream.ErrTruncated},
		{name: "past the end, resume", c: ours(21), p: 21, first: 0, policy: resume, stops: stream.ErrTruncated},
		{name: "past the end, rebuild", c: ours(21), p: 21, first: 0, policy: rebuilds, verdict: rebuild, gone: -1},
		{name: "reset forward to the start", c: person(8), p: 7, first: 8, stops: stream.ErrOffsetMismatch},
		{name: "reset forward to the start, resume", c: person(8), p: 7, first: 8, policy: resume, verdict: begin, start: 8, gone: 7},
		{name: "reset forward past the start, resume: what is between is there", c: person(9), p: 7, first: 8, policy: resume, stops: stream.ErrOffsetMismatch},
		{name: "reset forward, and nothing is gone, resume", c: person(9), p: 7, first: 7, policy: resume, stops: stream.ErrOffsetMismatch},
		{name: "snapshots lost, and what they lack, resume", c: ours(8), p: 5, first: 8, policy: resume, verdict: begin, start: 8, gone: 5},
		{name: "no offset, and the snapshots' is gone", c: person(-1), p: 7, first: 8, stops: stream.ErrOffsetMismatch},
		{name: "no offset, and the snapshots' is gone, resume", c: person(-1), p: 7, first: 8, policy: resume, verdict: begin, start: 8, gone: 7},
		{name: "no offset, and the snapshots' is there, resume", c: person(-1), p: 7, first: 7, policy: resume, stops: stream.ErrOffsetMismatch},
		{name: "Unfenced, the snapshots have what is gone", c: person(6), p: 9, first: 8, unfenced: true, verdict: begin, start: 8, gone: -1},
		{name: "Unfenced, the snapshots lack some of it", c: person(6), p: 7, first: 8, unfenced: true, stops: stream.ErrTruncated},
		{name: "a pipe, set by a person below the start", c: person(7), p: 9, first: 8, stateless: true, stops: stream.ErrTruncated},
		{name: "a pipe, set by a person past the end", c: person(21), p: 9, first: 8, stateless: true, stops: stream.ErrTruncated},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := witnesses{committed: c.c, stateless: c.stateless, log: extent{c.first, 20}, head: head{start: c.head}}
			if c.p >= 0 {
				w.progress = &fence.Progress{Inputs: []fence.InputProgress{{Next: c.p}}, Nonce: 1, Sequence: 2}
			}
			j := within(w, c.policy, !c.unfenced, false)
			if c.stops != nil {
				e := (*stream.Error)(nil)
				if !errors.Is(j.err, c.stops) || !errors.As(j.err, &e) || e.Hint == "" {
					t.Errorf("I2: %+v, want a stop with %v and a hint", j, c.stops)
				}
				return
			}
			if !j.skips {
				j.gone = -1
			}
			if j.err != nil || j.verdict != c.verdict || j.start != c.start || j.gone != c.gone {
				t.Errorf("I2: %+v, want verdict %d at %d, passing over what is from %d on", j, c.verdict, c.start, c.gone)
			}
		})
	}
}
