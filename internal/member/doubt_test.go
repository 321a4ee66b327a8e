package member_test

import (
	"context"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/stream"
)

// R5: nothing is folded while the outcome of a transaction is unknown, and folding goes on once it is known:
// also where it was that of the commit with which a new flow begins, or a rebuild.
func TestDoubtOfAStartEnds(t *testing.T) {
	t.Parallel()
	for name, before := range map[string]func(*place, *holdfast.Config[int]){
		"a new flow": func(*place, *holdfast.Config[int]) {},
		"a rebuild": func(p *place, c *holdfast.Config[int]) {
			p.must(until(p, *c, 3))
			c.FoldVersion, c.Start.Disagreement = "2", holdfast.Rebuild
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			p.produce("k", 3)
			c := p.config()
			before(p, &c)
			unknown := p.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.EndTxn}, Err: kerr.UnknownServerError,
				When: func(req kmsg.Request) bool { return req.(*kmsg.EndTxnRequest).Commit }})
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			reached := make(chan struct{})
			c.Hooks = []holdfast.Hooks{{Committed: func(e stream.Committed) {
				if e.Next == 3 {
					close(reached)
					cancel()
				}
			}}}
			f, err := holdfast.New(c)
			p.must(err)
			p.must(f.Run(ctx))
			if unknown.Hits() != 1 {
				t.Fatalf("%d ends of transactions were unanswered, want 1", unknown.Hits())
			}
			select {
			case <-reached:
			default:
				t.Error("I7: the outcome of the start's commit is known, and nothing was folded on")
			}
			p.wantStored(map[string]string{"k": "3"})
		})
	}
}
