package wire

import (
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/holdfast-go/holdfast/internal/kafkatest"
	"github.com/holdfast-go/holdfast/stream"
)

func TestKafkaSnapshotTopicChecks(t *testing.T) {
	t.Parallel()
	k := kafkatest.Start(t)
	cl := k.Client(t)
	for name, tc := range map[string]struct {
		partitions int32 // 0: no topic
		policy     string
		want       []string // nil: usable
	}{
		"usable":             {4, "compact", nil},
		"missing":            {0, "", []string{"does not exist", "kafka-topics.sh --bootstrap-server " + Bootstrap(cl) + " --create", "--partitions 4"}},
		"deleted":            {4, "delete", []string{`"delete"`, "kafka-configs.sh", "--add-config cleanup.policy=compact"}},
		"compacted, deleted": {4, "delete,compact", []string{`"compact,delete"`, "--add-config cleanup.policy=compact"}},
		"too few partitions": {3, "compact", []string{"3 partitions", "input has 4", "--alter", "--partitions 4"}},
		"more partitions":    {5, "compact", nil}, // the last one stays empty
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			topic := kafkatest.UniqueName("check")
			if tc.partitions > 0 {
				k.CreateTopic(t, topic, tc.partitions, map[string]string{"cleanup.policy": tc.policy, "delete.retention.ms": "60000"})
			}
			f, err := checkSnapshotTopic(within(t, time.Minute), cl, topic, 4, nil)
			if tc.want == nil {
				if err != nil {
					t.Fatal(err)
				}
				if f.Partitions != tc.partitions || f.ID == ([16]byte{}) || f.CleanupPolicy != "compact" || f.DeleteRetention != time.Minute ||
					f.MaxMessageBytes != 1048588 || f.MinISR != 1 || f.Replicas != 1 {
					t.Errorf("facts %+v", f)
				}
				return
			}
			if !errors.Is(err, stream.ErrTopic) {
				t.Fatalf("got %v, want ErrTopic", err)
			}
			for _, want := range append(tc.want, topic) {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%q is missing in %q", want, err)
				}
			}
		})
	}
}

func TestKafkaSnapshotTopicIsCreatedOnce(t *testing.T) {
	t.Parallel()
	k := kafkatest.Start(t)
	cl := k.Client(t)
	topic := kafkatest.UniqueName("created")
	errs := make([]error, 4)
	var wg sync.WaitGroup
	for i := range errs {
		wg.Go(func() {
			_, errs[i] = checkSnapshotTopic(within(t, time.Minute), cl, topic, 3, &TopicConfig{Replicas: 1, MinISR: 1,
				Configs: map[string]string{"max.message.bytes": "2000000", "cleanup.policy": "delete"}})
		})
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	f, err := checkSnapshotTopic(within(t, time.Minute), cl, topic, 3, nil)
	if err != nil || f.MaxMessageBytes != 2000000 || f.SegmentBytes != ChangelogSegment || f.CompactionLag != ChangelogLag {
		t.Errorf("facts %+v, %v", f, err)
	}
	// What is added must not keep a topic from being made as it is asked for.
	f, err = checkSnapshotTopic(within(t, time.Minute), cl, kafkatest.UniqueName("late"), 3, &TopicConfig{Replicas: 1,
		Configs: map[string]string{"min.compaction.lag.ms": "7200000"}})
	if err != nil || f.CleanupPolicy != "compact" || f.CompactionLag < 2*time.Hour {
		t.Errorf("with a long min.compaction.lag.ms: facts %+v, %v", f, err)
	}
	_, err = checkSnapshotTopic(within(t, time.Minute), cl, kafkatest.UniqueName("impossible"), 3, &TopicConfig{Replicas: 9})
	if !errors.Is(err, stream.ErrTopic) || !strings.Contains(err.Error(), "--replication-factor 9 --config cleanup.policy=compact") {
		t.Errorf("more replicas than brokers: got %v, want ErrTopic with the command", err)
	}
}

func TestKafkaHoldersAreNamed(t *testing.T) {
	t.Parallel()
	k := kafkatest.Start(t)
	topic := k.CreateTopic(t, kafkatest.UniqueName("held"), 2, nil)
	cl := k.Client(t)
	l := Log{Client: cl, Topic: topic}
	a, b := newWriter(t, k, topic, topic+"-a", 10*time.Minute), newWriter(t, k, topic, topic+"-b", time.Minute)
	a.commit("done")
	stableEnd(t, l)
	if holders, err := l.Holders(within(t, time.Minute)); err != nil || len(holders) != 0 {
		t.Errorf("nothing is open, but got %+v, %v", holders, err)
	}
	before := time.Now().Add(-time.Minute)
	b.open("first")
	a.open("second")
	holders, err := l.Holders(within(t, time.Minute))
	if err != nil || len(holders) != 2 {
		t.Fatalf("got %+v, %v, want two holders", holders, err)
	}
	h := holders[0]
	if h.TransactionalID != topic+"-b" || h.FirstOffset != 2 || h.State != "Ongoing" || h.Timeout != time.Minute ||
		h.Started.Before(before) || h.LastWrite.Before(before) || h.Unknown != "" {
		t.Errorf("first holder %+v", h)
	}
	if holders[1].TransactionalID != topic+"-a" || holders[1].Timeout != 10*time.Minute {
		t.Errorf("second holder %+v", holders[1])
	}
	for _, tc := range []struct {
		log  Log
		id   string
		want bool
	}{{l, topic + "-a", true}, {Log{Client: cl, Topic: topic, Partition: 1}, topic + "-a", false}, {l, topic + "-nobody", false}} {
		if open, err := tc.log.OpenOn(within(t, time.Minute), tc.id); err != nil || open != tc.want {
			t.Errorf("OpenOn(%s) on %v: %v, %v, want %v", tc.id, tc.log.At(), open, err, tc.want)
		}
	}
	a.end(kgo.TryAbort)
	stillB, err := l.OpenOn(within(t, time.Minute), topic+"-a")
	if err != nil || stillB {
		t.Errorf("an ended transaction counts as open: %v", err)
	}
}

func TestKafkaMissingPermissionsAreNamed(t *testing.T) {
	t.Parallel()
	k := kafkatest.New(t, kafkatest.Options{Secure: true, ACLs: true})
	scram, err := k.Secure.SCRAM()
	if err != nil {
		t.Fatal(err)
	}
	user := k.Client(t, scram...)
	topic := k.CreateTopic(t, kafkatest.UniqueName("acl"), 1, map[string]string{"cleanup.policy": "compact"})
	l := Log{Client: user, Topic: topic}
	newWriter(t, k, topic, topic, time.Minute).open("k")
	read := func() error {
		_, err := l.Read(within(t, time.Minute), ReadOptions{To: 1}, func(*kgo.Record) error { return nil })
		return err
	}
	check := func() error {
		_, err := checkSnapshotTopic(within(t, time.Minute), user, topic, 1, nil)
		return err
	}
	refused := func(what string, err error, want string) {
		t.Helper()
		if !errors.Is(err, stream.ErrNotAuthorized) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want ErrNotAuthorized with %q", what, err, want)
		}
	}
	refused("read without any", read(), "--operation Read --operation Describe --topic "+topic)
	refused("check without any", check(), "--operation Describe --topic "+topic)

	allow := func(b *kadm.ACLBuilder) {
		t.Helper()
		if _, err := kadm.NewClient(k.Client(t)).CreateACLs(within(t, time.Minute), b.Allow("User:"+kafkatest.User).AllowHosts()); err != nil {
			t.Fatal(err)
		}
	}
	allow(kadm.NewACLs().Topics(topic).ResourcePatternType(kadm.ACLPatternLiteral).Operations(kadm.OpRead))
	if err := eventually(t, read); err != nil {
		t.Errorf("read with Read: %v", err)
	}
	refused("check without DescribeConfigs", check(), "--operation DescribeConfigs --topic "+topic)
	holders, err := l.Holders(within(t, time.Minute))
	if err != nil || len(holders) != 1 || holders[0].TransactionalID != "" || !strings.Contains(holders[0].Unknown, "--operation Describe --transactional-id") {
		t.Errorf("holders without Describe on the transactional id: %+v, %v", holders, err)
	}
	if _, err := l.OpenOn(within(t, time.Minute), topic); err == nil {
		t.Error("OpenOn without Describe on the transactional id must say that it cannot know")
	}
}

// eventually repeats f until it returns nil: an ACL reaches the brokers some time after it was made.
func eventually(t *testing.T, f func() error) error {
	ctx := within(t, time.Minute)
	for {
		err := f()
		if err == nil || !sleep(ctx, 50*time.Millisecond) {
			return err
		}
	}
}
