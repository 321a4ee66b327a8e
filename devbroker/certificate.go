package devbroker

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
	"net"
	"os"
	"path/filepath"
	"time"
)

// validity is how long a certificate is good for. It is for development only and is made again when
// it has run out.
const validity = 2 * 365 * 24 * time.Hour

// certificate returns the broker's TLS configuration and sets what clients have to trust.
func (b *Broker) certificate(host string) (*tls.Config, error) {
	cert, key, err := b.keyPair(host)
	if err != nil {
		return nil, err
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return nil, fmt.Errorf("certificate of the data directory: %w", err)
	}
	b.roots = x509.NewCertPool()
	b.roots.AppendCertsFromPEM(cert)
	return &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}, nil
}

// keyPair returns certificate and key in PEM, from the data directory if there are good ones.
func (b *Broker) keyPair(host string) (cert, key []byte, err error) {
	if b.cfg.DataDir == "" {
		return generate(host)
	}
	dir := filepath.Join(b.cfg.DataDir, "tls")
	certFile, keyFile := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	b.certFile = certFile
	cert, certErr := os.ReadFile(certFile)
	key, keyErr := os.ReadFile(keyFile)
	for _, err := range []error{certErr, keyErr} {
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return nil, nil, err
		}
	}
	if certErr == nil && keyErr == nil && usable(cert, key, host) {
		return cert, key, nil
	}
	if cert, key, err = generate(host); err != nil {
		return nil, nil, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, nil, err
	}
	if err := os.WriteFile(keyFile, key, 0o600); err != nil {
		return nil, nil, err
	}
	return cert, key, os.WriteFile(certFile, cert, 0o644)
}

// usable reports whether the pair belongs together, is for host and has a day left.
func usable(cert, key []byte, host string) bool {
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return false
	}
	leaf, err := x509.ParseCertificate(pair.Certificate[0])
	return err == nil && leaf.VerifyHostname(host) == nil && time.Now().Add(24*time.Hour).Before(leaf.NotAfter)
}

// generate makes a certificate that is its own authority, for host, localhost and the loopback.
func generate(host string) (cert, key []byte, err error) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return nil, nil, err
	}
	template := &x509.Certificate{
		SerialNumber: serial,
		Subject:      pkix.Name{CommonName: "holdfast development broker"},
		// The clock of a client in a container may be behind.
		NotBefore:             time.Now().Add(-time.Hour),
		NotAfter:              time.Now().Add(validity),
		KeyUsage:              x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		IsCA:                  true,
		BasicConstraintsValid: true,
		DNSNames:              []string{"localhost"},
		IPAddresses:           []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback},
	}
	if ip := net.ParseIP(host); ip != nil {
		template.IPAddresses = append(template.IPAddresses, ip)
	} else if host != "localhost" {
		template.DNSNames = append(template.DNSNames, host)
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		return nil, nil, err
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		return nil, nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pkcs8}), nil
}
