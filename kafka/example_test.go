package kafka_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/holdfast-go/holdfast/devbroker"
	"github.com/holdfast-go/holdfast/kafka"
	"github.com/holdfast-go/holdfast/stream"
)

func ExampleConfig_Validate() {
	c := kafka.Config{
		Brokers: []string{"localhost:9092"},
		Opts:    []kgo.Opt{kgo.ClientID("ledger"), kgo.RequiredAcks(kgo.LeaderAck())},
	}
	err := c.Validate()
	fmt.Println(errors.Is(err, stream.ErrReservedOption))
	fmt.Println(err)
	// Output:
	// true
	// kafka configuration: client option is reserved: kgo.RequiredAcks. Next: remove it; a guarantee rests on its default
}

func ExamplePing() {
	b, err := devbroker.Start(devbroker.Config{Listen: "127.0.0.1:0",
		Users: []devbroker.User{{Mechanism: devbroker.Plain, Name: "ada", Password: "secret"}}})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer b.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	c := kafka.Config{Brokers: []string{b.Addr()}}
	fmt.Println(errors.Is(kafka.Ping(ctx, c), stream.ErrNotAuthenticated))
	if c, err = c.WithSASL("PLAIN", "ada", "secret"); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(kafka.Ping(ctx, c))
	// Output:
	// true
	// <nil>
}

func ExampleFromProperties() {
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "client.properties")
	text := `bootstrap.servers=a.example:9093,b.example:9093
security.protocol=SASL_SSL
sasl.mechanism=SCRAM-SHA-256
sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required \
    username="ada" password="secret";
`
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		fmt.Println(err)
		return
	}
	c, err := kafka.FromProperties(path)
	fmt.Println(c, err)
	// Output: kafka.Config{Brokers: a.example:9093,b.example:9093, TLS: on, SASL: SCRAM-SHA-256, Opts: 0} <nil>
}
