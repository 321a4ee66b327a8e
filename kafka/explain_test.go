package kafka

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"syscall"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/holdfast-go/holdfast/stream"
)

func TestExplain(t *testing.T) {
	t.Parallel()
	dial := func(err error) error { return &net.OpError{Op: "dial", Net: "tcp", Err: err} }
	for name, tc := range map[string]struct {
		err  error
		want error
		hint string
	}{
		"topic acl":        {kerr.TopicAuthorizationFailed, stream.ErrNotAuthorized, "Read"},
		"group acl":        {fmt.Errorf("join: %w", kerr.GroupAuthorizationFailed), stream.ErrNotAuthorized, "group"},
		"id acl":           {kerr.TransactionalIDAuthorizationFailed, stream.ErrNotAuthorized, "transactional"},
		"cluster acl":      {kerr.ClusterAuthorizationFailed, stream.ErrNotAuthorized, "cluster"},
		"token acl":        {kerr.DelegationTokenAuthorizationFailed, stream.ErrNotAuthorized, "token"},
		"password":         {fmt.Errorf("%w: no", kerr.SaslAuthenticationFailed), stream.ErrNotAuthenticated, "password"},
		"mechanism":        {kerr.UnsupportedSaslMechanism, stream.ErrNotAuthenticated, "mechanism"},
		"sasl not wanted":  {kerr.IllegalSaslState, stream.ErrNotAuthenticated, "remove SASL"},
		"version":          {kerr.UnsupportedVersion, stream.ErrBrokerTooOld, "upgrade"},
		"refused":          {dial(syscall.ECONNREFUSED), stream.ErrUnreachable, "nothing listens"},
		"no route":         {dial(syscall.EHOSTUNREACH), stream.ErrUnreachable, "route"},
		"other dial error": {dial(errors.New("x")), stream.ErrUnreachable, "host and port"},
		"name":             {dial(&net.DNSError{Name: "kafak", Err: "no such host"}), stream.ErrUnreachable, "kafak"},
		"deadline":         {context.DeadlineExceeded, stream.ErrUnreachable, "time allowed"},
		"cut":              {io.ErrUnexpectedEOF, stream.ErrUnreachable, "cut"},
		"tls closed":       {&handshakeError{host: "h:1", err: io.EOF}, stream.ErrUnreachable, "does not speak TLS"},
		"tls alert":        {&net.OpError{Op: "remote error", Err: errors.New("tls: certificate required")}, stream.ErrNotAuthenticated, "client certificate"},
		"tls late":         {&handshakeError{host: "h:1", err: context.DeadlineExceeded}, stream.ErrUnreachable, "not speak TLS"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := Explain(tc.err)
			var e *stream.Error
			if !errors.Is(got, tc.want) || !errors.Is(got, tc.err) || !errors.As(got, &e) || !strings.Contains(e.Hint, tc.hint) {
				t.Fatalf("Explain: %v, want %v with a hint of %q", got, tc.want, tc.hint)
			}
			if again := Explain(fmt.Errorf("again: %w", got)); strings.Count(again.Error(), tc.want.Error()) != 1 {
				t.Fatalf("explained twice: %v", again)
			}
		})
	}
	for _, err := range []error{nil, context.Canceled, kerr.NotLeaderForPartition, errors.New("x")} {
		if got := Explain(err); got != err {
			t.Errorf("Explain(%v) is %v, want it as it was", err, got)
		}
	}
}

// TestEveryACLErrorIsExplained fails when kmsg's protocol gains an authorization error that Explain
// does not name a right for.
func TestEveryACLErrorIsExplained(t *testing.T) {
	t.Parallel()
	n := 0
	for code := int16(1); code < 300; code++ {
		var e *kerr.Error
		if !errors.As(kerr.ErrorForCode(code), &e) || !strings.HasSuffix(e.Message, "_AUTHORIZATION_FAILED") {
			continue
		}
		n++
		if !errors.Is(Explain(e), stream.ErrNotAuthorized) {
			t.Errorf("%s is not explained", e.Message)
		}
	}
	if n < 5 {
		t.Fatalf("only %d authorization errors found", n)
	}
}
