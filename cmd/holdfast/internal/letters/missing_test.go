package letters

import (
	"errors"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// TestOneTellsWhatIsThereInstead has letters of transactions:
//
//	0 letter (deleted), 1 letter, 2 commit marker, 3 aborted letter, 4 abort marker, 5 letter, 6 commit marker,
//	7 letter of a transaction that is open, 8 letter outside of transactions, which waits for it
func TestOneTellsWhatIsThereInstead(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 0)
	transactional, err := f.replay.Kafka.Client(kgo.DefaultProduceTopic("dead"), kgo.TransactionalID("writer"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(transactional.Close)
	write := func(cl *kgo.Client, n int) {
		t.Helper()
		for range n {
			if err := cl.ProduceSync(t.Context(), kgo.StringRecord("letter")).FirstErr(); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, x := range []struct {
		letters int
		end     kgo.TransactionEndTry
	}{{2, kgo.TryCommit}, {1, kgo.TryAbort}, {1, kgo.TryCommit}} {
		if err := transactional.BeginTransaction(); err != nil {
			t.Fatal(err)
		}
		write(transactional, x.letters)
		if err := transactional.EndTransaction(t.Context(), x.end); err != nil {
			t.Fatal(err)
		}
	}
	if err := transactional.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	write(transactional, 1)
	write(f.cl, 1)
	var to kadm.Offsets
	to.AddOffset("dead", 0, 1, -1)
	if _, err := kadm.NewClient(f.cl).DeleteRecords(t.Context(), to); err != nil {
		t.Fatal(err)
	}
	for offset, says := range map[int64]string{
		0:   "the partition begins at offset 1, and what was before it is deleted; the nearest letter is 0:1",
		2:   "a transaction's commit-marker, which takes an offset too; the nearest letter is 0:1",
		3:   "of an aborted transaction; the nearest letter is 0:1",
		4:   "a transaction's abort-marker, which takes an offset too; the nearest letter is 0:5",
		7:   "of a transaction that is open; the nearest letter is 0:5",
		8:   "waits for a transaction that is open before it; the nearest letter is 0:5",
		99:  "the partition ends at offset 9; the nearest letter is 0:5",
		500: "the partition ends at offset 9; the nearest letter is 0:5",
	} {
		if _, err := f.replay.One(t.Context(), Place{0, offset}); !errors.Is(err, ErrNoLetter) || !strings.HasSuffix(err.Error(), says) {
			t.Errorf("%d: %v, want %q", offset, err, says)
		}
	}
	for _, offset := range []int64{1, 5} {
		if l, err := f.replay.One(t.Context(), Place{0, offset}); err != nil || l.Record.Offset != offset {
			t.Errorf("the letter at %d: %+v, %v", offset, l.Record, err)
		}
	}
}

func TestNoLetterAtAll(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 0)
	_, err := f.replay.One(t.Context(), Place{0, 0})
	if !errors.Is(err, ErrNoLetter) || !strings.HasSuffix(err.Error(), "the partition ends at offset 0") {
		t.Errorf("got %v", err)
	}
}

func TestForeign(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		rows []Row
		want bool
	}{
		{"nothing", nil, false},
		{"letters", []Row{{Family: "holdfast"}, {Family: "spring"}}, false},
		{"one letter among others", []Row{{Family: unknown}, {Family: "holdfast"}}, false},
		{"no letter", []Row{{Family: unknown}, {Family: unknown}}, true},
	} {
		if got := Foreign(c.rows); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}
