package attack

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
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

// cluster is one whose broker takes requests of 100 MB.
func cluster(t *testing.T) *kafkatest.Cluster {
	return kafkatest.New(t, kafkatest.Options{HeapMiB: 1500, Properties: map[string]string{"socket.request.max.bytes": "209715200"}})
}

func newField(t *testing.T, k *kafkatest.Cluster, partitions int32, settings map[string]string) *field {
	t.Helper()
	f := &field{t: t, k: k, topic: k.CreateTopic(t, kafkatest.UniqueName("attack"), partitions, settings)}
	f.cl = k.Client(t, kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerLinger(0), kgo.BrokerMaxWriteBytes(1<<30-1), kgo.RequestTimeoutOverhead(time.Minute), kgo.ProducerBatchMaxBytes(200*mib))
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
	failed  string           // why it ended
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
			r.t.Fatalf("waiting for %s: %v; it has told of %d letters, halted %v, committed %v, failure %q", what, err, len(r.letters), r.halted, r.upTo, r.failed)
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
		r.failed = at + " " + rest
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

// all has every attack on every reader.
func all() bool { return os.Getenv("HOLDFAST_ATTACK") != "" || os.Getenv("HOLDFAST_NIGHTLY") != "" }

// attack is what one writer does.
type attack struct {
	name     string
	settings map[string]string // of the topic
	make     func(tb testing.TB) []byte
	batches  int
	letters  int  // that each batch becomes; 0: it is read
	halts    bool // the partition instead
	always   bool // it is in each run of the tests, for a flow
}

// roomy is a topic that an operator has opened for records of up to 100 MB.
var roomy = map[string]string{"max.message.bytes": "209715200"}

func attacks() []attack {
	return []attack{
		{name: "zstd, zeros", make: func(tb testing.TB) []byte { return batch(tb, kgo.ZstdCompression(), 1, zeros(60*mib)) }, batches: 100, letters: 1, always: true},
		{name: "gzip, zeros", make: func(tb testing.TB) []byte { return batch(tb, kgo.GzipCompression(), 1, zeros(60*mib)) }, batches: 20, letters: 1},
		{name: "lz4, zeros", make: func(tb testing.TB) []byte { return batch(tb, kgo.Lz4Compression(), 1, zeros(60*mib)) }, batches: 20, letters: 1},
		{name: "snappy, zeros", settings: roomy, make: func(tb testing.TB) []byte { return batch(tb, kgo.SnappyCompression(), 1, zeros(60*mib)) }, batches: 20, letters: 1},
		{name: "30 million headers", make: func(tb testing.TB) []byte { return batch(tb, kgo.ZstdCompression(), 1, headers(30_000_000)) }, batches: 3, letters: 1},
		// What is decompressed is within the bound, and the headers are not.
		{name: "4 million headers a record", make: func(tb testing.TB) []byte {
			var rs []byte
			for i := range 3 {
				rs = append(rs, record(i, []byte("k"), nil, 4_000_000)...)
			}
			return batch(tb, kgo.ZstdCompression(), 3, rs)
		}, batches: 5, letters: 3, always: true},
		{name: "headers, not compressed", settings: roomy, make: func(tb testing.TB) []byte { return batch(tb, kgo.NoCompression(), 1, headers(12_000_000)) }, batches: 5, letters: 1},
		{name: "keys of 100 MB", settings: roomy, make: func(tb testing.TB) []byte {
			return batch(tb, kgo.NoCompression(), 1, record(0, make([]byte, 100_000_000), nil, 0))
		}, batches: 3, letters: 1, always: true},
		{name: "1 million records", make: func(tb testing.TB) []byte {
			var rs []byte
			for i := range 1_000_000 {
				rs = append(rs, record(i, nil, nil, 0)...)
			}
			return batch(tb, kgo.ZstdCompression(), 1_000_000, rs)
		}, batches: 2, halts: true, always: true},
		// Each is within the bound, all together are not.
		{name: "20 MiB each, zstd", make: func(tb testing.TB) []byte { return batch(tb, kgo.ZstdCompression(), 1, zeros(20*mib)) }, batches: 40, always: true},
		{name: "20 MiB each, gzip", make: func(tb testing.TB) []byte { return batch(tb, kgo.GzipCompression(), 1, zeros(20*mib)) }, batches: 50},
		{name: "20 MiB each, lz4", make: func(tb testing.TB) []byte { return batch(tb, kgo.Lz4Compression(), 1, zeros(20*mib)) }, batches: 50},
		{name: "20 MiB each, snappy", settings: roomy, make: func(tb testing.TB) []byte { return batch(tb, kgo.SnappyCompression(), 1, zeros(20*mib)) }, batches: 50},
		{name: "20 MiB each, not compressed", settings: roomy, make: func(tb testing.TB) []byte { return batch(tb, kgo.NoCompression(), 1, zeros(20*mib)) }, batches: 20},
	}
}

// What a writer of the input does: what is over the budget goes to the error policy by its place, what comes behind is
// folded, and a batch that nobody can open stops its partition and no other.
func TestKafkaWriterOfTheInput(t *testing.T) {
	k := cluster(t)
	for _, a := range attacks() {
		kinds := []string{"flow"}
		if all() {
			kinds = append(kinds, "pipe")
		} else if !a.always {
			continue
		}
		t.Run(a.name, func(t *testing.T) {
			f := newField(t, k, 2, a.settings)
			f.plain(0, 5)
			b := a.make(t)
			for range a.batches {
				f.attack(0, b)
			}
			f.plain(0, 5)
			f.plain(1, 5)
			ends := f.ends()
			for _, kind := range kinds {
				t.Run(kind, func(t *testing.T) { f.readUnder(t, a, kind, ends) })
			}
		})
	}
}

func (f *field) readUnder(t *testing.T, a attack, kind string, ends []int64) {
	f.t = t
	r := f.reader(kind, budget)
	attacked, other := f.topic+"/0", f.topic+"/1"
	if a.halts {
		r.until("the partition to stop", func() bool { return r.halted[attacked] != "" })
		f.plain(1, 5)
		r.until("the other to go on", func() bool { return r.upTo[other] >= ends[1]+5 && r.upTo[attacked] >= 5 })
		if !strings.Contains(r.halted[attacked], "offsets 5 to") || !strings.Contains(r.halted[attacked], "FetchBudget") || r.upTo[attacked] != 5 {
			t.Errorf("I2: the partition stops at %d with %s", r.upTo[attacked], r.halted[attacked])
		}
	} else {
		r.until("the end", func() bool { return r.upTo[attacked] >= ends[0] && r.upTo[other] >= ends[1] })
	}
	r.stop()
	if want := a.batches * a.letters; len(r.letters) != want {
		t.Errorf("I2: %d letters, want %d", len(r.letters), want)
	}
}

// ends are the ends of the partitions.
func (f *field) ends() []int64 {
	f.t.Helper()
	var ends []int64
	for p := range int32(2) {
		_, end, _, err := wire.Log{Client: f.cl, Topic: f.topic, TopicID: f.id, Partition: p}.Ends(f.t.Context())
		if err != nil {
			f.t.Fatal(err)
		}
		ends = append(ends, end)
	}
	return ends
}

// What a writer of the snapshot topic does: the restore ends with the place.
func TestKafkaWriterOfTheSnapshots(t *testing.T) {
	f := newField(t, kafkatest.Start(t), 1, nil)
	f.plain(0, 5)
	snapshots := f.topic + "-flow-snapshots"
	facts, err := wire.TopicFacts(t.Context(), f.cl, snapshots)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		write(t, f.cl, snapshots, facts.ID, 0, batch(t, kgo.ZstdCompression(), 1, headers(30_000_000)))
	}
	r := f.reader("flow", budget)
	r.until("the restore to fail", func() bool { return r.failed != "" })
	if !strings.Contains(r.failed, snapshots) || !strings.Contains(r.failed, "too large") {
		t.Errorf("the flow ended with %s", r.failed)
	}
	r.stop()
}
