package member

import (
	"errors"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/stream"
)

// R26: what a start makes of a log whose head was deleted.
func TestDecideHeadOfTheLog(t *testing.T) {
	t.Parallel()
	at := func(c, p, start, recorded int64) witnesses {
		w := witnesses{committed: fence.Committed{Next: c, Nonce: 1, Sequence: 2}, snapshotEmpty: p < 0, head: head{start: start, recorded: recorded, keys: 3}}
		if c < 0 {
			w.committed = fence.Committed{Next: -1}
		}
		if p >= 0 {
			w.progress = &fence.Progress{Nonce: 1, Sequence: 2, Inputs: []fence.InputProgress{{Next: p}}}
		}
		return w
	}
	pipe := func(w witnesses) witnesses { w.stateless = true; return w }
	set := func(w witnesses) witnesses { w.committed.Nonce = 0; return w } // by a person, or another client
	moves := func(w witnesses) witnesses { w.head.moves = true; return w }
	remaining, rebuilds := Start{AdoptRemaining: true}, Start{Rebuild: true}
	for _, c := range []struct {
		name    string
		w       witnesses
		policy  Start
		verdict verdict
		start   int64
		lost    bool
	}{
		{name: "as it was", w: at(7, 7, 0, 0), verdict: begin, start: 7},
		{name: "as it was, above 0", w: at(7, 7, 9, 9), verdict: begin, start: 7},
		{name: "a broker that is behind", w: at(7, 7, 5, 9), verdict: begin, start: 7},
		{name: "risen", w: at(7, 7, 10, 9), lost: true},
		{name: "risen, rebuild", w: at(7, 7, 10, 9), policy: rebuilds, verdict: rebuild},
		{name: "risen, adopt", w: at(7, 7, 10, 9), policy: remaining, verdict: begin, start: 7},
		{name: "risen, and empty adopts nothing", w: at(7, 7, 10, 9), policy: Start{AdoptEmpty: true}, lost: true},
		{name: "an older record, at 0", w: at(7, 7, 0, -1), verdict: begin, start: 7},
		{name: "an older record, above 0", w: at(7, 7, 1, -1), lost: true},
		{name: "the progress went with it", w: at(7, -1, 9, -1), lost: true},
		{name: "the progress went with it, adopt", w: at(7, -1, 9, -1), policy: remaining, verdict: begin, start: 7},
		{name: "the progress went with it, rebuild", w: at(7, -1, 9, -1), policy: rebuilds, verdict: rebuild},
		{name: "all is gone", w: at(-1, -1, 9, -1), lost: true},
		{name: "all is gone, adopt", w: at(-1, -1, 9, -1), policy: remaining, verdict: beginNew},
		{name: "all is gone, rebuild", w: at(-1, -1, 9, -1), policy: rebuilds, verdict: rebuild},
		{name: "a new flow", w: at(-1, -1, 0, -1), policy: remaining, verdict: beginNew},
		{name: "a pipe's progress is there", w: pipe(at(7, 7, 10, 9)), verdict: begin, start: 7},
		{name: "a pipe's progress went with it", w: pipe(at(7, -1, 9, -1)), lost: true},
		{name: "a pipe's progress went with it, adopt", w: pipe(at(7, -1, 9, -1)), policy: remaining, verdict: begin, start: 7},
		{name: "a pipe's offset was set", w: pipe(set(at(7, -1, 9, -1))), verdict: begin, start: 7},
		{name: "a flow's offset was set", w: set(at(7, -1, 9, -1)), lost: true},
		{name: "an embedded broker", w: moves(at(7, 7, 10, 9)), verdict: begin, start: 7},
	} {
		v, start, err := decideHead(c.w, c.policy, true, false)
		if c.lost {
			hinted := (*stream.Error)(nil)
			if !errors.Is(err, stream.ErrSnapshotsLost) || !errors.As(err, &hinted) || !strings.Contains(hinted.Hint, "AdoptRemaining") || !strings.Contains(hinted.Hint, "Rebuild") {
				t.Errorf("%s: %v, want ErrSnapshotsLost with its ways out", c.name, err)
			}
			continue
		}
		if err != nil || v != c.verdict || start != c.start {
			t.Errorf("%s: verdict %d at %d, %v, want %d at %d", c.name, v, start, err, c.verdict, c.start)
		}
	}
}

// A start that was seen never falls, or an answer of a broker that is behind would be noted.
func TestKnownStartNeverFalls(t *testing.T) {
	t.Parallel()
	for want, h := range map[int64]head{9: {start: 5, recorded: 9}, 10: {start: 10, recorded: 9}, 0: {start: 0, recorded: -1}} {
		if got := h.known(); got != want {
			t.Errorf("%+v notes %d, want %d", h, got, want)
		}
	}
}
