package demo

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/stream"
)

// Learner is the state of one key: the course that the learner is in. It names each event that was
// folded into it, so that a reader can tell a lost one from one that was folded twice.
type Learner struct {
	Events  []int64 `json:"events"` // in the order in which they were folded
	Minutes int64   `json:"minutes"`
}

func (l Learner) with(e Event) Learner {
	return Learner{Events: append(slices.Clone(l.Events), e.Event), Minutes: l.Minutes + e.Minutes}
}

func cloneLearner(l Learner) Learner {
	l.Events = slices.Clone(l.Events)
	return l
}

// progress is one record of the output: the state that an event led to.
type progress struct {
	Event   int64   `json:"event"`
	Learner string  `json:"learner"`
	Events  []int64 `json:"events"`
	Minutes int64   `json:"minutes"`
}

// fold is the function that the members run.
func fold(output string) func(context.Context, *holdfast.Key[Learner], stream.Record) error {
	return func(_ context.Context, k *holdfast.Key[Learner], r stream.Record) error {
		var e Event
		if err := json.Unmarshal(r.Value, &e); err != nil {
			return fmt.Errorf("decode event: %w", err)
		}
		before, _ := k.State()
		after := before.with(e)
		value, err := json.Marshal(progress{Event: e.Event, Learner: e.Learner, Events: after.Events, Minutes: after.Minutes})
		if err != nil {
			return fmt.Errorf("encode progress: %w", err)
		}
		k.Emit(stream.Message{Topic: output, Key: k.Bytes(), Value: value})
		// A learner has graduated when the state says so, not when the event does: a state that lost or
		// repeated a lesson stays wrong.
		graduated := len(after.Events) == e.Of
		if graduated {
			k.Delete()
		} else {
			k.Set(after)
		}
		if graduated || e.Lesson%lessonsPerPersist == 0 {
			k.Persist()
		}
		return nil
	}
}
