package demo

import (
	"net"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"

	"github.com/holdfast-go/holdfast/devbroker"
	"github.com/holdfast-go/holdfast/internal/wiretap"
)

// refusedCommits is a member behind a tap: each call of the returned function sends a commit that the
// broker refuses, since the group does not know who sends it.
func refusedCommits(t *testing.T) (*tap, func()) {
	t.Helper()
	b, err := devbroker.Start(devbroker.Config{
		Listen: "127.0.0.1:0", Topics: []devbroker.Topic{{Name: "in", Partitions: 1}},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	tapped, err := newTap([]string{b.Addr()}, (&net.Dialer{}).DialContext)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := tapped.Close(); err != nil {
			t.Error(err)
		}
	})
	// Versions before those that name topics by id.
	cl, err := kgo.NewClient(kgo.SeedBrokers(b.Addr()), kgo.Dialer(wiretap.WithToken(tapped.token, tapped.Dialer())), kgo.MaxVersions(kversion.V3_0_0()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	return tapped, func() {
		t.Helper()
		before := tapped.refusals.Count()
		p := kmsg.NewOffsetCommitRequestTopicPartition()
		topic := kmsg.NewOffsetCommitRequestTopic()
		topic.Topic, topic.Partitions = "in", append(topic.Partitions, p)
		req := kmsg.NewPtrOffsetCommitRequest()
		req.Group, req.MemberID, req.Generation, req.Topics = "g", "nobody", 7, append(req.Topics, topic)
		answer, err := req.RequestWith(t.Context(), cl)
		if err != nil {
			t.Fatal(err)
		}
		if code := answer.Topics[0].Partitions[0].ErrorCode; wiretap.Stale(code) == nil {
			t.Fatalf("answered with code %d, want a refusal", code)
		}
		if err := tapped.refusals.Await(t.Context(), before+1); err != nil {
			t.Fatal(err)
		}
	}
}

// TestRefusalsOfStaleWriters: only what a stopped, killed or expelled member is refused shows that the
// fence works. Any rebalance can refuse what a rightful owner has on its way.
func TestRefusalsOfStaleWriters(t *testing.T) {
	t.Parallel()
	member, refuse := refusedCommits(t)
	for _, step := range []struct {
		name                    string
		happens                 func()
		stale, rightful, refuse int // refuse: so many commits are refused after it happened
	}{
		{"a rebalance", func() {}, 0, 1, 1},
		{"granted at a rebalance", member.granted, 0, 2, 1},
		{"stopped", func() { member.outlived(false) }, 2, 2, 2},
		{"said twice", func() { member.outlived(false) }, 3, 2, 1},
		{"a member again", member.granted, 3, 3, 1},
		{"stopped again", func() { member.outlived(false) }, 4, 3, 1},
		{"killed", func() { member.outlived(true) }, 5, 3, 1},
		{"an old report read after its death", member.granted, 6, 3, 1},
	} {
		step.happens()
		for range step.refuse {
			refuse()
		}
		stale, rightful := member.split()
		if len(stale) != step.stale || len(rightful) != step.rightful {
			t.Errorf("%s: %d refusals of a stale writer and %d of a rightful one, want %d and %d",
				step.name, len(stale), len(rightful), step.stale, step.rightful)
		}
	}
}

// TestRefusedCountsStaleWritersAlone: the verdict's number leaves the rightful owners' refusals out.
func TestRefusedCountsStaleWritersAlone(t *testing.T) {
	t.Parallel()
	stopped, refuseStopped := refusedCommits(t)
	owner, refuseOwner := refusedCommits(t)
	r := &run{taps: []*tap{stopped, owner}}
	stopped.outlived(false)
	refuseStopped()
	refuseOwner()
	refuseOwner()
	const what = "OffsetCommit ILLEGAL_GENERATION"
	stale, rightful := r.refused()
	if sum(stale) != 1 || stale[what] != 1 || sum(rightful) != 2 || rightful[what] != 2 {
		t.Errorf("got %v of stale writers and %v of rightful owners", stale, rightful)
	}
}
