package eos

import (
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/holdfast-go/holdfast/internal/kafkatest"
)

// A batch whose transaction is open, and one that was aborted, is there for a reader with
// read_uncommitted and not for one with read_committed. The pass that commits is seen once by the
// latter, and as a repeat by the former.
func TestKafkaAbortedBatchIsHidden(t *testing.T) {
	t.Parallel()
	const first, records = 5, 20
	b := newBench(t, kafkatest.Start(t), 1)
	raw := startReader(b, kgo.ReadUncommitted())
	m := b.member("copier")
	b.seed(first)
	b.live.await(first)
	hold := m.holdCommit()
	b.seed(records)
	caught(t, hold, 1)

	// The records of a transaction are acknowledged before its commit is sent: they are in the log.
	admin := kadm.NewClient(b.c.Client(t))
	high, err := admin.ListEndOffsets(t.Context(), b.conf.Output)
	if err != nil {
		t.Fatal(err)
	}
	stable, err := admin.ListCommittedOffsets(t.Context(), b.conf.Output)
	if err != nil {
		t.Fatal(err)
	}
	end, _ := high.Lookup(b.conf.Output, 0)
	last, _ := stable.Lookup(b.conf.Output, 0)
	batch := int(end.Offset - last.Offset)
	if batch == 0 {
		t.Fatalf("with a transaction open the log ends at %d, and its last stable offset is %d", end.Offset, last.Offset)
	}
	raw.await(first + batch)
	m.kill()
	m.discard(hold)
	if n := b.live.have() - first; n != 0 {
		t.Errorf("a reader with read_committed has seen %d records of an open transaction", n)
	}

	m.start()
	b.live.await(records)
	m.stop()
	if aborted := b.check(); aborted != batch {
		t.Errorf("%d records were aborted, the batch had %d", aborted, batch)
	}
	raw.await(batch + records)
	var want []int
	for _, part := range [][2]int{{0, first + batch}, {first, records}} {
		for i := part[0]; i < part[1]; i++ {
			want = append(want, i)
		}
	}
	if got := raw.history()[0]; !slices.Equal(got, want) {
		t.Errorf("a reader with read_uncommitted has seen %v, want %v", got, want)
	}
}
