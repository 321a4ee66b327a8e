package acceptance

import (
	"testing"

	"github.com/holdfast-go/holdfast/internal/kafkatest"
	"github.com/holdfast-go/holdfast/stream"
)

func TestKafkaFlowFoldsCommitsAndRestores(t *testing.T) {
	c := kafkatest.Start(t)
	input := c.CreateTopic(t, kafkatest.UniqueName("input"), 1, nil)
	group := input + "-flow"
	pr := producer(t, c)
	produce(t, pr, input, 0, 3, 0, 10)

	f := start(t, t.Context(), "first", config(c.Addrs, group, input))
	f.committedTo(0, 10)
	if err := f.stop(); err != nil {
		t.Fatal(err)
	}
	produce(t, pr, input, 0, 3, 10, 20)
	f = start(t, t.Context(), "second", config(c.Addrs, group, input))
	if e := await(f, 0, any1[stream.Restored]); e.Keys != 3 || e.Start != 10 {
		t.Errorf("restored %+v, want 3 keys and start 10", e)
	}
	f.committedTo(0, 20)
	if err := f.stop(); err != nil {
		t.Fatal(err)
	}
	for _, d := range check(t, c, group, input, group+"-snapshots") {
		t.Error(d)
	}
	if s := stored(t, c, group+"-snapshots"); len(s) != 3 {
		t.Errorf("%d keys are stored, want 3", len(s))
	}
}
