package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// checkedText is what was printed, with an address that is always the same and without the probe's time.
func checkedText(text string) string {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		line = regexp.MustCompile(`127\.0\.0\.1:\d+`).ReplaceAllString(line, "broker:9092")
		lines[i] = regexp.MustCompile(`aborted; [0-9.]+m?s`).ReplaceAllString(line, "aborted; TIME")
	}
	return strings.Join(lines, "\n")
}

// TestCheckOutput compares all that a stranger reads with a file: a refused start, and one that goes.
func TestCheckOutput(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		file string
		args []string
		code int
	}{
		{"check-fault.txt", nil, exitFailed},
		{"check-ok.txt", []string{"--create", "--probe"}, exitOK},
		{"check-strict.txt", []string{"--create", "--kind", "pipe", "--strict"}, exitFailed},
	} {
		t.Run(c.file, func(t *testing.T) {
			t.Parallel()
			addr, _ := startBroker(t, "--topic", "payments:3", "--topic", "balances:3")
			got := command(t.Context(), append([]string{"check", "--brokers", addr, "--group", "ledger", "--input", "payments", "--output", "balances"}, c.args...)...)
			if got.code != c.code {
				t.Errorf("exit code %d, want %d", got.code, c.code)
			}
			text := checkedText(got.stdout + got.stderr)
			file := filepath.Join("testdata", c.file)
			if os.Getenv("HOLDFAST_UPDATE") != "" {
				if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if text != string(want) {
				t.Errorf("%s has something else (HOLDFAST_UPDATE=1 writes it):\n%s", file, text)
			}
		})
	}
}

func TestCheckJSON(t *testing.T) {
	t.Parallel()
	addr, _ := startBroker(t, "--topic", "payments:3")
	got := command(t.Context(), "check", "--brokers", addr, "--group", "ledger", "--input", "payments", "--json", "--probe", "--guarantee", "fencedoutputs", "--create")
	var c checked
	if err := json.Unmarshal([]byte(got.stdout), &c); err != nil || got.code != exitOK || got.stderr != "" {
		t.Fatalf("exit code %d, %v\n%s%s", got.code, err, got.stdout, got.stderr)
	}
	if !c.OK || c.Level != "warning" || len(c.Claims) == 0 || c.Group != "ledger" {
		t.Errorf("got %+v", c)
	}
	seen := map[string]bool{}
	for _, f := range c.Findings {
		seen[f.ID] = true
		if f.ID == "" || f.What == "" || f.Found == "" || (f.Level == "ok") != (len(f.Fix) == 0) {
			t.Errorf("finding %+v: without an id, what was found, or a fix", f)
		}
	}
	for _, id := range []string{"brokers", "broker-features", "api-versions", "topic.input", "topic.snapshot", "group", "acl.transactional-id",
		"topic.consumer_offsets", "topic.transaction_state", "times", "partitioner.input", "open-transactions", "acl.input", "acl.group", "fence-probe"} {
		if !seen[id] {
			t.Errorf("no finding %s", id)
		}
	}
}

// What was asked wrongly is said before any cluster is, one that nobody reaches ends with 3, and brokers
// that do not fence with 1.
func TestCheckExitCodes(t *testing.T) {
	t.Parallel()
	broker, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "in"))
	if err != nil {
		t.Fatal(err)
	}
	defer broker.Close()
	broker.ControlKey(int16(kmsg.TxnOffsetCommit), func(req kmsg.Request) (kmsg.Response, error, bool) {
		broker.KeepControl()
		resp := req.ResponseKind().(*kmsg.TxnOffsetCommitResponse)
		for _, topic := range req.(*kmsg.TxnOffsetCommitRequest).Topics {
			out := kmsg.NewTxnOffsetCommitResponseTopic()
			out.Topic, out.TopicID = topic.Topic, topic.TopicID
			out.Partitions = append(out.Partitions, kmsg.NewTxnOffsetCommitResponseTopicPartition())
			resp.Topics = append(resp.Topics, out)
		}
		return resp, nil, true
	})
	lax := broker.ListenAddrs()[0]
	for _, c := range []struct {
		name string
		args []string
		code int
		says string
	}{
		{"nothing named", nil, exitUsage, "--group and --input are required"},
		{"no such kind", []string{"--group", "g", "--input", "in", "--kind", "table", "--brokers", lax}, exitUsage, "--kind table"},
		{"no such guarantee", []string{"--group", "g", "--input", "in", "--guarantee", "all", "--brokers", lax}, exitUsage, "--guarantee all"},
		{"no such protocol", []string{"--group", "g", "--input", "in", "--protocol", "new", "--brokers", lax}, exitUsage, "--protocol new"},
		{"a pipe's snapshots", []string{"--kind", "pipe", "--group", "g", "--input", "in", "--output", "o", "--snapshots", "s", "--brokers", lax}, exitUsage, "a pipe has no such topic"},
		{"timeouts out of order", []string{"--group", "g", "--input", "in", "--session-timeout", "2m", "--brokers", lax}, exitUsage, "over the rebalance timeout"},
		{"nobody listens", []string{"--group", "g", "--input", "in", "--brokers", "127.0.0.1:1", "--timeout", "5s"}, exitUnreachable, "127.0.0.1:1"},
		{"does not fence", []string{"--group", "g", "--input", "in", "--create", "--probe", "--brokers", lax}, exitFailed, "1 fault: the flow would not start"},
		{"not asked whether it fences", []string{"--group", "g", "--input", "in", "--create", "--brokers", lax}, exitOK, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := command(t.Context(), append([]string{"check"}, c.args...)...)
			if got.code != c.code || !strings.Contains(got.stderr, c.says) || (c.code != exitOK) != strings.Contains(got.stderr, "Try: ") {
				t.Errorf("exit code %d, want %d with %q\n%s%s", got.code, c.code, c.says, got.stdout, got.stderr)
			}
		})
	}
}
