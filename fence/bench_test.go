package fence

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/holdfast-go/holdfast/internal/kafkatest"
	"github.com/holdfast-go/holdfast/kafka"
	"github.com/holdfast-go/holdfast/stream"
)

// BenchmarkKafkaWriter measures writes under a real group member on a real broker: one after the
// other, and 256 side by side.
func BenchmarkKafkaWriter(b *testing.B) {
	broker := kafkatest.Start(b)
	for _, c := range []struct {
		name  string
		side  int
		value string
	}{
		{"sequential/10B", 1, "0123456789"},
		{"256 at once/10B", 256, "0123456789"},
		{"256 at once/10KiB", 256, strings.Repeat("x", 10<<10)},
	} {
		b.Run(c.name, func(b *testing.B) {
			p := place{
				k: kafka.Config{Brokers: broker.Addrs}, group: kafkatest.UniqueName("group"),
				input:    broker.CreateTopic(b, kafkatest.UniqueName("in"), 1, nil),
				progress: broker.CreateTopic(b, kafkatest.UniqueName("state"), 1, map[string]string{"cleanup.policy": "compact"}),
			}
			m := join(b, p, Session{})
			w, _ := openWriter(b, p.config(b, m.granted(b)))
			if err := w.Commit(context.Background(), Offset{0, -1}); err != nil {
				b.Fatal(err)
			}
			b.SetBytes(int64(len(c.value)))
			b.ResetTimer()
			var wg sync.WaitGroup
			for i := range c.side {
				wg.Go(func() {
					for n := i; n < b.N; n += c.side {
						m := stream.Message{Key: fmt.Append(nil, n%2000), Value: []byte(c.value)}
						if err := w.Write(context.Background(), m); err != nil {
							b.Error(err)
							return
						}
					}
				})
			}
			wg.Wait()
			b.StopTimer()
			b.ReportMetric(float64(w.commits)/b.Elapsed().Seconds(), "txn/s")
			b.ReportMetric(float64(w.pacer.pause.Microseconds()), "pause-us")
			closeWriter(b, w)
		})
	}
}
