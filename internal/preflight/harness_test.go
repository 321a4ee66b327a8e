package preflight

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/holdfast-go/holdfast/claim"
	"github.com/holdfast-go/holdfast/internal/kafkatest"
	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/kafka"
	"github.com/holdfast-go/holdfast/stream"
)

func TestMain(m *testing.M) { kafkatest.Main(m) }

// pipe is the job of a pipe over inputs whose progress topic is made if it is missing.
func pipe(addrs []string, group string, inputs ...string) Job {
	return Job{
		Kafka: kafka.Config{Brokers: addrs}, Group: group, Component: claim.ComponentPipe, Inputs: inputs,
		Progress: ProgressTopic{
			Role: "progress", Topic: group + "-progress", Create: &wire.TopicConfig{}, ConfigField: "Progress.Create",
		},
		Transactional: true, TransactionTimeout: 30 * time.Second, Claims: claim.Pipe,
	}
}

// refused checks that an inspection refuses the start with an error that is of use, and that the report
// says the same.
func refused(t *testing.T, found Found, err, sentinel error, words ...string) {
	t.Helper()
	e := (*stream.Error)(nil)
	if !errors.Is(err, sentinel) || !errors.As(err, &e) || e.Hint == "" {
		t.Fatalf("error %v, want %v with a next step", err, sentinel)
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("error %q does not say %q", err, w)
		}
	}
	if text := found.Report.String(); !strings.Contains(text, "FAIL  ") || strings.Contains(text, "claim ") {
		t.Errorf("the report of a refused start has no FAIL, or has claims:\n%s", text)
	}
}

// topics of the cluster whose names begin with prefix.
func topics(t *testing.T, cl *kgo.Client, prefix string) []string {
	t.Helper()
	all, err := kadm.NewClient(cl).ListTopics(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, name := range all.Names() {
		if strings.HasPrefix(name, prefix) {
			out = append(out, name)
		}
	}
	return out
}

// commit commits an offset of partition 0 as a program that is no member does.
func commit(t *testing.T, cl *kgo.Client, group, topic, metadata string) {
	t.Helper()
	var offsets kadm.Offsets
	offsets.Add(kadm.Offset{Topic: topic, At: 7, LeaderEpoch: -1, Metadata: metadata})
	if err := kadm.NewClient(cl).CommitAllOffsets(t.Context(), group, offsets); err != nil {
		t.Fatal(err)
	}
}
