package copier_test

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/holdfast-go/holdfast/internal/kafkatest"
	"github.com/holdfast-go/holdfast/internal/kafkatest/copier"
)

func TestMain(m *testing.M) { kafkatest.Main(m) }

const patience = 90 * time.Second

// await reads a copier's events up to one that is accepted.
func await(t *testing.T, p *kafkatest.Process, is func(copier.Event) bool) (seen []copier.Event) {
	t.Helper()
	for {
		e, err := copier.Parse(p.Await(t, "{", patience))
		if err != nil {
			t.Fatal(err)
		}
		if seen = append(seen, e); is(e) {
			return seen
		}
	}
}

// A copier copies every record once to the partition it came from, with every third transaction aborted
// on purpose. One that is killed with a transaction open is taken over by the next under its id.
func TestKafkaCopier(t *testing.T) {
	t.Parallel()
	const records, partitions = 400, 2
	c := kafkatest.Start(t)
	input := c.CreateTopic(t, kafkatest.UniqueName("input"), partitions, nil)
	output := c.CreateTopic(t, input+"-copy", partitions, nil)
	cl := c.Client(t, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	var rs []*kgo.Record
	for i := range records {
		rs = append(rs, &kgo.Record{Topic: input, Partition: int32(i % partitions), Value: []byte(strconv.Itoa(i))})
	}
	if err := cl.ProduceSync(t.Context(), rs...).FirstErr(); err != nil {
		t.Fatal(err)
	}
	hold := filepath.Join(t.TempDir(), "hold")
	conf := copier.Config{
		Group: input, Input: input, Output: output, TransactionalID: input + "-java", Records: 10,
		Hold: hold, SessionTimeout: 2 * time.Second,
	}
	first := copier.Start(t, c, conf)
	count, copied := map[string]int{}, int64(0)
	note := func(es []copier.Event) {
		for _, e := range es {
			count[e.Name]++
			copied = max(copied, e.Copied)
		}
	}
	note(await(t, first, func(e copier.Event) bool { return e.Name == copier.Aborted }))
	if err := os.WriteFile(hold, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	note(await(t, first, func(e copier.Event) bool { return e.Name == copier.Holding }))
	if err := first.Kill(); err != nil {
		t.Fatal(err)
	}
	if count[copier.Leads] == 0 || count[copier.Assigned] == 0 || count[copier.Committed] < 2 || copied == 0 {
		t.Errorf("the first copier said %v and has copied %d records", count, copied)
	}
	if err := os.Remove(hold); err != nil {
		t.Fatal(err)
	}
	second := copier.Start(t, c, conf)
	await(t, second, func(e copier.Event) bool { return e.Copied == records-copied })
	if err := second.Stop(t.Context()); err != nil {
		t.Errorf("the second copier did not stop in order: %v", err)
	}
	reader := c.Client(t, kgo.ConsumeTopics(output), kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	next := [partitions]int{0, 1}
	for got := 0; got < records; {
		for _, r := range reader.PollRecords(t.Context(), records-got).Records() {
			got++
			if want := strconv.Itoa(next[r.Partition]); string(r.Value) != want {
				t.Fatalf("partition %d offset %d: %s, want %s", r.Partition, r.Offset, r.Value, want)
			}
			next[r.Partition] += partitions
		}
	}
}
