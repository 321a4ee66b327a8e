package kafka

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

// The mechanisms that WithSASL knows.
const (
	MechanismPlain       = "PLAIN"
	MechanismSCRAMSHA256 = "SCRAM-SHA-256"
	MechanismSCRAMSHA512 = "SCRAM-SHA-512"
	MechanismOAuth       = "OAUTHBEARER"
)

// WithSASL returns c with SASL set: PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512, in any case. PLAIN sends
// the password as it is, so use it over TLS only. It returns stream.ErrConfig for another mechanism
// (OAUTHBEARER: see OAuthClient and OAuthToken) and for an empty user or password.
func (c Config) WithSASL(mechanism, user, password string) (Config, error) {
	m, err := passwordMechanism(mechanism, user, password, false)
	if err != nil {
		return Config{}, err
	}
	c.SASL = m
	return c, nil
}

func passwordMechanism(mechanism, user, password string, token bool) (sasl.Mechanism, error) {
	if user == "" || password == "" {
		return nil, fault("SASL "+mechanism+" lacks a user or a password", "give both")
	}
	switch strings.ToUpper(mechanism) {
	case MechanismPlain:
		return plain.Auth{User: user, Pass: password}.AsMechanism(), nil
	case MechanismSCRAMSHA256:
		return scram.Auth{User: user, Pass: password, IsToken: token}.AsSha256Mechanism(), nil
	case MechanismSCRAMSHA512:
		return scram.Auth{User: user, Pass: password, IsToken: token}.AsSha512Mechanism(), nil
	}
	return nil, fault(fmt.Sprintf("SASL mechanism %q is not known", mechanism),
		"use PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512; any mechanism of franz-go can be set in Config.SASL in a program")
}

// WithTLSFiles returns c with TLS on. ca is a file of PEM certificates to trust; "" trusts those of
// the system, or those that c.TLS trusts, if that is set: whatever it says of verification then stays. With ca nothing of
// it but its client certificate does. cert and key are the PEM files of a client certificate; both or neither, and
// without them the one of c.TLS stays. Files have 1 MiB at most. It returns stream.ErrConfig for a file that cannot be read or has nothing of use in it.
//
// The files are read once. A process that outlives its certificate has to make a Config whose TLS has
// GetClientCertificate.
func (c Config) WithTLSFiles(ca, cert, key string) (Config, error) {
	conf := &tls.Config{MinVersion: tls.VersionTLS12}
	switch {
	case c.TLS != nil && ca == "":
		conf = c.TLS.Clone()
	case c.TLS != nil:
		conf.Certificates, conf.GetClientCertificate = c.TLS.Certificates, c.TLS.GetClientCertificate
	}
	if ca != "" {
		text, _, err := readFile(ca)
		if err != nil {
			return Config{}, fault("file of trusted certificates: "+err.Error(), "give a PEM file that can be read")
		}
		if conf.RootCAs, err = roots(string(text)); err != nil {
			return Config{}, fault("file of trusted certificates "+ca+": "+err.Error(), "give a file of PEM certificates")
		}
	}
	if (cert == "") != (key == "") {
		return Config{}, fault("a client certificate without its key, or the reverse", "give both files or neither")
	}
	if cert != "" {
		chain, _, err := readFile(cert)
		if err != nil {
			return Config{}, fault("client certificate: "+err.Error(), "give a PEM file that can be read")
		}
		private, open, err := readFile(key)
		if err != nil {
			return Config{}, fault("client key: "+err.Error(), "give a PEM file that can be read")
		}
		pair, err := keyPair(string(chain), string(private))
		if err != nil {
			return Config{}, fault("client certificate "+cert+" with key "+key+": "+err.Error(), "give a certificate and its own key")
		}
		conf.Certificates, conf.GetClientCertificate = []tls.Certificate{pair}, nil
		if open {
			c.exposed = append(slices.Clip(c.exposed), exposed(key))
		}
	}
	c.TLS = conf
	return c, nil
}

// pemBlock finds the blocks of a PEM text. Java accepts text whose lines were joined by spaces, as
// it is found in one line of a properties file, and encoding/pem does not.
var pemBlock = regexp.MustCompile(`-----BEGIN ([A-Z0-9 ]+)-----([^-]*)-----END ([A-Z0-9 ]+)-----`)

// normalPEM returns the blocks of text in the form that encoding/pem reads.
func normalPEM(text string) []byte {
	var b strings.Builder
	for _, m := range pemBlock.FindAllStringSubmatch(text, -1) {
		body := m[2]
		if !strings.Contains(body, ":") { // headers, as of an old encrypted key, need their lines
			body = strings.Join(strings.Fields(body), "")
		}
		fmt.Fprintf(&b, "-----BEGIN %s-----\n%s\n-----END %s-----\n", m[1], strings.Trim(body, "\n"), m[3])
	}
	return []byte(b.String())
}

// roots returns the certificates of text. Each has to be good: a file of which a part is not read
// would fail much later, at the broker that has the certificate in that part.
func roots(text string) (*x509.CertPool, error) {
	pool := x509.NewCertPool()
	n := 0
	for rest := normalPEM(text); ; n++ {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			break
		}
		if block.Type != "CERTIFICATE" {
			return nil, fmt.Errorf("it has a %s among the certificates", block.Type)
		}
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("certificate %d: %w", n+1, err)
		}
		pool.AddCert(cert)
	}
	if n == 0 {
		return nil, errors.New("it has no PEM certificate")
	}
	return pool, nil
}

// keyPair returns the client certificate in the PEM texts.
func keyPair(chain, key string) (tls.Certificate, error) {
	private := normalPEM(key)
	for rest := private; ; {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			break
		}
		if block.Type == "ENCRYPTED PRIVATE KEY" || block.Headers["DEK-Info"] != "" {
			return tls.Certificate{}, errors.New("the key is encrypted, which Go cannot read: " +
				"decrypt it with `openssl pkey -in KEY.pem -out PLAIN.pem` into a file that only this user may read")
		}
	}
	pair, err := tls.X509KeyPair(normalPEM(chain), private)
	if err != nil {
		return tls.Certificate{}, err
	}
	return pair, nil
}

// withoutHostName makes conf verify the broker's chain and not its host name, as an empty
// ssl.endpoint.identification.algorithm asks for. Any certificate of a trusted authority is then
// good for any broker.
func withoutHostName(conf *tls.Config) {
	pool := conf.RootCAs
	conf.InsecureSkipVerify = true // replaced by what follows
	conf.VerifyConnection = func(s tls.ConnectionState) error {
		if len(s.PeerCertificates) == 0 {
			return errors.New("the broker sent no certificate")
		}
		between := x509.NewCertPool()
		for _, c := range s.PeerCertificates[1:] {
			between.AddCert(c)
		}
		_, err := s.PeerCertificates[0].Verify(x509.VerifyOptions{Roots: pool, Intermediates: between,
			KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}})
		return err
	}
}
