package kafkatest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"maps"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

// The SCRAM user that a secure cluster has by default. The password guards nothing but a test broker
// on the loopback interface.
const (
	User     = "holdfast"
	Password = "holdfast-password"
)

// Secure is what a client needs for the TLS listeners of a cluster. Paths are PEM files that live as
// long as the cluster.
type Secure struct {
	Addrs          []string // SASL_SSL: SCRAM-SHA-256, SCRAM-SHA-512, PLAIN or OAUTHBEARER over TLS
	CertAddrs      []string // SSL: a client certificate is demanded; its principal is User:CN=holdfast-client
	CAPath         string
	ClientCertPath string
	ClientKeyPath  string
	User, Password string

	brokerPath string            // key and certificate in one file, as the broker wants it
	users      map[string]string // name to password
}

// newSecure makes a certificate authority, a broker certificate for the loopback names and a client
// certificate in dir.
func newSecure(dir string, users map[string]string) (*Secure, error) {
	s := &Secure{
		CAPath:         filepath.Join(dir, "ca.pem"),
		ClientCertPath: filepath.Join(dir, "client.pem"),
		ClientKeyPath:  filepath.Join(dir, "client-key.pem"),
		brokerPath:     filepath.Join(dir, "broker.pem"),
		User:           slices.Min(slices.Collect(maps.Keys(users))),
		users:          users,
	}
	s.Password = users[s.User]
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("kafkatest: certificates: %w", err)
	}
	if err := s.write(); err != nil {
		return nil, fmt.Errorf("kafkatest: certificates: %w", err)
	}
	return s, nil
}

func (s *Secure) write() error {
	ca, err := issue(nil, &x509.Certificate{
		Subject: pkix.Name{CommonName: "holdfast-test-ca"}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	})
	if err != nil {
		return err
	}
	broker, err := issue(ca, &x509.Certificate{
		Subject: pkix.Name{CommonName: "holdfast-broker"}, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, DNSNames: []string{"localhost"},
	})
	if err != nil {
		return err
	}
	client, err := issue(ca, &x509.Certificate{
		Subject: pkix.Name{CommonName: "holdfast-client"}, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
	if err != nil {
		return err
	}
	for path, data := range map[string][]byte{
		s.CAPath:         ca.certPEM,
		s.brokerPath:     append(slices.Clone(broker.keyPEM), broker.certPEM...),
		s.ClientCertPath: client.certPEM,
		s.ClientKeyPath:  client.keyPEM,
	} {
		if err := os.WriteFile(path, data, 0o600); err != nil {
			return err
		}
	}
	return nil
}

type issued struct {
	cert            *x509.Certificate
	key             *ecdsa.PrivateKey
	certPEM, keyPEM []byte
}

// issue signs template with the authority's key, or with its own when by is nil. The certificates are
// valid for a day either side, so that a clock which jumps in a test does not matter.
func issue(by *issued, template *x509.Certificate) (*issued, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template.SerialNumber, err = rand.Int(rand.Reader, big.NewInt(1<<62))
	if err != nil {
		return nil, err
	}
	template.NotBefore, template.NotAfter = time.Now().Add(-24*time.Hour), time.Now().Add(24*time.Hour)
	parent, signer := template, key
	if by != nil {
		parent, signer = by.cert, by.key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
	if err != nil {
		return nil, err
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, err
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	return &issued{
		cert: cert, key: key,
		certPEM: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		keyPEM:  pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pkcs8}),
	}, nil
}

// UnsecuredToken is a token of OAUTHBEARER for a principal, as the broker's validator for tests takes it: nobody signs it,
// and it lasts an hour.
func UnsecuredToken(principal string) string {
	now := time.Now()
	claims := fmt.Sprintf(`{"sub":%q,"iat":%d,"exp":%d}`, principal, now.Add(-time.Minute).Unix(), now.Add(time.Hour).Unix())
	part := base64.RawURLEncoding.EncodeToString
	return part([]byte(`{"alg":"none"}`)) + "." + part([]byte(claims)) + "."
}

// properties configures the two TLS listeners of a broker.
func (s *Secure) properties() map[string]string {
	const jaas = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
	plain := "org.apache.kafka.common.security.plain.PlainLoginModule required"
	for _, user := range slices.Sorted(maps.Keys(s.users)) {
		plain += fmt.Sprintf(" user_%s=%q", user, s.users[user])
	}
	const oauth = "listener.name.sasl_ssl.oauthbearer."
	return map[string]string{
		"listener.name.sasl_ssl.plain.sasl.jaas.config": plain + ";",
		oauth + "sasl.jaas.config":                      "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required;",
		oauth + "sasl.server.callback.handler.class": "org.apache.kafka.common.security.oauthbearer.internals.unsecured." +
			"OAuthBearerUnsecuredValidatorCallbackHandler",

		"ssl.keystore.type":                                     "PEM",
		"ssl.keystore.location":                                 s.brokerPath,
		"ssl.truststore.type":                                   "PEM",
		"ssl.truststore.location":                               s.CAPath,
		"sasl.enabled.mechanisms":                               "SCRAM-SHA-256,SCRAM-SHA-512,PLAIN,OAUTHBEARER",
		"listener.name.sasl_ssl.scram-sha-256.sasl.jaas.config": jaas,
		"listener.name.sasl_ssl.scram-sha-512.sasl.jaas.config": jaas,
		"listener.name.ssl.ssl.client.auth":                     "required",
	}
}

// TLSConfig trusts the cluster's authority and, when withCert is set, presents the client certificate.
func (s *Secure) TLSConfig(withCert bool) (*tls.Config, error) {
	ca, err := os.ReadFile(s.CAPath)
	if err != nil {
		return nil, fmt.Errorf("kafkatest: certificate authority: %w", err)
	}
	cfg := &tls.Config{RootCAs: x509.NewCertPool(), MinVersion: tls.VersionTLS12}
	if !cfg.RootCAs.AppendCertsFromPEM(ca) {
		return nil, fmt.Errorf("kafkatest: no certificate in %s", s.CAPath)
	}
	if withCert {
		pair, err := tls.LoadX509KeyPair(s.ClientCertPath, s.ClientKeyPath)
		if err != nil {
			return nil, fmt.Errorf("kafkatest: client certificate: %w", err)
		}
		cfg.Certificates = []tls.Certificate{pair}
	}
	return cfg, nil
}

// SCRAM returns the options of a client that logs in with SCRAM-SHA-256 over TLS.
func (s *Secure) SCRAM() ([]kgo.Opt, error) {
	cfg, err := s.TLSConfig(false)
	if err != nil {
		return nil, err
	}
	return []kgo.Opt{
		kgo.SeedBrokers(s.Addrs...), kgo.DialTLSConfig(cfg),
		kgo.SASL(scram.Auth{User: s.User, Pass: s.Password}.AsSha256Mechanism()),
	}, nil
}

// Certificate returns the options of a client that shows its certificate.
func (s *Secure) Certificate() ([]kgo.Opt, error) {
	cfg, err := s.TLSConfig(true)
	if err != nil {
		return nil, err
	}
	return []kgo.Opt{kgo.SeedBrokers(s.CertAddrs...), kgo.DialTLSConfig(cfg)}, nil
}
