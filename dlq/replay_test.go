package dlq

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/stream"
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
	if v, ok := last(letter.Headers, HeaderFailedAt); ok {
		t.Errorf("the record failed where it comes from, and its letter says at %q too", v)
	}
	again := replayed(t, written(letter, 1, 7))
	if v, _ := last(New(written(again, 3, 99), because(2)).Headers, HeaderFailedAt); string(v) != "orders/3/99" {
		t.Errorf("failed at %q, want the place of the replayed record", v)
	}
}

func replayed(t *testing.T, letter stream.Record) stream.Message {
	t.Helper()
	l, err := Parse(letter)
	if err != nil {
		t.Fatal(err)
	}
	m, err := Replay(l)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// The headers of a letter that something has copied to another record, or that a writer of an input has invented,
// say nothing: the letter is of the place where the record was read, goes back there, and is nobody's repeat.
func TestCopiedHeadersAreNotBelieved(t *testing.T) {
	t.Parallel()
	victim := written(New(input(h("mine", "1")), because(3)), 1, 7)
	victimID := identity(t, victim)
	forge := func(hs ...stream.Header) []stream.Header {
		return append([]stream.Header{h(connectTopic, "orders"), h(connectPartition, "3"), h(connectOffset, "42")}, hs...)
	}
	carrying := replayed(t, victim).Headers
	for name, r := range map[string]stream.Record{
		"a part of a replayed record": {Topic: "parts", Partition: 0, Offset: 5, Value: []byte("v"), Headers: carrying},
		"a letter that was copied":    {Topic: "parts", Partition: 0, Offset: 5, Value: []byte("v"), Headers: victim.Headers},
		"a snapshot topic":            {Topic: "orders", Offset: 5, Value: []byte("v"), Headers: []stream.Header{h(connectTopic, "snapshots"), h(connectPartition, "0"), h(connectOffset, "1"), h(HeaderAttempt, "2"), h(HeaderReplayed, "orders.dlq/1/7"), h("holdfast", "\x01\x00")}},
		"not replayed":                {Topic: "orders", Offset: 5, Value: []byte("v"), Headers: forge(h(HeaderAttempt, "999"))},
		"replayed from nowhere":       {Topic: "orders", Offset: 5, Value: []byte("v"), Headers: forge(h(HeaderAttempt, "999"), h(HeaderReplayed, "x"))},
		"a topic of another id":       {Topic: "orders", Offset: 5, Value: []byte("v"), Headers: forge(h(HeaderAttempt, "9"), h(HeaderReplayed, "orders.dlq/1/7"), h(HeaderTopicID, formatID([16]byte{9})))},
		"no attempt":                  {Topic: "orders", Offset: 5, Value: []byte("v"), Headers: forge(h(HeaderReplayed, "orders.dlq/1/7"))},
		"another family":              {Topic: "orders", Offset: 5, Value: []byte("v"), Headers: springHeaders("shop", 2, 1<<40)},
	} {
		l, err := Parse(written(New(r, because(2)), 1, 8))
		here := Origin{Topic: r.Topic, TopicID: id1, Partition: r.Partition, Offset: r.Offset}
		if err != nil || l.Origin != here || l.FailedAt != here || l.Attempt != 2 || l.Identity() == victimID {
			t.Errorf("I4: %s: origin %v, failed at %v, attempt %d, %v; want %v, 2", name, l.Origin, l.FailedAt, l.Attempt, err, here)
		}
		m, err := Replay(l)
		if err != nil || m.Topic != r.Topic {
			t.Errorf("I4: %s: replayed to %q, %v", name, m.Topic, err)
		}
		for _, header := range append(l.Record.Headers, m.Headers...) {
			if header.Key == stream.SnapshotHeader {
				t.Errorf("%s: the header of a snapshot was taken over", name)
			}
		}
	}

	// One that is forged to the letter has the victim's origin. It is not taken for the victim's, and does not
	// displace it, since it has other bytes; and it goes where it was read.
	forged := stream.Record{Topic: "orders", Partition: 0, Offset: 6, Value: []byte("evil"),
		Headers: forge(h(HeaderAttempt, "2147483647"), h(HeaderReplayed, "orders.dlq/1/7"), h(HeaderTopicID, formatID(id1)))}
	l, err := Parse(written(New(forged, because(1)), 1, 9))
	if err != nil || l.Attempt > MaxAttempt || l.Identity() == victimID || l.FailedAt.Offset != 6 || l.FailedAt.Partition != 0 {
		t.Errorf("I4: forged: %+v, %v", l, err)
	}
	var kept int
	for range Dedup(func(yield func(Letter, error) bool) {
		v, err := Parse(victim)
		_ = yield(l, nil) && yield(v, err)
	}) {
		kept++
	}
	if kept != 2 {
		t.Errorf("I4: %d of two letters are kept: a forged one stands for its victim's", kept)
	}
	// The victim's own, replayed and failed again, is a repeat.
	again := New(written(replayed(t, victim), 3, 99), because(1))
	if identity(t, written(again, 1, 10)) != victimID {
		t.Error("a replayed letter is no repeat of the first one")
	}
}

func identity(t *testing.T, letter stream.Record) Identity {
	t.Helper()
	l, err := Parse(letter)
	if err != nil {
		t.Fatal(err)
	}
	return l.Identity()
}

// What two places are told of is refused until somebody says where it belongs; so is what is not whole.
func TestReplayRefusesByName(t *testing.T) {
	t.Parallel()
	hs := append(slices.Clone(New(input(), because(1)).Headers), h(HeaderFailedAt, "elsewhere/0/1"))
	l, err := Parse(input(hs...))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Replay(l); !errors.Is(err, ErrElsewhere) || !strings.Contains(err.Error(), "orders/3/42") || !strings.Contains(err.Error(), "elsewhere/0/1") {
		t.Errorf("two topics: %v", err)
	}
	if m, err := ReplayTo(l, "mine"); err != nil || m.Topic != "mine" {
		t.Errorf("told where: %q, %v", m.Topic, err)
	}
	c := because(1)
	c.Without = Payload
	if l, err = Parse(written(New(input(), c), 1, 7)); err != nil {
		t.Fatal(err)
	}
	if _, err := Replay(l); !errors.Is(err, ErrReduced) || !strings.Contains(err.Error(), "orders/3/42") {
		t.Errorf("without its record: %v", err)
	}
}
