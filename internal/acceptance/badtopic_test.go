package acceptance

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/kafkatest"
	"github.com/holdfast-go/holdfast/stream"
)

// command finds the command in a hint and does what Kafka's own tool would do.
func command(t *testing.T, c *kafkatest.Cluster, hint string) {
	t.Helper()
	at := strings.Index(hint, "kafka-")
	if at < 0 {
		t.Fatalf("hint %q has no command", hint)
	}
	line := hint[at:]
	for _, end := range []string{". ", " ("} { // a command may be followed by a remark
		line, _, _ = strings.Cut(line, end)
	}
	words := strings.Fields(strings.TrimSuffix(line, "."))
	flags, configs := map[string]string{}, map[string]*string{}
	for i := 1; i < len(words); i++ {
		name, value := words[i], ""
		if i+1 < len(words) && !strings.HasPrefix(words[i+1], "--") {
			i++
			value = words[i]
		}
		if name == "--config" || name == "--add-config" {
			k, v, _ := strings.Cut(value, "=")
			configs[k] = &v
			continue
		}
		flags[name] = value
	}
	if flags["--bootstrap-server"] != c.Addrs[0] {
		t.Errorf("the command %q is for another cluster than %s", line, c.Addrs[0])
	}
	if err := tool(t, kadm.NewClient(c.Client(t)), words[0], flags, configs); err != nil {
		t.Fatalf("%s: %v", line, err)
	}
}

func tool(t *testing.T, admin *kadm.Client, name string, flags map[string]string, configs map[string]*string) error {
	t.Helper()
	has := func(flag string) bool { _, ok := flags[flag]; return ok }
	topic := flags["--topic"]
	number := func(flag string) int {
		n, err := strconv.Atoi(flags[flag])
		if err != nil {
			t.Fatalf("%s %q is not a number", flag, flags[flag])
		}
		return n
	}
	switch {
	case name == "kafka-topics.sh" && has("--create"):
		replicas := int16(-1)
		if has("--replication-factor") {
			replicas = int16(number("--replication-factor"))
		}
		_, err := admin.CreateTopic(t.Context(), int32(number("--partitions")), replicas, configs, topic)
		if err != nil {
			return err
		}
		return awaitPartitions(t, admin, topic, number("--partitions"))
	case name == "kafka-topics.sh" && has("--alter"):
		return widen(t, admin, topic, number("--partitions"))
	case name == "kafka-topics.sh" && has("--delete"):
		return deleteTopic(t, admin, topic)
	case name == "kafka-configs.sh" && has("--alter") && flags["--entity-type"] == "topics":
		var changes []kadm.AlterConfig
		for k, v := range configs {
			changes = append(changes, kadm.AlterConfig{Op: kadm.SetConfig, Name: k, Value: v})
		}
		rs, err := admin.AlterTopicConfigs(t.Context(), changes, flags["--entity-name"])
		if err == nil {
			err = rs[0].Err
		}
		if err != nil {
			return err
		}
		return awaitConfig(t, admin, flags["--entity-name"], configs)
	}
	return fmt.Errorf("the test does not know this use of %s: %v", name, flags)
}

// deleteTopic deletes a topic and waits until the brokers do not know it any more.
func deleteTopic(t *testing.T, admin *kadm.Client, topic string) error {
	t.Helper()
	if _, err := admin.DeleteTopic(t.Context(), topic); err != nil {
		return err
	}
	for tick := time.NewTicker(20 * time.Millisecond); ; <-tick.C {
		ts, err := admin.ListTopics(t.Context(), topic)
		if err != nil {
			return err
		}
		if errors.Is(ts[topic].Err, kerr.UnknownTopicOrPartition) {
			return nil
		}
	}
}

// awaitConfig waits until the broker has applied what the controller has accepted.
func awaitConfig(t *testing.T, admin *kadm.Client, topic string, want map[string]*string) error {
	t.Helper()
	for tick := time.NewTicker(20 * time.Millisecond); ; <-tick.C {
		rs, err := admin.DescribeTopicConfigs(t.Context(), topic)
		if err != nil {
			return err
		}
		left := len(want)
		for _, c := range rs[0].Configs {
			if v := want[c.Key]; v != nil && *v == c.MaybeValue() {
				left--
			}
		}
		if left == 0 {
			return nil
		}
	}
}

// A snapshot topic that would lose states refuses the start, with the command that mends it; after
// that command the flow starts.
// Public case G5.
func TestKafkaSnapshotTopicRefused(t *testing.T) {
	for _, c := range []struct {
		name       string
		partitions int32 // of the snapshot topic, 0: it is missing; the input has 2
		policy     string
		words      []string
		commands   int // to be followed until the flow starts
	}{
		{"missing", 0, "", []string{"does not exist"}, 1},
		{"not compacted", 2, "delete", []string{`"delete"`}, 1},
		{"compacted and deleted", 2, "compact,delete", []string{`"compact,delete"`}, 1},
		{"too few partitions", 1, "compact", []string{"1 partitions", "has 2"}, 1},
		{"more partitions", 3, "compact", nil, 0}, // the last one stays empty
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			k := kafkatest.Start(t)
			input := k.CreateTopic(t, kafkatest.UniqueName("input"), 2, nil)
			conf := config(k.Addrs, input+"-flow", input)
			conf.Snapshots.Create = nil
			conf.Snapshots.Topic = input + "-states"
			if c.partitions > 0 {
				k.CreateTopic(t, conf.Snapshots.Topic, c.partitions, map[string]string{"cleanup.policy": c.policy})
			}
			for i := range c.commands {
				err := startError(t, conf, patience)
				words := c.words
				if i > 0 {
					words = nil
				}
				e := named(t, err, holdfast.ErrTopic, append(words, conf.Snapshots.Topic)...)
				h, newErr := holdfast.New(conf)
				if newErr != nil {
					t.Fatal(newErr)
				}
				if _, checked := h.Check(t.Context()); checked == nil || checked.Error() != err.Error() {
					t.Errorf("Check says %v, Run says %v", checked, err)
				}
				command(t, k, e.Hint)
			}
			f := start(t, t.Context(), "mended", conf)
			for p := range int32(2) {
				await(f, 0, func(e stream.Restored) bool { return e.Partition.Partition == p })
			}
			if err := f.stop(); err != nil {
				t.Error(err)
			}
		})
	}
}

// Input and output topics that are missing refuse the start too: all of them at once.
func TestKafkaMissingTopicsRefused(t *testing.T) {
	t.Parallel()
	k := kafkatest.Start(t)
	input := kafkatest.UniqueName("input")
	conf := config(k.Addrs, input+"-flow", input)
	conf.Outputs = []string{input + "-out"}
	err := startError(t, conf, patience)
	named(t, err, holdfast.ErrTopic, "input topic does not exist", "output topic does not exist", "--create")
}
