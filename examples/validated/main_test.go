package main

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/holdfast-go/holdfast/internal/kafkatest"
)

// runMain makes the test binary the program itself.
const runMain = "VALIDATED_RUN_MAIN"

func TestMain(m *testing.M) {
	if os.Getenv(runMain) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// TestOutput runs the program on its embedded broker and compares what it prints with testdata/output.txt.
func TestOutput(t *testing.T) {
	t.Parallel()
	prints(t)
}

// On three brokers of Kafka, with three replicas of which two have to have each record, it prints the same.
func TestKafkaOutputOnThreeBrokers(t *testing.T) {
	t.Parallel()
	c := kafkatest.New(t, kafkatest.Options{Brokers: 3})
	prints(t, "-brokers", strings.Join(c.Addrs, ","))
	topics, err := kadm.NewClient(c.Client(t)).ListTopics(t.Context(), "events", "events-valid", "events-rejected", "validator-progress")
	if err != nil {
		t.Fatal(err)
	}
	for name, topic := range topics {
		if n := topic.Partitions.NumReplicas(); n != 3 {
			t.Errorf("topic %s has %d replicas, want 3", name, n)
		}
	}
}

func prints(t *testing.T, args ...string) {
	t.Helper()
	want, err := os.ReadFile("testdata/output.txt")
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self, args...)
	cmd.Env = append(os.Environ(), runMain+"=1")
	cmd.Stderr = os.Stderr
	got, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != string(want) {
		t.Errorf("it prints\n%s\nwant\n%s", got, want)
	}
}
