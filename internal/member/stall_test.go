package member

import (
	"testing"
	"time"
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
