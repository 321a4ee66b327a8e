package wiretap

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Cluster has a proxy before each broker of a cluster. Its faults and observers apply to all of them.
type Cluster struct {
	proxies []*Proxy
	byAddr  map[string]*Proxy
}

// NewCluster makes one proxy for each advertised address. It must be given all of them: the Dialer
// refuses others, as a connection past the proxies would make a fault silently miss. The caller calls
// Close.
func NewCluster(addrs []string) (*Cluster, error) {
	return NewClusterDialing(addrs, "", (&net.Dialer{}).DialContext)
}

// NewClusterDialing is NewCluster with dial making the connections to the brokers. A dial that does the
// TLS handshake lets the proxies stand before brokers that speak TLS: clients then come to the proxies
// in plaintext, over the loopback.
//
// Every account of the machine may connect to the loopback, and what a proxy's own TLS proves to a broker would
// be lent to all of them. With a token, connections that do not begin with it are reset: see WithToken.
func NewClusterDialing(addrs []string, token string, dial Dial) (*Cluster, error) {
	c := &Cluster{byAddr: map[string]*Proxy{}}
	for _, addr := range addrs {
		if c.byAddr[addr] != nil {
			continue
		}
		p, err := newProxy(addr, token, dial)
		if err != nil {
			return nil, errors.Join(err, c.Close())
		}
		c.proxies = append(c.proxies, p)
		c.byAddr[addr] = p
	}
	return c, nil
}

// Close closes all proxies.
func (c *Cluster) Close() error {
	var err error
	for _, p := range c.proxies {
		err = errors.Join(err, p.Close())
	}
	return err
}

// Err returns the first frame of each proxy that could not be understood, joined, or nil.
func (c *Cluster) Err() error {
	var err error
	for _, p := range c.proxies {
		err = errors.Join(err, p.Err())
	}
	return err
}

// Proxy returns the proxy before the broker at the advertised address, or nil.
func (c *Cluster) Proxy(addr string) *Proxy { return c.byAddr[addr] }

// Map returns the proxy's address for each advertised address, for a child process.
func (c *Cluster) Map() map[string]string {
	m := map[string]string{}
	for addr, p := range c.byAddr {
		m[addr] = p.Addr()
	}
	return m
}

// Dialer takes a client to the proxies, for kgo.Dialer.
func (c *Cluster) Dialer() func(ctx context.Context, network, host string) (net.Conn, error) {
	return DialerFor(c.Map())
}

// DialerFor returns a dialer for a Map, in the process that received it. An address that the map does
// not have is refused.
func DialerFor(addrs map[string]string) func(ctx context.Context, network, host string) (net.Conn, error) {
	addrs = maps.Clone(addrs)
	return func(ctx context.Context, network, host string) (net.Conn, error) {
		via, ok := addrs[host]
		if !ok {
			return nil, fmt.Errorf("wiretap: no proxy for broker %s: give all advertised addresses to NewCluster", host)
		}
		return (&net.Dialer{}).DialContext(ctx, network, via)
	}
}

// OnRequest is Proxy.OnRequest for all brokers.
func (c *Cluster) OnRequest(f func(Request)) (remove func()) {
	return c.each(func(p *Proxy) func() { return p.OnRequest(f) })
}

// OnResponse is Proxy.OnResponse for all brokers.
func (c *Cluster) OnResponse(f func(Request, kmsg.Response), keys ...kmsg.Key) (remove func()) {
	return c.each(func(p *Proxy) func() { return p.OnResponse(f, keys...) })
}

func (c *Cluster) each(add func(*Proxy) func()) (remove func()) {
	var removes []func()
	for _, p := range c.proxies {
		removes = append(removes, add(p))
	}
	return func() {
		for _, f := range removes {
			f()
		}
	}
}

// Fault is Proxy.Fault for all brokers: one fault, which counts and holds over all of them.
func (c *Cluster) Fault(action Action, match Match) *Fault {
	return c.add(newFault(action, match))
}

// Answer is Proxy.Answer for all brokers.
func (c *Cluster) Answer(err *kerr.Error, match Match) *Fault {
	f := newFault(AnswerWith, match)
	f.change = refuse(err.Code)
	return c.add(f)
}

// Rewrite changes the answers to what match accepts, until the fault is lifted, as Answer does their errors. change
// is called from the goroutines of all connections at once; an error of it ends the connection and is told by Err.
func (c *Cluster) Rewrite(match Match, change func(kmsg.Response) error) *Fault {
	f := newFault(AnswerWith, match)
	f.change = change
	return c.add(f)
}

func (c *Cluster) add(f *Fault) *Fault {
	f.lift = func() {
		for _, p := range c.proxies {
			p.removeFault(f)
		}
	}
	for _, p := range c.proxies {
		p.addFault(f)
	}
	return f
}

// Refuse is Proxy.Refuse for all brokers.
func (c *Cluster) Refuse(on bool) {
	for _, p := range c.proxies {
		p.Refuse(on)
	}
}

// LoseRequests is Proxy.LoseRequests for all brokers.
func (c *Cluster) LoseRequests(on bool) {
	for _, p := range c.proxies {
		p.LoseRequests(on)
	}
}

// LoseResponses is Proxy.LoseResponses for all brokers.
func (c *Cluster) LoseResponses(on bool) {
	for _, p := range c.proxies {
		p.LoseResponses(on)
	}
}

// Cut is Proxy.Cut for all brokers.
func (c *Cluster) Cut(match func(clientID string) bool) int {
	n := 0
	for _, p := range c.proxies {
		n += p.Cut(match)
	}
	return n
}
