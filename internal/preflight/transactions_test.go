package preflight

import (
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/holdfast-go/holdfast/claim"
	"github.com/holdfast-go/holdfast/stream"
)

// A transaction that holds up readers of any topic of the component is named, with where, since when and how it
// is aborted; and nothing is said of one that has ended.
func TestOpenTransactionsAreNamed(t *testing.T) {
	t.Parallel()
	_, job := embedded(t, nil)
	if _, err := Inspect(t.Context(), job, Mode{Create: true}); err != nil {
		t.Fatal(err)
	}
	look := func() claim.Finding {
		t.Helper()
		found, err := Inspect(t.Context(), job, Mode{Deep: true})
		if err != nil {
			t.Fatal(err)
		}
		return one(t, found, "open-transactions")
	}
	if f := look(); f.Level() != claim.LevelOK {
		t.Errorf("without any: %+v", f)
	}
	stranger, err := job.Kafka.Client(kgo.TransactionalID("stranger"), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		t.Fatal(err)
	}
	defer stranger.Close()
	if err := stranger.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	for _, topic := range []string{"in", job.Progress.Topic} {
		if err := stranger.ProduceSync(t.Context(), &kgo.Record{Topic: topic, Partition: 1, Key: []byte("k"), Value: []byte("v")}).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	f := look()
	if f.Level() != claim.LevelAdvice || len(f.Fix) != 2 {
		t.Errorf("I6: %+v", f)
	}
	for _, want := range []string{"in/1", job.Progress.Topic + "/1", `transactional id "stranger"`, "open since", "stop at offset 0 of 1"} {
		if !strings.Contains(f.Text(), want) {
			t.Errorf("I6: %q is not in %s", want, f.Text())
		}
	}
	if !strings.Contains(strings.Join(f.Fix, " "), "abort --topic in --partition 1 --start-offset 0") {
		t.Errorf("the fix is %q", f.Fix)
	}
	if err := stranger.EndTransaction(t.Context(), kgo.TryAbort); err != nil {
		t.Fatal(err)
	}
	if f := look(); f.Level() != claim.LevelOK {
		t.Errorf("after its end: %+v", f)
	}
}

// A transaction that ended between two looks is not named: neither where another one is open behind it, nor where
// it ended before its producer was asked for.
func TestEndedTransactionsAreNotNamed(t *testing.T) {
	t.Parallel()
	at := func(partition int32, stable int64) heldUp {
		return heldUp{at: stream.Partition{Topic: "in", Partition: partition}, stable: stable, high: stable + 10}
	}
	before, later := []heldUp{at(0, 5), at(1, 5), at(2, 5)}, []heldUp{at(0, 5), at(1, 9), at(3, 5)}
	if held := stillHeld(before, later); !slices.Equal(held, []heldUp{at(0, 5)}) {
		t.Errorf("I6: held up are %+v, want in/0 alone", held)
	}
	_, job := embedded(t, nil)
	client, err := job.Kafka.Client()
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	i := &inspection{client: client}
	i.found.add(claim.Finding{ID: "open-transactions", What: "open transactions"})
	i.nameHolder(t.Context(), at(1, 0))
	if f := one(t, i.found, "open-transactions"); f.Level() != claim.LevelOK {
		t.Errorf("I6: without any: %+v", f)
	}
}
