//go:build synctests

package virtual

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/fence"
)

// I7 and R32: a member that the group gives no partition is answered all the same. It waits for as long as it
// takes, and takes over when the owner ends.
func TestSpareMemberWaits(t *testing.T) {
	t.Parallel()
	for _, protocol := range []fence.Protocol{fence.Cooperative, fence.Eager, fence.ServerSide} {
		t.Run(fmt.Sprint(protocol), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := setting{Guarantee: holdfast.FencedState, Member: holdfast.Member{Protocol: protocol}}
				prompt(&s)
				s.Member.Protocol = protocol
				w := newWorld(t, s, 1, newStates())
				w.send(few(20)...)
				owner := w.start("owner")
				w.committed(2 * time.Minute)
				spare := w.start("spare")
				for range 6 {
					time.Sleep(10 * time.Minute)
					for _, m := range []*member{owner, spare} {
						select {
						case <-m.done:
							t.Fatalf("I7: %s has ended: %v", m.name, m.err)
						default:
						}
					}
				}
				owner.asked = true
				owner.cancel()
				<-owner.done
				w.send(few(20)...)
				w.committed(2 * time.Minute)
				w.end()
				w.close()
			})
		})
	}
}
