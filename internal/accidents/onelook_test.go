package accidents

import (
	"errors"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/wiretap"
	"github.com/holdfast-go/holdfast/stream"
)

// asksForOffset matches the fetches of a stable committed offset.
func asksForOffset(r wiretap.Request) bool {
	req, err := r.Decoded()
	if err != nil {
		return false
	}
	fetch, ok := req.(*kmsg.OffsetFetchRequest)
	return ok && fetch.RequireStable
}

// noOffset is the answer of a coordinator that was cut off before there was an offset.
func noOffset(resp kmsg.Response) error {
	fetch, ok := resp.(*kmsg.OffsetFetchResponse)
	if !ok || len(fetch.Groups) == 0 {
		return errors.New("no answer to one fetch of offsets")
	}
	for i := range fetch.Groups {
		for j := range fetch.Groups[i].Topics {
			for k := range fetch.Groups[i].Topics[j].Partitions {
				p := &fetch.Groups[i].Topics[j].Partitions[k]
				p.Offset, p.LeaderEpoch, p.Metadata = -1, -1, nil
			}
		}
	}
	return nil
}

// The snapshot topic, or a pipe's progress topic, was deleted and is made again by the component itself, and one
// fetch of the offset is answered that there is none. That is no new flow: nothing is folded or written again.
// At one look it began anew (FencedOutputs and a pipe wrote all outputs twice, a flow at Latest skipped what had
// come meanwhile).
func TestKafkaOffsetIsMissingInOneAnswer(t *testing.T) {
	for name, where := range map[string]holdfast.Position{"earliest": holdfast.Earliest, "latest": holdfast.Latest} {
		t.Run(name, func(t *testing.T) {
			each(t, 1, func(t *testing.T, l *lab) {
				l.ten()
				l.produce(0, 10, 15)
				l.remove(l.progress())
				tap := tapOf(t, l.k)
				one := tap.Rewrite(wiretap.First(1, asksForOffset), noOffset)
				t.Cleanup(one.Lift)
				l.position = where
				r := l.start("at one answer", dialer(tap))
				named(t, r.failure(), stream.ErrOffsetMismatch, "has committed offset 10", "no progress record")
				caught(t, one, 1)
				if l.kind == copies {
					l.reset(10)
					l.position = holdfast.Earliest // where the outputs of the first run began
					l.verdict(nil, l.finish(10, 15))
				}
			})
		})
	}
}

// A pipe replaces another client in its group, and one fetch of the offset is answered that there is none. It goes
// on where that client was.
func TestKafkaPipeTakesAGroupOverAtOneAnswer(t *testing.T) {
	t.Parallel()
	l := newShared(t, copies, 1)
	l.produce(0, 0, 10)
	l.reset(4)
	tap := tapOf(t, l.k)
	one := tap.Rewrite(wiretap.First(1, asksForOffset), noOffset)
	t.Cleanup(one.Lift)
	r := l.start("pipe", dialer(tap))
	if e := await(r, 0, any1[stream.Restored]); e.Start != 4 {
		t.Errorf("it begins at %d, and the group has committed 4", e.Start)
	}
	caught(t, one, 1)
	r.committedTo(0, 10)
	r.end()
}
