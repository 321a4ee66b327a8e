package acceptance

import (
	"context"
	"testing"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/kafkatest"
	"github.com/holdfast-go/holdfast/internal/wiretap"
	"github.com/holdfast-go/holdfast/stream"
)

// overlap is the schedule of the corruption: two owners of one partition at once.
//
//  1. The stale owner folds e1..e5 and persists nothing. It hangs in a slow fold of the record after.
//  2. Its heartbeats and fetches hang too. The group expels it; it does not notice.
//  3. The successor restores, folds e1..e10 and persists.
//  4. The stale owner persists e1..e5, as its flush says: "persist", or "revoke" when it is asked to
//     stop.
//  5. The successor folds a record of another key and persists that.
type overlap struct {
	guarantee    holdfast.Guarantee
	flush        string
	c            *kafkatest.Cluster
	input, group string
	tap          *wiretap.Cluster
	refusals     *wiretap.Refusals
	stale, next  *flow
	end          int64         // of the input
	wake         chan struct{} // ends the slow fold
}

// slow is the value of the record whose fold hangs in the stale owner. It changes nothing, but that
// it asks for a persist.
const slow = "slow"

func startOverlap(t *testing.T, guarantee holdfast.Guarantee, flush string) *overlap {
	t.Helper()
	c := kafkatest.Start(t)
	o := &overlap{guarantee: guarantee, flush: flush, c: c, input: c.CreateTopic(t, kafkatest.UniqueName("input"), 1, nil), wake: make(chan struct{})}
	o.group, o.tap = o.input+"-flow", tapOf(t, c)
	o.refusals = wiretap.WatchRefusals(o.tap)
	pr := producer(t, c)

	folded := newCounter()
	stale := shortSession(rarely(behind(o.tap, config(c.Addrs, o.group, o.input))))
	stale.Guarantee = guarantee
	stale.Fold = counting(folded, func(ctx context.Context, k *holdfast.Key[tally], r stream.Record) error {
		if string(r.Value) != slow {
			return fold(ctx, k, r)
		}
		select {
		case <-o.wake:
		case <-t.Context().Done():
		}
		k.Persist()
		return nil
	})
	o.stale = start(t, t.Context(), "stale", stale)
	values := numbers(1, 6)
	if flush == "persist" {
		values = append(values, slow)
	}
	send(t, pr, o.input, "k", values...)
	folded.await(t, 5)
	lift := cutOff(t, o.tap)
	t.Cleanup(lift)

	values = append(values, numbers(6, 11)...)
	send(t, pr, o.input, "k", values[len(values)-5:]...)
	next := o.config()
	o.next = start(t, t.Context(), "successor", next)
	o.next.committedTo(0, int64(len(values)))
	if n := folded.count(); n != 5 {
		t.Fatalf("the stale owner has folded %d records, the schedule wants 5", n)
	}
	if got := stored(t, c, o.group+"-snapshots")["k"]; got.N != 10 {
		t.Fatalf("stored %+v after the successor's commit, want 10 records", got)
	}
	o.staleFlush(t, lift)
	send(t, pr, o.input, "other", "11")
	o.end = int64(len(values)) + 1
	o.next.committedTo(0, o.end)
	return o
}

func (o *overlap) config() holdfast.Config[tally] {
	c := config(o.c.Addrs, o.group, o.input)
	c.Guarantee = o.guarantee
	c.Fold = func(ctx context.Context, k *holdfast.Key[tally], r stream.Record) error {
		if string(r.Value) == slow {
			return nil
		}
		return fold(ctx, k, r)
	}
	return c
}

// staleFlush has the stale owner flush: on its next persist and then on its revoke, or on the revoke
// alone. It does not know that the partition is not its own any more.
func (o *overlap) staleFlush(t *testing.T, lift func()) {
	t.Helper()
	close(o.wake)
	if o.flush == "persist" {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		if err := o.refusals.Await(ctx, 1); err != nil {
			t.Fatal(err)
		}
	}
	o.stale.cancel()
	await(o.stale, 0, func(e any) bool {
		switch e.(type) {
		case revoked, lost:
			return true
		}
		return false
	})
	lift()
	if err := o.stale.stop(); err != nil {
		t.Errorf("the stale owner ended with %v, want nil: the stop was asked for", err)
	}
}

// restoredKey starts a third owner and returns where it resumes and what it has as the state of k
// once it has folded one more record of it.
func (o *overlap) restoredKey(t *testing.T) (resumedAt int64, after tally) {
	t.Helper()
	if err := o.next.stop(); err != nil {
		t.Fatal(err)
	}
	third := start(t, t.Context(), "third", o.config())
	resumedAt = await(third, 0, any1[stream.Restored]).Start
	send(t, producer(t, o.c), o.input, "k", "12")
	third.committedTo(0, o.end+1)
	if err := third.stop(); err != nil {
		t.Fatal(err)
	}
	return resumedAt, stored(t, o.c, o.group+"-snapshots")["k"]
}

var flushes = []string{"revoke", "persist"}

// Unfenced, the stale owner's snapshot of e1..e5 overwrites the newer one; the next recovery loads it
// and resumes behind e10, so that e6..e10 are lost to the state.
func TestKafkaCorruptionReproduced(t *testing.T) {
	for _, flush := range flushes {
		t.Run(flush, func(t *testing.T) {
			t.Parallel()
			o := startOverlap(t, holdfast.Unfenced, flush)
			if got := stored(t, o.c, o.group+"-snapshots")["k"]; got.N != 5 {
				t.Fatalf("stored %+v after the stale flush, want the stale owner's 5 records: nothing was reproduced", got)
			}
			resumedAt, after := o.restoredKey(t)
			if resumedAt != o.end {
				t.Errorf("recovery resumed at %d, want the committed offset %d", resumedAt, o.end)
			}
			if after.N != 6 || after.Last != o.end {
				t.Errorf("state %+v after recovery and one more record, want 6 of the 11 records of the key", after)
			}
			if len(check(t, o.c, o.group, o.input, o.group+"-snapshots")) == 0 {
				t.Error("the state is what the input gives: nothing was reproduced")
			}
		})
	}
}

// FencedState, under the same schedule: the broker refuses the stale owner's transaction, and the
// newer state stays.
// Public case A1.
func TestKafkaCorruptionPrevented(t *testing.T) {
	for _, flush := range flushes {
		t.Run(flush, func(t *testing.T) {
			t.Parallel()
			o := startOverlap(t, holdfast.FencedState, flush)
			if o.refusals.Count() == 0 {
				t.Error("no refusal was seen on the wire: the stale owner's flush was not put to the test")
			}
			if got := stored(t, o.c, o.group+"-snapshots")["k"]; got.N != 10 {
				t.Errorf("stored %+v after the stale flush, want the successor's 10 records", got)
			}
			resumedAt, after := o.restoredKey(t)
			if resumedAt != o.end || after.N != 11 {
				t.Errorf("resumed at %d with %+v after one more record, want %d and all 11 records", resumedAt, after, o.end)
			}
			for _, d := range check(t, o.c, o.group, o.input, o.group+"-snapshots") {
				t.Error(d)
			}
			for _, e := range each[revoked](o.stale) {
				if e.Flushed {
					t.Errorf("the stale owner told that everything was flushed: %+v", e)
				}
			}
		})
	}
}
