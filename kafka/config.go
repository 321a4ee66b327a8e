package kafka

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"runtime/debug"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"

	"github.com/holdfast-go/holdfast/internal/intake"
	"github.com/holdfast-go/holdfast/stream"
)

// The defaults that ClientOpts puts before Config.Opts, so that an option there overrides them.
const (
	// DefaultClientID is the client id that brokers see in quotas, metrics and request logs.
	DefaultClientID = "holdfast"
	// DefaultMetadataMinAge is the least time between two metadata requests. kgo's own 5 s would
	// make the first transaction after a topic was created wait as long.
	DefaultMetadataMinAge = 100 * time.Millisecond
	// DefaultFetchBudget is the FetchBudget of a Config that has none.
	DefaultFetchBudget = intake.DefaultBytes
	// DefaultMaxDecompressBytes bounds what one fetched batch may decompress to: a quarter of the default
	// FetchBudget.
	DefaultMaxDecompressBytes = DefaultFetchBudget / 4
	// DefaultConcurrentTransactionsBackoff is the pause before a transactional request is sent again
	// that the broker refused because the markers of the last transaction are still being written.
	DefaultConcurrentTransactionsBackoff = 3 * time.Millisecond
)

// Config says how to reach a cluster. Brokers is required; the zero value of every other field is a
// plaintext connection without authentication.
type Config struct {
	// Brokers are the addresses of first contact, "host:port" or "host" (port 9092). Any broker
	// serves; name two or more so that one may be down.
	Brokers []string
	// TLS, if not nil, is used for every connection. A ServerName of "" means the host that is
	// dialed. nil: plaintext.
	TLS *tls.Config
	// SASL, if not nil, authenticates every connection: see Config.WithSASL, OAuthClient, OAuthToken and OAuthTokenFile,
	// or any mechanism of franz-go.
	SASL sasl.Mechanism
	// FetchBudget is how many bytes fetched records may take in memory, whatever their writers have made of
	// them: in the client, opened, with all their headers, copied on the way, and in queues. Each component has
	// one, for all its partitions and brokers. What is larger than a quarter of it, as one batch in memory, is
	// not read: see stream.ErrTooLarge. 0: DefaultFetchBudget, 256 MiB; the least is 16 MiB.
	//
	// The budget is what comes from brokers, and not what a fold makes of it: give a container the budget,
	// 256 MiB and what the states take.
	FetchBudget int64
	// Opts are raw client options, applied to every client that any component makes. An option that
	// a guarantee rests on is refused: see Reserved.
	Opts []kgo.Opt

	exposed []string // warnings of files that every account may read
}

// Validate reports every fault of c that can be found without a network, joined: faults of the
// fields as stream.ErrConfig, reserved options as stream.ErrReservedOption. nil: none.
func (c Config) Validate() error {
	_, err := c.resolve()
	return err
}

// ClientOpts returns the options of a client: this package's defaults, c.Opts, then the connection.
// Options of the caller go after them.
//
// wrap, if not nil, is given each connection after the TLS handshake and before its first byte, so
// that it sees plain Kafka frames, and returns the connection to use.
//
// It returns what Validate returns.
func (c Config) ClientOpts(wrap func(net.Conn) net.Conn) ([]kgo.Opt, error) {
	return c.clientOpts(wrap, kgo.AlwaysRetryEOF())
}

// clientOpts is ClientOpts with the tail given. Ping leaves AlwaysRetryEOF out, because at a first
// contact a connection that is closed at once means a setting that is wrong, and a retry would hide
// it until the deadline.
func (c Config) clientOpts(wrap func(net.Conn) net.Conn, tail ...kgo.Opt) ([]kgo.Opt, error) {
	r, err := c.resolve()
	if err != nil {
		return nil, err
	}
	budget := r.budget
	if budget == nil {
		budget = intake.New(c.FetchBudget)
	}
	in := intake.NewClient(budget)
	largest := int32(min(budget.MaxBatch(), maxRead/2))
	opts := make([]kgo.Opt, 0, len(c.Opts)+16)
	opts = append(opts,
		kgo.ClientID(DefaultClientID),
		kgo.SoftwareNameAndVersion("holdfast", softwareVersion()),
		kgo.MetadataMinAge(DefaultMetadataMinAge),
		kgo.FetchMaxBytes(min(defaultFetchBytes, largest)),
		kgo.ConcurrentTransactionsBackoff(DefaultConcurrentTransactionsBackoff),
	)
	opts = append(opts, c.Opts...)
	dial := dialer{base: r.dial, tls: r.tls, timeout: r.dialTimeout, wrap: func(conn net.Conn) net.Conn {
		if wrap != nil {
			conn = wrap(conn)
		}
		return in.Conn(conn)
	}}
	opts = append(opts,
		kgo.WithHooks(in),
		// Of what the intake has let through.
		kgo.MaxDecompressBatchBytes(int(budget.MaxBatch())),
		kgo.BrokerMaxReadBytes(max(defaultReadBytes, 2*largest)),
		kgo.SeedBrokers(c.Brokers...),
		// kgo refuses a TLS config beside a dialer; ours does the handshake itself.
		kgo.DialTLSConfig(nil),
		kgo.Dialer(dial.dial),
	)
	if c.SASL != nil {
		opts = append(opts, kgo.SASL(c.SASL))
	}
	return append(opts, tail...), nil
}

// Client returns a client with ClientOpts(nil) and extra after it. It sends nothing before its first
// request. The caller closes it. It returns what Validate returns, or stream.ErrConfig if kgo refuses
// extra.
func (c Config) Client(extra ...kgo.Opt) (*kgo.Client, error) {
	opts, err := c.ClientOpts(nil)
	if err != nil {
		return nil, err
	}
	cl, err := kgo.NewClient(append(opts, extra...)...)
	if err != nil {
		return nil, stream.NewError("make client", fmt.Errorf("%w: %w", stream.ErrConfig, err))
	}
	return cl, nil
}

// resolved is what Config and its raw options come to together.
type resolved struct {
	dial        dialFunc
	dialTimeout time.Duration
	tls         *tls.Config
	budget      *intake.Budget // that is shared by several clients; nil: none
	own         bool           // the dialer is the program's
}

const (
	// defaultFetchBytes is what a client asks one broker for at once. kgo's own 50 MiB are fetched again
	// where there is no room for them.
	defaultFetchBytes = 16 << 20
	// defaultReadBytes is kgo's bound of one answer, maxRead the most that it takes.
	defaultReadBytes = 100 << 20
	maxRead          = 1 << 30
)

// resolve checks c and finds the connection that its fields and its raw options describe.
func (c Config) resolve() (resolved, error) {
	r := resolved{tls: c.TLS, dialTimeout: 10 * time.Second}
	errs := c.brokerFaults()
	if len(c.Opts) > 0 {
		snap, faults := inspect(c.Opts)
		errs = append(errs, faults...)
		if snap != nil {
			errs = append(errs, r.take(c, snap)...)
		}
	}
	if r.dial == nil {
		r.dial = (&net.Dialer{Timeout: r.dialTimeout}).DialContext
	}
	return r, errors.Join(errs...)
}

// take reads the connection out of the raw options.
func (r *resolved) take(c Config, snap snapshot) []error {
	var errs []error
	if d, ok := snap.one("DialTimeout").(time.Duration); ok && d > 0 {
		r.dialTimeout = d
	}
	if f, ok := snap.one("Dialer").(func(ctx context.Context, network, host string) (net.Conn, error)); ok && f != nil {
		r.dial, r.own = f, true
	}
	if hooks, ok := snap.one("WithHooks").([]kgo.Hook); ok {
		for _, h := range hooks {
			if b, ok := h.(*intake.Budget); ok {
				r.budget = b
			}
		}
	}
	if t, ok := snap.one("DialTLSConfig").(*tls.Config); ok && t != nil {
		if c.TLS != nil {
			errs = append(errs, fault("Config.TLS and kgo.DialTLSConfig (or DialTLS) are both set",
				"remove the option from Opts; Config.TLS does the same"))
		}
		// kgo allows no dialer beside it, and what it answers for one then is its own that does TLS.
		r.tls, r.dial = t, nil
	}
	if s, ok := snap.one("SASL").([]sasl.Mechanism); ok && len(s) > 0 && c.SASL != nil {
		errs = append(errs, fault("Config.SASL and kgo.SASL are both set",
			"remove one; kgo would try the one in Opts first"))
	}
	return errs
}

// brokerFaults checks the addresses.
func (c Config) brokerFaults() []error {
	if len(c.Brokers) == 0 {
		return []error{fault("Brokers is empty", "name at least one broker as host:port")}
	}
	var errs []error
	for i, b := range c.Brokers {
		switch {
		case strings.TrimSpace(b) == "":
			errs = append(errs, fault(fmt.Sprintf("Brokers[%d] is empty", i), "name a broker as host:port"))
		case strings.Contains(b, "://"):
			errs = append(errs, fault(fmt.Sprintf("Brokers[%d] is %q", i, b),
				"a broker address has no scheme: give host:port"))
		case strings.ContainsAny(b, ", \t\n/"):
			errs = append(errs, fault(fmt.Sprintf("Brokers[%d] is %q", i, b),
				"give each broker its own element, as host:port"))
		default:
			if err := kgo.ValidateOpts(kgo.SeedBrokers(b)); err != nil {
				errs = append(errs, fault(fmt.Sprintf("Brokers[%d] is %q: %v", i, b, err), "give host:port"))
			}
		}
	}
	return errs
}

// fault returns an ErrConfig for this package.
func fault(what, hint string) error {
	return stream.NewError("kafka configuration", fmt.Errorf("%w: %s", stream.ErrConfig, what)).Hinted("%s", hint)
}

// String describes c without secrets: addresses, whether TLS is on, and the name of the mechanism.
func (c Config) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "kafka.Config{Brokers: %s, TLS: ", strings.Join(c.Brokers, ","))
	switch {
	case c.TLS == nil:
		b.WriteString("off")
	case c.TLS.InsecureSkipVerify && c.TLS.VerifyConnection == nil:
		b.WriteString("on, certificates NOT verified")
	default:
		b.WriteString("on")
	}
	b.WriteString(", SASL: ")
	if c.SASL == nil {
		b.WriteString("off")
	} else {
		b.WriteString(c.SASL.Name())
	}
	fmt.Fprintf(&b, ", Opts: %d}", len(c.Opts))
	return b.String()
}

// GoString returns String, so that %#v prints no secret.
func (c Config) GoString() string { return c.String() }

// LogValue returns String as a log value, so that a log record carries no secret.
func (c Config) LogValue() slog.Value { return slog.StringValue(c.String()) }

// MarshalText returns String, so that an encoder which walks values carries no secret.
func (c Config) MarshalText() ([]byte, error) { return []byte(c.String()), nil }

// softwareVersion returns the version of this module for the broker's client metrics. Kafka allows
// letters, digits, dots and dashes only.
func softwareVersion() string {
	const path = "github.com/holdfast-go/holdfast"
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "devel"
	}
	version := ""
	if info.Main.Path == path {
		version = info.Main.Version
	}
	for _, d := range info.Deps {
		if d.Path == path {
			version = d.Version
		}
	}
	clean := strings.Map(func(r rune) rune {
		switch {
		case r >= '0' && r <= '9', r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r == '.', r == '-':
			return r
		}
		return '-'
	}, version)
	if clean = strings.Trim(clean, ".-"); clean == "" {
		return "devel"
	}
	return clean
}
