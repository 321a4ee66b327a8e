package wiretap

import (
	"context"
	"crypto/subtle"
	"errors"
	"io"
	"net"
	"time"
)

// tokenLimit is how long a connection may take to say its token.
const tokenLimit = 5 * time.Second

// knows reads the token of a connection, and reports whether it is the proxy's.
func (p *Proxy) knows(down net.Conn) bool {
	if p.token == "" {
		return true
	}
	said := make([]byte, len(p.token))
	if err := down.SetReadDeadline(time.Now().Add(tokenLimit)); err != nil {
		return false
	}
	if _, err := io.ReadFull(down, said); err != nil {
		return false
	}
	return subtle.ConstantTimeCompare(said, []byte(p.token)) == 1 && down.SetReadDeadline(time.Time{}) == nil
}

// WithToken returns a dialer whose connections begin with token.
func WithToken(token string, dial Dial) Dial {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		if _, err := io.WriteString(conn, token); err != nil {
			return nil, errors.Join(err, conn.Close())
		}
		return conn, nil
	}
}
