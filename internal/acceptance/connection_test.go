package acceptance

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kversion"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/kafkatest"
	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/kafka"
	"github.com/holdfast-go/holdfast/stream"
)

// permission is one ACL of the list in SECURITY.md: what a flow needs, and nothing more.
type permission struct {
	name  string   // in the list
	words []string // of the error without it
	allow func(b *bench, output string) *kadm.ACLBuilder
}

func onTopic(topic func(b *bench, output string) string, op kadm.ACLOperation) func(*bench, string) *kadm.ACLBuilder {
	return func(b *bench, output string) *kadm.ACLBuilder {
		return kadm.NewACLs().Topics(topic(b, output)).ResourcePatternType(kadm.ACLPatternLiteral).Operations(op)
	}
}

var (
	inputOf     = func(b *bench, _ string) string { return b.input }
	snapshotsOf = func(b *bench, _ string) string { return b.snapshots() }
	outputOf    = func(_ *bench, output string) string { return output }
)

// permissions is the list. Describe comes with Read and with Write.
var permissions = []permission{
	{"Read on the input topic", []string{"--operation Read", "input topic"}, onTopic(inputOf, kadm.OpRead)},
	{"DescribeConfigs on the input topic", []string{"--operation DescribeConfigs", "input topic"}, onTopic(inputOf, kadm.OpDescribeConfigs)},
	{"Read on the snapshot topic", []string{"--operation Read", "snapshots"}, onTopic(snapshotsOf, kadm.OpRead)},
	{"Write on the snapshot topic", []string{"Write", "snapshots"}, onTopic(snapshotsOf, kadm.OpWrite)},
	{"DescribeConfigs on the snapshot topic", []string{"--operation DescribeConfigs", "snapshots"}, onTopic(snapshotsOf, kadm.OpDescribeConfigs)},
	{"Create on the snapshot topic", []string{"--operation Create", "snapshots"}, onTopic(snapshotsOf, kadm.OpCreate)},
	{"Write on the output topic", []string{"--operation Write", "output topic", "-out"}, onTopic(outputOf, kadm.OpWrite)},
	{"DescribeConfigs on the output topic", []string{"--operation DescribeConfigs", "output topic", "-out"}, onTopic(outputOf, kadm.OpDescribeConfigs)},
	{"Read on the group", []string{"Read", "group"}, func(b *bench, _ string) *kadm.ACLBuilder {
		return kadm.NewACLs().Groups(b.group).ResourcePatternType(kadm.ACLPatternLiteral).Operations(kadm.OpRead)
	}},
	{"Write on the transactional ids", []string{"Write", "transactional"}, func(b *bench, _ string) *kadm.ACLBuilder {
		return kadm.NewACLs().TransactionalIDs(fmt.Sprintf("holdfast-%d-%s-%s-", len(b.group), b.group, b.snapshots())).
			ResourcePatternType(kadm.ACLPatternPrefixed).Operations(kadm.OpWrite)
	}},
}

func user(without int) string { return fmt.Sprintf("user%d", without) }

// secureBench is a flow of a SCRAM user over TLS that has all permissions but one (-1: all).
func secureBench(t *testing.T, k *kafkatest.Cluster, without int) *bench {
	t.Helper()
	b := newBenchOn(t, k, holdfast.FencedState)
	output := k.CreateTopic(t, b.input+"-out", 1, nil)
	name := user(without)
	b.permit(name, output, without)
	trust, err := k.Secure.TLSConfig(false)
	if err != nil {
		t.Fatal(err)
	}
	b.conf.Kafka = kafka.Config{
		Brokers: k.Secure.Addrs, TLS: trust, SASL: scram.Auth{User: name, Pass: password}.AsSha256Mechanism(),
	}
	b.conf.Outputs = []string{output}
	b.conf.Fold = holdfast.Chain(fold, func(_ context.Context, k *holdfast.Key[tally], r stream.Record) error {
		k.Emit(stream.Message{Topic: output, Key: r.Key, Value: r.Value})
		return nil
	})
	return b
}

// permit gives a user all permissions but one (-1: all).
func (b *bench) permit(name, output string, without int) {
	b.t.Helper()
	for i, p := range permissions {
		if i == without {
			continue
		}
		rs, err := b.admin.CreateACLs(b.t.Context(), p.allow(b, output).Allow("User:"+name).AllowHosts())
		if err == nil {
			err = rs[0].Err
		}
		if err != nil {
			b.t.Fatal(err)
		}
	}
	b.awaitACLs(name, len(permissions)-min(without+1, 1))
}

const password = "a-password-of-a-test"

// awaitACLs waits until the broker's authorizer has n ACLs of a user.
func (b *bench) awaitACLs(name string, n int) {
	b.t.Helper()
	for tick := time.NewTicker(20 * time.Millisecond); ; <-tick.C {
		rs, err := b.admin.DescribeACLs(b.t.Context(), kadm.NewACLs().AnyResource().ResourcePatternType(kadm.ACLPatternAny).
			Operations(kadm.OpAny).Allow("User:"+name).AllowHosts().DenyHosts().Deny())
		if err != nil {
			b.t.Fatal(err)
		}
		found := 0
		for _, r := range rs {
			found += len(r.Described)
		}
		if found >= n {
			return
		}
	}
}

// secureCluster is the cluster of the tests that need listeners, users or broker settings of their
// own: one for all of them, since each takes a JVM and seconds to start.
func secureCluster(t *testing.T) *kafkatest.Cluster {
	t.Helper()
	users := map[string]string{}
	for i := -1; i < len(permissions); i++ {
		users[user(i)] = password
	}
	return kafkatest.New(t, kafkatest.Options{
		Secure: true, ACLs: true, Users: users, Properties: map[string]string{"log.cleaner.backoff.ms": "100"},
	})
}

func TestKafkaSecure(t *testing.T) {
	t.Parallel()
	k := secureCluster(t)
	t.Run("permissions", func(t *testing.T) { t.Parallel(); testPermissions(t, k) })
	t.Run("connection", func(t *testing.T) { t.Parallel(); testConnection(t, k) })
	t.Run("credentials", func(t *testing.T) { t.Parallel(); testCredentials(t, k) })
	t.Run("delete compacts", func(t *testing.T) { t.Parallel(); testDeleteCompacts(t, k) })
}

// The list of SECURITY.md is enough for a whole flow over TLS and SCRAM, and each of its lines is
// needed: without it the flow stops with an error that names operation and resource.
func testPermissions(t *testing.T, k *kafkatest.Cluster) {
	t.Run("all", func(t *testing.T) {
		t.Parallel()
		b := secureBench(t, k, -1)
		for i := range 2 { // the second time restored
			produce(t, b.pr, b.input, 0, 3, 10*i, 10*i+10)
			f := start(t, t.Context(), "permitted", b.conf)
			f.committedTo(0, int64(10*i+10))
			if err := f.stop(); err != nil {
				t.Fatal(err)
			}
		}
		b.verify(0, 20)
		if n := len(readAll(t, k, b.conf.Outputs[0], kgo.ReadCommitted())); n != 20 {
			t.Errorf("%d outputs, want 20", n)
		}
	})
	for i, p := range permissions {
		t.Run("without "+p.name, func(t *testing.T) {
			t.Parallel()
			b := secureBench(t, k, i)
			if !strings.HasPrefix(p.name, "Create") { // there is something to restore
				conf := b.conf
				conf.Kafka = kafka.Config{Brokers: k.Addrs}
				produce(t, b.pr, b.input, 0, 3, 0, 10)
				f := start(t, t.Context(), "permitted", conf)
				f.committedTo(0, 10)
				if err := f.stop(); err != nil {
					t.Fatal(err)
				}
			}
			produce(t, b.pr, b.input, 0, 3, 10, 20)
			e := named(t, start(t, t.Context(), "not permitted", b.conf).failure(), holdfast.ErrNotAuthorized)
			for _, w := range p.words {
				if !strings.Contains(strings.ToLower(e.Error()), strings.ToLower(w)) {
					t.Errorf("error %q does not say %q", e, w)
				}
			}
		})
	}
}

// What is wrong with a connection is named at the start, within the bound of the first contact.
func testConnection(t *testing.T, k *kafkatest.Cluster) {
	trust, err := k.Secure.TLSConfig(false)
	if err != nil {
		t.Fatal(err)
	}
	right := scram.Auth{User: user(-1), Pass: password}.AsSha256Mechanism()
	wrong := scram.Auth{User: user(-1), Pass: "wrong"}.AsSha256Mechanism()
	for _, c := range []struct {
		name     string
		kafka    kafka.Config
		sentinel error
		words    string
	}{
		{"nothing listens", kafka.Config{Brokers: []string{closedPort(t)}}, holdfast.ErrUnreachable, "nothing listens"},
		{"no such host", kafka.Config{Brokers: []string{"no-such-host.invalid:9092"}}, holdfast.ErrUnreachable, "no-such-host.invalid"},
		{"it accepts and is silent", kafka.Config{Brokers: []string{silentPort(t)}}, holdfast.ErrUnreachable, "no answer"},
		{"wrong password", kafka.Config{Brokers: k.Secure.Addrs, TLS: trust, SASL: wrong}, holdfast.ErrNotAuthenticated, "user and password"},
		{"no SASL", kafka.Config{Brokers: k.Secure.Addrs, TLS: trust}, holdfast.ErrNotAuthenticated, "SASL"},
		{"no TLS", kafka.Config{Brokers: k.Secure.Addrs, SASL: right}, holdfast.ErrUnreachable, "TLS"},
		{"TLS on a plaintext port", kafka.Config{Brokers: k.Addrs, TLS: trust}, holdfast.ErrUnreachable, "TLS"},
		{"unknown authority", kafka.Config{Brokers: k.Secure.Addrs, TLS: &tls.Config{MinVersion: tls.VersionTLS12}, SASL: right}, holdfast.ErrUnreachable, "authority"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			conf := config(nil, "some-group", "some-input")
			conf.Kafka = c.kafka
			named(t, startError(t, conf, patience), c.sentinel, c.words) // the first contact has 30 s
		})
	}
}

// closedPort is an address that refuses connections.
func closedPort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// silentPort is an address that accepts connections, by its kernel, and never answers.
func silentPort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l.Addr().String()
}

// A broker that cannot fence is refused. It is a real one that speaks as an old one did, since kgo
// asks it for no more than that.
func TestKafkaBrokerTooOld(t *testing.T) {
	t.Parallel()
	b := newBench(t, holdfast.FencedState)
	b.conf.Kafka.Opts = append(b.conf.Kafka.Opts, kgo.MaxVersions(kversion.V2_4_0()))
	_, err := holdfast.New(b.conf)
	if err == nil {
		t.Fatal("New accepts a limit below what the guarantee needs")
	}
	named(t, err, holdfast.ErrReservedOption, "TxnOffsetCommit", "version 3")
}

// awaitStable waits until the broker has ended the transaction that committed an offset: its markers
// come after the answer. A broker that is killed in between, and was the only one, has been seen to
// leave that transaction hanging on the offsets' partition.
func (b *bench) awaitStable(next int64) {
	b.t.Helper()
	cl, id := b.k.Client(b.t), topicID(b.t, b.k, b.input)
	for tick := time.NewTicker(20 * time.Millisecond); ; <-tick.C {
		o, err := wire.FetchOffset(b.t.Context(), cl, b.group, wire.Member{}, stream.Partition{Topic: b.input}, id)
		if err == nil && o.Next == next && !b.pinned() {
			return
		}
		if err != nil && !errors.Is(err, kerr.UnstableOffsetCommit) {
			b.t.Fatal(err)
		}
	}
}

// The broker is killed under a running flow and comes back: the flow goes on by itself.
func TestKafkaBrokerRestartsUnderAFlow(t *testing.T) {
	t.Parallel()
	k := kafkatest.New(t, kafkatest.Options{})
	b := newBenchOn(t, k, holdfast.FencedState)
	produce(t, b.pr, b.input, 0, 3, 0, 10)
	f := start(t, t.Context(), "running", b.conf)
	f.committedTo(0, 10)
	b.awaitStable(10)
	if err := k.Brokers[0].Kill(); err != nil {
		t.Fatal(err)
	}
	if err := startError(t, b.conf, patience); err == nil {
		t.Error("a flow started without a broker")
	} else {
		named(t, err, holdfast.ErrUnreachable)
	}
	if err := k.Brokers[0].Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	produce(t, b.pr, b.input, 0, 3, 10, 30)
	f.committedTo(0, 30)
	if err := f.stop(); err != nil {
		t.Fatal(err)
	}
	b.verify(0, 30)
	b.again()
}
