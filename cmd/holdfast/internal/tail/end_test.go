package tail

import (
	"bufio"
	"context"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/holdfast-go/holdfast/internal/wire"
)

// The end of a follower asks about each partition. Brokers that are silent have one limit for all of them.
func TestEndOfAFollowerIsBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		client, err := kgo.NewClient(kgo.SeedBrokers("127.0.0.1:1"), kgo.Dialer(func(ctx context.Context, _, _ string) (net.Conn, error) {
			<-ctx.Done() // of a host that drops what it is sent
			return nil, ctx.Err()
		}))
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		f := &tailer{Config: Config{Follow: true, Client: client, Note: func(string) {}}, out: bufio.NewWriter(io.Discard), met: map[int64]bool{}}
		for n := range 12 {
			p := &part{log: wire.Log{Client: client, Topic: "payments", Partition: int32(n)}, count: newCount(), position: 7}
			if n%2 == 0 { // a transaction was open: who has it is asked, too
				p.count.add(wire.Entry{Status: wire.StatusOpen, Record: &kgo.Record{ProducerID: 1}})
			}
			f.parts = append(f.parts, p)
		}
		began := time.Now()
		f.explain(t.Context())
		if took := time.Since(began); took > explainPatience+time.Second {
			t.Errorf("I6: the end took %v, want at most %v for all partitions together", took, explainPatience)
		}
	})
}
