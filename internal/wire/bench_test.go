package wire

import (
	"crypto/rand"
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/holdfast-go/holdfast/internal/kafkatest"
)

// BenchmarkKafkaRead reads 128 MiB of 10 KiB records by position, for the size of one fetch.
func BenchmarkKafkaRead(b *testing.B) {
	k := kafkatest.Start(b)
	topic := k.CreateTopic(b, kafkatest.UniqueName("bench"), 1, nil)
	cl := k.Client(b, kgo.ProducerBatchMaxBytes(1<<20), kgo.MaxBufferedRecords(1000))
	const records, size = 128 << 10 / 10, 10 << 10
	value := make([]byte, size)
	if _, err := rand.Read(value); err != nil {
		b.Fatal(err)
	}
	for i := range records {
		cl.Produce(b.Context(), &kgo.Record{Topic: topic, Key: fmt.Append(nil, i), Value: value}, func(_ *kgo.Record, err error) {
			if err != nil {
				b.Error(err)
			}
		})
	}
	if err := cl.Flush(b.Context()); err != nil {
		b.Fatal(err)
	}
	l := Log{Client: cl, Topic: topic}
	_, end, _, err := l.Ends(b.Context())
	if err != nil || end != records {
		b.Fatalf("the log ends at %d, %v", end, err)
	}
	for _, mib := range []int32{1, 4, 16} {
		b.Run(fmt.Sprintf("%dMiB", mib), func(b *testing.B) {
			b.SetBytes(records * size)
			for b.Loop() {
				n := 0
				if _, err := l.Read(b.Context(), ReadOptions{To: end, Committed: true, MaxBytes: mib << 20},
					func(*kgo.Record) error { n++; return nil }); err != nil || n != records {
					b.Fatalf("%d records, %v", n, err)
				}
			}
		})
	}
}

// BenchmarkKafkaReadLatency reads a topic in sync but for one record, which is what a short restore costs.
func BenchmarkKafkaReadLatency(b *testing.B) {
	k := kafkatest.Start(b)
	topic := k.CreateTopic(b, kafkatest.UniqueName("latency"), 1, nil)
	l := Log{Client: k.Client(b), Topic: topic}
	if err := l.Client.ProduceSync(b.Context(), &kgo.Record{Topic: topic, Key: []byte("k")}).FirstErr(); err != nil {
		b.Fatal(err)
	}
	began := time.Now()
	for b.Loop() {
		_, end, _, err := l.Ends(b.Context())
		if err == nil {
			_, err = l.Read(b.Context(), ReadOptions{To: end, Committed: true}, func(*kgo.Record) error { return nil })
		}
		if err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(time.Since(began).Microseconds())/float64(b.N)/1000, "ms/restore")
}
