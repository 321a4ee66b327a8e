package attack

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/holdfast-go/holdfast/internal/kafkatest"
	"github.com/holdfast-go/holdfast/internal/wire"
)

const patience = 3 * time.Minute

// field is an input under attack.
type field struct {
	t     *testing.T
	k     *kafkatest.Cluster
	cl    *kgo.Client
	topic string
	id    [16]byte
}

func newField(t *testing.T, partitions int32, settings map[string]string) *field {
	t.Helper()
	k := kafkatest.Start(t)
	f := &field{t: t, k: k, topic: k.CreateTopic(t, kafkatest.UniqueName("attack"), partitions, settings)}
	f.cl = k.Client(t, kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerLinger(0), kgo.BrokerMaxWriteBytes(1<<30-1), kgo.ProducerBatchMaxBytes(200*mib))
	k.CreateTopic(t, f.topic+"-dlq", partitions, nil)
	k.CreateTopic(t, f.topic+"-out", partitions, nil)
	for _, kind := range []string{"flow-snapshots", "pipe-progress"} {
		k.CreateTopic(t, f.topic+"-"+kind, partitions, map[string]string{"cleanup.policy": "compact"})
	}
	facts, err := wire.TopicFacts(t.Context(), f.cl, f.topic)
	if err != nil {
		t.Fatal(err)
	}
	f.id = facts.ID
	return f
}

func (f *field) attack(partition int32, batch []byte) {
	write(f.t, f.cl, f.topic, f.id, partition, batch)
}

// plain writes n small records.
func (f *field) plain(partition int32, n int) {
	f.t.Helper()
	for i := range n {
		r := &kgo.Record{Topic: f.topic, Partition: partition, Key: fmt.Appendf(nil, "k%d", i%3), Value: []byte("v")}
		if err := f.cl.ProduceSync(f.t.Context(), r).FirstErr(); err != nil {
			f.t.Fatal(err)
		}
	}
}

// reader is a process that reads.
type reader struct {
	t       *testing.T
	p       *kafkatest.Process
	o       order
	letters map[string]bool
	halted  map[string]string
	upTo    map[string]int64 // committed
}

func (f *field) reader(kind string, budget int64) *reader {
	f.t.Helper()
	o := order{Brokers: f.k.Addrs, Kind: kind, Group: f.topic + "-" + kind, Topic: f.topic, Budget: budget}
	return &reader{t: f.t, o: o, p: kafkatest.StartChild(f.t, "reader", o), letters: map[string]bool{}, halted: map[string]string{}, upTo: map[string]int64{}}
}

// until reads what the process tells until done says so.
func (r *reader) until(what string, done func() bool) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), patience)
	defer cancel()
	for !done() {
		line, err := r.p.Next(ctx)
		if err != nil {
			r.t.Fatalf("waiting for %s: %v; it has told of letters %v, halted %v, committed %v", what, err, r.letters, r.halted, r.upTo)
		}
		r.told(line)
	}
}

func (r *reader) told(line string) {
	word, rest, _ := strings.Cut(line, " ")
	at, rest, _ := strings.Cut(rest, " ")
	switch word {
	case "letter":
		r.letters[at+"@"+rest] = true
	case "halted":
		r.halted[at] = rest
	case "committed":
		offset, err := strconv.ParseInt(rest, 10, 64)
		if err != nil {
			r.t.Fatal(err)
		}
		r.upTo[at] = max(r.upTo[at], offset)
	case "error":
		r.t.Errorf("the reader ended with %s %s", at, rest)
	case "peak":
		peak, err := strconv.ParseInt(at, 10, 64)
		if err != nil {
			r.t.Fatal(err)
		}
		most := r.o.Budget + allowance
		r.t.Logf("%s: at most %d MiB in memory, of a budget of %d MiB", r.o.Kind, peak/mib, r.o.Budget/mib)
		if peak > most {
			r.t.Errorf("%s had %d MiB in memory, the budget is %d MiB and it may have %d more", r.o.Kind, peak/mib, r.o.Budget/mib, allowance/mib)
		}
	}
}

// stop ends the process and looks at what it took.
func (r *reader) stop() {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), patience)
	defer cancel()
	err := r.p.Stop(ctx)
	if err != nil {
		r.t.Error(err)
	}
	for {
		line, err := r.p.Next(ctx)
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			r.t.Error(err)
			return
		}
		r.told(line)
	}
}

const budget = 128 * mib

// 100 batches of 2 kB each open to 60 MiB: what is over the budget goes to the error policy by its place, and what
// comes behind is folded.
func TestKafkaZstdBatchesOfZeros(t *testing.T) {
	f := newField(t, 1, nil)
	b := batch(t, kgo.ZstdCompression(), 1, zeros(60*mib))
	t.Logf("a batch of %d bytes", len(b))
	f.plain(0, 5)
	n := 100
	for range n {
		f.attack(0, b)
	}
	f.plain(0, 5)
	for _, kind := range []string{"flow", "pipe"} {
		t.Run(kind, func(t *testing.T) {
			f.t = t
			r := f.reader(kind, budget)
			end := int64(10 + n)
			r.until("the end", func() bool { return r.upTo[f.topic+"/0"] >= end })
			r.stop()
			if len(r.letters) != n {
				t.Errorf("%d letters, want %d", len(r.letters), n)
			}
		})
	}
}
