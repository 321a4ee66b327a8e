package kafka_test

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/holdfast-go/holdfast/devbroker"
	"github.com/holdfast-go/holdfast/kafka"
	"github.com/holdfast-go/holdfast/stream"
)

func broker(t *testing.T, c devbroker.Config) *devbroker.Broker {
	t.Helper()
	c.Listen = "127.0.0.1:0"
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

// unused returns an address of the loopback that nothing listens on.
func unused(t *testing.T) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := ln.Close(); err != nil {
		t.Fatal(err)
	}
	return ln.Addr().String()
}

// silent returns the address of a listener that takes connections and never answers.
func silent(t *testing.T) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := ln.Close(); err != nil {
			t.Error(err)
		}
	})
	return ln.Addr().String()
}

// impatient returns c with a short dial timeout. The development broker takes the first bytes of a TLS
// handshake for the size of a request and waits for the rest of it, where Kafka closes the connection.
func impatient(c kafka.Config) kafka.Config {
	c.Opts = []kgo.Opt{kgo.DialTimeout(100 * time.Millisecond)}
	return c
}

func TestPing(t *testing.T) {
	t.Parallel()
	user := []devbroker.User{{Mechanism: devbroker.Plain, Name: "ada", Password: "secret"},
		{Mechanism: devbroker.ScramSHA256, Name: "ada", Password: "secret"}}
	plaintext, secure, scram := broker(t, devbroker.Config{}), broker(t, devbroker.Config{TLS: true}), broker(t, devbroker.Config{Users: user})
	other := broker(t, devbroker.Config{TLS: true})
	lost := broker(t, devbroker.Config{Advertise: "no-such-host.invalid"})

	at := func(address string) kafka.Config { return kafka.Config{Brokers: []string{address}} }
	with := func(c kafka.Config, mechanism, password string) kafka.Config {
		out, err := c.WithSASL(mechanism, "ada", password)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	trust := func(b, authority *devbroker.Broker, name string) kafka.Config {
		c := at(b.Addr())
		c.TLS = &tls.Config{RootCAs: authority.Kafka().TLS.RootCAs, ServerName: name}
		return c
	}
	for name, tc := range map[string]struct {
		cfg  kafka.Config
		want error
		text string
	}{
		"good":                  {cfg: plaintext.Kafka()},
		"good tls":              {cfg: secure.Kafka()},
		"good sasl":             {cfg: scram.Kafka()},
		"good second mechanism": {cfg: with(at(scram.Addr()), "scram-sha-256", "secret")},
		"one of two":            {cfg: kafka.Config{Brokers: []string{unused(t), plaintext.Addr()}}},
		"one of two is silent":  {cfg: kafka.Config{Brokers: []string{silent(t), plaintext.Addr()}}},
		"no brokers":            {cfg: kafka.Config{}, want: stream.ErrConfig, text: "Brokers is empty"},
		"nothing listens":       {cfg: at(unused(t)), want: stream.ErrUnreachable, text: "nothing listens"},
		"unknown host":          {cfg: at("no-such-host.invalid:9092"), want: stream.ErrUnreachable, text: "no-such-host.invalid"},
		"plaintext to tls":      {cfg: at(secure.Addr()), want: stream.ErrUnreachable, text: "TLS"},
		"tls to plaintext":      {cfg: impatient(trust(plaintext, secure, "")), want: stream.ErrUnreachable, text: "does not speak TLS"},
		"wrong authority":       {cfg: trust(secure, other, ""), want: stream.ErrUnreachable, text: "trust the authority"},
		"wrong host name":       {cfg: trust(secure, secure, "elsewhere.example"), want: stream.ErrUnreachable, text: "host name"},
		"wrong password":        {cfg: with(at(scram.Addr()), "PLAIN", "wrong"), want: stream.ErrNotAuthenticated, text: "password"},
		"wrong scram password":  {cfg: with(at(scram.Addr()), "SCRAM-SHA-256", "wrong"), want: stream.ErrNotAuthenticated, text: "password"},
		"wrong mechanism":       {cfg: with(at(scram.Addr()), "SCRAM-SHA-512", "secret"), want: stream.ErrNotAuthenticated, text: "mechanism"},
		"sasl missing":          {cfg: at(scram.Addr()), want: stream.ErrNotAuthenticated, text: "SASL"},
		"advertised nowhere": {cfg: at(net.JoinHostPort("127.0.0.1", strings.TrimPrefix(lost.Addr(), "no-such-host.invalid:"))),
			want: stream.ErrUnreachable, text: "advertised.listeners"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			err := kafka.Ping(ctx, tc.cfg)
			if !errors.Is(err, tc.want) {
				t.Fatalf("Ping: %v, want %v", err, tc.want)
			}
			if err == nil {
				return
			}
			var e *stream.Error
			if !errors.As(err, &e) || e.Hint == "" || !strings.Contains(err.Error(), tc.text) {
				t.Fatalf("Ping: %v, want a hint that names %q", err, tc.text)
			}
			if strings.Contains(err.Error(), "secret") || strings.Contains(err.Error(), "wrong") && strings.Contains(err.Error(), "ada") {
				t.Fatalf("credentials are in the error: %v", err)
			}
			t.Log(err)
		})
	}
}

func TestPingEndsWithItsContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	err := kafka.Ping(ctx, kafka.Config{Brokers: []string{silent(t), silent(t)}})
	if !errors.Is(err, stream.ErrUnreachable) || !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("Ping of silence: %v, want ErrUnreachable by the deadline", err)
	}
	stopped, stop := context.WithCancel(t.Context())
	stop()
	if err := kafka.Ping(stopped, kafka.Config{Brokers: []string{silent(t)}}); !errors.Is(err, context.Canceled) || errors.Is(err, stream.ErrUnreachable) {
		t.Fatalf("Ping under a canceled context: %v, want the cancellation alone", err)
	}
}

// recorder keeps the first bytes that are written to a connection.
type recorder struct {
	net.Conn
	first func([]byte)
}

func (r recorder) Write(p []byte) (int, error) {
	r.first(p)
	return r.Conn.Write(p)
}

// TestWrapSeesKafkaFrames proves for each way of asking for TLS, and for none, that wrap is given
// plain Kafka requests: the size, then ApiVersions, key 18.
func TestWrapSeesKafkaFrames(t *testing.T) {
	t.Parallel()
	secure, plaintext := broker(t, devbroker.Config{TLS: true}), broker(t, devbroker.Config{})
	conf := secure.Kafka().TLS
	base := kafka.Config{Brokers: []string{secure.Addr()}}
	withOpts := func(opts ...kgo.Opt) kafka.Config { c := base; c.Opts = opts; return c }
	dialed := 0
	for _, tc := range []struct {
		name string
		cfg  kafka.Config
	}{
		{"plaintext", plaintext.Kafka()},
		{"Config.TLS", secure.Kafka()},
		{"kgo.DialTLSConfig", withOpts(kgo.DialTLSConfig(conf))},
		{"dialer that does TLS", withOpts(kgo.Dialer((&tls.Dialer{Config: conf}).DialContext))},
		{"dialer under Config.TLS", kafka.Config{Brokers: base.Brokers, TLS: conf, Opts: []kgo.Opt{
			kgo.Dialer(func(ctx context.Context, network, host string) (net.Conn, error) {
				dialed++
				return (&net.Dialer{}).DialContext(ctx, network, host)
			})}}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			frames := make(chan []byte, 100)
			opts, err := tc.cfg.ClientOpts(func(c net.Conn) net.Conn {
				return recorder{c, func(p []byte) { frames <- append([]byte{}, p...) }}
			})
			if err != nil {
				t.Fatal(err)
			}
			cl, err := kgo.NewClient(opts...)
			if err != nil {
				t.Fatal(err)
			}
			defer cl.Close()
			if err := cl.Ping(ctx); err != nil {
				t.Fatal(err)
			}
			if p := <-frames; len(p) < 6 || p[4] != 0 || p[5] != 18 {
				t.Fatalf("the first bytes are % x, want an ApiVersions request", p[:min(len(p), 16)])
			}
		})
	}
	if dialed == 0 {
		t.Fatal("the dialer of Opts was not used")
	}
}

func TestTLSTwice(t *testing.T) {
	t.Parallel()
	secure := broker(t, devbroker.Config{TLS: true})
	c := secure.Kafka()
	c.Opts = []kgo.Opt{kgo.Dialer((&tls.Dialer{Config: c.TLS}).DialContext)}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := kafka.Ping(ctx, c); !errors.Is(err, stream.ErrConfig) || !strings.Contains(err.Error(), "does TLS") {
		t.Fatalf("Ping: %v, want ErrConfig about TLS twice", err)
	}
}
