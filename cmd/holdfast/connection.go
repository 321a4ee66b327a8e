package main

import (
	"context"
	"crypto/tls"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/holdfast-go/holdfast/kafka"
)

// connection is what the global flags say about the cluster. config is the one place that turns it
// into a kafka.Config.
type connection struct {
	brokers                 []string
	commandConfig           string
	tlsCA, tlsCert, tlsKey  string
	saslMechanism, saslUser string
	saslPasswordFile        string
	timeout                 time.Duration
	warn                    func(string) // of what is allowed and not safe; nil: nobody
	warned                  []string     // and is told once
}

// systemRoots is the value of --tls-ca that trusts the certificates of the system.
const systemRoots = "system"

func (c *connection) register(flags *pflag.FlagSet) {
	flags.StringSliceVar(&c.brokers, "brokers", nil, "`addresses` of first contact, host:port, separated by commas")
	flags.StringVar(&c.commandConfig, "command-config", "", "client.properties `file` as Kafka's own tools take it")
	flags.StringVar(&c.tlsCA, "tls-ca", "", "use TLS and trust the certificates in this PEM `file`, or \""+systemRoots+"\"")
	flags.StringVar(&c.tlsCert, "tls-cert", "", "PEM `file` with the client certificate")
	flags.StringVar(&c.tlsKey, "tls-key", "", "PEM `file` with the client certificate's key")
	flags.StringVar(&c.saslMechanism, "sasl-mechanism", "", "PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512")
	flags.StringVar(&c.saslUser, "sasl-user", "", "user `name`")
	flags.StringVar(&c.saslPasswordFile, "sasl-password-file", "", "`file` whose first line is the password")
	flags.DurationVar(&c.timeout, "timeout", 30*time.Second, "how long a cluster may take to answer at first")
}

// given reports whether a cluster was named.
func (c *connection) given() bool { return len(c.brokers) > 0 || c.commandConfig != "" }

// config returns the connection that the flags describe. A file may be a pipe that nobody writes to: the end of ctx ends
// the wait for it, and leaves the read to the end of the process.
func (c *connection) config(ctx context.Context) (kafka.Config, error) {
	var k kafka.Config
	err := unlessInterrupted(ctx, func() (err error) {
		k, err = c.read()
		return err
	})
	if err != nil {
		return kafka.Config{}, err
	}
	for _, w := range k.Warnings() {
		c.warning(w)
	}
	return k, nil
}

func (c *connection) warning(text string) {
	if c.warn != nil && text != "" && !slices.Contains(c.warned, text) {
		c.warned = append(c.warned, text)
		c.warn(text)
	}
}

// unlessInterrupted returns what read returns, or errInterrupted once ctx has ended.
func unlessInterrupted(ctx context.Context, read func() error) error {
	done := make(chan error, 1)
	go func() { done <- read() }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return errInterrupted
	}
}

// read reads the files. What a flag says wins over the file.
func (c *connection) read() (kafka.Config, error) {
	var k kafka.Config
	var err error
	if c.commandConfig != "" {
		if k, err = kafka.FromProperties(c.commandConfig); err != nil {
			return kafka.Config{}, err
		}
	}
	if len(c.brokers) > 0 {
		k.Brokers = c.brokers
	}
	if len(k.Brokers) == 0 {
		return kafka.Config{}, usage("--brokers host:port, or bootstrap.servers in the file of --command-config", "no broker was named")
	}
	if c.tlsCA != "" || c.tlsCert != "" || c.tlsKey != "" {
		ca := c.tlsCA
		if ca == systemRoots {
			if ca = ""; k.TLS != nil { // the file's trust store is what the flag replaces
				k.TLS = &tls.Config{MinVersion: tls.VersionTLS12, Certificates: k.TLS.Certificates}
			}
		}
		if k, err = k.WithTLSFiles(ca, c.tlsCert, c.tlsKey); err != nil {
			return kafka.Config{}, err
		}
	}
	if c.saslMechanism != "" || c.saslUser != "" || c.saslPasswordFile != "" {
		if k, err = c.withSASL(k); err != nil {
			return kafka.Config{}, err
		}
	}
	return k, k.Validate()
}

func (c *connection) withSASL(k kafka.Config) (kafka.Config, error) {
	if c.saslMechanism == "" || c.saslUser == "" || c.saslPasswordFile == "" {
		return kafka.Config{}, usage("give all three, or use --command-config",
			"--sasl-mechanism, --sasl-user and --sasl-password-file belong together")
	}
	password, err := c.password()
	if err != nil {
		return kafka.Config{}, err
	}
	return k.WithSASL(c.saslMechanism, c.saslUser, password)
}

// password reads the password of --sasl-user. It is never a flag's value, which other users of the
// machine can see.
func (c *connection) password() (string, error) {
	if c.saslPasswordFile == "" {
		return "", usage("--sasl-password-file FILE", "no password was given")
	}
	text, warning, err := kafka.ReadSecret(c.saslPasswordFile)
	if err != nil {
		return "", usage("name a file that this user can read", "--sasl-password-file: %w", err)
	}
	c.warning(warning)
	line, _, _ := strings.Cut(string(text), "\n")
	return strings.TrimSuffix(line, "\r"), nil
}

// reach returns the connection after the cluster has answered once.
func (c *connection) reach(ctx context.Context) (kafka.Config, error) {
	k, err := c.config(ctx)
	if err != nil {
		return kafka.Config{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	if err := kafka.Ping(ctx, k); err != nil {
		if errors.Is(context.Cause(ctx), errInterrupted) {
			return kafka.Config{}, errInterrupted
		}
		return kafka.Config{}, err
	}
	return k, nil
}

// arguments returns the command line that says the same to a child process.
func (c *connection) arguments() []string {
	var args []string
	add := func(flag, value string) {
		if value != "" {
			args = append(args, "--"+flag+"="+value)
		}
	}
	add("brokers", strings.Join(c.brokers, ","))
	add("command-config", c.commandConfig)
	add("tls-ca", c.tlsCA)
	add("tls-cert", c.tlsCert)
	add("tls-key", c.tlsKey)
	add("sasl-mechanism", c.saslMechanism)
	add("sasl-user", c.saslUser)
	add("sasl-password-file", c.saslPasswordFile)
	add("timeout", c.timeout.String())
	return args
}
