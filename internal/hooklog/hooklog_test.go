package hooklog

import (
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/stream"
)

// What a member tells as the last thing before it ends is found, however late one looks; Revoked and Lost
// are told apart, and a mark hides what came before it.
func TestAwaitFindsWhatWasToldBeforeTheEnd(t *testing.T) {
	t.Parallel()
	done := make(chan struct{})
	l := New(t, Member{Name: "m", Done: done, Err: func() error { return nil }, Patience: time.Minute})
	h := l.Hooks()
	h.Lost(stream.Released{Ownership: 1})
	mark := l.Mark()
	go func() {
		h.Revoked(stream.Released{Ownership: 2})
		close(done)
	}()
	if e := Await(l, mark, func(Revoked) bool { return true }); e.Ownership != 2 {
		t.Errorf("ownership %d was revoked, want 2", e.Ownership)
	}
	if n := len(All[Lost](l, mark)); n != 0 {
		t.Errorf("%d losses after the mark", n)
	}
	if n := len(All[Lost](l, 0)); n != 1 {
		t.Errorf("%d losses, want 1", n)
	}
}
