package member

import (
	"errors"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/stream"
)

func TestDecideCommittedAgainstProgress(t *testing.T) {
	t.Parallel()
	progress := func(next int64, nonce, sequence uint64) *fence.Progress {
		return &fence.Progress{Inputs: []fence.InputProgress{{Next: next}}, Nonce: nonce, Sequence: sequence}
	}
	committed := func(next int64, nonce, sequence uint64) fence.Committed {
		return fence.Committed{Next: next, Nonce: nonce, Sequence: sequence}
	}
	none := fence.Committed{Next: -1}
	for _, c := range []struct {
		name     string
		w        witnesses
		policy   Start
		unfenced bool
		torn     bool
		verdict  verdict
		start    int64
		stops    bool
	}{
		{name: "none, none, empty: a new flow", w: witnesses{committed: none, snapshotEmpty: true}, verdict: beginNew},
		{name: "none, none, empty, rebuild: a new flow all the same", w: witnesses{committed: none, snapshotEmpty: true}, policy: Start{Rebuild: true}, verdict: beginNew},
		{name: "none, none, not empty: foreign", w: witnesses{committed: none}, stops: true},
		{name: "none, p: stop", w: witnesses{committed: none, progress: progress(7, 1, 1)}, stops: true},
		{name: "none, p, resume", w: witnesses{committed: none, progress: progress(7, 1, 1)}, policy: Start{Resume: true}, verdict: begin, start: 7},
		{name: "none, p, rebuild", w: witnesses{committed: none, progress: progress(7, 1, 1)}, policy: Start{Rebuild: true}, verdict: rebuild},
		{name: "none, p, adopt-empty does not apply", w: witnesses{committed: none, progress: progress(7, 1, 1)}, policy: Start{AdoptEmpty: true}, stops: true},
		{name: "c, none: stop", w: witnesses{committed: committed(7, 0, 0), snapshotEmpty: true}, stops: true},
		{name: "c, none, adopt empty", w: witnesses{committed: committed(7, 0, 0), snapshotEmpty: true}, policy: Start{AdoptEmpty: true}, verdict: begin, start: 7},
		{name: "c, none, rebuild", w: witnesses{committed: committed(7, 0, 0), snapshotEmpty: true}, policy: Start{Rebuild: true}, verdict: rebuild},
		{name: "c = p", w: witnesses{committed: committed(7, 1, 2), progress: progress(7, 1, 2)}, verdict: begin, start: 7},
		{name: "c = p, reset by hand", w: witnesses{committed: committed(7, 0, 0), progress: progress(7, 1, 2)}, verdict: begin, start: 7},
		{name: "c = p, of the Unfenced guarantee", w: witnesses{committed: committed(7, 0, 0), progress: progress(7, 0, 5)}, verdict: begin, start: 7},
		{name: "none, p, Unfenced, torn first commit: start at p", w: witnesses{committed: none, progress: progress(7, 0, 1)}, unfenced: true, verdict: begin, start: 7},
		{name: "none, p, Unfenced, later: stop", w: witnesses{committed: none, progress: progress(7, 0, 2)}, unfenced: true, stops: true},
		{name: "none, p, fenced, first commit: stop", w: witnesses{committed: none, progress: progress(7, 3, 1)}, stops: true},
		{name: "c < p, reset by hand", w: witnesses{committed: committed(6, 0, 0), progress: progress(7, 1, 2)}, verdict: lookAgain},
		{name: "c = p, another nonce", w: witnesses{committed: committed(7, 1, 2), progress: progress(7, 9, 2)}, verdict: lookAgain},
		{name: "c = p, another sequence", w: witnesses{committed: committed(7, 1, 2), progress: progress(7, 1, 3)}, verdict: lookAgain},
		{name: "c < p", w: witnesses{committed: committed(6, 1, 2), progress: progress(7, 1, 3)}, verdict: lookAgain},
		{name: "c < p, torn commits: start at p", w: witnesses{committed: committed(6, 1, 2), progress: progress(7, 1, 3)}, torn: true, verdict: begin, start: 7},
		{name: "c < p, Unfenced: start at c", w: witnesses{committed: committed(6, 0, 0), progress: progress(7, 0, 3)}, unfenced: true, verdict: begin, start: 6},
		{name: "c > p: stop", w: witnesses{committed: committed(8, 1, 2), progress: progress(7, 1, 1)}, stops: true},
		{name: "c > p, Unfenced: stop", w: witnesses{committed: committed(8, 1, 2), progress: progress(7, 1, 1)}, unfenced: true, stops: true},
		{name: "c > p, torn commits: stop", w: witnesses{committed: committed(8, 1, 2), progress: progress(7, 1, 1)}, torn: true, stops: true},
		{name: "c > p, rebuild", w: witnesses{committed: committed(8, 1, 2), progress: progress(7, 1, 1)}, policy: Start{Rebuild: true}, verdict: rebuild},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			v, start, err := decide(c.w, c.policy, !c.unfenced, c.torn)
			if c.stops {
				if !errors.Is(err, stream.ErrOffsetMismatch) {
					t.Fatalf("I1: error %v, want one that is ErrOffsetMismatch", err)
				}
				e := (*stream.Error)(nil)
				if !errors.As(err, &e) || e.Hint == "" {
					t.Fatalf("error %v has no hint", err)
				}
				return
			}
			if err != nil || v != c.verdict || start != c.start {
				t.Fatalf("verdict %v at %d, error %v; want %v at %d", v, start, err, c.verdict, c.start)
			}
		})
	}
}

// The two differences that stay are told apart: each has another cause and another remedy.
func TestDisagreementSaysWhich(t *testing.T) {
	t.Parallel()
	p := &fence.Progress{Inputs: []fence.InputProgress{{Next: 7}}, Nonce: 1, Sequence: 3}
	for _, c := range []struct {
		name      string
		committed fence.Committed
		says, not string
	}{
		{"behind", fence.Committed{Next: 6, Nonce: 1, Sequence: 2}, "offset 6 is behind the snapshots' 7", "transactions"},
		{"another commit", fence.Committed{Next: 7, Nonce: 9, Sequence: 4}, "both at 7, but were written by two transactions", "behind"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			err := disagreement(witnesses{committed: c.committed, progress: p})
			if !errors.Is(err, stream.ErrOffsetMismatch) || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), c.not) {
				t.Errorf("error %q, want %q in it and not %q", err, c.says, c.not)
			}
		})
	}
}
