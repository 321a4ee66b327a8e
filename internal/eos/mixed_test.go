package eos

import (
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/kafkatest"
	"github.com/holdfast-go/holdfast/internal/kafkatest/copier"
)

// java is a copier of Kafka's own client in the group of a bench.
type java struct {
	b      *bench
	hold   string
	proc   *kafkatest.Process
	ending *atomic.Bool
}

const javaName = "java"

func (b *bench) java() *java {
	b.t.Helper()
	j := &java{b: b, hold: filepath.Join(b.t.TempDir(), "hold")}
	j.start()
	return j
}

// start starts the process, and returns when it owns a partition.
func (j *java) start() {
	j.b.t.Helper()
	mark := j.b.log.mark()
	j.proc, j.ending = copier.Start(j.b.t, j.b.c, copier.Config{
		Group: j.b.conf.Group, Input: j.b.conf.Input, Output: j.b.conf.Output, TransactionalID: j.b.conf.Group + "-java",
		Records: j.b.conf.Records, Hold: j.hold, SessionTimeout: j.b.conf.Session, TransactionTimeout: j.b.conf.TransactionTimeout,
	}), &atomic.Bool{}
	j.b.log.follow(javaName, j.proc, j.ending)
	j.b.log.await("a partition for the Java copier", mark, 1, j.said(func(e copier.Event) bool {
		return e.Name == copier.Assigned && len(e.Partitions) > 0
	}))
}

// said accepts entries that are an event of the Java copier.
func (j *java) said(is func(copier.Event) bool) func(entry) bool {
	return func(e entry) bool {
		if e.from != javaName || !e.is("{") {
			return false
		}
		ev, err := copier.Parse(e.line)
		return err == nil && is(ev)
	}
}

func named(name string) func(copier.Event) bool {
	return func(e copier.Event) bool { return e.Name == name }
}

// crash kills the Java copier with a transaction open that has records and offsets in it.
func (j *java) crash(portion int) {
	j.b.t.Helper()
	mark := j.b.log.mark()
	if err := os.WriteFile(j.hold, nil, 0o600); err != nil {
		j.b.t.Fatal(err)
	}
	j.b.seed(j.b.seeded + portion)
	j.b.log.await("a transaction that the Java copier holds", mark, 1, j.said(named(copier.Holding)))
	j.ending.Store(true)
	if err := j.proc.Kill(); err != nil {
		j.b.t.Fatal(err)
	}
	if err := os.Remove(j.hold); err != nil {
		j.b.t.Fatal(err)
	}
}

// A member of ours and one of Kafka's own client are one group: whoever leads it, and whoever of them
// is killed with a transaction open, each record is copied once. Theirs has another transactional id
// than our partitions have, so that a partition that moves between the two makes is protected by the
// group alone: a stale member is refused, and the offset that it has left in an open transaction is
// waited for.
func TestKafkaMixedGroup(t *testing.T) {
	t.Parallel()
	c := kafkatest.New(t, kafkatest.Options{Properties: quickTimeouts})
	t.Run("order", func(t *testing.T) {
		t.Run("ours first", func(t *testing.T) {
			t.Parallel()
			mixed(t, c, true)
		})
		t.Run("Java first", func(t *testing.T) {
			t.Parallel()
			mixed(t, c, false)
		})
	})
}

// quickTimeouts has the broker look for transactions that have timed out every half second, and not
// every ten.
var quickTimeouts = map[string]string{"transaction.abort.timed.out.transaction.cleanup.interval.ms": "500"}

func mixed(t *testing.T, c *kafkatest.Cluster, oursFirst bool) {
	b := newBench(t, c, 4)
	// Who leads is decided by who joined first, as long as nobody is expelled on a slow machine.
	b.conf.Session = 10 * time.Second
	b.conf.TransactionTimeout = 6 * time.Second // for so long the survivor waits for what the other has left open
	const portion = 1000
	var m *member
	var j *java
	if oursFirst {
		m = b.member("ours")
		j = b.java()
	} else {
		j = b.java()
		m = b.member("ours")
	}
	both := func(mark int) {
		t.Helper()
		b.log.await("a commit of the Java copier", mark, 1, j.said(named(copier.Committed)))
		b.log.await("a commit of our copier", mark, 1, func(e entry) bool { return e.from == m.name && e.is("committed") })
	}
	b.seed(portion)
	b.live.await(b.seeded)
	both(0)
	led := b.log.since(0, j.said(func(e copier.Event) bool { return e.Name == copier.Leads && e.Members == 2 }))
	if (len(led) > 0) == oursFirst {
		t.Errorf("the Java copier has led the group of two %d times", len(led))
	}

	// Ours dies. Theirs goes on with its partitions when the transaction that it left open has timed
	// out, and ours finds an offset that is ahead of its progress record when it is back.
	hold := m.holdCommit()
	b.seed(b.seeded + portion)
	caught(t, hold, 1)
	m.kill()
	m.discard(hold)
	b.live.await(b.seeded)
	ahead, progress := 0, b.progress()
	for p, next := range b.committed() {
		if next > progress[p] {
			ahead++
		}
	}
	if ahead == 0 {
		t.Errorf("no offset is ahead of its progress record: the Java copier has moved none of our partitions (%v)", progress)
	}
	mark := b.log.mark()
	m.start()
	b.seed(b.seeded + portion)
	b.live.await(b.seeded)
	both(mark)

	// Theirs dies, and the other way round.
	j.crash(portion)
	b.live.await(b.seeded)
	mark = b.log.mark()
	j.start()
	b.seed(b.seeded + portion)
	b.live.await(b.seeded)
	both(mark)

	m.stop()
	j.stop()
	if aborted := b.check(); aborted == 0 {
		t.Error("no record was aborted: no kill has met an open transaction")
	}
}

// stop ends the Java copier in order.
func (j *java) stop() {
	j.b.t.Helper()
	j.ending.Store(true)
	if err := j.proc.Stop(j.b.t.Context()); err != nil {
		j.b.t.Error(err)
	}
}
