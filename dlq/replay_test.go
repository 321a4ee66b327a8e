package dlq

import (
	"errors"
	"testing"
)

// A letter that cannot be read is not sent anywhere, whatever else of it can be.
func TestReplayRefusesAFaultyLetter(t *testing.T) {
	t.Parallel()
	l, err := Parse(written(New(input(), because(1)), 0, 0))
	if err != nil {
		t.Fatal(err)
	}
	l.Fault = ErrMalformed
	if m, err := Replay(l); !errors.Is(err, ErrMalformed) || m.Topic != "" {
		t.Errorf("replayed to %q: %v", m.Topic, err)
	}
}

// Where a record failed is told apart from where it comes from only if that is another place.
func TestFailedAtIsAnotherPlace(t *testing.T) {
	t.Parallel()
	letter := New(input(), because(1))
	same := input(letter.Headers...) // the record of the origin, with headers of a letter
	if v, ok := last(New(same, because(2)).Headers, HeaderFailedAt); ok {
		t.Errorf("the record failed where it comes from, and its letter says at %q too", v)
	}
	if v, _ := last(New(written(letter, 1, 7), because(2)).Headers, HeaderFailedAt); string(v) != "orders.dlq/1/7" {
		t.Errorf("failed at %q, want the place of the letter", v)
	}
}
