//go:build synctests

package virtual

import (
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/holdfasttest"
)

// claimed leaves out of what was found what Unfenced does not claim. Its schedules have none of the faults that are there
// to make a stale owner. One comes about all the same, rarely, where a coordinator and the leader of a partition move
// one after the other:
//
//  1. A member's snapshot waits for the new leader. The group, at its new coordinator, goes on without the member.
//  2. Another one takes over, and folds on.
//  3. The snapshot lands behind the new owner's, and the offset after it is refused: the member is unknown.
//
// So a state that goes back is none of its claims in the partition in which a member met that refusal. A fenced run is
// judged by all that is found.
func (r *run) claimed(h holdfasttest.History, found []holdfasttest.Violation) (of []holdfasttest.Violation) {
	if r.s.Pipe || r.s.Guarantee != holdfast.Unfenced {
		return found
	}
	stale := map[int32]bool{}
	for _, m := range h.Members {
		for _, e := range m.Events {
			if e.Kind == holdfasttest.EventLost && strings.Contains(e.Cause, kerr.UnknownMemberID.Message) {
				stale[e.Partition.Partition] = true
			}
		}
	}
	for _, v := range found {
		if v.Invariant == "I2" && stale[v.Partition.Partition] {
			r.states.saw("stale owner without a fence")
			continue
		}
		of = append(of, v)
	}
	return of
}
