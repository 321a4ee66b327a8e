package acceptance

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/codec"
	"github.com/holdfast-go/holdfast/internal/kafkatest"
	"github.com/holdfast-go/holdfast/kafka"
	"github.com/holdfast-go/holdfast/stream"
)

// right is one row of the table in SECURITY.md. An operation implies Describe on its resource.
type right struct {
	name string
	acl  func() *kadm.ACLBuilder
}

func rights() []right {
	topic := func(name string, op kadm.ACLOperation) func() *kadm.ACLBuilder {
		return func() *kadm.ACLBuilder {
			return kadm.NewACLs().Topics(name).ResourcePatternType(kadm.ACLPatternLiteral).Operations(op)
		}
	}
	return []right{
		{"Read on input", topic("secured", kadm.OpRead)},
		{"DescribeConfigs on input", topic("secured", kadm.OpDescribeConfigs)},
		{"Read on snapshots", topic("ledger-snapshots", kadm.OpRead)},
		{"Write on snapshots", topic("ledger-snapshots", kadm.OpWrite)},
		{"DescribeConfigs on snapshots", topic("ledger-snapshots", kadm.OpDescribeConfigs)},
		{"Write on output", topic("secured-out", kadm.OpWrite)},
		{"DescribeConfigs on output", topic("secured-out", kadm.OpDescribeConfigs)},
		{"Read on group", func() *kadm.ACLBuilder {
			return kadm.NewACLs().Groups("ledger").ResourcePatternType(kadm.ACLPatternLiteral).Operations(kadm.OpRead)
		}},
		{"Write on transactional ids", func() *kadm.ACLBuilder {
			return kadm.NewACLs().TransactionalIDs("holdfast-6-ledger-ledger-snapshots-").ResourcePatternType(kadm.ACLPatternPrefixed).Operations(kadm.OpWrite)
		}},
	}
}

// securedRun has a flow fold one more record over TLS and SCRAM, and emit and commit it. It returns the
// error of the run.
func securedRun(t *testing.T, k *kafkatest.Cluster) error {
	t.Helper()
	r := &kgo.Record{Topic: "secured", Key: []byte("k"), Value: []byte("v")}
	if err := k.Client(t).ProduceSync(t.Context(), r).FirstErr(); err != nil {
		t.Fatal(err)
	}
	cluster, err := kafka.Config{Brokers: k.Secure.Addrs}.WithTLSFiles(k.Secure.CAPath, "", "")
	if err == nil {
		cluster, err = cluster.WithSASL("SCRAM-SHA-256", k.Secure.User, k.Secure.Password)
	}
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithTimeoutCause(t.Context(), time.Minute, errors.New("the run neither commits nor fails"))
	defer stop()
	flow, err := holdfast.New(holdfast.Config[int]{
		Kafka: cluster, Group: "ledger", Inputs: []string{"secured"}, Outputs: []string{"secured-out"}, Codec: codec.JSON[int](),
		Fold: func(_ context.Context, k *holdfast.Key[int], _ stream.Record) error {
			n, _ := k.State()
			k.Set(n + 1)
			k.Emit(stream.Message{Topic: "secured-out", Key: k.Bytes(), Value: []byte("v")})
			return nil
		},
		Commit: holdfast.Commit{Persist: 10 * time.Millisecond},
		Hooks: []holdfast.Hooks{{Committed: func(c stream.Committed) {
			if c.Next > r.Offset {
				stop()
			}
		}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	err = flow.Run(ctx)
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		t.Errorf("%v (%v)", context.Cause(ctx), err)
	}
	return err
}

// TestKafkaLeastPrivilege runs a flow over TLS and SCRAM with the rights of SECURITY.md, and without
// each one of them in turn: then it has to stop and say that a right is missing.
func TestKafkaLeastPrivilege(t *testing.T) {
	t.Parallel()
	k := kafkatest.New(t, kafkatest.Options{Secure: true, ACLs: true})
	k.CreateTopic(t, "secured", 1, nil)
	k.CreateTopic(t, "secured-out", 1, nil)
	k.CreateTopic(t, "ledger-snapshots", 1, map[string]string{"cleanup.policy": "compact"})
	admin := kadm.NewClient(k.Client(t))
	allow := func(r right) {
		t.Helper()
		if _, err := admin.CreateACLs(t.Context(), r.acl().Allow("User:"+kafkatest.User).AllowHosts()); err != nil {
			t.Fatal(err)
		}
	}
	for _, r := range rights() {
		allow(r)
	}
	// A right that was given or taken reaches the broker a moment later: a run may still see the old ones.
	becomes := func(name string, is func(error) bool) {
		t.Helper()
		var err error
		for range 10 {
			if err = securedRun(t, k); is(err) {
				return
			}
		}
		t.Errorf("%s: %v", name, err)
	}
	granted := func(err error) bool { return err == nil }
	becomes("all rights", granted)
	for _, r := range rights() {
		b := r.acl().Allow("User:" + kafkatest.User).AllowHosts()
		if _, err := admin.DeleteACLs(t.Context(), b); err != nil {
			t.Fatal(err)
		}
		becomes("without "+r.name, func(err error) bool { return errors.Is(err, stream.ErrNotAuthorized) })
		allow(r)
		becomes("again with "+r.name, granted)
	}
}
