package tail

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/internal/wire"
)

func TestPlaces(t *testing.T) {
	t.Parallel()
	log := ends{start: 5, lastStable: 8, highWatermark: 20}
	for _, c := range []struct {
		text                   string
		committed, uncommitted int64 // -1: refused
	}{
		{"start", 5, 5}, {"end", 8, 20}, {"-1", 7, 19}, {"-3", 5, 17}, {"-100", 5, 5},
		{"5", 5, 5}, {"12", 12, 12}, {"20", 20, 20}, {"4", -1, -1}, {"21", -1, -1},
	} {
		p, err := ParsePlace(c.text)
		if err != nil {
			t.Fatal(err)
		}
		for committed, want := range map[bool]int64{true: c.committed, false: c.uncommitted} {
			got, err := log.resolve(p, log.end(committed))
			if err != nil {
				got = -1
			}
			if got != want {
				t.Errorf("%s, committed %v: got %d, %v, want %d", c.text, committed, got, err, want)
			}
		}
	}
	for _, text := range []string{"", "-", "1.5", "START", "-start", "99999999999999999999"} {
		if p, err := ParsePlace(text); err == nil {
			t.Errorf("%q is read as %+v", text, p)
		}
	}
}

func TestShow(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		words     string
		committed bool
		want      string
	}{
		{"", false, "abort-marker aborted commit-marker committed control-record open plain"},
		{"", true, "committed plain"},
		{"open,aborted", false, "aborted open"},
		{"open,aborted,committed", true, "committed"},
		{"markers", true, "abort-marker commit-marker control-record"},
		{"open", true, "refused"},
		{"visible", false, "refused"},
	} {
		words := strings.FieldsFunc(c.words, func(r rune) bool { return r == ',' })
		show, err := ParseShow(words, c.committed)
		got := []string{"refused"}
		if err == nil {
			got = nil
			for _, s := range slices.Sorted(maps.Keys(show)) {
				got = append(got, string(s))
			}
		}
		if s := strings.Join(got, " "); s != c.want {
			t.Errorf("%q, committed %v: got %s, want %s", c.words, c.committed, s, c.want)
		}
	}
}

// No byte of a record acts on a terminal, and what is cut says so.
func TestTextIsSafe(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		format Format
		bytes  string
		cut    int
		want   string
	}{
		{Text, "plain", 0, `"plain"`},
		{Text, "", 0, `""`},
		{Text, "a\x1b]0;title\x07\r\n\"\\", 0, `"a\x1b]0;title\a\r\n\"\\"`},
		{Text, "\u202egnp.exe \u009b", 0, `"\u202egnp.exe \u009b"`},
		{Text, "\xff\xfe", 0, `"\xff\xfe"`},
		{Text, "grüße", 0, `"grüße"`},
		{Text, "grüße", 3, `"gr"… (7 bytes)`},
		{Text, "\x80\x80\x80\x80\x80\x80", 5, `"\x80\x80"… (6 bytes)`},
		{Text, "grüße", 7, `"grüße"`},
		{Hex, "\x00\xff", 0, "0x00ff"},
		{Hex, "\x00\xff", 1, "0x00… (2 bytes)"},
	} {
		if got := c.format.text([]byte(c.bytes), c.cut); got != c.want {
			t.Errorf("%s of %q cut at %d: got %s, want %s", c.format, c.bytes, c.cut, got, c.want)
		}
	}
	if got := Text.text(nil, 1); got != "null" {
		t.Errorf("no value is %s", got)
	}
	if got := (author{id: "a\x1b[31m", pid: 3}).String(); got != `"a\x1b[31m" (pid 3 epoch 0)` {
		t.Errorf("a transactional id is shown as %s", got)
	}
	if got := (author{pid: -1}).String(); got != "-" {
		t.Errorf("no producer is %s", got)
	}
}

// Holdfast's progress records are told in words, and only they: no other record with that key is hidden,
// and no bytes that were asked for.
func TestProgressIsToldInWords(t *testing.T) {
	t.Parallel()
	key, value, err := fence.Progress{Inputs: []fence.InputProgress{{Topic: "orders", Next: 42}}, Group: "g"}.Encode()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name       string
		keys, vals Format
		value      []byte
		has, lacks string
	}{
		{"text", Text, Text, value, "  progress record  next offset of orders: 42", "x00"},
		{"without values", Text, None, value, "  progress record", "orders"},
		{"values in hex", Text, Hex, value, `"\x00progress"  0x01`, "record"},
		{"keys in hex", Hex, Text, value, "0x0070726f", "record"},
		{"without keys", None, Text, value, `\x01`, "record"},
		{"somebody else's", Text, Text, []byte("mine"), `"\x00progress"  "mine"`, "record"},
		{"no value", Text, Text, nil, `"\x00progress"  null`, "record"},
	} {
		conf := Config{Keys: c.keys, Values: c.vals}
		e := wire.Entry{Status: wire.StatusCommitted, Record: &kgo.Record{Key: key, Value: c.value, ProducerID: 7}}
		got := conf.textLine(conf.line(e, author{id: "holdfast-12-ledger-payments-0", pid: 7, term: 3}), &widths{})
		if !strings.Contains(got, c.has) || strings.Contains(got, c.lacks) {
			t.Errorf("%s: got %s, want %q in it and no %q", c.name, got, c.has, c.lacks)
		}
		if !strings.Contains(got, "  pid 7 epoch 3  ") || strings.Contains(got, "ledger") {
			t.Errorf("%s: the line does not have the producer id alone: %s", c.name, got)
		}
	}
}

func TestWaiterGivesUpOnSilenceOnly(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var gave error
		last := errors.New("no leader")
		w := waiter{patience: 30 * time.Second, give: func(err error) { gave = err }}
		w.retried(last)
		time.Sleep(29 * time.Second)
		w.retried(last)
		w.answered()
		time.Sleep(time.Hour) // of reading without a failure
		w.retried(last)
		if gave != nil {
			t.Fatal("gave up although there was an answer in between")
		}
		time.Sleep(30 * time.Second)
		if w.retried(last); !errors.Is(gave, last) {
			t.Errorf("after 30 s of silence: %v", gave)
		}
	})
}

// A follower shows a record as open before its marker comes; what it says at its end is the end's.
func TestCountFollowsMarkers(t *testing.T) {
	t.Parallel()
	c := newCount()
	entry := func(pid int64, s wire.Status, stable bool) wire.Entry {
		return wire.Entry{Record: &kgo.Record{ProducerID: pid}, Status: s, Stable: stable}
	}
	for _, e := range []wire.Entry{
		entry(-1, wire.StatusPlain, true), entry(1, wire.StatusOpen, false), entry(2, wire.StatusOpen, false), entry(1, wire.StatusOpen, false),
		entry(-1, wire.StatusPlain, false), entry(1, wire.StatusAbortMarker, false), entry(1, wire.StatusCommitted, false),
	} {
		c.add(e)
	}
	if c.status[wire.StatusOpen] != 1 || c.status[wire.StatusAborted] != 2 || c.committed != 1 || c.uncommitted != 6 || c.held != 2 {
		t.Errorf("while one is open: %+v", c)
	}
	c.add(entry(2, wire.StatusCommitMarker, true))
	c.settle()
	if c.status[wire.StatusOpen] != 0 || c.status[wire.StatusCommitted] != 2 || c.committed != 4 || c.held != 0 {
		t.Errorf("when all have ended: %+v", c)
	}
}

func TestLevelsAreExplained(t *testing.T) {
	t.Parallel()
	of := func(committed, aborted, open, plain int) map[wire.Status]int {
		return map[wire.Status]int{wire.StatusCommitted: committed, wire.StatusAborted: aborted, wire.StatusOpen: open, wire.StatusPlain: plain}
	}
	for _, c := range []struct {
		name  string
		sum   count
		waits bool
		want  string
	}{
		{"nothing", count{}, false, "No records"},
		{"plain", count{status: of(0, 0, 0, 3), committed: 3, uncommitted: 3}, false, "return the same records"},
		{"committed", count{status: of(2, 0, 0, 1), committed: 3, uncommitted: 3}, false, "return the same 3 records"},
		{"aborted", count{status: of(2, 1, 0, 0), committed: 2, uncommitted: 3}, false,
			"read_committed returns 2 of these records, read_uncommitted 3: 1 aborted."},
		{"open", count{status: of(0, 0, 1, 2), committed: 1, uncommitted: 3, held: 1}, true,
			"read_committed returns 1 of these records so far, read_uncommitted 3: 1 of an open transaction"},
	} {
		if got := (&tailer{}).levels(c.sum, c.waits); !strings.Contains(got, c.want) {
			t.Errorf("%s: got %s, want %q in it", c.name, got, c.want)
		}
	}
}
