package preflight

import (
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/internal/kafkatest"
)

// A progress topic whose old versions compaction leaves alone for long is advised about, with a command after which
// it no longer is; one that the component creates needs none.
func TestKafkaOldVersions(t *testing.T) {
	t.Parallel()
	k := kafkatest.Start(t)
	const advice = "versions that count no more"
	for name, c := range map[string]struct {
		configs map[string]string // nil: the component creates it
		advised bool
	}{
		"created":           {nil, false},
		"by default":        {map[string]string{"cleanup.policy": "compact"}, true},
		"small segments":    {map[string]string{"cleanup.policy": "compact", "segment.bytes": "52428800"}, false},
		"compacted in time": {map[string]string{"cleanup.policy": "compact", "max.compaction.lag.ms": "3600000"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			group := kafkatest.UniqueName("versions")
			job := pipe(k.Addrs, group, k.CreateTopic(t, group+"-in", 1, nil))
			if c.configs != nil {
				k.CreateTopic(t, job.Progress.Topic, 1, c.configs)
			}
			found, err := Inspect(t.Context(), job, Mode{Create: true})
			if err != nil {
				t.Fatal(err)
			}
			text := found.Report.String()
			if strings.Contains(text, advice) != c.advised {
				t.Errorf("advised %v, want %v:\n%s", !c.advised, c.advised, text)
			}
			if command := "--add-config segment.bytes=52428800,max.compaction.lag.ms=3600000"; strings.Contains(text, command) != c.advised {
				t.Errorf("the command is there: %v, want %v:\n%s", !c.advised, c.advised, text)
			}
		})
	}
}
