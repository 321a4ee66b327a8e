package acceptance

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/kafkatest"
	"github.com/holdfast-go/holdfast/kafka"
)

// credential is one way to show a broker who one is.
type credential struct {
	name      string
	principal string                          // what the broker makes of it
	right     func(t *testing.T) kafka.Config // with what is right
	wrong     func(t *testing.T) kafka.Config // with what is not
}

// Each kind of credential, given in code and by the properties file of Kafka's own tools, is taken by the listener of a
// real broker, as the principal that it is; and a wrong one is refused by name.
func testCredentials(t *testing.T, k *kafkatest.Cluster) {
	for _, c := range credentials(t, k) {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := newBenchOn(t, k, holdfast.FencedState)
			output := k.CreateTopic(t, b.input+"-out", 1, nil)
			b.permit(c.principal, output, -1)
			b.conf.Kafka, b.conf.Outputs = c.right(t), []string{output}
			produce(t, b.pr, b.input, 0, 3, 0, 10)
			f := start(t, t.Context(), c.name, b.conf)
			f.committedTo(0, 10)
			if err := f.stop(); err != nil {
				t.Fatal(err)
			}
			b.verify(0, 10)
			b.conf.Kafka = c.wrong(t)
			named(t, startError(t, b.conf, patience), holdfast.ErrNotAuthenticated)
		})
	}
}

func credentials(t *testing.T, k *kafkatest.Cluster) []credential {
	t.Helper()
	s, someone := k.Secure, user(-1)
	sasl := func(mechanism, user, password string) func(*testing.T) kafka.Config {
		return func(t *testing.T) kafka.Config {
			t.Helper()
			c, err := kafka.Config{Brokers: s.Addrs}.WithTLSFiles(s.CAPath, "", "")
			if err == nil {
				c, err = c.WithSASL(mechanism, user, password)
			}
			if err != nil {
				t.Fatal(err)
			}
			return c
		}
	}
	login := func(mechanism, module, format string, args ...any) func(*testing.T) kafka.Config {
		return byFile(s, s.Addrs, "security.protocol=SASL_SSL", "sasl.mechanism="+mechanism,
			"sasl.jaas.config=org.apache.kafka.common.security."+module+" required "+fmt.Sprintf(format, args...)+";")
	}
	const plain, scram, oauth = "plain.PlainLoginModule", "scram.ScramLoginModule", "oauthbearer.OAuthBearerLoginModule"
	const given = `username="%s" password="%s"`
	tokens := tokenEndpoint(t)
	endpoint := func(secret string) func(*testing.T) kafka.Config {
		return byFile(s, s.Addrs, "security.protocol=SASL_SSL", "sasl.mechanism=OAUTHBEARER", "sasl.oauthbearer.token.endpoint.url="+tokens,
			fmt.Sprintf(`sasl.jaas.config=org.apache.kafka.common.security.%s required clientId="service" clientSecret="%s";`, oauth, secret))
	}
	certificate := func(cert, key string) func(*testing.T) kafka.Config {
		return func(t *testing.T) kafka.Config {
			t.Helper()
			c, err := kafka.Config{Brokers: s.CertAddrs}.WithTLSFiles(s.CAPath, cert, key)
			if err != nil {
				t.Fatal(err)
			}
			return c
		}
	}
	return []credential{
		{name: "PLAIN", principal: someone, right: sasl("PLAIN", someone, password), wrong: sasl("PLAIN", someone, "wrong")},
		{
			name: "PLAIN by file", principal: someone,
			right: login("PLAIN", plain, given, someone, password), wrong: login("PLAIN", plain, given, someone, "wrong"),
		},
		{
			name: "SCRAM-SHA-512 by file", principal: someone,
			right: login("SCRAM-SHA-512", scram, given, someone, password), wrong: login("SCRAM-SHA-512", scram, given, someone, "wrong"),
		},
		{
			name: "OAUTHBEARER", principal: "token",
			right: login("OAUTHBEARER", oauth, `token="%s"`, kafkatest.UnsecuredToken("token")), wrong: login("OAUTHBEARER", oauth, `token="a.b.c"`),
		},
		{name: "OAUTHBEARER by endpoint", principal: "service", right: endpoint(password), wrong: endpoint("wrong")},
		{name: "certificate", principal: "CN=holdfast-client", right: certificate(s.ClientCertPath, s.ClientKeyPath), wrong: certificate("", "")},
		{
			name: "certificate by file", principal: "CN=holdfast-client",
			right: byFile(s, s.CertAddrs, "security.protocol=SSL", "ssl.keystore.type=PEM", "ssl.keystore.location="+together(t, s)),
			wrong: byFile(s, s.CertAddrs, "security.protocol=SSL"),
		},
	}
}

// byFile is the connection that a properties file of Kafka's tools describes.
func byFile(s *kafkatest.Secure, addrs []string, lines ...string) func(*testing.T) kafka.Config {
	return func(t *testing.T) kafka.Config {
		t.Helper()
		lines := append([]string{
			"bootstrap.servers=" + strings.Join(addrs, ","), "ssl.truststore.type=PEM", "ssl.truststore.location=" + s.CAPath,
		}, lines...)
		path := filepath.Join(t.TempDir(), "client.properties")
		if err := os.WriteFile(path, []byte(strings.Join(lines, "\n")), 0o600); err != nil {
			t.Fatal(err)
		}
		c, err := kafka.FromProperties(path)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
}

// together is a file with key and certificate, as Java's key stores of type PEM are.
func together(t *testing.T, s *kafkatest.Secure) string {
	t.Helper()
	var both []byte
	for _, path := range []string{s.ClientKeyPath, s.ClientCertPath} {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		both = append(both, text...)
	}
	path := filepath.Join(t.TempDir(), "both.pem")
	if err := os.WriteFile(path, both, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// tokenEndpoint gives tokens for the client "service", by the client credentials grant.
func tokenEndpoint(t *testing.T) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		client, secret, _ := r.BasicAuth()
		w.Header().Set("Content-Type", "application/json")
		if client != "service" || secret != password || r.FormValue("grant_type") != "client_credentials" {
			w.WriteHeader(http.StatusUnauthorized)
			fmt.Fprint(w, `{"error":"invalid_client"}`)
			return
		}
		fmt.Fprintf(w, `{"access_token":%q,"token_type":"Bearer","expires_in":3600}`, kafkatest.UnsecuredToken(client))
	}))
	t.Cleanup(server.Close)
	return server.URL
}
