package member

import (
	"errors"
	"testing"

	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/stream"
)

// R28: what a partition without offset and progress has of a past makes the look longer. It is refused where only a
// loss explains what there is.
func TestSignsOfAPast(t *testing.T) {
	t.Parallel()
	other := stream.Partition{Topic: "in", Partition: 3}
	none := signs{own: -1}
	with := func(change func(*signs)) signs { s := none; change(&s); return s }
	for _, c := range []struct {
		name    string
		s       signs
		looks   int
		refused bool
	}{
		{"none", none, shortLooks, false},
		{"its id was initialised before", with(func(s *signs) { s.tookOver = true }), looks, false},
		{"others have offsets", with(func(s *signs) { s.offsets = 2 }), looks, false},
		{"others have records", with(func(s *signs) { s.written = 2 }), looks, false},
		{"not all could be asked for", with(func(s *signs) { s.unasked = errors.New("no answer") }), looks, false},
		{"another client is told an offset", with(func(s *signs) { s.own = 0 }), looks, true},
		{"another has an offset of ours and no progress", with(func(s *signs) { s.offsets, s.bare = 1, &other }), looks, true},
	} {
		w := &worker{}
		f := found{witnesses: witnesses{committed: fence.Committed{Next: -1}, snapshotEmpty: true}}
		if got := w.needs(f, judgement{verdict: beginNew}, c.s); got != c.looks {
			t.Errorf("%s: %d looks, want %d", c.name, got, c.looks)
		}
		for _, stateless := range []bool{false, true} {
			err := c.s.refused(witnesses{stateless: stateless, group: "g", input: other})
			if (err != nil) != c.refused || err != nil && !errors.Is(err, stream.ErrOffsetMismatch) {
				t.Errorf("%s: %v, refused: %t", c.name, err, c.refused)
			}
		}
	}
}

// R28: two witnesses of one commit are enough at the first look, and nothing else is.
func TestLooksThatAJudgementTakes(t *testing.T) {
	t.Parallel()
	at := func(c, p int64) found {
		f := found{witnesses: witnesses{committed: fence.Committed{Next: c}}}
		if p >= 0 {
			f.progress = &fence.Progress{Inputs: []fence.InputProgress{{Next: p}}}
		}
		return f
	}
	for _, c := range []struct {
		name string
		f    found
		j    judgement
		want int
	}{
		{"c = p", at(7, 7), judgement{verdict: begin, start: 7}, 1},
		{"c < p, Unfenced", at(6, 7), judgement{verdict: begin, start: 6}, 1},
		{"resume at progress", at(-1, 7), judgement{verdict: begin, start: 7}, shortLooks},
		{"adopt empty", at(7, -1), judgement{verdict: begin, start: 7}, shortLooks},
		{"a pipe at an offset of another client's", at(7, -1), judgement{verdict: begin, start: 7}, shortLooks},
		{"rebuild", at(7, 6), judgement{verdict: rebuild}, shortLooks},
		{"rebuild of a state that cannot be used", at(7, 7), judgement{verdict: rebuild, why: stream.ErrTruncated}, shortLooks},
		{"stop", at(7, 6), judgement{err: stream.ErrOffsetMismatch}, shortLooks},
		{"the input was truncated", at(7, 7), judgement{err: stream.ErrTruncated}, shortLooks},
		{"the input is another", at(7, 7), judgement{err: stream.ErrInputChanged}, shortLooks},
		{"a question that was not answered", at(7, 7), judgement{err: stream.ErrUnreachable}, 1},
		{"look again", at(6, 7), judgement{verdict: lookAgain}, 1},
		{"past the end of the log", at(7, 7), judgement{err: stream.ErrTruncated, past: true}, looks},
		{"past what is gone", at(7, 7), judgement{verdict: begin, start: 9, skips: true}, shortLooks},
	} {
		if got := (&worker{}).needs(c.f, c.j, signs{}); got != c.want {
			t.Errorf("%s: %d looks, want %d", c.name, got, c.want)
		}
	}
}
