package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/holdfast-go/holdfast/devbroker"
)

// brokerFlags are those of holdfast broker.
type brokerFlags struct {
	data, listen string
	topics       []string
	tls, sasl    bool
	anyone       bool // may connect, from other machines too
}

func (a *app) brokerCommand() *cobra.Command {
	var f brokerFlags
	c := &cobra.Command{
		Use:   "broker",
		Short: "Run the embedded broker, for development",
		Long: `Run the embedded broker until it is interrupted.

It is one broker in this process, without replication, for development and demonstration.
With --data it keeps its topics over restarts; without, everything is in memory.
With --sasl it takes one user: --sasl-user (default "holdfast") with the password in
--sasl-password-file, by --sasl-mechanism (default SCRAM-SHA-256). Beyond the loopback
it listens only with --sasl, or with --without-authentication.`,
		Example: `  holdfast broker --topic payments:3 --topic ledger-snapshots:3:compact
  holdfast broker --data ./broker --listen 127.0.0.1:9092 --tls`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return a.runBroker(c, f) },
	}
	flags := c.Flags()
	flags.StringVar(&f.data, "data", "", "`directory` to keep topics and offsets in (default: memory)")
	flags.StringVar(&f.listen, "listen", devbroker.DefaultListen, "`address` to listen on; port 0 takes a free one")
	flags.StringArrayVar(&f.topics, "topic", nil, "create a topic, `name:partitions[:compact]`; may be repeated")
	flags.BoolVar(&f.tls, "tls", false, "speak TLS with a certificate of its own (wants --data)")
	flags.BoolVar(&f.sasl, "sasl", false, "let only one user connect, with a password")
	flags.BoolVar(&f.anyone, "without-authentication", false, "listen beyond this machine without --sasl: whoever reaches the port may read and write everything")
	return c
}

// parseTopic reads name:partitions[:compact].
func parseTopic(text string) (devbroker.Topic, error) {
	parts := strings.Split(text, ":")
	bad := func(why string) (devbroker.Topic, error) {
		return devbroker.Topic{}, usage("--topic payments:3, or --topic ledger-snapshots:3:compact", "--topic %s: %s", text, why)
	}
	if len(parts) < 2 || len(parts) > 3 || parts[0] == "" {
		return bad("not of the form name:partitions[:compact]")
	}
	n, err := strconv.ParseInt(parts[1], 10, 32)
	if err != nil || n < 1 {
		return bad("the number of partitions is at least 1")
	}
	if len(parts) == 3 && parts[2] != "compact" {
		return bad("the third part can only be \"compact\"")
	}
	return devbroker.Topic{Name: parts[0], Partitions: int32(n), Compact: len(parts) == 3}, nil
}

// onlyHere reports whether an address to listen on is of the loopback. What is no address is refused later.
func onlyHere(listen string) bool {
	host, _, err := net.SplitHostPort(listen)
	ip := net.ParseIP(host)
	return err != nil || host == "localhost" || ip != nil && ip.IsLoopback()
}

func (a *app) brokerUser(ctx context.Context) (devbroker.User, error) {
	u := devbroker.User{Mechanism: a.connection.saslMechanism, Name: a.connection.saslUser}
	if u.Name == "" {
		u.Name = "holdfast"
	}
	err := unlessInterrupted(ctx, func() (err error) {
		u.Password, err = a.connection.password()
		return err
	})
	if err != nil {
		return devbroker.User{}, err
	}
	return u, nil
}

func (a *app) runBroker(c *cobra.Command, f brokerFlags) error {
	config := devbroker.Config{Listen: f.listen, DataDir: f.data, TLS: f.tls, Logger: a.logger()}
	for _, text := range f.topics {
		t, err := parseTopic(text)
		if err != nil {
			return err
		}
		config.Topics = append(config.Topics, t)
	}
	if !f.sasl && !f.anyone && !onlyHere(f.listen) {
		return usage("add --sasl with --sasl-password-file FILE, or --without-authentication",
			"--listen %s is reached from other machines, and whoever reaches it may read and write everything", f.listen)
	}
	if f.tls && f.data == "" {
		return usage("add --data DIR", "--tls without --data: clients could not find the certificate to trust")
	}
	if f.sasl {
		u, err := a.brokerUser(c.Context())
		if err != nil {
			return err
		}
		config.Users = []devbroker.User{u}
	}
	b, err := devbroker.Start(config)
	if err != nil {
		return err
	}
	if err := a.announceBroker(b, config); err != nil {
		return err
	}
	<-c.Context().Done()
	return b.Close()
}

// announceBroker says where the broker listens and how to connect.
func (a *app) announceBroker(b *devbroker.Broker, config devbroker.Config) error {
	if a.json {
		return json.NewEncoder(a.stdout).Encode(map[string]any{
			"brokers": b.Addr(), "certificate": b.CertificateFile(), "data": config.DataDir,
		})
	}
	fmt.Fprintf(a.stdout, "Broker on %s. For development only: one broker, no replication.\n", b.Addr())
	if config.DataDir == "" {
		fmt.Fprintln(a.stdout, "Everything is in memory and ends with it; --data DIR keeps it.")
	} else {
		dir, err := filepath.Abs(config.DataDir)
		if err != nil {
			dir = config.DataDir
		}
		fmt.Fprintf(a.stdout, "Data in %s.\n", dir)
	}
	for _, t := range config.Topics {
		policy := ""
		if t.Compact {
			policy = ", compacted"
		}
		fmt.Fprintf(a.stdout, "Topic %s: %d partitions%s.\n", t.Name, t.Partitions, policy)
	}
	if file := b.CertificateFile(); file != "" {
		fmt.Fprintf(a.stdout, "Clients trust %s (--tls-ca).\n", file)
	}
	for _, u := range config.Users {
		fmt.Fprintf(a.stdout, "Only %s may connect.\n", u)
	}
	_, err := fmt.Fprintln(a.stdout, "Stop it with Ctrl-C.")
	return err
}
