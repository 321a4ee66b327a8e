package member_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/snapshot"
	"github.com/holdfast-go/holdfast/stream"
)

// offsets watches the requests that commit an offset outside a transaction.
func (p *place) offsets() func() []kmsg.OffsetCommitRequest {
	var mu sync.Mutex
	var sent []kmsg.OffsetCommitRequest
	p.cluster.ControlKey(int16(kmsg.OffsetCommit), func(req kmsg.Request) (kmsg.Response, error, bool) {
		p.cluster.KeepControl()
		mu.Lock()
		defer mu.Unlock()
		sent = append(sent, *req.(*kmsg.OffsetCommitRequest))
		return nil, nil, false
	})
	return func() []kmsg.OffsetCommitRequest {
		mu.Lock()
		defer mu.Unlock()
		return append([]kmsg.OffsetCommitRequest(nil), sent...)
	}
}

// progressed is how far the newest progress record says that the input is folded, -1 if there is none.
func (p *place) progressed() int64 {
	p.t.Helper()
	next := int64(-1)
	_, err := snapshot.Restore(p.t.Context(), snapshot.RestoreConfig{Client: p.cl, Topic: states, Each: func(r stream.Record) error {
		if !fence.IsProgressKey(r.Key) {
			return nil
		}
		progress, err := fence.DecodeProgress(r.Value)
		if err == nil {
			next = progress.Inputs[0].Next
		}
		return err
	}})
	p.must(err)
	return next
}

// Nothing binds what an Unfenced commit writes together but its order: the snapshots are acknowledged,
// then the progress record is, then the offset is sent. Each is refused once, and what comes behind it must
// not have left. An offset ahead of its snapshots has the next owner pass over records that no state has.
func TestUnfencedOffsetIsTheLastWrite(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name             string
		refused          int // which request with snapshots or progress, from 1, and all behind it; 0: none
		stored           string
		progress, offset int64
	}{
		{"the snapshot is refused", 1, "1", 1, 1},
		{"the progress record is refused", 2, "2", 1, 1},
		{"nothing is refused", 0, "2", 2, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			p.produce("k", 1)
			conf := p.config()
			conf.Guarantee = holdfast.Unfenced
			p.must(until(p, conf, 1))
			p.produce("k", 1)
			arrived := 0
			var refusal *kfake.FaultHandle
			p.cluster.ControlKey(int16(kmsg.Produce), func(kmsg.Request) (kmsg.Response, error, bool) {
				p.cluster.KeepControl()
				if arrived++; arrived == c.refused {
					refusal = p.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: states, Err: kerr.TopicAuthorizationFailed, Count: -1})
				}
				return nil, nil, false
			})
			offsets := p.offsets()
			err := until(p, conf, 2)
			if (err != nil) != (c.refused != 0) {
				t.Fatalf("I1: the run ended with %v", err)
			}
			if refusal != nil {
				refusal.Remove()
			}
			sent := int64(1)
			for _, r := range offsets() {
				sent = max(sent, r.Topics[0].Partitions[0].Offset)
			}
			if stored, progress := p.stored()["k"], p.progressed(); stored != c.stored || progress != c.progress || sent != c.offset {
				t.Errorf("I1: snapshot %q, progress %d and offset %d have left, want %q, %d and %d", stored, progress, sent, c.stored, c.progress, c.offset)
			}
		})
	}
}

// An Unfenced offset leaves under the generation of its member, and a generation that was refused does not
// leave again. A group whose members are all gone takes an offset of generation -1 from anybody.
func TestUnfencedTokenOnTheWire(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.produce("k", 1)
	conf := p.config()
	conf.Guarantee = holdfast.Unfenced
	p.must(until(p, conf, 1))
	p.produce("k", 1)
	offsets := p.offsets()
	p.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.OffsetCommit}, Err: kerr.IllegalGeneration, Count: 1})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	conf.Hooks = []holdfast.Hooks{{Restored: func(stream.Restored) {
		// The generation that was refused passes with a rebalance, which the group asks for.
		p.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Heartbeat}, Err: kerr.RebalanceInProgress, Count: 1, When: func(kmsg.Request) bool {
			return ctx.Err() == nil && len(offsets()) > 0
		}})
	}}}
	p.must(until(p, conf, 2))
	sent := offsets()
	for i, r := range sent {
		if again := i > 0 && r.Generation == sent[0].Generation; again || r.Generation < 0 || r.MemberID != sent[0].MemberID || r.MemberID == "" {
			t.Errorf("I8: offset %d of %d left under %q, generation %d; generation %d was refused", i, len(sent), r.MemberID, r.Generation, sent[0].Generation)
		}
	}
	if len(sent) < 2 {
		t.Errorf("%d offsets have left: none was refused", len(sent))
	}
}

// In a rebalance the group refuses the offsets of a member that has joined and has no assignment yet. The
// generation is right, and no other one comes: the same offset goes again under it.
func TestUnfencedCommitInARebalance(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.produce("k", 1)
	conf := p.config()
	conf.Guarantee = holdfast.Unfenced
	p.must(until(p, conf, 1))
	p.produce("k", 1)
	offsets := p.offsets()
	p.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.OffsetCommit}, Err: kerr.RebalanceInProgress, Count: 2})
	var ended int
	conf.Hooks = []holdfast.Hooks{{Lost: func(stream.Released) { ended++ }}}
	conf.Member.SessionTimeout, conf.Member.RebalanceTimeout = time.Second, 3*time.Second
	p.must(until(p, conf, 2))
	if n := len(offsets()); n != 3 || ended != 0 {
		t.Errorf("I7: %d offsets have left, want 3, and the ownership was lost %d times", n, ended)
	}
}
