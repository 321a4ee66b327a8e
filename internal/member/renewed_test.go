package member_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/codec"
	"github.com/holdfast-go/holdfast/stream"
)

// I7: a coordinator that was deposed and has not heard of it says once that it does not know the member. The
// member's own heartbeats reach the one that does, so that no callback ever tells of a loss: the partition stays
// assigned, and has to be granted anew all the same.
//
//  1. An ownership ends, its partition stays assigned, and the group is asked before the next grant.
//  2. The coordinator that is asked was stopped before the member joined, and wakes: UNKNOWN_MEMBER_ID.
//  3. The next request is answered NOT_COORDINATOR, and the one after it by the group.
func TestGrantedAnewAfterADeposedCoordinator(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.produce("k", 2)
	failed := false
	c := holdfast.Config[map[string]int]{
		Kafka: p.k, Group: "flow", Inputs: []string{input}, Codec: codec.JSON[map[string]int](),
		Member: holdfast.Member{HeartbeatInterval: 3 * time.Second},
		Commit: holdfast.Commit{Persist: time.Millisecond, Interval: time.Millisecond},
		Fold: func(_ context.Context, k *holdfast.Key[map[string]int], r stream.Record) error {
			s, ok := k.State()
			if !ok {
				s = map[string]int{}
			}
			s["n"]++
			if ok && !failed { // the state was changed in place: the ownership ends
				failed = true
				p.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Heartbeat}, Err: kerr.UnknownMemberID, Count: 1})
				return errors.New("once")
			}
			k.Set(s)
			return nil
		},
		OnError: func(context.Context, *stream.RecordError) stream.Action { return stream.Retry },
	}
	p.must(until(p, c, 2))
	p.wantStored(map[string]string{"k": `{"n":2}`})
}
