package kafka_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/devbroker"
	"github.com/holdfast-go/holdfast/kafka"
	"github.com/holdfast-go/holdfast/stream"
)

// TestHostNameRule proves that an empty ssl.endpoint.identification.algorithm lets a wrong host name
// pass, and still refuses a certificate of an authority that is not trusted.
func TestHostNameRule(t *testing.T) {
	t.Parallel()
	right := broker(t, devbroker.Config{TLS: true, DataDir: t.TempDir()})
	other := broker(t, devbroker.Config{TLS: true, DataDir: t.TempDir()})
	for _, tc := range []struct {
		name, rule, trust string
		want              error
	}{
		{"name checked", "https", right.CertificateFile(), stream.ErrUnreachable},
		{"name not checked", "", right.CertificateFile(), nil},
		{"authority still checked", "", other.CertificateFile(), stream.ErrUnreachable},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "p")
			text := fmt.Sprintf("bootstrap.servers=%s\nsecurity.protocol=SSL\nssl.truststore.type=PEM\nssl.truststore.location=%s\n"+
				"ssl.endpoint.identification.algorithm=%s\n", right.Addr(), tc.trust, tc.rule)
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			c, err := kafka.FromProperties(path)
			if err != nil {
				t.Fatal(err)
			}
			// A name that the certificate is not for.
			c.TLS.ServerName = "elsewhere.example"
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			if err := kafka.Ping(ctx, c); !errors.Is(err, tc.want) {
				t.Fatalf("Ping: %v, want %v", err, tc.want)
			}
		})
	}
}
