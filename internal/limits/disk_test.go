//go:build unix

package limits

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net"
	"os/signal"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/holdfast-go/holdfast/devbroker"
	"github.com/holdfast-go/holdfast/internal/kafkatest"
	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/kafka"
)

// diskBytes is how large a file of the broker's process may be: its disk is full when the log is as large.
const diskBytes = 256 << 10

func init() { children = append(children, kafkatest.Child{Name: "broker", Run: runBroker}) }

// runBroker runs the embedded broker on the directory that it is given, with a bound on its files.
func runBroker(ctx context.Context, p *kafkatest.Parent) error {
	var dir string
	if err := p.Arg(&dir); err != nil {
		return err
	}
	signal.Ignore(syscall.SIGXFSZ) // a write past the bound fails with an error then
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: diskBytes, Max: diskBytes}); err != nil {
		return err
	}
	b, err := devbroker.Start(devbroker.Config{
		Listen: "127.0.0.1:0", DataDir: dir, Topics: []devbroker.Topic{{Name: "in", Partitions: 1}},
		Logger: slog.New(slog.NewTextHandler(logged{p}, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		}})),
	})
	if err != nil {
		return err
	}
	if err := p.Event("addr %s", b.Addr()); err != nil {
		return err
	}
	<-ctx.Done()
	return b.Close()
}

// logged makes events of a logger's lines.
type logged struct{ to *kafkatest.Parent }

func (l logged) Write(line []byte) (int, error) {
	return len(line), l.to.Event("log %s", bytes.TrimSpace(line))
}

// The disk of the embedded broker is full. The producer is refused, the broker says why, and what it had
// acknowledged is there when it starts again with room, and nothing else.
func TestDiskIsFullUnderTheEmbeddedBroker(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	child := kafkatest.StartChild(t, "broker", dir)
	addr := strings.TrimPrefix(child.Await(t, "addr ", patience), "addr ")
	cl, err := kafka.Config{Brokers: []string{addr}}.Client(kgo.DefaultProduceTopic("in"), kgo.ProducerBatchCompression(kgo.NoCompression()), kgo.RecordDeliveryTimeout(20*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	acknowledged := 0
	for ; ; acknowledged++ {
		r := &kgo.Record{Value: fmt.Appendf(make([]byte, 0, 4096), "%04d%04000d", acknowledged, 0)}
		if err = cl.ProduceSync(t.Context(), r).FirstErr(); err != nil {
			break
		}
		if acknowledged > diskBytes/4000 {
			t.Fatal("more was acknowledged than there is room for")
		}
	}
	t.Logf("%d records were acknowledged, then: %v", acknowledged, err)
	line := child.Await(t, "log level=WARN msg=\"persist batch in-0: ", patience)
	if !strings.Contains(line, "file too large") {
		t.Errorf("the broker does not say why: %s", line)
	}
	if err := child.Kill(); err != nil {
		t.Fatal(err)
	}
	b, err := devbroker.Start(devbroker.Config{Listen: "127.0.0.1:0", DataDir: dir})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	}()
	again, err := b.Kafka().Client()
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	l := wire.Log{Client: again, Topic: "in"}
	_, end, _, err := l.Ends(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	if _, err := l.Read(t.Context(), wire.ReadOptions{To: end}, func(r *kgo.Record) error {
		if !strings.HasPrefix(string(r.Value), fmt.Sprintf("%04d", n)) || r.Offset != int64(n) {
			t.Errorf("offset %d is record %.4s, want %d", r.Offset, r.Value, n)
		}
		n++
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if n != acknowledged {
		t.Errorf("%d records are there, and %d were acknowledged", n, acknowledged)
	}
}

// The disk of the embedded broker fills under a flow or a pipe: its input takes no more. The broker is killed
// there, and starts again with room. The member that runs goes on, another begins where it ends, and nothing is
// lost or repeated.
func TestDiskFillsUnderAFlow(t *testing.T) {
	t.Parallel()
	for _, kind := range kinds {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			b, restart := onSmallDisk(t, kind)
			r := b.start()
			b.send(20)
			large := bench{pad: 4000}
			n := int64(20)
			for ; ; n++ {
				r := &kgo.Record{Topic: b.input, Key: []byte("k"), Value: large.padded(n, "")}
				if err := b.cl.ProduceSync(t.Context(), r).FirstErr(); err != nil {
					break
				}
				if n > 20+diskBytes/4000 {
					t.Fatal("more was acknowledged than there is room for")
				}
			}
			r.committed(n)
			restart(b.input)
			b.send(10)
			r.committed(n + 10)
			if err := r.stop(); err != nil {
				t.Fatal(err)
			}
			b.send(10)
			b.finish(n + 20)
		})
	}
}

// onSmallDisk has a broker whose disk is soon full. What is returned with it kills the broker once it could
// not write to a topic, and starts one with room on the same directory in its place.
func onSmallDisk(t *testing.T, kind string) (b *bench, restart func(full string)) {
	t.Helper()
	dir := t.TempDir()
	child := kafkatest.StartChild(t, "broker", dir)
	var addr atomic.Value // of the broker that runs
	addr.Store(strings.TrimPrefix(child.Await(t, "addr ", patience), "addr "))
	dial := func(ctx context.Context, network, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, network, addr.Load().(string))
	}
	b = newBench(t, kafka.Config{Brokers: []string{addr.Load().(string)}, Opts: []kgo.Opt{kgo.Dialer(dial), kgo.RecordDeliveryTimeout(20 * time.Second)}}, kind)
	return b, func(full string) {
		t.Helper()
		child.Await(t, fmt.Sprintf("log level=WARN msg=\"persist batch %s-0: ", full), patience)
		if err := child.Kill(); err != nil {
			t.Fatal(err)
		}
		again, err := devbroker.Start(devbroker.Config{Listen: "127.0.0.1:0", DataDir: dir})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := again.Close(); err != nil {
				t.Error(err)
			}
		})
		addr.Store(again.Addr())
	}
}
