package demo

import (
	"context"
	"errors"
	"maps"
	"testing"
)

func TestJournalKnowsTheOwners(t *testing.T) {
	t.Parallel()
	j := newJournal()
	for _, e := range []entry{
		{"A", report{What: didAssign, Partition: 0}},
		{"A", report{What: didRestore, Partition: 0}},
		{"B", report{What: didAssign, Partition: 1, TookOver: true}},
		{"B", report{What: didRestore, Partition: 1}},
		{"B", report{What: didAssign, Partition: 0, TookOver: true}}, // A was killed
		{"A", report{What: didRelease, Partition: 1}},                // not its own
	} {
		j.add(e.member, e.report)
	}
	v, _ := j.view()
	if got, want := v.owners(), map[int32]string{1: "B"}; !maps.Equal(got, want) {
		t.Errorf("owners %v, want %v: partition 0 is not restored yet", got, want)
	}
	if n := j.tookOver(); n != 2 {
		t.Errorf("%d takeovers, want 2", n)
	}
}

func TestJournalAwaitsWhatComesLater(t *testing.T) {
	t.Parallel()
	j := newJournal()
	found := make(chan error, 1)
	go func() {
		found <- j.await(t.Context(), "a commit", func(v view) bool { return v.committed[2] >= 7 && v.by[2] == "B" })
	}()
	j.add("A", report{What: didCommit, Partition: 2, Offset: 6})
	j.add("B", report{What: didCommit, Partition: 2, Offset: 7})
	if err := <-found; err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	gaveUp := errors.New("gave up")
	cancel(gaveUp)
	if err := j.await(ctx, "nothing", func(view) bool { return false }); !errors.Is(err, gaveUp) {
		t.Errorf("got %v, want the cause of the context", err)
	}
}
