package protocols

import (
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/holdfast-go/holdfast/holdfasttest"
	"github.com/holdfast-go/holdfast/internal/kafkatest"
	"github.com/holdfast-go/holdfast/internal/trial"
	"github.com/holdfast-go/holdfast/internal/wiretap"
)

// given is how a member tells the group on the wire that it has given partitions up.
func given(protocol string) func(wiretap.Request) bool {
	return func(r wiretap.Request) bool {
		req, err := r.Decoded()
		if err != nil {
			return false
		}
		switch req := req.(type) {
		case *kmsg.JoinGroupRequest:
			return true
		case *kmsg.ConsumerGroupHeartbeatRequest:
			held := 0
			for _, topic := range req.Topics {
				held += len(topic.Partitions)
			}
			return protocol == serverSide && req.Topics != nil && held < 2
		}
		return false
	}
}

// What was folded is committed in the revoke, under the token that was read when it began, before the group
// is told that the partitions are given up: all of them under Eager, those that go under the others. The
// brokers take it.
func TestKafkaRevokeCommits(t *testing.T) {
	for _, protocol := range []string{cooperative, eager, serverSide} {
		t.Run(protocol, func(t *testing.T) {
			if !nightly() && protocol == cooperative {
				t.Skip("set HOLDFAST_NIGHTLY=1")
			}
			serves(t, protocol)
			t.Parallel()
			testRevokeCommits(t, protocol)
		})
	}
}

func testRevokeCommits(t *testing.T, protocol string) {
	// Nothing is committed by itself but what a record asks for.
	f := trial.New(t, kafkatest.Start(t), trial.App{Kind: trial.Flow, Protocol: protocol, Commit: time.Hour, Persist: time.Hour}, 2)
	one, two := f.Member("one"), f.Member("two")
	one.Start()
	f.Await("both partitions", 0, 2, one.Is(trial.Kinds(holdfasttest.EventRestored)))
	f.SendTo(0, 1) // 0 asks for nothing
	f.SendTo(1, 1) // 1 asks to be persisted
	f.Await("what a record has asked for", 0, 1, one.Is(trial.CommittedTo(1, 1)))
	f.SendTo(1, 1) // 2 asks for nothing

	commits, atGiving := newCounter(), newOnce()
	one.Tap.OnResponse(func(_ wiretap.Request, resp kmsg.Response) {
		if wiretap.FirstCode(resp) == 0 {
			commits.add()
		}
	}, kmsg.TxnOffsetCommit)
	gives := given(protocol)
	one.Tap.OnRequest(func(r wiretap.Request) {
		if gives(r) {
			atGiving.set(commits.count())
		}
	})
	mark, goes := f.Mark(), 1
	if protocol == eager {
		goes = 2
	}
	two.Start()
	revoked := f.Await("what one gives up", mark, goes, one.Is(trial.Kinds(holdfasttest.EventRevoked)))
	two.Owns()
	for _, e := range revoked {
		if !e.Final {
			t.Errorf("partition %d went without a commit: %+v", e.Partition, e)
		}
	}
	if n := atGiving.wait(f); protocol == eager && n < goes {
		t.Errorf("%d commits were taken when the group was told, want %d", n, goes)
	}
	if n := one.Refusals.Count(); n > 0 {
		t.Errorf("brokers have refused %v", one.Refusals.All())
	}
	if len(revoked) != goes {
		t.Errorf("%d partitions were given up, want %d: %+v", len(revoked), goes, revoked)
	}
	f.Verify() // the end of the members commits what is left
}

// once keeps the first number that it is given.
type once struct {
	do  sync.Once
	got chan int
}

func newOnce() *once { return &once{got: make(chan int, 1)} }

func (o *once) set(n int) { o.do.Do(func() { o.got <- n }) }

func (o *once) wait(f *trial.Field) int {
	f.TB.Helper()
	select {
	case n := <-o.got:
		return n
	case <-time.After(f.Patience):
		f.TB.Fatal("the group was never told")
		return 0
	}
}
