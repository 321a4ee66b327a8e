package kafka

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestOAuthClientIsShownWithoutItsSecret(t *testing.T) {
	t.Parallel()
	const secret = "correct horse"
	o := OAuthClient{TokenURL: "https://idp/token", ClientID: "ledger", ClientSecret: secret}
	type nested struct {
		Client OAuthClient
		Any    any
		Of     []*OAuthClient
	}
	for _, v := range []any{o, &o, nested{o, o, nil}, &nested{Any: &o}, []any{o}, map[string]OAuthClient{"a": o}} {
		var text strings.Builder
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q"} {
			fmt.Fprintf(&text, verb, v)
		}
		slog.New(slog.NewTextHandler(&text, nil)).Info("m", "v", v)
		slog.New(slog.NewJSONHandler(&text, nil)).Info("m", "v", v)
		if err := json.NewEncoder(&text).Encode(v); err != nil {
			t.Error(err)
		}
		if strings.Contains(text.String(), secret) {
			t.Errorf("I6: %T shows the secret: %s", v, text.String())
		}
	}
}

// A file may be a device: what is read of it has a bound.
func TestFilesAreBounded(t *testing.T) {
	t.Parallel()
	const endless = "/dev/zero"
	if _, err := os.Stat(endless); err != nil {
		t.Skip(err)
	}
	if _, err := FromProperties(endless); err == nil || !strings.Contains(err.Error(), "has more than") {
		t.Errorf("I6: properties: %v", err)
	}
	if _, err := (Config{}).WithTLSFiles(endless, "", ""); err == nil || !strings.Contains(err.Error(), "has more than") {
		t.Errorf("I6: trusted certificates: %v", err)
	}
	if _, err := readToken(endless); err == nil || !strings.Contains(err.Error(), "has more than") {
		t.Errorf("I6: token: %v", err)
	}
}

func TestWhatIsNotSafeIsWarnedOf(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "client.properties")
	text := "bootstrap.servers=b:1\nsecurity.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\n" +
		"sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required username=\"u\" password=\"p\";\n"
	for mode, want := range map[os.FileMode]int{0o600: 1, 0o644: 2} {
		if err := os.WriteFile(file, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(file, mode); err != nil {
			t.Fatal(err)
		}
		c, err := FromProperties(file)
		if err != nil {
			t.Fatal(err)
		}
		if got := c.Warnings(); len(got) != want {
			t.Errorf("I6: mode %v: %q, want %d warnings", mode, got, want)
		}
		c.TLS = &tls.Config{}
		if got := c.Warnings(); len(got) != want-1 {
			t.Errorf("with TLS: %q", got)
		}
	}
}

// A client certificate of the flags goes beside the trust store of a file, and does not put the system's in its place.
func TestClientCertificateKeepsTheTrustStore(t *testing.T) {
	t.Parallel()
	pool := x509.NewCertPool()
	c, err := (Config{TLS: &tls.Config{RootCAs: pool}}).WithTLSFiles("", "", "")
	if err != nil || c.TLS.RootCAs != pool {
		t.Errorf("I6: the trust store is %p, want %p; %v", c.TLS.RootCAs, pool, err)
	}
}
