package eos

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/holdfast-go/holdfast/internal/kafkatest"
	"github.com/holdfast-go/holdfast/internal/rule"
	"github.com/holdfast-go/holdfast/internal/wiretap"
)

// Two processes have one transactional id when one of them was stopped and does not know that the
// other has its partition. The commit that it had on its way is refused, and what it wakes with is
// not written.
func TestKafkaTwoProcessesWithOneTransactionalID(t *testing.T) {
	t.Parallel()
	b := newBench(t, kafkatest.Start(t), 1)
	a := b.member("stopped")
	b.seed(100)
	b.live.await(100)
	hold := a.holdCommit()
	b.seed(500)
	caught(t, hold, 1)
	mark := b.log.mark()
	if err := a.proc.Pause(); err != nil {
		t.Fatal(err)
	}
	other := b.member("other")
	if took := b.log.since(mark, func(e entry) bool { return e.from == "other" && e.is("took 0 ") }); len(took) == 0 {
		t.Error("the other process did not find the id in use")
	}
	b.live.await(500)
	// The answer has passed the proxy before the process wakes, which may close the connection first.
	hold.Lift()
	select {
	case <-a.refusal:
	case <-time.After(patience):
		t.Fatal("the broker has not refused the commit of the stopped process")
	}
	if err := a.proc.Cont(); err != nil {
		t.Fatal(err)
	}
	b.log.await("the loss of the partition by the stopped process", mark, 1, func(e entry) bool {
		return e.from == "stopped" && e.is("lost 0", "revoked 0")
	})
	b.seed(1000)
	b.live.await(1000)
	a.stop()
	other.stop()
	if b.check() == 0 {
		t.Error("no record was aborted: the stopped process had no transaction open")
	}
}

// The commit of a stopped process is on its way when its successor looks for the offset to start at.
// The successor's takeover has it refused. A successor that takes nothing over, and does not wait for
// what is open, copies once more what that commit makes visible: this is what the comparison of input
// and copy has to find.
// Public case B4.
func TestKafkaCommitBehindTheSuccessor(t *testing.T) {
	t.Parallel()
	for name, off := range map[string][]rule.Name{
		"with all rules":                      nil,
		"without takeover and stable offsets": {rule.Takeover, rule.StableFetch},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, kafkatest.Start(t), 1)
			b.conf.Engine = "fence" // the pipe would see by the progress record that the offset is old
			a := b.member("stopped")
			b.seed(100)
			b.live.await(100)
			hold := a.holdCommit()
			b.seed(200)
			caught(t, hold, 1)
			a.kill()
			b.conf.Off = off
			other := b.newMember("other")
			looked := make(chan struct{}, 1)
			other.tap.OnResponse(func(wiretap.Request, kmsg.Response) {
				select {
				case looked <- struct{}{}:
				default:
				}
			}, kmsg.OffsetFetch)
			other.launch()
			select {
			case <-looked:
			case <-time.After(patience):
				t.Fatal("the successor has not asked for the offset")
			}
			hold.Lift()
			b.live.await(200)
			b.seed(300)
			b.live.await(300)
			b.log.await("the last commit", 0, 1, func(e entry) bool { return e.is("committed 0 next 300 ") })
			other.stop()
			found, _ := b.compare()
			if repeated := len(found) > 0 && strings.Contains(found[0], "duplicate"); repeated != (off != nil) {
				t.Errorf("violations: %q", found[:min(len(found), 5)])
			}
		})
	}
}

// An application that takes our transactional id in use is outlived when it does so once: what it
// wrote is aborted, and ours goes on. When it does so again and again ours stops, and names the id.
func TestKafkaForeignUseOfATransactionalID(t *testing.T) {
	t.Parallel()
	b := newBench(t, kafkatest.Start(t), 1)
	id := b.idOf(0)
	m := b.member("copier")
	b.seed(100)
	b.live.await(100)
	b.squat(id)
	b.seed(200)
	b.live.await(200)
	if b.log.since(0, func(e entry) bool { return e.is("refused 0 producer-epoch") }) == nil {
		t.Error("our copier was not fenced by the foreign use of its id")
	}

	hold := m.tap.Fault(wiretap.HoldRequest, wiretap.Keys(kmsg.TxnOffsetCommit))
	t.Cleanup(hold.Lift)
	m.ending.Store(true)
	ended := make(chan error, 1)
	go func() { ended <- m.proc.Wait(t.Context()) }()
	b.seed(300)
	fights, err := 0, error(nil)
	for running := true; running; fights++ {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		next := make(chan error, 1)
		go func() { next <- hold.Await(ctx, fights+1) }()
		select {
		case err = <-ended:
			running = false
		case waited := <-next:
			if waited != nil {
				t.Fatal(waited)
			}
			b.squat(id)
			hold.Release()
		}
		cancel()
	}
	fights--
	hold.Lift()
	if err == nil || fights < 2 || fights > 5 {
		t.Errorf("our copier ended with %v after %d fights, want an error after at most 5", err, fights)
	}
	if log := m.proc.Stderr(); !bytes.Contains(log, []byte(id)) {
		t.Errorf("the id %s is not in what the copier says: %s", id, log)
	}
	m.start()
	b.live.await(300)
	m.stop()
	if b.check() == 0 {
		t.Error("no record was aborted: the foreign application had written none")
	}
}

// squat takes a transactional id as another application would, and leaves a transaction open under it
// with a record in it that nobody may see.
func (b *bench) squat(id string) {
	b.t.Helper()
	cl := b.c.Client(b.t, kgo.TransactionalID(id), kgo.DefaultProduceTopic(b.conf.Output))
	if err := cl.BeginTransaction(); err != nil {
		b.t.Fatal(err)
	}
	if err := cl.ProduceSync(b.t.Context(), kgo.StringRecord("-1")).FirstErr(); err != nil {
		b.t.Fatal(err)
	}
}
