package holdfast_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/claim"
	"github.com/holdfast-go/holdfast/codec"
	"github.com/holdfast-go/holdfast/stream"
)

// A snapshot topic that is missing is made at start, empty: where the group has committed offsets the start stops then,
// and Check says so, whoever makes it.
func TestCheckOfMissingSnapshots(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name     string
		policy   holdfast.Disagreement
		create   bool
		commit   int64 // -1: nothing
		refused  []error
		runsInto error
	}{
		{"a new flow", holdfast.StopAndAsk, true, -1, nil, nil},
		{"offsets are there", holdfast.StopAndAsk, true, 7, []error{holdfast.ErrOffsetMismatch}, holdfast.ErrOffsetMismatch},
		{"offsets are there, rebuild", holdfast.Rebuild, true, 7, nil, nil},
		{"offsets are there, adopt", holdfast.AdoptEmpty, true, 7, nil, nil},
		{"nobody makes it", holdfast.StopAndAsk, false, 7, []error{holdfast.ErrTopic, holdfast.ErrOffsetMismatch}, holdfast.ErrTopic},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := open("in")
			defer s.close()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			conf := holdfast.Config[string]{
				Kafka: s.Kafka(), Group: "flow", Inputs: []string{"in"}, Codec: codec.String(),
				Fold:  func(context.Context, *holdfast.Key[string], stream.Record) error { return nil },
				Hooks: []holdfast.Hooks{{Restored: func(stream.Restored) { cancel() }}},
			}
			conf.Start.Disagreement = c.policy
			if c.create {
				conf.Snapshots = created
			}
			cl, err := s.Kafka().Client()
			if err != nil {
				t.Fatal(err)
			}
			defer cl.Close()
			if c.commit >= 0 {
				fill(t, cl, c.commit)
				if err := kadm.NewClient(cl).CommitAllOffsets(t.Context(), "flow", kadm.Offsets{"in": {0: kadm.Offset{Topic: "in", At: c.commit, LeaderEpoch: -1}}}); err != nil {
					t.Fatal(err)
				}
			}
			flow, err := holdfast.New(conf)
			if err != nil {
				t.Fatal(err)
			}
			report, checked := flow.Check(t.Context())
			if (checked != nil) != (c.refused != nil) {
				t.Errorf("I7: Check: %v, want %v", checked, c.refused)
			}
			for _, want := range c.refused {
				if !errors.Is(checked, want) {
					t.Errorf("I7: Check: %v, want %v", checked, want)
				}
			}
			if !c.create {
				for _, f := range report.Findings {
					if f.ID == "topic.snapshot" && (f.Level() != claim.LevelFault || !strings.Contains(strings.Join(f.Fix, "\n"), "AdoptEmpty")) {
						t.Errorf("the fix does not say what follows: %q", f.Fix)
					}
				}
			}
			if ran := flow.Run(ctx); !errors.Is(ran, c.runsInto) {
				t.Errorf("I7: Run: %v, and Check: %v", ran, checked)
			}
		})
	}
}
