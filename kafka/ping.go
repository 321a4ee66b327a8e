package kafka

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/holdfast-go/holdfast/stream"
)

// Ping makes first contact: it connects to all of c.Brokers at once, does TLS and SASL, asks for the
// cluster's brokers, and checks that one of those can be reached at the address it advertises. One
// broker that answers is enough.
//
// It ends with ctx; give it a deadline. It returns what Validate returns; else, for each address, an
// error as Explain makes it: stream.ErrUnreachable, ErrNotAuthenticated, ErrNotAuthorized or
// ErrBrokerTooOld.
func Ping(ctx context.Context, c Config) error {
	// Without AlwaysRetryEOF: a connection that is closed at once is an answer here.
	opts, err := c.clientOpts(nil)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	results := make(chan error, len(c.Brokers))
	for _, b := range c.Brokers {
		go func() { results <- pingOne(ctx, b, c, opts) }()
	}
	// Every goroutine is waited for; the first success ends the others.
	errs := make([]error, 0, len(c.Brokers))
	reached := false
	for range c.Brokers {
		if err := <-results; err != nil {
			errs = append(errs, err)
			continue
		}
		reached = true
		cancel()
	}
	if reached {
		return nil
	}
	return errors.Join(errs...)
}

// pingOne makes first contact with one address.
func pingOne(ctx context.Context, address string, c Config, opts []kgo.Opt) error {
	cl, err := kgo.NewClient(append(append([]kgo.Opt{}, opts...), kgo.SeedBrokers(address), kgo.RequestRetries(1))...)
	if err != nil {
		return stream.NewError("connect to Kafka", fmt.Errorf("%w: %w", stream.ErrConfig, err))
	}
	defer cl.Close()
	if err := cl.Ping(ctx); err != nil {
		return contact(address, c, err)
	}
	return advertisedBrokers(ctx, address, cl)
}

// contact explains err and says which address and mechanism it was about.
func contact(address string, c Config, err error) error {
	explained := Explain(err)
	if errors.Is(err, context.Canceled) {
		return explained
	}
	var e *stream.Error
	if !errors.As(explained, &e) {
		e = stream.NewError("", fmt.Errorf("%w: %w", stream.ErrUnreachable, err)).Hinted("look at the broker's log")
	}
	how := "plaintext"
	if c.TLS != nil {
		how = "TLS"
	}
	if c.SASL != nil {
		how += ", SASL " + c.SASL.Name()
	}
	var handshake *handshakeError
	if c.SASL != nil && closed(err) && !errors.As(err, &handshake) {
		// Kafka says why it refuses. Other brokers, and proxies before them, end the connection.
		e = stream.NewError("", fmt.Errorf("%w: %w", stream.ErrNotAuthenticated, err)).
			Hinted("the broker closed the connection during authentication: check user, password and that it offers this mechanism; " +
				"if they are right, check TLS and the port")
	}
	e.Op = fmt.Sprintf("connect to Kafka at %s (%s)", address, how)
	return e
}

// advertisedBrokers checks that one of the brokers can be reached where it says it is. A broker that
// advertises a name that only its own network knows is the most common fault of a cluster in
// containers: the first contact succeeds and nothing after it does.
func advertisedBrokers(ctx context.Context, seed string, cl *kgo.Client) error {
	req := kmsg.NewPtrMetadataRequest()
	req.Topics = []kmsg.MetadataRequestTopic{}
	answer, err := cl.SeedBrokers()[0].Request(ctx, req)
	if err != nil {
		return Explain(err)
	}
	meta, ok := answer.(*kmsg.MetadataResponse)
	if !ok || len(meta.Brokers) == 0 {
		return stream.NewError("connect to Kafka by way of "+seed,
			fmt.Errorf("%w: the cluster names no broker", stream.ErrUnreachable)).Hinted("look at the brokers' logs")
	}
	var errs []error
	var names []string
	for _, b := range meta.Brokers {
		_, err := cl.Broker(int(b.NodeID)).Request(ctx, kmsg.NewPtrApiVersionsRequest())
		if err == nil {
			return nil
		}
		if errors.Is(err, context.Canceled) {
			return err
		}
		errs = append(errs, err)
		names = append(names, net.JoinHostPort(b.Host, strconv.Itoa(int(b.Port))))
	}
	return stream.NewError("connect to Kafka by way of "+seed,
		fmt.Errorf("%w: %w", stream.ErrUnreachable, errors.Join(errs...))).
		Hinted("%s answers, but says that the brokers are at %s, and none of these can be reached: correct the brokers' advertised.listeners",
			seed, strings.Join(names, ", "))
}
