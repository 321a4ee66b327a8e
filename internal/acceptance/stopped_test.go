package acceptance

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/kafkatest"
	"github.com/holdfast-go/holdfast/internal/rule"
	"github.com/holdfast-go/holdfast/internal/wiretap"
	"github.com/holdfast-go/holdfast/stream"
)

// childClientID is the client id of a child's clients.
const childClientID = "holdfast"

// awaitChildCommitted waits until a child has committed next for a partition.
func awaitChildCommitted(t *testing.T, p *kafkatest.Process, partition int32, next int64) {
	t.Helper()
	prefix := fmt.Sprintf("committed %d ", partition)
	for {
		var e stream.Committed
		if err := json.Unmarshal([]byte(strings.TrimPrefix(p.Await(t, prefix, patience), prefix)), &e); err != nil {
			t.Fatal(err)
		}
		if e.Next >= next {
			return
		}
	}
}

// isOutput accepts the produce requests that belong to no transaction.
func isOutput(s sight) bool {
	return isRequest[*kmsg.ProduceRequest]()(s) && wiretap.TransactionalID(s.req) == ""
}

// as gives a flow in this process a client id by which the group knows it.
func as(c holdfast.Config[tally], clientID string) holdfast.Config[tally] {
	c.Kafka.Opts = append(c.Kafka.Opts, kgo.ClientID(clientID))
	return c
}

// pauseWith stops a child at a moment when the proxy holds something of it. A child that is stopped
// first and held then could be stopped anywhere.
func pauseWith(t *testing.T, p *kafkatest.Process, held ...*wiretap.Fault) {
	t.Helper()
	for _, f := range held {
		caught(t, f, 1)
	}
	if err := p.Pause(); err != nil {
		t.Fatal(err)
	}
}

func cont(t *testing.T, p *kafkatest.Process) {
	t.Helper()
	if err := p.Cont(); err != nil {
		t.Fatal(err)
	}
}

func stopChild(t *testing.T, p *kafkatest.Process) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := p.Stop(ctx); err != nil {
		t.Error(err)
	}
}

// A process is stopped while the answer to its heartbeat is on its way. On waking it reads the answer,
// an OK that is older than its session, and finds records to fold. Their outputs wait for the group: it
// says that it does not know the member, and none of them is ever sent. Without the rule they leave.
func TestKafkaStoppedWithAHeartbeatAnswerInFlight(t *testing.T) {
	schedule := func(t *testing.T, off ...rule.Name) {
		c := kafkatest.Start(t)
		a := newTap(t, c)
		input := c.CreateTopic(t, kafkatest.UniqueName("input"), 1, nil)
		output := c.CreateTopic(t, input+"-output", 1, nil)
		group := input + "-flow"
		pr := producer(t, c)
		produce(t, pr, input, 0, 3, 0, 10)
		child := startChild(t, childConfig{
			Addrs: c.Addrs, Group: group, Input: input, Outputs: []string{output}, Via: a.Map(), Off: off, Short: true, TellFolds: true,
		})
		awaitChildCommitted(t, child, 0, 10)

		answer := a.Fault(wiretap.HoldResponse, wiretap.Keys(kmsg.Heartbeat))
		fetch := a.Fault(wiretap.HoldRequest, wiretap.Keys(kmsg.Fetch))
		pauseWith(t, child, answer, fetch)
		conf := as(short(config(c.Addrs, group, input)), "B")
		conf.Outputs = []string{output}
		b := start(t, t.Context(), "B", conf)
		produce(t, pr, input, 0, 3, 10, 20)
		awaitExpelled(t, c, group, childClientID)
		b.committedTo(0, 20)

		// The child finds the answer and the records, and the group's next answer is late.
		heartbeat := a.Fault(wiretap.HoldRequest, wiretap.Keys(kmsg.Heartbeat))
		held := fetch.Caught()[0]
		fetch.Lift()
		a.awaitSeen("the fetched records", 0, 1, func(s sight) bool { return s.Conn == held.Conn && s.CorrelationID == held.CorrelationID && s.answered })
		answer.Lift()
		mark := a.mark()
		cont(t, child)
		child.Await(t, "folded 0 10", patience)
		if len(off) > 0 {
			a.awaitSeen("an output of the woken process", mark, 1, isOutput)
			heartbeat.Lift()
			return
		}
		heartbeat.Lift()
		a.awaitSeen("the group's refusal", mark, 1, isRequest[*kmsg.HeartbeatRequest](answeredWith(kerr.UnknownMemberID)))
		child.Await(t, "lost 0", patience)
		produce(t, pr, input, 0, 3, 20, 30)
		awaitCommitted(t, c, group, input, 1, 30)
		stopChild(t, child)
		if err := b.stop(); err != nil {
			t.Error(err)
		}
		if outputs := a.seen(mark, isOutput); len(outputs) > 0 {
			t.Errorf("the woken process has sent %d outputs", len(outputs))
		}
		for _, d := range check(t, c, group, input, group+"-snapshots") {
			t.Error(d)
		}
	}
	t.Run("with all rules", func(t *testing.T) {
		t.Parallel()
		schedule(t)
	})
	t.Run("without the rule", func(t *testing.T) {
		t.Parallel()
		schedule(t, rule.FreshSession)
	})
}

// stopOutcome is what became of the writes of a process that woke.
type stopOutcome struct{ refused, committed []sight }

// stoppedInATransaction stops a process with its offset on the way, and has it wake when its successor
// has committed. The rules that are off are so in that process alone.
func stoppedInATransaction(t *testing.T, off ...rule.Name) stopOutcome {
	const partitions = 2
	c := kafkatest.Start(t)
	a := newTap(t, c)
	input := c.CreateTopic(t, kafkatest.UniqueName("input"), partitions, nil)
	group := input + "-flow"
	stop := load(t, c, input, partitions)
	child := startChild(t, childConfig{Addrs: c.Addrs, Group: group, Input: input, Via: a.Map(), Off: off, Short: true})
	for p := range int32(partitions) {
		awaitChildCommitted(t, child, p, 1)
	}
	b := start(t, t.Context(), "B", as(short(config(c.Addrs, group, input)), "B"))
	own := await(b, 0, any1[stream.Committed]).Partition.Partition
	stopped := 1 - own // the child's

	bind := a.Fault(wiretap.HoldRequest, wiretap.All(wiretap.Keys(kmsg.TxnOffsetCommit), onID(idOf(group, stopped))))
	heartbeat := a.Fault(wiretap.HoldRequest, wiretap.Keys(kmsg.Heartbeat))
	pauseWith(t, child, bind, heartbeat)
	awaitExpelled(t, c, group, childClientID)
	await(b, 0, func(e stream.Committed) bool { return e.Partition.Partition == stopped })
	mark := bind.Caught()[0]
	cont(t, child)
	bind.Lift()
	writes := func(s sight) bool {
		return isWrite(s) && wiretap.TransactionalID(s.req) == idOf(group, stopped) && !s.Time.Before(mark.Time)
	}
	refused := func(s sight) bool { return writes(s) && s.answered && s.code != 0 }
	a.awaitSeen("a refusal of the woken process", 0, 1, refused)
	var o stopOutcome
	end := isRequest[*kmsg.EndTxnRequest](writes, answeredWith(nil))
	switch len(off) {
	case 2: // the group refuses what the epoch does not
		a.awaitSeen("the refusal by token", 0, 1, isRequest[*kmsg.TxnOffsetCommitRequest](writes, answeredWith(kerr.UnknownMemberID)))
	case 3: // nothing is left that refuses it
		a.awaitSeen("the end of the stale transaction", 0, 1, end)
	}
	heartbeat.Lift()
	if len(off) < 3 {
		child.Await(t, fmt.Sprintf("lost %d", stopped), patience)
	}
	o.refused = a.seen(0, refused)
	o.committed = a.seen(0, end)
	written := stop()
	if len(o.committed) > 0 {
		return o
	}
	awaitCommitted(t, c, group, input, partitions, int64(written))
	stopChild(t, child)
	if err := b.stop(); err != nil {
		t.Error(err)
	}
	for _, d := range check(t, c, group, input, group+"-snapshots") {
		t.Error(d)
	}
	return o
}

// Two members, a steady load, and one of them is stopped in mid-transaction for longer than its session.
// When it wakes its transaction is refused by epoch, and it asks the group before it would begin
// another. Should it not ask, and not look at what is committed, then the group's token refuses it.
// Only with the token gone too does it write over its successor's states.
func TestKafkaStoppedInATransactionUnderLoad(t *testing.T) {
	for name, off := range map[string][]rule.Name{
		"with all rules":            nil,
		"without probe and look":    {rule.Probe, rule.ReadBack},
		"without the token as well": {rule.Probe, rule.ReadBack, rule.FencedBinding},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := stoppedInATransaction(t, off...)
			t.Logf("refused: %v; committed: %v", o.refused, o.committed)
			if (len(o.committed) > 0) != (len(off) == 3) {
				t.Errorf("the woken process has committed %v", o.committed)
			}
			last := o.refused[len(o.refused)-1].code
			if len(off) == 2 && last != kerr.UnknownMemberID.Code {
				t.Errorf("the group's refusal was not what stopped it: %v", o.refused)
			}
		})
	}
}
