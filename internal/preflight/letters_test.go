package preflight

import (
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/internal/kafkatest"
	"github.com/holdfast-go/holdfast/stream"
)

// A dead-letter topic that would lose letters is refused or warned about.
func TestKafkaDeadLetterTopic(t *testing.T) {
	t.Parallel()
	k := kafkatest.Start(t)
	for _, c := range []struct {
		name    string
		configs map[string]string
		refused string
		warned  []string
		silent  []string
	}{
		{name: "compacted", configs: map[string]string{"cleanup.policy": "compact,delete"}, refused: "compaction removes the first"},
		{name: "as a topic is by default", warned: []string{"keep the timestamps of their records", "max.message.bytes"}},
		{
			name:    "as it should be",
			configs: map[string]string{"message.timestamp.type": "LogAppendTime", "max.message.bytes": "2000000"},
			silent:  []string{"keep the timestamps", "max.message.bytes"},
		},
		{name: "kept for ever", configs: map[string]string{"retention.ms": "-1"}, silent: []string{"keep the timestamps"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			name := kafkatest.UniqueName("letters")
			job := pipe(k.Addrs, name+"-group", k.CreateTopic(t, name+"-in", 1, nil))
			job.DeadLetters = k.CreateTopic(t, name+"-dead", 1, c.configs)
			found, err := Inspect(t.Context(), job, Mode{})
			if c.refused != "" {
				refused(t, found, err, stream.ErrTopic, c.refused, "cleanup.policy=delete")
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			text := found.Report.String()
			for _, w := range c.warned {
				if !strings.Contains(text, w) {
					t.Errorf("the report does not say %q:\n%s", w, text)
				}
			}
			for _, w := range c.silent {
				if strings.Contains(text, w) {
					t.Errorf("the report says %q:\n%s", w, text)
				}
			}
		})
	}
}
