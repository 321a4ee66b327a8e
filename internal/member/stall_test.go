package member

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/stream"
)

// A partition waits when its last stable offset stays below the end for longer than a transaction is ordinarily
// open; one that moves, or that is the end, is no stall.
func TestInputStallIsFound(t *testing.T) {
	t.Parallel()
	at := time.Now()
	var s inputStall
	for i, look := range []struct {
		after time.Duration
		ends  ends
		want  bool
	}{
		{0, ends{10, 10}, false},
		{10 * time.Second, ends{10, 12}, false},
		{19 * time.Second, ends{10, 13}, false},
		{20 * time.Second, ends{10, 13}, true},
		{30 * time.Second, ends{10, 400}, true},
		{40 * time.Second, ends{12, 400}, false}, // that one has ended, and the next is open
		{50 * time.Second, ends{12, 400}, true},
		{60 * time.Second, ends{400, 400}, false},
		{70 * time.Second, ends{400, 401}, false},
		{80 * time.Second, ends{401, 401}, false},
		{90 * time.Second, ends{400, 401}, false}, // of another leader: the time does not go on
	} {
		if got := s.looked(at.Add(look.after), look.ends); got != look.want {
			t.Errorf("I6: look %d, after %v, at %+v: a stall is %v, want %v", i, look.after, look.ends, got, look.want)
		}
	}
}

// A stall that is over is told once, to the log and to the hooks, however often the partition is looked at afterwards;
// and one that was not told is not told to be over.
func TestEndOfAnInputStallIsToldOnce(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	var told []stream.InputStalled
	m := &Member{hooks: []stream.Hooks{{InputStalled: func(e stream.InputStalled) { told = append(told, e) }}}}
	w := &worker{m: m, log: slog.New(slog.NewTextHandler(&log, nil))}
	s := &inputStall{since: time.Now().Add(-time.Minute)}
	m.goesOn(w, s)
	if len(told) > 0 || log.Len() > 0 {
		t.Errorf("I6: told %+v and logged %s of a stall that nobody heard of", told, &log)
	}
	s.told = &stream.InputStalled{Offset: 7}
	for range 3 {
		m.goesOn(w, s)
	}
	if len(told) != 1 || !told[0].Over || told[0].Offset != 7 || told[0].For < time.Minute {
		t.Errorf("I6: told %+v, want one end of the stall at 7", told)
	}
	if n := strings.Count(log.String(), "the input goes on"); n != 1 {
		t.Errorf("I6: logged %d times, want once: %s", n, &log)
	}
}
