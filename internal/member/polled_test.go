package member

import (
	"context"
	"log/slog"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
)

// R12: what is posted runs while rebalances are blocked. They are not after a poll that returns nothing at all.
func TestNothingPostedRunsAfterAnEmptyPoll(t *testing.T) {
	t.Parallel()
	m := New(Config{Logger: slog.New(slog.DiscardHandler)})
	ran := 0
	m.post(func() { ran++ })
	m.polled(nil, nil)
	if ran != 0 {
		t.Error("a posted function ran while callbacks of the client may")
	}
	ended := kgo.NewErrFetch(context.Canceled) // of a poll that was woken
	m.polled(ended, ended)
	if ran != 1 {
		t.Errorf("the posted function ran %d times after a poll that blocks rebalances", ran)
	}
}
