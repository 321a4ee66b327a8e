package devbroker

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kversion"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"github.com/holdfast-go/holdfast/kafka"
	"github.com/holdfast-go/holdfast/stream"
)

// startTimeout bounds what Start does over the loopback once the broker listens.
const startTimeout = 30 * time.Second

// Broker is a broker that runs. Its methods are safe for concurrent use.
type Broker struct {
	cfg      Config
	addr     string // advertised
	bound    string // listened on
	cluster  *kfake.Cluster
	log      *logger
	unlock   func() error
	roots    *x509.CertPool
	certFile string
	close    func() error
}

// Start starts a broker and creates its topics. When it returns, the broker answers. Close it.
//
// It returns stream.ErrConfig for a configuration that cannot work or an address that is taken, and
// stream.ErrTopic for a topic that is there in another shape.
func Start(c Config) (*Broker, error) {
	c, err := c.withDefaults()
	if err != nil {
		return nil, err
	}
	b := &Broker{cfg: c, log: &logger{to: c.Logger}, unlock: func() error { return nil }}
	b.close = sync.OnceValue(b.shutdown)
	if err := b.start(); err != nil {
		return nil, errors.Join(err, b.Close())
	}
	return b, nil
}

func (b *Broker) start() error {
	if err := b.openDir(); err != nil {
		return err
	}
	ln, err := listen(b.cfg.Listen)
	if err != nil {
		return err
	}
	host, port, err := advertised(ln.Addr(), b.cfg.Advertise)
	if err != nil {
		return errors.Join(err, ln.Close())
	}
	b.addr, b.bound = net.JoinHostPort(host, port), ln.Addr().String()
	opts, err := b.options(advertisedListener{Listener: ln, addr: hostPort(b.addr)}, host)
	if err != nil {
		return errors.Join(err, ln.Close())
	}
	if b.cluster, err = kfake.NewCluster(opts...); err != nil {
		hint := "look at the cause"
		if b.cfg.DataDir != "" {
			hint = fmt.Sprintf("if %s was written by another version, start with an empty directory", b.cfg.DataDir)
		}
		return errors.Join(fault(err, hint), ignoreClosed(ln.Close()))
	}
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	if err := b.Ready(ctx); err != nil {
		return err
	}
	return b.createTopics(ctx)
}

// options are kfake's. It listens on ln whatever address it thinks of.
func (b *Broker) options(ln net.Listener, host string) ([]kfake.Opt, error) {
	opts := []kfake.Opt{
		kfake.NumBrokers(1),
		kfake.ListenFn(func(string, string) (net.Listener, error) { return ln, nil }),
		kfake.ClusterID(ClusterID),
		kfake.WithLogger(b.log),
	}
	if b.cfg.AutoCreateTopics {
		opts = append(opts, kfake.AllowAutoTopicCreation(), kfake.DefaultNumPartitions(1))
	}
	if b.cfg.OldTransactions {
		opts = append(opts, kfake.MaxVersions(kversion.V3_9_0()))
	}
	if b.cfg.DataDir != "" {
		opts = append(opts, kfake.DataDir(filepath.Join(b.cfg.DataDir, "kafka")))
		if b.cfg.SyncWrites {
			opts = append(opts, kfake.SyncWrites())
		}
	}
	if len(b.cfg.Users) > 0 {
		opts = append(opts, kfake.EnableSASL())
		for _, u := range b.cfg.Users {
			opts = append(opts, kfake.Superuser(u.mechanism(), u.Name, u.Password))
		}
	}
	if b.cfg.TLS {
		conf, err := b.certificate(host)
		if err != nil {
			return nil, fault(err, "make the data directory writable, or start without TLS")
		}
		opts = append(opts, kfake.TLS(conf))
	}
	return opts, nil
}

// listen listens on address and says in words when it is taken.
func listen(address string) (net.Listener, error) {
	ln, err := net.Listen("tcp", address)
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, fault(fmt.Errorf("%w: address %s is taken by another program: %w", stream.ErrConfig, address, err),
			"stop that program, or choose another port; port 0 takes a free one")
	case errors.Is(err, syscall.EACCES):
		return nil, fault(fmt.Errorf("%w: address %s may not be used by this user: %w", stream.ErrConfig, address, err),
			"choose a port above 1023")
	case err != nil:
		return nil, fault(fmt.Errorf("%w: cannot listen on %s: %w", stream.ErrConfig, address, err),
			"choose an address of this machine, as 127.0.0.1:9092")
	}
	return ln, nil
}

// advertised returns the host and port that clients are told.
func advertised(bound net.Addr, host string) (string, string, error) {
	ip, port, err := net.SplitHostPort(bound.String())
	if err != nil {
		return "", "", fault(err, "give Listen as host:port")
	}
	if host != "" {
		return host, port, nil
	}
	if parsed := net.ParseIP(ip); parsed == nil || parsed.IsUnspecified() {
		return "localhost", port, nil
	}
	return ip, port, nil
}

// advertisedListener answers Addr with what clients are to be told, for kfake takes it from there.
type advertisedListener struct {
	net.Listener
	addr hostPort
}

func (l advertisedListener) Addr() net.Addr { return l.addr }

type hostPort string

func (hostPort) Network() string  { return "tcp" }
func (h hostPort) String() string { return string(h) }

// String leaves out what the broker was configured with, as passwords.
func (b *Broker) String() string { return "development broker at " + b.addr }

// GoString is String.
func (b *Broker) GoString() string { return b.String() }

// Addr returns the advertised address, host:port.
func (b *Broker) Addr() string { return b.addr }

// Port returns the port that the broker listens on.
func (b *Broker) Port() int {
	_, port, err := net.SplitHostPort(b.addr)
	if err != nil {
		return 0
	}
	n, err := strconv.Atoi(port)
	if err != nil {
		return 0
	}
	return n
}

// CertificateFile returns the path of the certificate that clients have to trust, in PEM. It is ""
// without TLS or without DataDir.
func (b *Broker) CertificateFile() string { return b.certFile }

// Kafka returns a connection to the broker, as the first of the users if there are any.
func (b *Broker) Kafka() kafka.Config {
	c := kafka.Config{Brokers: []string{b.addr}}
	if b.roots != nil {
		c.TLS = &tls.Config{RootCAs: b.roots, MinVersion: tls.VersionTLS12}
	}
	if len(b.cfg.Users) > 0 {
		c.SASL = mechanism(b.cfg.Users[0])
	}
	return c
}

func mechanism(u User) sasl.Mechanism {
	switch u.mechanism() {
	case Plain:
		return plain.Auth{User: u.Name, Pass: u.Password}.AsMechanism()
	case ScramSHA512:
		return scram.Auth{User: u.Name, Pass: u.Password}.AsSha512Mechanism()
	}
	return scram.Auth{User: u.Name, Pass: u.Password}.AsSha256Mechanism()
}

// Ready returns nil once the broker answers, or the error that it still had when ctx ended. A broker
// that Start returned is ready.
func (b *Broker) Ready(ctx context.Context) error { return kafka.Ping(ctx, b.local()) }

// local returns a connection that reaches the broker even where the advertised host does not resolve,
// as the name that a container has in its own network does not outside of it.
func (b *Broker) local() kafka.Config {
	c := b.Kafka()
	c.Opts = []kgo.Opt{kgo.Dialer(func(ctx context.Context, network, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, network, b.bound)
	})}
	return c
}

// Close stops the broker and, with DataDir, writes what is not written yet. Close clients first:
// each takes a second to close once its broker is gone. Only the first call does something; all
// return its error.
func (b *Broker) Close() error { return b.close() }

func (b *Broker) shutdown() error {
	var errs []error
	if b.cluster != nil {
		b.log.startClosing()
		b.cluster.Close()
		// kfake has no error to return, and says what it could not write to its logger alone.
		errs = append(errs, b.log.closingErrors()...)
		errs = append(errs, b.closeUsers())
	}
	return errors.Join(append(errs, b.unlock())...)
}

func ignoreClosed(err error) error {
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

// logger hands kfake's messages on, and keeps the errors of a shutdown.
type logger struct {
	to      *slog.Logger
	mu      sync.Mutex
	closing bool
	errs    []error
}

// Logf implements kfake's logger.
func (l *logger) Logf(level kfake.LogLevel, format string, args ...any) {
	at := slog.LevelDebug
	switch level {
	case kfake.LogLevelError:
		at = slog.LevelError
		l.mu.Lock()
		if l.closing {
			l.errs = append(l.errs, fmt.Errorf("stop development broker: "+format, args...))
		}
		l.mu.Unlock()
	case kfake.LogLevelWarn:
		at = slog.LevelWarn
	}
	if ctx := context.Background(); l.to.Enabled(ctx, at) {
		l.to.Log(ctx, at, fmt.Sprintf(format, args...), "component", "devbroker")
	}
}

func (l *logger) startClosing() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closing = true
}

func (l *logger) closingErrors() []error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.errs
}
