package fence

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/holdfast-go/holdfast/internal/rule"
	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/stream"
)

// The tests of this file are about what leaves the process, and in which order.

// R1: the offset is the last write before the end. Sent first it may be accepted in time, while the records
// behind it are refused or never sent, and another owner reads in between.
func TestOffsetIsTheLastWrite(t *testing.T) {
	t.Parallel()
	r := newRecorder()
	w := fakeWriter(t, r, newFakeSession().grant(), 3)
	writeAll(t, w, 1)
	r.mu.Lock()
	defer r.mu.Unlock()
	want := []string{"open", "begin", "produce", "offset", "commit"}
	if !slices.Equal(r.calls, want) {
		t.Errorf("I1: the transaction is %s, want %s", strings.Join(r.calls, ", "), strings.Join(want, ", "))
	}
}

// R1: a record that is refused is noticed, whatever became of the others of its transaction.
func TestRefusedOutputIsNotCommittedOver(t *testing.T) {
	t.Parallel()
	cluster, p := fakeCluster(t, kfake.SeedTopics(1, "out"))
	m := join(t, p, Session{})
	w, _ := openWriter(t, p.config(t, m.granted(t)))
	ctx := testContext(t)
	if err := w.Commit(ctx, Offset{1, -1}, put("k", "1")); err != nil {
		t.Fatal(err)
	}
	cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: "out", Err: kerr.InvalidRecord})
	err := w.Commit(ctx, Offset{2, -1}, put("k", "2"), stream.Message{Topic: "out", Key: []byte("k"), Value: []byte("2")})
	if err == nil {
		t.Error("I4: the offset 2 is committed, and the output of its record was refused")
	}
}

// I8: what leaves has the grant's member id and the generation of this moment, which the group checks.
func TestTokenOnTheWire(t *testing.T) {
	t.Parallel()
	cluster, p := fakeCluster(t, kfake.SeedTopics(2, testInput, testProgress))
	var mu sync.Mutex
	var sent []Token
	cluster.ControlKey(int16(kmsg.TxnOffsetCommit), func(req kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		mu.Lock()
		defer mu.Unlock()
		r := req.(*kmsg.TxnOffsetCommitRequest)
		sent = append(sent, Token{MemberID: r.MemberID, Generation: r.Generation})
		return nil, nil, false
	})
	m := join(t, p, Session{}, kgo.Balancers(kgo.CooperativeStickyBalancer()))
	o := m.granted(t)
	w, _ := openWriter(t, p.config(t, o))
	if err := w.Commit(testContext(t), Offset{1, -1}, put("k", "1")); err != nil {
		t.Fatal(err)
	}
	want := Token{}
	want.MemberID, want.Generation = m.client.GroupMetadata()
	mu.Lock()
	defer mu.Unlock()
	if len(sent) == 0 {
		t.Fatal("no offset was sent")
	}
	for _, got := range sent {
		if got != want || got.Generation < 0 || got.MemberID == "" {
			t.Errorf("I8: an offset left under %+v, the group has %+v", got, want)
		}
	}
}

// The offset that Open returns is the last one that anybody but the new owner commits: an owner before it
// has its offset accepted by the group, and ends its transaction only then. Either the takeover has ended
// that transaction, or the stable fetch has waited for it.
func TestOffsetOfOpenIsTheLast(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		off  []rule.Name
		torn bool
	}{
		{"both rules", nil, false},
		{"no takeover", []rule.Name{rule.Takeover}, false},
		{"neither", []rule.Name{rule.Takeover, rule.StableFetch}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			_, p := fakeCluster(t)
			m := join(t, p, Session{})
			o := m.granted(t)
			stale := zombie(t, p, "k")
			bindStale(t, p, stale, o, 5)
			network := newTap()
			p.txn = network.config(p.k)
			conf := p.config(t, o)
			opened := make(chan Committed, 1)
			failed := make(chan error, 1)
			ctx, cancel := context.WithCancel(rule.Without(testContext(t), c.off...))
			defer cancel()
			go func() {
				w, found, err := Open(ctx, conf)
				if err != nil {
					failed <- err
					return
				}
				defer closeWriter(t, w)
				opened <- found
			}()
			for looking := time.NewTicker(time.Millisecond); len(opened)+len(failed) == 0 && network.count(kmsg.OffsetFetch) < 2; <-looking.C {
			}
			ended := stale.EndTransaction(ctx, kgo.TryCommit) // refused, if the takeover was first
			var found Committed
			select {
			case found = <-opened:
			case err := <-failed:
				t.Fatal(err)
			}
			now, err := wire.FetchOffset(ctx, testClient(t, p.k), p.group, wire.Member{}, o.Partition(), conf.InputTopicID)
			if err != nil {
				t.Fatal(err)
			}
			if torn := now.Next != found.Next; torn && !c.torn {
				t.Errorf("I1: Open found the offset %d, and the owner before committed %d after that (%v)", found.Next, now.Next, ended)
			} else if c.torn && !torn {
				t.Errorf("the rules make no difference: found %d, committed %d", found.Next, now.Next)
			}
		})
	}
}

// bindStale adds an offset to the open transaction of a client, as the owner that it once was.
func bindStale(t *testing.T, p place, cl *kgo.Client, o *Ownership, next int64) {
	t.Helper()
	id, epoch, err := cl.ProducerID(testContext(t))
	if err != nil {
		t.Fatal(err)
	}
	token, err := o.Token(testContext(t))
	if err != nil {
		t.Fatal(err)
	}
	err = wire.BindOffset(testContext(t), cl, wire.Binding{
		TransactionalID: p.id(0), ProducerID: id, ProducerEpoch: epoch, Group: p.group,
		MemberID: token.MemberID, Generation: token.Generation, Input: o.Partition(), TopicID: topicID(t, p.k, p.input), Next: next, LeaderEpoch: -1,
	}, false)
	if err != nil {
		t.Fatal(err)
	}
}
