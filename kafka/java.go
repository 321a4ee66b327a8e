package kafka

import (
	"crypto/tls"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/holdfast-go/holdfast/stream"
)

// FromProperties reads the client.properties file that the tools of Apache Kafka take with
// --command-config. Brokers is empty if the file has no bootstrap.servers.
//
// These keys are used, with Java's defaults:
//
//   - bootstrap.servers, client.id, client.rack, request.timeout.ms, metadata.max.age.ms,
//     connections.max.idle.ms, socket.connection.setup.timeout.ms
//   - security.protocol: PLAINTEXT (the default), SSL, SASL_PLAINTEXT, SASL_SSL
//   - sasl.mechanism: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER; sasl.jaas.config
//   - for OAUTHBEARER: sasl.oauthbearer.token.endpoint.url (a URL for the client credentials grant, or
//     file:///path for a token in a file), with clientId, clientSecret and scope of the JAAS line or
//     sasl.oauthbearer.client.credentials.client.id, .client.secret and sasl.oauthbearer.scope; or token
//     in the JAAS line
//   - ssl.truststore.type=PEM with ssl.truststore.location or ssl.truststore.certificates;
//     ssl.keystore.type=PEM with ssl.keystore.location, or ssl.keystore.key and
//     ssl.keystore.certificate.chain; without a trust store the system's authorities are trusted
//   - ssl.enabled.protocols, and ssl.endpoint.identification.algorithm: https (the default), or empty,
//     which verifies the broker's chain and not its host name: any certificate of a trusted authority
//     then passes for any broker
//
// As in Java, keys of SASL and TLS have no effect under a security.protocol without them. Settings of
// producers, consumers and other Java machinery are ignored where that is harmless.
//
// It returns stream.ErrConfig, which lists every fault by line: an unknown key, a value that cannot be
// used, a JKS or PKCS12 store (with the command that converts it). No error shows a secret.
func FromProperties(path string) (Config, error) {
	text, open, err := readFile(path)
	if err != nil {
		return Config{}, fault("properties file: "+err.Error(), "give a file that can be read")
	}
	c, faults := fromProperties(text)
	if len(faults) == 0 {
		if open && secretKey.Match(text) {
			c.exposed = append(c.exposed, exposed(path))
		}
		return c, nil
	}
	for i, f := range faults {
		faults[i] = stream.NewError("read "+path, fmt.Errorf("%w: %w", stream.ErrConfig, f))
	}
	return Config{}, errors.Join(faults...)
}

// secretKey matches a file with a key of a secret: its value may be of another line.
var secretKey = regexp.MustCompile(`(?m)^\s*(sasl\.jaas\.config|sasl\.oauthbearer\.client\.credentials\.client\.secret|ssl\.keystore\.key)`)

// reader takes the keys out of a file, and remembers those that nobody asked for.
type reader struct {
	props  map[string]property
	unused map[string]bool
	errs   []error
	// exposed are warnings of files that every account may read.
	exposed []string
}

// get returns the value of key, with the blanks around it taken off, as Kafka does for its own
// settings.
func (r *reader) get(key string) string {
	delete(r.unused, key)
	return strings.TrimSpace(r.props[key].value)
}

func (r *reader) has(key string) bool {
	_, ok := r.props[key]
	return ok
}

// or returns the value of key, or def if it is not set.
func (r *reader) or(key, def string) string {
	if !r.has(key) {
		return def
	}
	return r.get(key)
}

func (r *reader) fail(key, format string, args ...any) {
	text := key + ": " + fmt.Sprintf(format, args...)
	if p, ok := r.props[key]; ok {
		text = fmt.Sprintf("line %d: %s", p.line, text)
	}
	r.errs = append(r.errs, errors.New(text))
}

func fromProperties(text []byte) (Config, []error) {
	props, err := parseProperties(text)
	if err != nil {
		return Config{}, []error{err}
	}
	r := &reader{props: map[string]property{}, unused: map[string]bool{}}
	for _, p := range props {
		r.props[p.key], r.unused[p.key] = p, true
	}
	if r.get("config.providers") != "" {
		r.fail("config.providers", "providers are not supported: put the values themselves into the file")
	}
	var c Config
	for b := range strings.SplitSeq(r.get("bootstrap.servers"), ",") {
		if b = strings.TrimSpace(b); b != "" {
			c.Brokers = append(c.Brokers, b)
		}
	}
	protocol := strings.ToUpper(r.or("security.protocol", "PLAINTEXT"))
	switch protocol {
	case "PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL":
	default:
		r.fail("security.protocol", "%q is not one of PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL", protocol)
	}
	if strings.HasSuffix(protocol, "SSL") {
		c.TLS = r.tls()
	}
	if strings.HasPrefix(protocol, "SASL") {
		c.SASL = r.sasl()
	}
	c.Opts, c.exposed = r.options(), r.exposed
	for _, p := range props {
		if r.unused[p.key] && !ignored(p.key) {
			r.fail(p.key, "the key is not known, or its effect is not supported: remove it")
		}
	}
	return c, r.errs
}

// options returns the raw options for the settings that have no field.
func (r *reader) options() []kgo.Opt {
	var opts []kgo.Opt
	if id := r.get("client.id"); id != "" {
		opts = append(opts, kgo.ClientID(id))
	}
	if rack := r.get("client.rack"); rack != "" {
		opts = append(opts, kgo.Rack(rack))
	}
	for _, s := range []struct {
		key      string
		min, max time.Duration
		opt      func(time.Duration) kgo.Opt
	}{
		{"request.timeout.ms", 100 * time.Millisecond, 15 * time.Minute, kgo.RequestTimeoutOverhead},
		{"metadata.max.age.ms", DefaultMetadataMinAge, time.Hour, kgo.MetadataMaxAge},
		{"connections.max.idle.ms", 100 * time.Millisecond, 15 * time.Minute, kgo.ConnIdleTimeout},
		{"socket.connection.setup.timeout.ms", time.Millisecond, time.Hour, kgo.DialTimeout},
	} {
		if !r.has(s.key) {
			continue
		}
		n, err := strconv.ParseInt(r.get(s.key), 10, 32)
		d := time.Duration(n) * time.Millisecond
		if err != nil || d < s.min || d > s.max {
			r.fail(s.key, "it has to be a number of milliseconds from %d to %d", s.min.Milliseconds(), s.max.Milliseconds())
			continue
		}
		opts = append(opts, s.opt(d))
	}
	return opts
}

// tls returns the TLS configuration of the ssl keys.
func (r *reader) tls() *tls.Config {
	conf := &tls.Config{MinVersion: tls.VersionTLS12}
	r.trustStore(conf)
	r.keyStore(conf)
	if list := r.get("ssl.enabled.protocols"); list != "" {
		r.protocols(conf, list)
	}
	switch a := r.or("ssl.endpoint.identification.algorithm", "https"); strings.ToLower(a) {
	case "https":
	case "":
		withoutHostName(conf)
	default:
		r.fail("ssl.endpoint.identification.algorithm", "%q is neither https nor empty", a)
	}
	return conf
}

func (r *reader) trustStore(conf *tls.Config) {
	const typ, location, inline = "ssl.truststore.type", "ssl.truststore.location", "ssl.truststore.certificates"
	text, where := r.get(inline), inline
	if path := r.get(location); path != "" {
		if kind := strings.ToUpper(r.or(typ, "JKS")); kind != "PEM" {
			r.fail(location, "a store of type %s cannot be read here. Convert it: `%s`; then set %s=PEM and %s=ca.pem",
				kind, exportTrust(kind, path), typ, location)
			return
		}
		file, _, err := readFile(path)
		if err != nil {
			r.fail(location, "%v", err)
			return
		}
		text, where = string(file), location
	}
	if text == "" {
		return
	}
	pool, err := roots(text)
	if err != nil {
		r.fail(where, "%v", err)
		return
	}
	conf.RootCAs = pool
}

func (r *reader) keyStore(conf *tls.Config) {
	const typ, location, inline, chainKey = "ssl.keystore.type", "ssl.keystore.location", "ssl.keystore.key", "ssl.keystore.certificate.chain"
	key, chain, where := r.get(inline), r.get(chainKey), inline
	if path := r.get(location); path != "" {
		if kind := strings.ToUpper(r.or(typ, "JKS")); kind != "PEM" {
			r.fail(location, "a store of type %s cannot be read here. Convert it: `%s`; then set %s=PEM and %s=client.pem",
				kind, exportKey(kind, path), typ, location)
			return
		}
		file, open, err := readFile(path)
		if err != nil {
			r.fail(location, "%v", err)
			return
		}
		if open {
			r.exposed = append(r.exposed, exposed(path))
		}
		key, chain, where = string(file), string(file), location
	}
	switch {
	case key == "" && chain == "":
		return
	case key == "" || chain == "":
		r.fail(where, "%s and %s are set together or not at all", inline, chainKey)
		return
	}
	pair, err := keyPair(chain, key)
	if err != nil {
		r.fail(where, "%v", err)
		return
	}
	conf.Certificates = []tls.Certificate{pair}
}

// exportTrust returns the command that turns a store of certificates into ca.pem. It asks for the
// password, so that this is in no shell's history.
func exportTrust(kind, path string) string {
	if kind == "PKCS12" {
		return "openssl pkcs12 -in " + path + " -nokeys -out ca.pem"
	}
	return "keytool -list -rfc -storetype " + kind + " -keystore " + path + " > ca.pem"
}

// exportKey returns the command that turns a store of a key into client.pem.
func exportKey(kind, path string) string {
	if kind == "PKCS12" {
		return "openssl pkcs12 -in " + path + " -nodes -out client.pem"
	}
	return "keytool -importkeystore -srckeystore " + path + " -srcstoretype " + kind +
		" -destkeystore client.p12 -deststoretype PKCS12 && openssl pkcs12 -in client.p12 -nodes -out client.pem"
}

func (r *reader) protocols(conf *tls.Config, list string) {
	versions := map[string]uint16{"TLSV1.2": tls.VersionTLS12, "TLSV1.3": tls.VersionTLS13}
	conf.MinVersion = 0
	for name := range strings.SplitSeq(list, ",") {
		v, ok := versions[strings.ToUpper(strings.TrimSpace(name))]
		if !ok {
			r.fail("ssl.enabled.protocols", "%q is not one of TLSv1.2, TLSv1.3", strings.TrimSpace(name))
			continue
		}
		if conf.MinVersion == 0 || v < conf.MinVersion {
			conf.MinVersion = v
		}
		conf.MaxVersion = max(conf.MaxVersion, v)
	}
}
