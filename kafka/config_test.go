package kafka

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kversion"
	"github.com/twmb/franz-go/pkg/sasl/plain"

	"github.com/holdfast-go/holdfast/stream"
)

func TestValidate(t *testing.T) {
	t.Parallel()
	good := []string{"localhost:9092"}
	mech := plain.Auth{User: "u", Pass: "secret"}.AsMechanism()
	for name, tc := range map[string]struct {
		cfg  Config
		want error
		text []string
	}{
		"good":               {cfg: Config{Brokers: good}},
		"two brokers":        {cfg: Config{Brokers: []string{"a:1", "b"}}},
		"no brokers":         {cfg: Config{}, want: stream.ErrConfig, text: []string{"Brokers is empty"}},
		"empty broker":       {cfg: Config{Brokers: []string{"a:1", " "}}, want: stream.ErrConfig, text: []string{"Brokers[1] is empty"}},
		"list in one string": {cfg: Config{Brokers: []string{"a:1,b:2"}}, want: stream.ErrConfig, text: []string{"its own element"}},
		"scheme":             {cfg: Config{Brokers: []string{"ssl://a:1"}}, want: stream.ErrConfig, text: []string{"no scheme"}},
		"bad port":           {cfg: Config{Brokers: []string{"a:http"}}, want: stream.ErrConfig, text: []string{`"a:http"`}},
		"nil option":         {cfg: Config{Brokers: good, Opts: []kgo.Opt{nil}}, want: stream.ErrConfig, text: []string{"Opts[0]"}},
		"tls twice":          {cfg: Config{Brokers: good, TLS: &tls.Config{}, Opts: []kgo.Opt{kgo.DialTLS()}}, want: stream.ErrConfig, text: []string{"DialTLSConfig"}},
		"sasl twice":         {cfg: Config{Brokers: good, SASL: mech, Opts: []kgo.Opt{kgo.SASL(mech)}}, want: stream.ErrConfig, text: []string{"kgo.SASL"}},
		"refused by kgo":     {cfg: Config{Brokers: good, Opts: []kgo.Opt{kgo.ClientID(strings.Repeat("x", 300))}}, want: stream.ErrConfig, text: []string{"client id"}},
		"reserved and refused": {cfg: Config{Brokers: good, Opts: []kgo.Opt{kgo.TransactionalID("x"), kgo.DisableIdempotentWrite()}},
			want: stream.ErrReservedOption, text: []string{"kgo.TransactionalID", "kgo.DisableIdempotentWrite"}},
		"all faults at once": {cfg: Config{Opts: []kgo.Opt{kgo.ConsumerGroup("g"), kgo.InstanceID("i")}},
			want: stream.ErrReservedOption, text: []string{"Brokers is empty", "kgo.ConsumerGroup", "kgo.InstanceID"}},
		"options that hold together": {cfg: Config{Brokers: good, Opts: []kgo.Opt{kgo.FetchMaxBytes(5 << 20)}}},
		"max versions":               {cfg: Config{Brokers: good, Opts: []kgo.Opt{kgo.MaxVersions(kversion.V3_0_0())}}},
		"max versions too low": {cfg: Config{Brokers: good, Opts: []kgo.Opt{kgo.MaxVersions(kversion.V2_0_0())}},
			want: stream.ErrReservedOption, text: []string{"kgo.MaxVersions", "TxnOffsetCommit"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := tc.cfg.Validate()
			if !errors.Is(err, tc.want) {
				t.Fatalf("Validate: %v, want %v", err, tc.want)
			}
			for _, s := range tc.text {
				if !strings.Contains(err.Error(), s) {
					t.Errorf("message %q does not name %q", err, s)
				}
			}
		})
	}
}

func TestDefaultsAndOverrides(t *testing.T) {
	t.Parallel()
	plain, err := Config{Brokers: []string{"127.0.0.1:1"}}.Client()
	if err != nil {
		t.Fatal(err)
	}
	defer plain.Close()
	own, err := Config{Brokers: []string{"127.0.0.1:1"}, Opts: []kgo.Opt{
		kgo.ClientID("mine"), kgo.MetadataMinAge(time.Second), kgo.FetchMaxBytes(1 << 10),
		kgo.ConcurrentTransactionsBackoff(time.Second),
	}}.Client()
	if err != nil {
		t.Fatal(err)
	}
	defer own.Close()
	for _, tc := range []struct {
		opt          string
		ours, theirs any
	}{
		{"ClientID", "holdfast", "mine"},
		{"MetadataMinAge", 100 * time.Millisecond, time.Second},
		{"MaxDecompressBatchBytes", 64 << 20, 64 << 20},
		{"FetchMaxBytes", int32(16 << 20), int32(1 << 10)},
		{"ConcurrentTransactionsBackoff", 3 * time.Millisecond, time.Second},
		{"AlwaysRetryEOF", true, true},
	} {
		if got := plain.OptValue(tc.opt); got != tc.ours {
			t.Errorf("%s is %v by default, want %v", tc.opt, got, tc.ours)
		}
		if got := own.OptValue(tc.opt); got != tc.theirs {
			t.Errorf("%s is %v when set, want %v", tc.opt, got, tc.theirs)
		}
	}
}

// TestInspectStartsNothing proves that reading the options of a consumer dials nobody and calls none
// of the user's hooks.
func TestInspectStartsNothing(t *testing.T) {
	t.Parallel()
	var dialed, hooked bool
	snap, faults := inspect([]kgo.Opt{
		kgo.WithHooks(hook(func() { hooked = true })),
		kgo.ConsumerGroup("g"), kgo.ConsumeTopics("t"), kgo.OnPartitionsAssigned(
			func(context.Context, *kgo.Client, map[string][]int32) {}),
		kgo.Dialer(func(context.Context, string, string) (net.Conn, error) {
			dialed = true
			return nil, errors.New("no")
		}),
	})
	if snap == nil || len(faults) != 3 {
		t.Fatalf("inspect: snapshot %v, faults %v, want three", snap != nil, faults)
	}
	if dialed || hooked {
		t.Fatalf("dialed %v, hook called %v, want neither", dialed, hooked)
	}
}

type hook func()

func (h hook) OnNewClient(*kgo.Client) { h() }

func TestNoSecretPrinted(t *testing.T) {
	t.Parallel()
	c := Config{Brokers: []string{"h:1"}, TLS: &tls.Config{ServerName: "hunter2"},
		SASL: plain.Auth{User: "u", Pass: "hunter2"}.AsMechanism(), Opts: []kgo.Opt{kgo.ClientID("hunter2")}}
	text, err := c.MarshalText()
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []string{fmt.Sprint(c), fmt.Sprintf("%v %+v %#v %s %q", c, c, c, c, c), fmt.Sprintf("%v", &c),
		c.LogValue().String(), string(text)} {
		if strings.Contains(s, "hunter2") || !strings.Contains(s, "PLAIN") {
			t.Errorf("printed %q", s)
		}
	}
}
