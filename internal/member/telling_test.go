package member

import (
	"slices"
	"sync"
	"testing"
	"testing/synctest"
)

// A takeover behind the callback tells of the grant just as the ownership ends: whoever counts what is owned
// must not be told of a grant that has no end.
func TestNothingIsToldAfterTheEnd(t *testing.T) {
	t.Parallel()
	var told []string
	say := func(what string) func() { return func() { told = append(told, what) } }
	var one telling
	one.next(say("assigned"))
	one.last(say("lost"))
	one.last(say("revoked"))
	one.next(say("assigned late"))
	if !slices.Equal(told, []string{"assigned", "lost"}) {
		t.Errorf("I6: told %q", told)
	}
}

// The end does not wait for a hook that is under way, and is told behind it.
func TestEndIsToldBehindTheGrant(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var told []string
		var one telling
		returned := make(chan struct{})
		var wg sync.WaitGroup
		wg.Go(func() {
			one.next(func() {
				<-returned
				told = append(told, "assigned")
			})
		})
		synctest.Wait()
		one.last(func() { told = append(told, "lost") })
		if len(told) > 0 {
			t.Errorf("I6: told %q while the hook of the grant is under way", told)
		}
		close(returned)
		wg.Wait()
		if !slices.Equal(told, []string{"assigned", "lost"}) {
			t.Errorf("I6: told %q", told)
		}
	})
}
