package member

import (
	"errors"
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
					t.Fatalf("error %v, want one that is ErrOffsetMismatch", err)
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
