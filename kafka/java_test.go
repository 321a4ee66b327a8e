package kafka

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/stream"
)

// testPair returns a certificate that is its own authority, and its key, in PEM.
func testPair(t *testing.T, name string) (cert, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})),
		string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pkcs8}))
}

func write(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// oneLine writes PEM as it stands in one line of a properties file.
func oneLine(text string) string { return strings.ReplaceAll(strings.TrimSpace(text), "\n", " ") }

const plainLine = `sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required username="ada" password="hunter2";` + "\n"

func TestFromProperties(t *testing.T) {
	t.Parallel()
	cert, key := testPair(t, "broker.example")
	both, ca, token := write(t, "both.pem", key+cert), write(t, "ca.pem", cert), write(t, "token", " jwt \n")
	const scram = `sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required username="ada" password="hunter2";` + "\n"
	const bearer = `sasl.jaas.config=org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required `
	for name, tc := range map[string]struct {
		text               string
		brokers, mechanism string
		tls, roots, cert   bool
	}{
		"plaintext": {text: "bootstrap.servers = a:1, b:2,\n", brokers: "[a:1 b:2]"},
		"comments and harmless keys": {text: "# client\nacks=all\ngroup.id=g\nsasl.kerberos.service.name=kafka\nssl.truststore.password=hunter2\n",
			brokers: "[]"},
		"sasl is ignored without it in the protocol": {text: plainLine + "sasl.mechanism=PLAIN\n", brokers: "[]"},
		"sasl_ssl plain":     {text: "security.protocol=SASL_SSL\nsasl.mechanism=PLAIN\n" + plainLine, brokers: "[]", mechanism: "PLAIN", tls: true},
		"lower case":         {text: "security.protocol=sasl_plaintext\nsasl.mechanism=scram-sha-256\n" + scram, brokers: "[]", mechanism: "SCRAM-SHA-256"},
		"scram 512":          {text: "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=SCRAM-SHA-512\n" + scram, brokers: "[]", mechanism: "SCRAM-SHA-512"},
		"continued line":     {text: "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\nsasl.jaas.config=x.PlainLoginModule \\\n  required \\\n  username=\"a\" password=\"b\\\\\"c\";\n", brokers: "[]", mechanism: "PLAIN"},
		"ssl, system's":      {text: "security.protocol=SSL\n", brokers: "[]", tls: true},
		"truststore file":    {text: "security.protocol=SSL\nssl.truststore.type=PEM\nssl.truststore.location=" + ca, brokers: "[]", tls: true, roots: true},
		"truststore inline":  {text: "security.protocol=SSL\nssl.truststore.type=PEM\nssl.truststore.certificates=" + oneLine(cert), brokers: "[]", tls: true, roots: true},
		"keystore file":      {text: "security.protocol=SSL\nssl.keystore.type=PEM\nssl.keystore.location=" + both, brokers: "[]", tls: true, cert: true},
		"keystore inline":    {text: "security.protocol=SSL\nssl.keystore.type=PEM\nssl.keystore.key=" + oneLine(key) + "\nssl.keystore.certificate.chain=" + oneLine(cert), brokers: "[]", tls: true, cert: true},
		"oauth endpoint":     {text: "security.protocol=SASL_SSL\nsasl.mechanism=OAUTHBEARER\nsasl.oauthbearer.token.endpoint.url=https://idp.example/token\n" + bearer + `clientId="c" clientSecret="hunter2" scope="s" extension_a="b";`, brokers: "[]", mechanism: "OAUTHBEARER", tls: true},
		"oauth without jaas": {text: "security.protocol=SASL_SSL\nsasl.mechanism=OAUTHBEARER\nsasl.oauthbearer.token.endpoint.url=https://idp.example/token\nsasl.oauthbearer.client.credentials.client.id=c\nsasl.oauthbearer.client.credentials.client.secret=hunter2\n", brokers: "[]", mechanism: "OAUTHBEARER", tls: true},
		"oauth file":         {text: "security.protocol=SASL_SSL\nsasl.mechanism=OAUTHBEARER\nsasl.oauthbearer.token.endpoint.url=file://" + token, brokers: "[]", mechanism: "OAUTHBEARER", tls: true},
		"oauth token":        {text: "security.protocol=SASL_SSL\nsasl.mechanism=OAUTHBEARER\n" + bearer + `token="jwt";`, brokers: "[]", mechanism: "OAUTHBEARER", tls: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, err := FromProperties(write(t, "client.properties", tc.text))
			if err != nil {
				t.Fatal(err)
			}
			mechanism := ""
			if c.SASL != nil {
				mechanism = c.SASL.Name()
			}
			if fmt.Sprint(c.Brokers) != tc.brokers || mechanism != tc.mechanism || (c.TLS != nil) != tc.tls {
				t.Fatalf("got %v, want brokers %s, mechanism %q, TLS %v", c, tc.brokers, tc.mechanism, tc.tls)
			}
			if tc.tls && ((c.TLS.RootCAs != nil) != tc.roots || (len(c.TLS.Certificates) == 1) != tc.cert || c.TLS.InsecureSkipVerify) {
				t.Fatalf("TLS with roots %v, certificates %d", c.TLS.RootCAs != nil, len(c.TLS.Certificates))
			}
		})
	}
}

func TestFromPropertiesFaults(t *testing.T) {
	t.Parallel()
	const sasl = "security.protocol=SASL_PLAINTEXT\n"
	cert, key := testPair(t, "broker.example")
	for name, tc := range map[string]struct {
		text string
		want []string
	}{
		"unknown keys":          {"bootstrap.server=a\n\nmax.frobs=1", []string{"line 1: bootstrap.server", "line 3: max.frobs"}},
		"protocol":              {"security.protocol=TLS", []string{"line 1", "SASL_SSL"}},
		"kerberos":              {sasl, []string{"GSSAPI"}},
		"mechanism":             {sasl + "sasl.mechanism=AWS_MSK_IAM", []string{"line 2", "AWS_MSK_IAM"}},
		"no jaas":               {sasl + "sasl.mechanism=PLAIN", []string{"sasl.jaas.config"}},
		"wrong module":          {sasl + "sasl.mechanism=SCRAM-SHA-256\n" + plainLine, []string{"line 3", "ScramLoginModule"}},
		"broken jaas":           {sasl + "sasl.mechanism=PLAIN\nsasl.jaas.config=x.PlainLoginModule required password=\"hunter2\"", []string{"line 3", "`;`"}},
		"no user":               {sasl + "sasl.mechanism=PLAIN\nsasl.jaas.config=x.PlainLoginModule required password=\"hunter2\";", []string{"username"}},
		"option":                {sasl + "sasl.mechanism=PLAIN\nsasl.jaas.config=x.PlainLoginModule required usrname=\"a\" password=\"hunter2\";", []string{"usrname"}},
		"jks truststore":        {"security.protocol=SSL\nssl.truststore.location=/etc/trust.jks", []string{"keytool", "/etc/trust.jks", "JKS"}},
		"p12 keystore":          {"security.protocol=SSL\nssl.keystore.type=PKCS12\nssl.keystore.location=/etc/k.p12", []string{"openssl pkcs12", "/etc/k.p12"}},
		"no such file":          {"security.protocol=SSL\nssl.truststore.type=PEM\nssl.truststore.location=/no/such/file", []string{"/no/such/file"}},
		"key in truststore":     {"security.protocol=SSL\nssl.truststore.certificates=" + oneLine(cert+key), []string{"PRIVATE KEY"}},
		"nothing in truststore": {"security.protocol=SSL\nssl.truststore.certificates=hunter2", []string{"no PEM certificate"}},
		"key without chain":     {"security.protocol=SSL\nssl.keystore.key=" + oneLine(key), []string{"ssl.keystore.certificate.chain"}},
		"encrypted key": {"security.protocol=SSL\nssl.keystore.certificate.chain=" + oneLine(cert) +
			"\nssl.keystore.key=-----BEGIN ENCRYPTED PRIVATE KEY----- aHVudGVyMg== -----END ENCRYPTED PRIVATE KEY-----", []string{"openssl pkey"}},
		"host name rule": {"security.protocol=SSL\nssl.endpoint.identification.algorithm=ldaps", []string{"https"}},
		"protocols":      {"security.protocol=SSL\nssl.enabled.protocols=TLSv1.1,TLSv1.3", []string{"TLSv1.1"}},
		"cipher suites":  {"security.protocol=SSL\nssl.cipher.suites=X", []string{"ssl.cipher.suites"}},
		"timeout":        {"request.timeout.ms=soon\nconnections.max.idle.ms=1", []string{"request.timeout.ms", "connections.max.idle.ms"}},
		"provider":       {"config.providers=file", []string{"config.providers"}},
		"oauth in the clear": {sasl + "sasl.mechanism=OAUTHBEARER\nsasl.oauthbearer.token.endpoint.url=http://idp.example/t\n" +
			`sasl.jaas.config=x.OAuthBearerLoginModule required clientId="c" clientSecret="hunter2";`, []string{"https"}},
		"oauth without anything": {sasl + "sasl.mechanism=OAUTHBEARER", []string{"token endpoint"}},
		"oauth no such file":     {sasl + "sasl.mechanism=OAUTHBEARER\nsasl.oauthbearer.token.endpoint.url=file:///no/such/token", []string{"/no/such/token"}},
		"oauth handler": {sasl + "sasl.mechanism=OAUTHBEARER\nsasl.login.callback.handler.class=com.example.Mine\n" +
			"sasl.oauthbearer.token.endpoint.url=https://idp.example/t\n" +
			`sasl.jaas.config=x.OAuthBearerLoginModule required clientId="c" clientSecret="hunter2";`, []string{"com.example.Mine"}},
		"syntax": {"a=1\nb=\\u00", []string{"line 2"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, err := FromProperties(write(t, "client.properties", tc.text))
			if !errors.Is(err, stream.ErrConfig) || c.Brokers != nil || c.TLS != nil {
				t.Fatalf("FromProperties: %v, %v, want ErrConfig and nothing else", c, err)
			}
			for _, s := range append(tc.want, "client.properties") {
				if !strings.Contains(err.Error(), s) {
					t.Errorf("the error does not name %q: %v", s, err)
				}
			}
			if strings.Contains(err.Error(), "hunter2") || strings.Contains(err.Error(), "aHVudGVyMg") {
				t.Errorf("the error shows a secret: %v", err)
			}
		})
	}
	if _, err := FromProperties("/no/such/client.properties"); !errors.Is(err, stream.ErrConfig) {
		t.Errorf("a file that is not there: %v, want ErrConfig", err)
	}
}

func TestFromPropertiesOptions(t *testing.T) {
	t.Parallel()
	c, err := FromProperties(write(t, "p", "bootstrap.servers=a:1\nclient.id=me\nclient.rack=r\nrequest.timeout.ms=30000\n"+
		"metadata.max.age.ms=60000\nconnections.max.idle.ms=540000\nsocket.connection.setup.timeout.ms=5000\n"+
		"security.protocol=SSL\nssl.enabled.protocols=TLSv1.3\n"))
	if err != nil {
		t.Fatal(err)
	}
	cl, err := c.Client()
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	for opt, want := range map[string]any{"ClientID": "me", "Rack": "r", "RequestTimeoutOverhead": 30 * time.Second,
		"MetadataMaxAge": time.Minute, "ConnIdleTimeout": 9 * time.Minute, "DialTimeout": 5 * time.Second} {
		if got := cl.OptValue(opt); got != want {
			t.Errorf("%s is %v, want %v", opt, got, want)
		}
	}
	if c.TLS.MinVersion != tls.VersionTLS13 || c.TLS.MaxVersion != tls.VersionTLS13 {
		t.Errorf("TLS %x to %x, want 1.3 alone", c.TLS.MinVersion, c.TLS.MaxVersion)
	}
}

func TestWithTLSFilesAndSASL(t *testing.T) {
	t.Parallel()
	cert, key := testPair(t, "a.example")
	_, otherKey := testPair(t, "b.example")
	certFile, keyFile, otherFile, none := write(t, "c.pem", cert), write(t, "k.pem", key), write(t, "o.pem", otherKey), write(t, "n.pem", "nothing")
	base := Config{Brokers: []string{"a:1"}}
	if c, err := base.WithTLSFiles(certFile, certFile, keyFile); err != nil || c.TLS.RootCAs == nil || len(c.TLS.Certificates) != 1 || base.TLS != nil {
		t.Fatalf("WithTLSFiles: %v, %v", c, err)
	}
	if c, err := base.WithTLSFiles("", "", ""); err != nil || c.TLS == nil || c.TLS.RootCAs != nil {
		t.Fatalf("WithTLSFiles without files: %v, %v", c, err)
	}
	for name, f := range map[string]func() (Config, error){
		"key without certificate": func() (Config, error) { return base.WithTLSFiles("", "", keyFile) },
		"key of another":          func() (Config, error) { return base.WithTLSFiles("", certFile, otherFile) },
		"no certificate in file":  func() (Config, error) { return base.WithTLSFiles(none, "", "") },
		"no such file":            func() (Config, error) { return base.WithTLSFiles("/no/such", "", "") },
		"no such key":             func() (Config, error) { return base.WithTLSFiles("", certFile, "/no/such") },
		"mechanism":               func() (Config, error) { return base.WithSASL("GSSAPI", "u", "hunter2") },
		"no user":                 func() (Config, error) { return base.WithSASL("PLAIN", "", "hunter2") },
		"no password":             func() (Config, error) { return base.WithSASL("PLAIN", "u", "") },
	} {
		if _, err := f(); !errors.Is(err, stream.ErrConfig) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v, want ErrConfig without the password", name, err)
		}
	}
}
