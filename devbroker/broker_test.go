package devbroker_test

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/holdfast-go/holdfast/devbroker"
	"github.com/holdfast-go/holdfast/kafka"
	"github.com/holdfast-go/holdfast/stream"
)

const anyPort = "127.0.0.1:0"

func start(t *testing.T, c devbroker.Config) *devbroker.Broker {
	t.Helper()
	if c.Listen == "" {
		c.Listen = anyPort
	}
	b, err := devbroker.Start(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	return b
}

func client(t *testing.T, c kafka.Config, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	cl, err := c.Client(opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	return cl
}

func deadline(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func TestProduceAndConsume(t *testing.T) {
	t.Parallel()
	ctx := deadline(t)
	for name, c := range map[string]devbroker.Config{
		"plain":         {},
		"tls":           {TLS: true},
		"tls and scram": {TLS: true, Users: []devbroker.User{{Name: "ada", Password: "secret"}}},
		"sasl plain":    {Users: []devbroker.User{{Mechanism: devbroker.Plain, Name: "ada", Password: "secret"}}},
		"scram 512":     {Users: []devbroker.User{{Mechanism: devbroker.ScramSHA512, Name: "ada", Password: "secret"}}},
		"any address":   {Listen: "0.0.0.0:0"},
		"old":           {OldTransactions: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c.Topics = []devbroker.Topic{{Name: "in", Partitions: 3}, {Name: "state", Partitions: 3, Compact: true,
				Config: map[string]string{"min.cleanable.dirty.ratio": "0.1"}}}
			b := start(t, c)
			cl := client(t, b.Kafka(), kgo.ConsumeTopics("in"))
			if err := cl.ProduceSync(ctx, &kgo.Record{Topic: "in", Value: []byte("v")}).FirstErr(); err != nil {
				t.Fatal(err)
			}
			if got := cl.PollFetches(ctx).Records(); len(got) != 1 || string(got[0].Value) != "v" {
				t.Fatalf("read %v, want the one record", got)
			}
			details, err := kadm.NewClient(cl).ListTopics(ctx, "in", "state")
			if err != nil || len(details["in"].Partitions) != 3 || len(details["state"].Partitions) != 3 {
				t.Fatalf("topics %v, %v, want 3 partitions each", details, err)
			}
		})
	}
}

func TestTransactionVersion(t *testing.T) {
	t.Parallel()
	ctx := deadline(t)
	for name, tc := range map[string]struct {
		old  bool
		want int16
	}{"current": {false, 2}, "old": {true, 0}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := start(t, devbroker.Config{OldTransactions: tc.old})
			answer, err := client(t, b.Kafka()).Request(ctx, kmsg.NewPtrApiVersionsRequest())
			if err != nil {
				t.Fatal(err)
			}
			got := int16(0)
			for _, f := range answer.(*kmsg.ApiVersionsResponse).FinalizedFeatures {
				if f.Name == "transaction.version" {
					got = f.MaxVersionLevel
				}
			}
			if got != tc.want {
				t.Fatalf("transaction.version %d, want %d", got, tc.want)
			}
		})
	}
}

func TestNoTopicIsMadeByALookUp(t *testing.T) {
	t.Parallel()
	b := start(t, devbroker.Config{})
	err := client(t, b.Kafka(), kgo.AllowAutoTopicCreation()).ProduceSync(deadline(t), &kgo.Record{Topic: "mistyped"}).FirstErr()
	if err == nil {
		t.Fatal("producing to a topic that does not exist succeeded")
	}
	b = start(t, devbroker.Config{AutoCreateTopics: true})
	err = client(t, b.Kafka(), kgo.AllowAutoTopicCreation()).ProduceSync(deadline(t), &kgo.Record{Topic: "wanted"}).FirstErr()
	if err != nil {
		t.Fatal(err)
	}
}

func TestRestartKeepsWhatWasWritten(t *testing.T) {
	t.Parallel()
	ctx := deadline(t)
	users := func(password string) []devbroker.User {
		return []devbroker.User{{Mechanism: devbroker.Plain, Name: "ada", Password: password}}
	}
	c := devbroker.Config{Listen: anyPort, DataDir: t.TempDir(), TLS: true, Users: users("first"),
		Topics: []devbroker.Topic{{Name: "in", Partitions: 1}, {Name: "state", Partitions: 1, Compact: true}}}
	one, err := devbroker.Start(c)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := os.ReadFile(one.CertificateFile())
	if err != nil {
		t.Fatal(err)
	}
	cl, err := one.Kafka().Client()
	if err != nil {
		t.Fatal(err)
	}
	if err := cl.ProduceSync(ctx, &kgo.Record{Topic: "in", Value: []byte("kept")}).FirstErr(); err != nil {
		t.Fatal(err)
	}
	cl.Close()
	if err := errors.Join(one.Close(), one.Close()); err != nil {
		t.Fatal(err)
	}

	c.Users = users("second")
	two := start(t, c)
	again, err := os.ReadFile(two.CertificateFile())
	if err != nil || string(again) != string(cert) {
		t.Fatalf("the certificate changed over the restart: %v", err)
	}
	// The certificate in the file is what another program trusts.
	other, err := kafka.Config{Brokers: []string{two.Addr()}}.WithTLSFiles(two.CertificateFile(), "", "")
	if err != nil {
		t.Fatal(err)
	}
	if other, err = other.WithSASL("plain", "ada", "second"); err != nil {
		t.Fatal(err)
	}
	got := client(t, other, kgo.ConsumeTopics("in")).PollFetches(ctx).Records()
	if len(got) != 1 || string(got[0].Value) != "kept" {
		t.Fatalf("read %v after the restart, want the record of before", got)
	}
	if info, err := os.Stat(filepath.Join(c.DataDir, "tls", "key.pem")); err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("key file: %v, %v, want one that only its owner may read", info, err)
	}
}

func TestStartErrors(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", anyPort)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := taken.Close(); err != nil {
			t.Error(err)
		}
	})
	dir := t.TempDir()
	start(t, devbroker.Config{DataDir: dir, Topics: []devbroker.Topic{{Name: "in", Partitions: 2}}})
	for name, tc := range map[string]struct {
		c    devbroker.Config
		want error
		text string
	}{
		"port taken":      {devbroker.Config{Listen: taken.Addr().String()}, stream.ErrConfig, "taken by another program"},
		"directory taken": {devbroker.Config{DataDir: dir}, stream.ErrConfig, dir},
		"no port":         {devbroker.Config{Listen: "localhost"}, stream.ErrConfig, "host:port"},
		"bad port":        {devbroker.Config{Listen: "localhost:kafka"}, stream.ErrConfig, "not a number"},
		"foreign address": {devbroker.Config{Listen: "192.0.2.1:0"}, stream.ErrConfig, "cannot listen"},
		"no name":         {devbroker.Config{Topics: []devbroker.Topic{{Partitions: 1}}}, stream.ErrConfig, "Topics[0]"},
		"no partitions":   {devbroker.Config{Topics: []devbroker.Topic{{Name: "x"}}}, stream.ErrConfig, "partitions"},
		"twice": {devbroker.Config{Topics: []devbroker.Topic{{Name: "x", Partitions: 1}, {Name: "x", Partitions: 1}}},
			stream.ErrConfig, "twice"},
		"two policies": {devbroker.Config{Topics: []devbroker.Topic{{Name: "x", Partitions: 1, Compact: true,
			Config: map[string]string{"cleanup.policy": "delete"}}}}, stream.ErrConfig, "cleanup.policy"},
		"bad topic": {devbroker.Config{Topics: []devbroker.Topic{{Name: "not a name", Partitions: 1}}}, stream.ErrConfig, "not a name"},
		"mechanism": {devbroker.Config{Users: []devbroker.User{{Mechanism: "GSSAPI", Name: "a", Password: "b"}}}, stream.ErrConfig, "GSSAPI"},
		"password":  {devbroker.Config{Users: []devbroker.User{{Name: "a"}}}, stream.ErrConfig, "password"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if tc.c.Listen == "" {
				tc.c.Listen = anyPort
			}
			b, err := devbroker.Start(tc.c)
			if b != nil {
				t.Error(b.Close())
			}
			if !errors.Is(err, tc.want) || !strings.Contains(err.Error(), tc.text) {
				t.Fatalf("Start: %v, want %v with %q", err, tc.want, tc.text)
			}
		})
	}
}

func TestTopicThatIsThereInAnotherShape(t *testing.T) {
	t.Parallel()
	c := devbroker.Config{Listen: anyPort, DataDir: t.TempDir(), Topics: []devbroker.Topic{{Name: "in", Partitions: 2}}}
	b, err := devbroker.Start(c)
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	for text, topic := range map[string]devbroker.Topic{
		"2 partitions":   {Name: "in", Partitions: 3},
		"cleanup.policy": {Name: "in", Partitions: 2, Compact: true},
	} {
		c.Topics = []devbroker.Topic{topic}
		if b, err = devbroker.Start(c); !errors.Is(err, stream.ErrTopic) || !strings.Contains(err.Error(), text) {
			t.Fatalf("Start: %v, %v, want ErrTopic with %q", b, err, text)
		}
	}
}
