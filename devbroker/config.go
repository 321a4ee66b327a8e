package devbroker

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strconv"

	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/stream"
)

// The SASL mechanisms of a User.
const (
	Plain       = "PLAIN"
	ScramSHA256 = "SCRAM-SHA-256"
	ScramSHA512 = "SCRAM-SHA-512"
)

// DefaultListen is the address of a broker whose Config has none.
const DefaultListen = "127.0.0.1:9092"

// ClusterID is the cluster id of every broker of this package, by which a client can tell that it is
// not talking to Kafka.
const ClusterID = "holdfast-devbroker"

// Config describes a broker. The zero value listens on DefaultListen and keeps everything in memory.
type Config struct {
	// Listen is the address to listen on, "host:port". Port 0 takes a free one; see Broker.Addr.
	Listen string
	// Advertise is the host that clients are told to connect to. "": the address that Listen came
	// to, or "localhost" if that is all addresses (0.0.0.0 or ::). Clients on other machines need it.
	Advertise string
	// DataDir keeps topics, offsets and transactions over restarts. It is created if needed, and one
	// broker at a time may use it. "": memory.
	DataDir string
	// SyncWrites makes every write durable before it is acknowledged, at about 2 ms each. Without it
	// what was acknowledged survives a crash of the process, but not one of the machine.
	SyncWrites bool
	// Topics are created at the start. One that exists has to have the same number of partitions
	// and the same cleanup policy.
	Topics []Topic
	// AutoCreateTopics lets a client's look-up create the topic it asks for.
	AutoCreateTopics bool
	// TLS makes the broker speak TLS with a certificate of its own for the advertised host and for
	// localhost. It is written to DataDir and used again; without DataDir it is made for this run.
	TLS bool
	// Users, if any, are the only ones who may connect, each by the SASL mechanism it names. Without
	// TLS passwords of Plain are sent as they are.
	Users []User
	// OldTransactions makes the broker answer like Kafka 3.9, with transaction.version 1.
	OldTransactions bool
	// Logger gets what the broker has to say. nil: discarded.
	Logger *slog.Logger
}

// Topic is one topic to be created.
type Topic struct {
	Name       string
	Partitions int32
	Compact    bool              // cleanup.policy=compact
	Config     map[string]string // further settings, as "retention.ms"
}

// User is somebody who may connect.
type User struct {
	Mechanism string // Plain, ScramSHA256 or ScramSHA512; "": ScramSHA256
	Name      string
	Password  string
}

// String leaves the password out.
func (u User) String() string { return u.Name + " (" + u.mechanism() + ")" }

// GoString leaves the password out.
func (u User) GoString() string { return u.String() }

// LogValue leaves the password out.
func (u User) LogValue() slog.Value { return slog.StringValue(u.String()) }

// MarshalText leaves the password out, in JSON as well: what is printed so cannot be read back.
func (u User) MarshalText() ([]byte, error) { return []byte(u.String()), nil }

func (u User) mechanism() string {
	if u.Mechanism == "" {
		return ScramSHA256
	}
	return u.Mechanism
}

// withDefaults returns c with its defaults filled in, or every fault of it.
func (c Config) withDefaults() (Config, error) {
	var errs []error
	bad := func(hint, format string, args ...any) {
		errs = append(errs, fault(fmt.Errorf("%w: %s", stream.ErrConfig, fmt.Sprintf(format, args...)), hint))
	}
	if c.Listen == "" {
		c.Listen = DefaultListen
	}
	if _, port, err := net.SplitHostPort(c.Listen); err != nil {
		bad("give host:port", "Listen is %q: %v", c.Listen, err)
	} else if n, err := strconv.Atoi(port); err != nil || n < 0 || n > 65535 {
		bad("give a port of 0 to 65535", "Listen is %q: port %q is not a number", c.Listen, port)
	}
	seen := map[string]bool{}
	for i, t := range c.Topics {
		switch {
		case t.Name == "":
			bad("name it", "Topics[%d] has no name", i)
		case !wire.TopicName(t.Name): // kfake takes it: a name that works here has to work there
			bad(wire.TopicNameHint, "topic name %q is not one that Kafka allows", t.Name)
		case seen[t.Name]:
			bad("remove one", "topic %s is there twice", t.Name)
		case t.Partitions < 1:
			bad("give it at least 1", "topic %s has %d partitions", t.Name, t.Partitions)
		case t.Compact && t.Config["cleanup.policy"] != "" && t.Config["cleanup.policy"] != "compact":
			bad("remove one", "topic %s is Compact and has cleanup.policy %q", t.Name, t.Config["cleanup.policy"])
		}
		seen[t.Name] = true
	}
	for i, u := range c.Users {
		switch m := u.mechanism(); {
		case m != Plain && m != ScramSHA256 && m != ScramSHA512:
			bad("use PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512", "Users[%d] has mechanism %q", i, m)
		case u.Name == "" || u.Password == "":
			bad("give both", "Users[%d] lacks a name or a password", i)
		}
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c, errors.Join(errs...)
}

// fault wraps an error of this package.
func fault(err error, hint string) error {
	return stream.NewError("start development broker", err).Hinted("%s", hint)
}
