package acceptance

import (
	"context"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/kafkatest"
	"github.com/holdfast-go/holdfast/internal/wiretap"
	"github.com/holdfast-go/holdfast/stream"
)

// The generation fence alone: the owner's producer is live and nobody has taken its id over, but a
// join has moved the group on, and the owner has not seen the answer yet. What it sends under the old
// generation is refused by the broker, nothing of it lands, and the same effects commit once the
// answer has arrived.
// Public case A2.
func TestKafkaGenerationFenceAlone(t *testing.T) {
	for _, c := range []struct {
		name   string
		first  []string // committed by the owner before the generation moves on
		value  string   // sent under the old generation
		writes int      // states stored before and after the refusal
	}{
		{name: "next flush", first: numbers(1, 4), value: "4", writes: 1},
		{name: "first flush", value: "4", writes: 1},
		{name: "offset commit", first: numbers(1, 4), value: slow, writes: 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			testGenerationFence(t, c.first, c.value, c.writes)
		})
	}
}

func testGenerationFence(t *testing.T, first []string, value string, writes int) {
	cluster := kafkatest.Start(t)
	input := cluster.CreateTopic(t, kafkatest.UniqueName("input"), 1, nil)
	group, tap, pr := input+"-flow", tapOf(t, cluster), producer(t, cluster)
	conf := config(cluster.Addrs, group, input)
	conf.Fold = func(ctx context.Context, k *holdfast.Key[tally], r stream.Record) error {
		if string(r.Value) == slow {
			return nil // no state, no hold: only the offset moves on
		}
		return fold(ctx, k, r)
	}

	earlierOwner(t, pr, input, conf)
	owner := start(t, t.Context(), "owner", behind(tap, conf))
	await(owner, 0, any1[stream.Restored])
	next := int64(1)
	if len(first) > 0 {
		send(t, pr, input, "k", first...)
		next += int64(len(first))
		owner.committedTo(0, next)
	}
	was := stored(t, cluster, group+"-snapshots")

	refusals := wiretap.WatchRefusals(tap)
	answer := tap.Fault(wiretap.HoldResponse, wiretap.Keys(kmsg.JoinGroup))
	t.Cleanup(answer.Lift)
	joiner := start(t, t.Context(), "joiner", conf)
	awaitFault(t, answer, 1) // the group has moved on
	mark := owner.mark()
	key := "k"
	if writes == 0 {
		key = "none"
	}
	send(t, pr, input, key, value)
	e := await(owner, mark, any1[stream.Refused])
	if e.Cause != "generation" || e.Final {
		t.Errorf("refused with cause %q, final %t; want generation, and the ownership to go on: %v", e.Cause, e.Final, e.Err)
	}
	by := refusals.By()
	if by["TxnOffsetCommit ILLEGAL_GENERATION"] == 0 || len(by) != 1 {
		t.Errorf("the broker refused %v, want ILLEGAL_GENERATION of the offset alone", by)
	}
	if now := storedSoFar(t, cluster, group+"-snapshots", was); now["k"] != was["k"] {
		t.Errorf("stored %+v under a stale generation, before it was %+v", now["k"], was["k"])
	}
	if got := committed(t, cluster, group, input)[0]; got != next {
		t.Errorf("offset %d was committed under a stale generation, before it was %d", got, next)
	}

	answer.Lift()
	done := await(owner, mark, any1[stream.Committed])
	if done.Next != next+1 || done.Writes != writes {
		t.Errorf("after the join %+v was committed, want the same effects: offset %d with %d writes", done, next+1, writes)
	}
	if n := len(each[stream.Assigned](owner)); n != 1 {
		t.Errorf("the owner was granted the partition %d times, want 1: the fence must not end the ownership", n)
	}
	for _, f := range []*flow{joiner, owner} {
		if err := f.stop(); err != nil {
			t.Error(err)
		}
	}
	for _, d := range check(t, cluster, group, input, group+"-snapshots") {
		t.Error(d)
	}
}

// storedSoFar is stored while a refused transaction may be open. Before 4.0 that one is ended by the owner's next
// takeover, which waits for the answer that is held: until then nobody reads past it, and it is what was there before.
func storedSoFar(t *testing.T, c *kafkatest.Cluster, snapshots string, before map[string]tally) map[string]tally {
	t.Helper()
	if oldTransactions() {
		return before
	}
	return stored(t, c, snapshots)
}

// earlierOwner commits the first record: the offset that the first flush of the next owner carries is
// the one found at assignment.
func earlierOwner(t *testing.T, pr *kgo.Client, input string, conf holdfast.Config[tally]) {
	t.Helper()
	send(t, pr, input, "k", "1")
	before := start(t, t.Context(), "before", conf)
	before.committedTo(0, 1)
	if err := before.stop(); err != nil {
		t.Fatal(err)
	}
}
