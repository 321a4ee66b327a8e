package main

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/holdfast-go/holdfast/kafka"
)

// startBroker runs holdfast broker until the test ends and returns what it announced.
func startBroker(t *testing.T, args ...string) (addr, certificate string) {
	t.Helper()
	ctx, cancel := context.WithCancelCause(t.Context())
	read, write := io.Pipe()
	ended := make(chan int, 1)
	go func() {
		args := append([]string{"broker", "--json", "--listen", "127.0.0.1:0"}, args...)
		ended <- run(ctx, noEnvironment, args, strings.NewReader(""), write, os.Stderr)
		_ = write.Close() // a pipe's Close returns nil always
	}()
	t.Cleanup(func() {
		cancel(errInterrupted)
		if code := <-ended; code != exitOK {
			t.Errorf("the broker ended with code %d", code)
		}
	})
	line, err := bufio.NewReader(read).ReadBytes('\n')
	if err != nil {
		t.Fatalf("the broker announced nothing: %v", err)
	}
	var said struct{ Brokers, Certificate string }
	if err := json.Unmarshal(line, &said); err != nil {
		t.Fatal(err)
	}
	return said.Brokers, said.Certificate
}

func TestBrokerMakesTopics(t *testing.T) {
	t.Parallel()
	addr, _ := startBroker(t, "--topic", "payments:3", "--topic", "ledger:3:compact")
	cl, err := kafka.Config{Brokers: []string{addr}}.Client()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	adm := kadm.NewClient(cl)
	topics, err := adm.ListTopics(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if n := len(topics["payments"].Partitions); n != 3 {
		t.Errorf("payments has %d partitions, want 3", n)
	}
	configs, err := adm.DescribeTopicConfigs(t.Context(), "ledger")
	if err != nil {
		t.Fatal(err)
	}
	ledger, err := configs.On("ledger", nil)
	if err != nil {
		t.Fatal(err)
	}
	policy := ""
	for _, c := range ledger.Configs {
		if c.Key == "cleanup.policy" {
			policy = c.MaybeValue()
		}
	}
	if policy != "compact" {
		t.Errorf("ledger has cleanup.policy %q, want compact", policy)
	}
}

func TestBrokerWithTLSAndPassword(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	password := filepath.Join(dir, "password")
	if err := os.WriteFile(password, []byte("correct horse\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	addr, certificate := startBroker(t, "--data", filepath.Join(dir, "data"), "--tls", "--sasl", "--sasl-password-file", password)
	good := connection{
		brokers: []string{addr}, tlsCA: certificate, timeout: 20 * time.Second,
		saslMechanism: "SCRAM-SHA-256", saslUser: "holdfast", saslPasswordFile: password,
	}
	if _, err := good.reach(t.Context()); err != nil {
		t.Fatalf("with certificate and password: %v", err)
	}
	properties := filepath.Join(dir, "client.properties")
	text := "bootstrap.servers=127.0.0.1:1\nsecurity.protocol=SASL_SSL\nsasl.mechanism=SCRAM-SHA-256\n" +
		"ssl.truststore.type=PEM\nssl.truststore.location=" + certificate + "\nsasl.jaas.config=" +
		"org.apache.kafka.common.security.scram.ScramLoginModule required username=\"holdfast\" password=\"correct horse\";\n"
	if err := os.WriteFile(properties, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	file := connection{commandConfig: properties, brokers: []string{addr}, timeout: 20 * time.Second}
	if _, err := file.reach(t.Context()); err != nil {
		t.Fatalf("with a client.properties, whose address a flag replaces: %v", err)
	}
	wrong := filepath.Join(dir, "wrong")
	if err := os.WriteFile(wrong, []byte("battery staple"), 0o600); err != nil {
		t.Fatal(err)
	}
	bad := good
	bad.saslPasswordFile = wrong
	if _, err := bad.reach(t.Context()); exitCode(t.Context(), err) != exitUnreachable {
		t.Errorf("with a wrong password: %v", err)
	}
	plaintext := good
	plaintext.tlsCA = ""
	plaintext.timeout = 5 * time.Second
	if _, err := plaintext.reach(t.Context()); exitCode(t.Context(), err) != exitUnreachable {
		t.Errorf("without TLS: %v", err)
	}
}

// Whoever reaches an open broker may read and write everything: it takes a flag to let other machines reach it.
func TestBrokerIsNotOpenedByAccident(t *testing.T) {
	t.Parallel()
	for _, listen := range []string{"0.0.0.0:0", ":0", "[::]:0", "192.0.2.1:0", "example.com:0"} {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second) // of a broker that runs
		got := command(ctx, "broker", "--listen", listen)
		cancel()
		if got.code != exitUsage || !strings.Contains(got.stderr, "--without-authentication") {
			t.Errorf("I6: --listen %s: exit code %d: %s", listen, got.code, got.stderr)
		}
	}
	for listen, only := range map[string]bool{"127.0.0.1:0": true, "127.7.7.7:1": true, "[::1]:0": true, "localhost:9092": true, "[::ffff:10.0.0.1]:0": false} {
		if onlyHere(listen) != only {
			t.Errorf("--listen %s: only of this machine is %v", listen, !only)
		}
	}
	startBroker(t, "--listen", "0.0.0.0:0", "--without-authentication")
}
