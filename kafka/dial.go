package kafka

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"time"
)

type dialFunc = func(ctx context.Context, network, host string) (net.Conn, error)

// dialer makes every connection of every client. There is one place for it so that what wrap is
// given is always plain Kafka frames, whichever way TLS was asked for.
type dialer struct {
	base    dialFunc
	tls     *tls.Config
	timeout time.Duration
	wrap    func(net.Conn) net.Conn
}

func (d dialer) dial(ctx context.Context, network, host string) (net.Conn, error) {
	conn, err := d.base(ctx, network, host)
	if err != nil {
		return nil, err
	}
	if d.tls != nil {
		if conn, err = d.handshake(ctx, conn, host); err != nil {
			return nil, err
		}
	}
	if d.wrap != nil {
		conn = d.wrap(conn)
	}
	return conn, nil
}

// handshake does TLS on top of conn, and closes conn if it fails.
func (d dialer) handshake(ctx context.Context, conn net.Conn, host string) (net.Conn, error) {
	if _, done := conn.(*tls.Conn); done {
		return nil, withClose(conn, fault("the kgo.Dialer in Opts does TLS, and TLS is configured as well",
			"remove Config.TLS, or give a dialer that does not do TLS"))
	}
	cfg := d.tls.Clone()
	if cfg.ServerName == "" {
		name, _, err := net.SplitHostPort(host)
		if err != nil {
			return nil, withClose(conn, fmt.Errorf("broker address %q: %w", host, err))
		}
		cfg.ServerName = name
	}
	ctx, cancel := context.WithTimeout(ctx, d.timeout)
	defer cancel()
	secure := tls.Client(conn, cfg)
	if err := secure.HandshakeContext(ctx); err != nil {
		return nil, withClose(conn, &handshakeError{host: host, err: err})
	}
	return secure, nil
}

// withClose closes conn and returns err with the error of the close, if there was one, added. A
// handshake that ran out of time has closed the connection already.
func withClose(conn net.Conn, err error) error {
	if cerr := conn.Close(); cerr != nil && !errors.Is(cerr, net.ErrClosed) {
		return fmt.Errorf("%w (closing the connection: %v)", err, cerr)
	}
	return err
}

// handshakeError marks a failed TLS handshake, so that Explain can tell it from a failed dial.
type handshakeError struct {
	host string
	err  error
}

func (e *handshakeError) Error() string {
	return fmt.Sprintf("tls handshake with %s: %v", e.host, e.err)
}
func (e *handshakeError) Unwrap() error { return e.err }
