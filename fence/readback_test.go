package fence

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/internal/wire"
)

// What a transaction committed becomes readable in two places, one after the other: the marker of the
// offset and that of the progress record are written by two brokers. Whichever comes first, nothing is
// judged by it alone (R4): the next owner, and this one's next read-back, see the other place as it was.
func TestReadBackWaitsForBothWitnesses(t *testing.T) {
	t.Parallel()
	const second = 100 * time.Millisecond // after the first
	offset := func(r *recorder, nonce uint64) {
		r.offset_ = wire.GroupOffset{Next: 3, Metadata: witness{nonce, 1}.metadata("")}
	}
	progress := func(r *recorder, nonce uint64) { r.log = append(r.log, Progress{Nonce: nonce, Sequence: 1}) }
	for _, c := range []struct {
		name        string
		first, then func(*recorder, uint64)
	}{
		{"offset known, progress in doubt", progress, offset},
		{"offset in doubt, progress known", offset, progress},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r := newRecorder()
				r.fail = failOnce(wire.StepEnd, 1, errors.New("EOF"))
				w := fakeWriter(t, r, newFakeSession().grant(), 3, func(conf *Config) {
					conf.Unknown = func(error) {
						nonce := conf.Ownership.nonce
						c.first(r, nonce)
						time.AfterFunc(second, func() {
							r.mu.Lock()
							defer r.mu.Unlock()
							c.then(r, nonce)
						})
					}
				})
				began := time.Now()
				if err := w.Write(t.Context(), put("k", "1")); err != nil {
					t.Fatalf("I1: %v", err)
				}
				if waited := time.Since(began); waited < second || waited > time.Second {
					t.Errorf("I1: settled after %v, and one of the two markers alone was readable until %v", waited, second)
				}
				if n := r.count("begin"); n != 1 {
					t.Errorf("I3: the same effects again over a commit in doubt, in %d transactions", n)
				}
			})
		})
	}
}

// Offset and progress record are each as last known, those in doubt, or somebody else's.
func TestCompareJudgesBothWitnesses(t *testing.T) {
	t.Parallel()
	const knownNext, doubtNext = 3, 5
	lastOffset, lastProgress, doubt, other := witness{7, 1}, witness{7, 2}, witness{8, 1}, witness{9, 1}
	k := known{next: knownNext, offset: lastOffset, progress: lastProgress}
	for _, c := range []struct {
		name             string
		next             int64
		offset, progress witness
		inDoubt, settled verdict // what it is if an outcome is in doubt, and if none is
	}{
		{"offset known, progress known", knownNext, lastOffset, lastProgress, aborted, aborted},
		{"offset known, progress in doubt", knownNext, lastOffset, doubt, mixed, foreign},
		{"offset known, progress another's", knownNext, lastOffset, other, foreign, foreign},
		{"offset in doubt, progress known", doubtNext, doubt, lastProgress, mixed, foreign},
		{"offset in doubt, progress in doubt", doubtNext, doubt, doubt, committed, foreign},
		{"offset in doubt, progress another's", doubtNext, doubt, other, foreign, foreign},
		{"offset another's, progress known", doubtNext, other, lastProgress, foreign, foreign},
		{"offset another's, progress in doubt", doubtNext, other, doubt, foreign, foreign},
		{"offset another's, progress another's", doubtNext, other, other, foreign, foreign},
		{"next falls back under the known witness", knownNext - 1, lastOffset, lastProgress, foreign, foreign},
		{"next is another under the witness in doubt", doubtNext + 1, doubt, doubt, foreign, foreign},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			for inDoubt, want := range map[bool]verdict{true: c.inDoubt, false: c.settled} {
				b := &batch{next: Offset{Next: doubtNext, LeaderEpoch: -1}, witness: doubt, doubt: inDoubt}
				if got := compare(k, b, c.next, c.offset, c.progress); got != want {
					t.Errorf("I3: verdict %d with doubt %v, want %d", got, inDoubt, want)
				}
			}
		})
	}
}
