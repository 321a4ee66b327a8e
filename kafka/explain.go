package kafka

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"syscall"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/holdfast-go/holdfast/internal/visible"
	"github.com/holdfast-go/holdfast/stream"
)

// Explain turns an error of a first contact into one that says what to do: it wraps
// stream.ErrUnreachable, ErrNotAuthenticated, ErrNotAuthorized or ErrBrokerTooOld and has a hint. An
// error that it does not know, or that has been explained already, comes back as it is; nil is nil.
//
// A text of a broker or a token endpoint is escaped, and stays on its line.
//
// It knows the errors of kgo, of Kafka's protocol, of TLS and of the network.
func Explain(err error) error {
	if err == nil {
		return nil
	}
	for _, known := range []error{stream.ErrUnreachable, stream.ErrNotAuthenticated, stream.ErrNotAuthorized,
		stream.ErrBrokerTooOld, stream.ErrConfig, stream.ErrReservedOption} {
		if errors.Is(err, known) {
			return err
		}
	}
	err = escaped(err)
	for _, class := range []func(error) (string, error){explainSASL, explainACL, explainVersion, explainTLS, explainEOF, explainNetwork} {
		if hint, sentinel := class(err); sentinel != nil {
			return stream.NewError("connect to Kafka", fmt.Errorf("%w: %w", sentinel, err)).Hinted("%s", hint)
		}
	}
	return err
}

// told is an error of somebody else's words: brokers, resolvers and token endpoints choose parts of them.
type told struct{ error }

func (t told) Error() string { return visible.Text(t.error.Error()) }
func (t told) Unwrap() error { return t.error }

// escaped returns err as it is if nothing in it is to be escaped.
func escaped(err error) error {
	if text := err.Error(); visible.Text(text) != text {
		return told{err}
	}
	return err
}

func explainSASL(err error) (string, error) {
	var token *tokenError
	switch {
	case errors.As(err, &token):
		return "check the token endpoint, client id, client secret and scope, or the token's file", stream.ErrNotAuthenticated
	case errors.Is(err, kerr.SaslAuthenticationFailed):
		return "check user and password, and that the user exists for this SASL mechanism: " +
			"each SCRAM mechanism has its own credentials", stream.ErrNotAuthenticated
	case errors.Is(err, kerr.UnsupportedSaslMechanism):
		return "the broker does not offer this SASL mechanism on this port: choose one of the listener's " +
			"sasl.enabled.mechanisms (PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER)", stream.ErrNotAuthenticated
	case errors.Is(err, kerr.IllegalSaslState):
		return "the broker does not expect SASL on this port: remove SASL, or use the port of a SASL listener", stream.ErrNotAuthenticated
	}
	return "", nil
}

// acls says which right each authorization error asks for.
var acls = [...]struct {
	err  *kerr.Error
	hint string
}{
	{kerr.TopicAuthorizationFailed, "allow the principal Read and Describe on input topics; Read, Write and Describe on snapshot, " +
		"progress and output topics; DescribeConfigs on those that are checked"},
	{kerr.GroupAuthorizationFailed, "allow the principal Read on the group"},
	{kerr.TransactionalIDAuthorizationFailed, "allow the principal Write on the transactional ids of the group, as a prefixed resource"},
	{kerr.ClusterAuthorizationFailed, "allow the principal IdempotentWrite on the cluster (brokers before 2.8 ask for it), " +
		"or Create if a topic is to be created"},
	{kerr.DelegationTokenAuthorizationFailed, "allow the principal Describe on the delegation token"},
}

func explainACL(err error) (string, error) {
	for _, a := range acls {
		if errors.Is(err, a.err) {
			return a.hint, stream.ErrNotAuthorized
		}
	}
	return "", nil
}

func explainVersion(err error) (string, error) {
	text := err.Error()
	if errors.Is(err, kerr.UnsupportedVersion) || strings.Contains(text, "broker is too old") ||
		strings.Contains(text, "request key is unknown") {
		return "upgrade the brokers to Kafka 2.5 or later (4.0 or later for the full claim), " +
			"or remove a kgo.MaxVersions that is too low", stream.ErrBrokerTooOld
	}
	return "", nil
}

func explainTLS(err error) (string, error) {
	var (
		handshake *handshakeError
		authority x509.UnknownAuthorityError
		name      x509.HostnameError
		invalid   x509.CertificateInvalidError
		header    tls.RecordHeaderError
	)
	const trust = "trust the authority that signed the broker's certificate (TLS.RootCAs, ssl.truststore.location, --tls-ca)"
	switch {
	case errors.As(err, &authority):
		return trust, stream.ErrUnreachable
	case errors.As(err, &name):
		return "use a host name that the broker's certificate is for, or set TLS.ServerName; " +
			"only if that is impossible set ssl.endpoint.identification.algorithm to empty", stream.ErrUnreachable
	case errors.As(err, &invalid):
		return "the broker's certificate is not valid, often because it has expired: renew it, and check this host's clock", stream.ErrUnreachable
	case errors.As(err, &header):
		return "this port does not speak TLS: turn TLS off, or use the port of a TLS listener", stream.ErrUnreachable
	case refusedByAlert(err):
		return "the broker refused the TLS connection: if it asks for a client certificate, give one that it trusts and that has not expired " +
			"(Config.WithTLSFiles, ssl.keystore.location, --tls-cert); else a TLS version that both sides allow", stream.ErrNotAuthenticated
	case errors.As(err, &handshake) && closed(err):
		return "the broker closed the connection during the TLS handshake, as a port that does not speak TLS does: " +
			"turn TLS off, or use the port of a TLS listener", stream.ErrUnreachable
	case errors.As(err, &handshake) && errors.Is(err, context.DeadlineExceeded):
		return "the connection was made and the TLS handshake had no answer within the time allowed: " +
			"this port may be one that does not speak TLS; turn TLS off, or use the port of a TLS listener", stream.ErrUnreachable
	case strings.Contains(err.Error(), "tls alert record"):
		return "this port speaks TLS and the client does not: turn TLS on, or use the port of a plaintext listener", stream.ErrUnreachable
	}
	return "", nil
}

// refusedByAlert reports whether err is what the other side said when it ended a TLS connection: crypto/tls has no type
// for it. Under TLS 1.3 what a broker says of a client's certificate comes after the handshake, with the first answer.
func refusedByAlert(err error) bool {
	op, ok := errors.AsType[*net.OpError](err)
	return ok && op.Op == "remote error"
}

// closed reports whether err is a connection that the other side ended.
func closed(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) ||
		errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

func explainEOF(err error) (string, error) {
	var first *kgo.ErrFirstReadEOF
	switch {
	case !errors.As(err, &first):
		return "", nil
	case strings.Contains(first.Error(), "is SASL missing"):
		return "the broker closed the connection at the first request, as one that asks for SASL does: " +
			"set SASL, or use the port of a listener without it", stream.ErrNotAuthenticated
	}
	return "the broker closed the connection at once, as a TLS port does with a plaintext client, " +
		"and a port of another protocol with any: check TLS and the port", stream.ErrUnreachable
}

func explainNetwork(err error) (string, error) {
	var (
		dns *net.DNSError
		op  *net.OpError
	)
	switch {
	case errors.As(err, &dns):
		return "the host name " + visible.Text(dns.Name) + " does not resolve: check its spelling and the name service", stream.ErrUnreachable
	case errors.Is(err, syscall.ECONNREFUSED):
		return "nothing listens on that address: check host and port, and that the broker runs", stream.ErrUnreachable
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &op) && op.Timeout():
		return "no answer within the time allowed: check host, port, firewall and routes, or allow more time", stream.ErrUnreachable
	case errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH):
		return "there is no route to that address: check host, network and VPN", stream.ErrUnreachable
	case closed(err):
		return "the connection was cut: check that the port is Kafka's, and the broker's log", stream.ErrUnreachable
	case errors.As(err, &op):
		return "check host and port", stream.ErrUnreachable
	}
	return "", nil
}
