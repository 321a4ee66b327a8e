package fence

import (
	"errors"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/holdfast-go/holdfast/stream"
)

// I7 and R10: a batch is as large as 10,000 records, and a broker answers after some milliseconds: a
// record that is refused has to be found with few requests, or no transaction lives long enough to
// find it.
func TestRefusedRecordIsFoundWithFewRequests(t *testing.T) {
	t.Parallel()
	const records, bad, output = 1000, 700, "out"
	c, p := fakeCluster(t, kfake.SeedTopics(1, output))
	p.k.Opts = append(p.k.Opts, kgo.ProducerBatchCompression(kgo.NoCompression()))
	limit := "30000" // two hundred records, so that a part without the bad one may be refused as well
	if _, err := kadm.NewClient(testClient(t, p.k)).AlterTopicConfigs(testContext(t), []kadm.AlterConfig{{Op: kadm.SetConfig, Name: "max.message.bytes", Value: &limit}}, output); err != nil {
		t.Fatal(err)
	}
	var produced atomic.Int64
	c.ControlKey(int16(kmsg.Produce), func(kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		produced.Add(1)
		return nil, nil, false
	})
	m := join(t, p, Session{})
	conf := p.config(t, m.granted(t))
	conf.MaxWrites = 2 * records
	w, _ := openWriter(t, conf)
	ms := make([]stream.Message, records)
	for i := range ms {
		ms[i] = stream.Message{Topic: output, Key: fmt.Append(nil, i), Value: make([]byte, 100)}
	}
	ms[bad].Value = make([]byte, 50_000)
	err := w.Commit(testContext(t), Offset{5, -1}, ms...)
	refusal, ok := errors.AsType[*Refusal](err)
	if !ok || refusal.Index != bad || !errors.Is(err, stream.ErrTooLarge) {
		t.Fatalf("commit: %v, want a refusal of record %d", err, bad)
	}
	if n := produced.Load(); n > 100 {
		t.Errorf("%d produce requests to find one of %d records", n, records)
	}
	t.Logf("%d produce requests", produced.Load())
	if err := w.Commit(testContext(t), Offset{5, -1}, ms[:100]...); err != nil {
		t.Errorf("the writer is of no use after the refusal: %v", err)
	}
}
