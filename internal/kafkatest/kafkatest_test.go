package kafkatest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func TestMain(m *testing.M) {
	Main(m,
		Child{Name: "echo", Run: func(ctx context.Context, p *Parent) error {
			var words []string
			if err := p.Arg(&words); err != nil {
				return err
			}
			for _, w := range words {
				if err := p.Event("word %s", w); err != nil {
					return err
				}
			}
			<-ctx.Done()
			return p.Event("stopped")
		}},
		Child{Name: "fail", Run: func(context.Context, *Parent) error { return errors.New("no luck") }},
	)
}

// within bounds a test's requests, so that a broken broker fails the test instead of its time-out.
func within(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

// roundTrip writes one record to topic and reads the topic from its start until the record is there.
func roundTrip(t *testing.T, cl, reader *kgo.Client, topic, value string) {
	t.Helper()
	ctx := within(t, time.Minute)
	if err := cl.ProduceSync(ctx, &kgo.Record{Topic: topic, Key: []byte("k"), Value: []byte(value)}).FirstErr(); err != nil {
		t.Fatalf("produce: %v", err)
	}
	for {
		fs := reader.PollFetches(ctx)
		if err := fs.Err(); err != nil {
			t.Fatalf("consume: %v", err)
		}
		for r := range fs.RecordsAll() {
			if string(r.Value) == value {
				return
			}
		}
	}
}

func fromStart(topic string) []kgo.Opt {
	return []kgo.Opt{kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart())}
}

func TestKafkaSharedRoundTrip(t *testing.T) {
	t.Parallel()
	k := Start(t)
	if again := Start(t); again != k {
		t.Error("a second Start returned another cluster")
	}
	topic := k.CreateTopic(t, UniqueName("round-trip"), 3, map[string]string{"cleanup.policy": "compact"})
	roundTrip(t, k.Client(t), k.Client(t, fromStart(topic)...), topic, "hello")

	adm := kadm.NewClient(k.Client(t))
	topics, err := adm.ListTopics(within(t, time.Minute), topic)
	if err != nil || len(topics[topic].Partitions) != 3 {
		t.Errorf("topic has %d partitions (%v), want 3", len(topics[topic].Partitions), err)
	}
	configs, err := adm.DescribeTopicConfigs(within(t, time.Minute), topic)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range configs[0].Configs {
		if c.Key == "cleanup.policy" && c.MaybeValue() != "compact" {
			t.Errorf("cleanup.policy is %q, want compact", c.MaybeValue())
		}
	}
}

func TestKafkaSecure(t *testing.T) {
	t.Parallel()
	k := New(t, Options{Secure: true, ACLs: true})
	topic := k.CreateTopic(t, "secure", 1, nil)
	ctx := within(t, time.Minute)
	scram, err := k.Secure.SCRAM()
	if err != nil {
		t.Fatal(err)
	}
	cert, err := k.Secure.Certificate()
	if err != nil {
		t.Fatal(err)
	}

	// Without an ACL the logged-in user is refused; that it is this error shows that the login worked.
	err = k.Client(t, append(scram, kgo.AllowAutoTopicCreation())...).
		ProduceSync(ctx, &kgo.Record{Topic: topic, Value: []byte("x")}).FirstErr()
	if !errors.Is(err, kerr.TopicAuthorizationFailed) {
		t.Fatalf("produce without an ACL: %v, want %v", err, kerr.TopicAuthorizationFailed)
	}
	acl := kadm.NewACLs().Topics(topic).ResourcePatternType(kadm.ACLPatternLiteral).
		Allow("User:"+k.Secure.User, "User:CN=holdfast-client").AllowHosts().
		Operations(kadm.OpRead, kadm.OpWrite, kadm.OpDescribe)
	if _, err := kadm.NewClient(k.Client(t)).CreateACLs(ctx, acl); err != nil {
		t.Fatal(err)
	}
	roundTrip(t, k.Client(t, scram...), k.Client(t, append(scram, fromStart(topic)...)...), topic, "by password")
	roundTrip(t, k.Client(t, cert...), k.Client(t, append(cert, fromStart(topic)...)...), topic, "by certificate")

	wrong := *k.Secure
	wrong.Password = "wrong"
	opts, err := wrong.SCRAM()
	if err != nil {
		t.Fatal(err)
	}
	if err := k.Client(t, opts...).Ping(ctx); !errors.Is(err, kerr.SaslAuthenticationFailed) {
		t.Errorf("ping with a wrong password: %v, want %v", err, kerr.SaslAuthenticationFailed)
	}
	cfg, err := k.Secure.TLSConfig(false)
	if err != nil {
		t.Fatal(err)
	}
	short, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	if err := k.Client(t, kgo.SeedBrokers(k.Secure.CertAddrs...), kgo.DialTLSConfig(cfg)).Ping(short); err == nil {
		t.Error("ping without a client certificate succeeded on the listener that demands one")
	}
}

func TestKafkaKillRestart(t *testing.T) {
	t.Parallel()
	k := New(t, Options{})
	topic := k.CreateTopic(t, "kept", 1, nil)
	cl := k.Client(t)
	roundTrip(t, cl, k.Client(t, fromStart(topic)...), topic, "before the crash")
	b := k.Brokers[0]
	if err := b.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := b.Pause(); err == nil {
		t.Error("a killed broker could be paused")
	}
	if err := b.Restart(within(t, 2*time.Minute)); err != nil {
		t.Fatal(err)
	}
	roundTrip(t, cl, k.Client(t, fromStart(topic)...), topic, "after the crash")
	seen := map[string]bool{}
	reader := k.Client(t, fromStart(topic)...)
	for ctx := within(t, time.Minute); len(seen) < 2; {
		fs := reader.PollFetches(ctx)
		if err := fs.Err(); err != nil {
			t.Fatalf("records after the restart: %v (%v)", seen, err)
		}
		for r := range fs.RecordsAll() {
			seen[string(r.Value)] = true
		}
	}
	if !seen["before the crash"] || !seen["after the crash"] {
		t.Errorf("records after the restart: %v", seen)
	}
	if err := b.Stop(within(t, time.Minute)); err != nil {
		t.Errorf("orderly stop: %v", err)
	}
}

func TestKafkaPause(t *testing.T) {
	t.Parallel()
	k := New(t, Options{})
	cl := k.Client(t)
	if err := cl.Ping(within(t, time.Minute)); err != nil {
		t.Fatal(err)
	}
	b := k.Brokers[0]
	if err := b.Pause(); err != nil {
		t.Fatal(err)
	}
	answered := make(chan error, 1)
	go func() { answered <- cl.Ping(t.Context()) }()
	select {
	case err := <-answered:
		t.Errorf("a paused broker answered: %v", err)
	case <-time.After(300 * time.Millisecond):
	}
	if err := b.Cont(); err != nil {
		t.Fatal(err)
	}
	if err := <-answered; err != nil {
		t.Errorf("ping after the pause: %v", err)
	}
}

func TestKafkaThreeBrokersAndTransactionVersion(t *testing.T) {
	t.Parallel()
	k := New(t, Options{Brokers: 3, TransactionVersion: 1})
	topic := k.CreateTopic(t, "replicated", 1, nil)
	adm := kadm.NewClient(k.Client(t))
	ctx := within(t, time.Minute)
	topics, err := adm.ListTopics(ctx, topic)
	if err != nil {
		t.Fatal(err)
	}
	if got := len(topics[topic].Partitions[0].Replicas); got != 3 {
		t.Errorf("partition has %d replicas, want 3", got)
	}
	if strings.HasPrefix(Version(), "3.") {
		return // no broker before 4.0 has the feature
	}
	resp, err := kmsg.NewPtrApiVersionsRequest().RequestWith(ctx, k.Client(t))
	if err != nil {
		t.Fatal(err)
	}
	at := slices.IndexFunc(resp.FinalizedFeatures, func(f kmsg.ApiVersionsResponseFinalizedFeature) bool {
		return f.Name == "transaction.version"
	})
	if at < 0 || resp.FinalizedFeatures[at].MaxVersionLevel != 1 {
		t.Errorf("transaction.version is not 1: %+v", resp.FinalizedFeatures)
	}
}

func TestChild(t *testing.T) {
	t.Parallel()
	ctx := within(t, time.Minute)
	p := StartChild(t, "echo", []string{"one", "two"})
	if e := p.Await(t, "word t", time.Minute); e != "word two" {
		t.Errorf("event %q, want %q", e, "word two")
	}
	if err := p.Stop(ctx); err != nil {
		t.Errorf("stop: %v", err)
	}
	if e, err := p.Next(ctx); err != nil || e != "stopped" {
		t.Errorf("last event %q (%v), want stopped", e, err)
	}
	if _, err := p.Next(ctx); !errors.Is(err, io.EOF) {
		t.Errorf("after the last event: %v, want EOF", err)
	}
}

func TestChildFailureIsReported(t *testing.T) {
	t.Parallel()
	ctx := within(t, time.Minute)
	for _, name := range []string{"fail", "unknown"} {
		p, err := startChild(name, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := p.Wait(ctx); err == nil {
			t.Errorf("child %s: Wait returned nil", name)
		}
	}
}

func TestChildKill(t *testing.T) {
	t.Parallel()
	p := StartChild(t, "echo", []string{"ready"})
	p.Await(t, "word ready", time.Minute)
	if err := p.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := p.Wait(within(t, time.Minute)); err == nil {
		t.Error("a killed child counts as ended well")
	}
}

func TestFreePortsAreDistinct(t *testing.T) {
	t.Parallel()
	ports, err := freePorts(50)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[int]bool{}
	for _, p := range ports {
		if seen[p] || p < lowestPort || p >= lowestPort+portCount {
			t.Errorf("port %d is out of range or a repeat", p)
		}
		seen[p] = true
	}
}

func TestOptions(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		in   Options
		want int
		ok   bool
	}{
		"default": {Options{}, 1, true},
		"three":   {Options{Brokers: 3}, 3, true},
		"two":     {Options{Brokers: 2}, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			o, err := c.in.withDefaults()
			if (err == nil) != c.ok {
				t.Fatalf("error %v, want ok %t", err, c.ok)
			}
			if c.ok && (o.Brokers != c.want || o.Version == "") {
				t.Errorf("got %+v", o)
			}
		})
	}
}

func TestWarnings(t *testing.T) {
	t.Parallel()
	got := warnings([]byte("INFO a\nWARN b\nERROR c\nINFO d\nWARN e\n"), 2)
	if fmt.Sprintf("%s", got) != "[ERROR c WARN e]" {
		t.Errorf("got %s", got)
	}
}

// TestSweep must not run beside tests that start brokers in the same directory: it has one of its own.
func TestSweep(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	used, err := newWorkDir()
	if err != nil {
		t.Fatal(err)
	}
	left, err := newWorkDir()
	if err != nil {
		t.Fatal(err)
	}
	left.lock.Close() // as the kernel does when the process is killed
	sweep()
	if exists(left.path) {
		t.Error("the directory of a process that has ended is still there")
	}
	if !exists(used.path) {
		t.Error("a directory in use was removed")
	}
	if err := used.remove(); err != nil || exists(used.path) {
		t.Errorf("remove: %v", err)
	}
}
