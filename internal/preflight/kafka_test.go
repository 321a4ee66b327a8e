package preflight

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/holdfast-go/holdfast/internal/kafkatest"
	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/stream"
)

// A pipe over several inputs finds all that it is started with; its progress topic is made with a
// partition for each of theirs, and by a start alone.
func TestKafkaPipe(t *testing.T) {
	t.Parallel()
	k := kafkatest.Start(t)
	name := kafkatest.UniqueName("pipe")
	a := k.CreateTopic(t, name+"-a", 3, nil)
	b := k.CreateTopic(t, name+"-b", 2, nil)
	out := k.CreateTopic(t, name+"-out", 5, map[string]string{"max.message.bytes": "2000000"})
	dead := k.CreateTopic(t, name+"-dead", 1, map[string]string{"max.message.bytes": "3000000"})
	job := pipe(k.Addrs, name+"-group", a, b)
	job.Outputs, job.DeadLetters = []string{out}, dead
	found, err := Inspect(t.Context(), job, Mode{})
	if err != nil || found.Progress.Exists {
		t.Fatalf("a check: %v, progress %+v", err, found.Progress)
	}
	if text := found.Report.String(); !strings.Contains(text, "progress topic "+job.Progress.Topic+": is missing and will be created at start") ||
		!strings.Contains(text, "dead-letter topic "+dead) || !strings.Contains(text, "claim topic → topic (pipe)") {
		t.Errorf("report:\n%s", text)
	}
	if left := topics(t, k.Client(t), job.Group); len(left) > 0 {
		t.Errorf("a check has made %v", left)
	}
	for range 2 { // the second time it is there
		found, err = Inspect(t.Context(), job, Mode{Create: true})
		if err != nil || found.Progress.Partitions != 5 || found.Progress.CleanupPolicy != "compact" || found.Progress.ID == ([16]byte{}) {
			t.Fatalf("a start: %v, progress %+v", err, found.Progress)
		}
		if len(found.Inputs) != 2 || found.Inputs[0].Topic != a || found.Inputs[1].Partitions != 2 || found.Features.Brokers != 1 {
			t.Errorf("inputs %+v, features %+v", found.Inputs, found.Features)
		}
		if found.Outputs[out].MaxMessageBytes != 2000000 || found.Outputs[dead].MaxMessageBytes != 3000000 {
			t.Errorf("outputs %+v", found.Outputs)
		}
	}
}

// A topic that cannot serve refuses the start, with a next step, and nothing is made.
func TestKafkaTopicsRefused(t *testing.T) {
	t.Parallel()
	k := kafkatest.Start(t)
	for _, c := range []struct {
		name     string
		inputs   []int32 // partitions
		outputs  int32   // 0: missing
		same     bool
		dead     bool  // a dead-letter topic is named, and missing
		progress int32 // 0: missing
		policy   string
		words    []string
	}{
		{name: "progress of several inputs with another number", inputs: []int32{3, 2}, outputs: 1, progress: 4, policy: "compact",
			words: []string{"it has 4 partitions and the 2 inputs have 5 together", "name another progress topic", "--delete --topic"}},
		{name: "progress of one input with too few", inputs: []int32{3}, outputs: 1, progress: 2, policy: "compact",
			words: []string{"it has 2 partitions and the input has 3", "--alter", "--partitions 3"}},
		{name: "progress compacted and deleted", inputs: []int32{3, 2}, outputs: 1, progress: 5, policy: "compact,delete",
			words: []string{`"compact,delete"`, "would delete the progress", "--add-config cleanup.policy=compact"}},
		{name: "output is missing", inputs: []int32{2}, words: []string{"the output topic does not exist", "--partitions N"}},
		{name: "output of equal partitions is missing", inputs: []int32{2}, same: true, words: []string{"the output topic does not exist", "--partitions 2"}},
		{name: "output has fewer partitions than the input", inputs: []int32{3}, outputs: 2, same: true,
			words: []string{"the output topic has 2 partitions and input topic", "has 3", "--alter", "--partitions 3"}},
		{name: "output has more partitions than an input", inputs: []int32{3, 2}, outputs: 3, same: true,
			words: []string{"has 3 partitions and input topic", "has 2", "spread by key"}},
		{name: "dead letters are missing", inputs: []int32{2}, outputs: 1, dead: true, words: []string{"the dead-letter topic does not exist", "--create"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			name := kafkatest.UniqueName("refused")
			var inputs []string
			for i, partitions := range c.inputs {
				inputs = append(inputs, k.CreateTopic(t, fmt.Sprintf("%s-in%d", name, i), partitions, nil))
			}
			job := pipe(k.Addrs, name+"-group", inputs...)
			job.Outputs = []string{name + "-out"}
			if c.outputs > 0 {
				k.CreateTopic(t, job.Outputs[0], c.outputs, nil)
			}
			if c.same {
				job.SamePartition = job.Outputs
			}
			if c.dead {
				job.DeadLetters = name + "-dead"
			}
			if c.progress > 0 {
				k.CreateTopic(t, job.Progress.Topic, c.progress, map[string]string{"cleanup.policy": c.policy})
			}
			before := topics(t, k.Client(t), name)
			found, err := Inspect(t.Context(), job, Mode{Create: true})
			refused(t, found, err, stream.ErrTopic, append(c.words, name)...)
			if after := topics(t, k.Client(t), name); len(after) != len(before) {
				t.Errorf("a refused start has made a topic: %v, before %v", after, before)
			}
		})
	}
}

// What a pipe's offsets mean to a flow, and a flow's to a pipe, is nothing: both are refused. A plain
// consumer's are not: the start compares them with the progress.
func TestKafkaGroupOfAnotherKind(t *testing.T) {
	t.Parallel()
	k := kafkatest.Start(t)
	flow, pipes := wire.Witness{Nonce: 1, Sequence: 2}.Metadata(), wire.Witness{Nonce: 1, Sequence: 2, Kind: "pipe"}.Metadata()
	for _, c := range []struct {
		name, component, metadata string
		words                     []string // nil: not refused
		says                      string
	}{
		{name: "a flow's, for a pipe", component: "pipe", metadata: flow, words: []string{"committed by a flow", "this is a pipe", "a group of its own"}},
		{name: "a pipe's, for a flow", component: "flow", metadata: pipes, words: []string{"committed by a pipe", "this is a flow"}},
		{name: "a pipe's, for a pipe", component: "pipe", metadata: pipes, says: "offsets of 1 of 2 partitions\n"},
		{name: "a flow's, for a flow", component: "flow", metadata: flow, says: "offsets of 1 of 2 partitions\n"},
		{name: "a consumer's", component: "pipe", metadata: "by hand", says: "committed by another program"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			name := kafkatest.UniqueName("kind")
			job := pipe(k.Addrs, name+"-group", k.CreateTopic(t, name, 2, nil))
			job.Component = c.component
			commit(t, k.Client(t), job.Group, name, c.metadata)
			found, err := Inspect(t.Context(), job, Mode{Create: true})
			if c.words != nil {
				refused(t, found, err, stream.ErrOtherComponent, append(c.words, job.Group)...)
				return
			}
			if err != nil || !strings.Contains(found.Report.String(), c.says) {
				t.Errorf("%v, want a report with %q:\n%s", err, c.says, found.Report)
			}
		})
	}
}

// A group whose members are not consumers cannot be joined. When they have left it can.
func TestKafkaGroupOfAnotherProtocol(t *testing.T) {
	t.Parallel()
	k := kafkatest.Start(t)
	name := kafkatest.UniqueName("protocol")
	job := pipe(k.Addrs, name+"-group", k.CreateTopic(t, name, 1, nil))
	cl := k.Client(t)
	id := joinAs(t, cl, job.Group, "connect")
	found, err := Inspect(t.Context(), job, Mode{Create: true})
	refused(t, found, err, stream.ErrOtherComponent, job.Group, "1 members are not consumers", `"connect"`)
	leave := kmsg.NewPtrLeaveGroupRequest()
	leave.Group, leave.MemberID = job.Group, id
	m := kmsg.NewLeaveGroupRequestMember()
	m.MemberID = id
	leave.Members = append(leave.Members, m)
	if _, err := leave.RequestWith(t.Context(), cl); err != nil {
		t.Fatal(err)
	}
	if found, err := Inspect(t.Context(), job, Mode{Create: true}); err != nil {
		t.Errorf("after its members left: %v\n%s", err, found.Report)
	}
}

// A group of a type that takes no consumers is refused, one of consumers of the newer protocol is not.
func TestKafkaGroupOfAnotherType(t *testing.T) {
	t.Parallel()
	k := kafkatest.Start(t)
	cl := k.Client(t)
	if v, err := kadm.NewClient(cl).ApiVersions(t.Context()); err != nil || !supports(v, kmsg.ShareGroupHeartbeat) {
		t.Skipf("the brokers have no share groups (%v)", err)
	}
	name := kafkatest.UniqueName("type")
	job := pipe(k.Addrs, name+"-share", k.CreateTopic(t, name, 1, nil))
	share := kmsg.NewPtrShareGroupHeartbeatRequest()
	share.GroupID, share.MemberID, share.SubscribedTopicNames = job.Group, name, []string{name}
	accepted(t, func() (int16, error) {
		resp, err := share.RequestWith(t.Context(), cl)
		if err != nil {
			return 0, err
		}
		return resp.ErrorCode, nil
	})
	found, err := Inspect(t.Context(), job, Mode{Create: true})
	refused(t, found, err, stream.ErrOtherComponent, job.Group, "it is a share group")

	job = pipe(k.Addrs, name+"-consumer", name)
	consumer := kmsg.NewPtrConsumerGroupHeartbeatRequest()
	consumer.Group, consumer.MemberID, consumer.SubscribedTopicNames = job.Group, name, []string{name}
	consumer.RebalanceTimeoutMillis, consumer.Topics = 30000, []kmsg.ConsumerGroupHeartbeatRequestTopic{}
	accepted(t, func() (int16, error) {
		resp, err := consumer.RequestWith(t.Context(), cl)
		if err != nil {
			return 0, err
		}
		return resp.ErrorCode, nil
	})
	if found, err := Inspect(t.Context(), job, Mode{Create: true}); err != nil {
		t.Errorf("consumers of the newer protocol: %v\n%s", err, found.Report)
	}
}

func supports(brokers kadm.BrokersApiVersions, key kmsg.Key) bool {
	for _, b := range brokers {
		if _, ok := b.KeyMaxVersion(int16(key)); !ok {
			return false
		}
	}
	return true
}

// accepted repeats a request while the coordinator is not ready.
func accepted(t *testing.T, request func() (int16, error)) {
	t.Helper()
	for tick := time.NewTicker(50 * time.Millisecond); ; <-tick.C {
		code, err := request()
		if err == nil {
			err = kerr.ErrorForCode(code)
		}
		if err == nil {
			return
		}
		if !kerr.IsRetriable(err) {
			t.Fatal(err)
		}
	}
}

// joinAs joins a group as a member of some protocol and returns its id.
func joinAs(t *testing.T, cl *kgo.Client, group, protocol string) string {
	t.Helper()
	req := kmsg.NewPtrJoinGroupRequest()
	req.Group, req.ProtocolType, req.SessionTimeoutMillis, req.RebalanceTimeoutMillis = group, protocol, 30000, 30000
	p := kmsg.NewJoinGroupRequestProtocol()
	p.Name, p.Metadata = "default", []byte{0}
	req.Protocols = append(req.Protocols, p)
	for tick := time.NewTicker(50 * time.Millisecond); ; <-tick.C {
		resp, err := req.RequestWith(t.Context(), cl)
		if err != nil {
			t.Fatal(err)
		}
		err = kerr.ErrorForCode(resp.ErrorCode)
		switch {
		case err == nil:
			return resp.MemberID
		case err == kerr.MemberIDRequired:
			req.MemberID = resp.MemberID
		case !kerr.IsRetriable(err):
			t.Fatal(err)
		}
	}
}
