package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/holdfast-go/holdfast/internal/kafkatest"
	"github.com/holdfast-go/holdfast/internal/wire"
)

// transactions is a topic with a history for holdfast tail.
type transactions struct {
	t     *testing.T
	topic string
	log   wire.Log
}

func (h transactions) put(cl *kgo.Client, keys ...string) {
	h.t.Helper()
	for _, k := range keys {
		r := &kgo.Record{Topic: h.topic, Key: []byte(k), Value: []byte("v\x1b[2J\n" + k)}
		if err := cl.ProduceSync(h.t.Context(), r).FirstErr(); err != nil {
			h.t.Fatal(err)
		}
	}
}

func (h transactions) begin(cl *kgo.Client, keys ...string) {
	h.t.Helper()
	if err := cl.BeginTransaction(); err != nil {
		h.t.Fatal(err)
	}
	h.put(cl, keys...)
}

// end ends the transaction and waits until its marker is the last entry of the log.
func (h transactions) end(cl *kgo.Client, how kgo.TransactionEndTry, logEnd int64) {
	h.t.Helper()
	if err := cl.EndTransaction(h.t.Context(), how); err != nil {
		h.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(h.t.Context(), time.Minute)
	defer cancel()
	for end := int64(-1); end != logEnd; {
		var err error
		if _, end, _, err = h.log.Ends(ctx); err != nil {
			h.t.Fatalf("the log ends at %d, want %d: %v", end, logEnd, err)
		}
	}
}

// history writes what tail has to tell apart: two transactional producers, "validator" and "rater",
// interleaved, with plain records; a transaction stays open from offset 8 on, for longer than any test takes.
func (h transactions) history(client func(...kgo.Opt) *kgo.Client) (openBy *kgo.Client) {
	txn := func(id string) *kgo.Client {
		return client(kgo.TransactionalID(h.topic+"-"+id), kgo.TransactionTimeout(10*time.Minute))
	}
	a, b, plain := txn("validator"), txn("rater"), client()
	h.put(plain, "p0")
	h.begin(a, "a1")
	h.begin(b, "b2")
	h.put(plain, "p3")
	h.put(a, "a4")
	h.end(b, kgo.TryAbort, 6)
	h.end(a, kgo.TryCommit, 7)
	h.put(plain, "p7")
	h.begin(a, "a8")
	h.begin(b, "b9")
	h.end(b, kgo.TryAbort, 11)
	h.begin(b, "b11")
	h.end(b, kgo.TryCommit, 13)
	return a
}

var historyStatuses = []string{"plain", "committed", "aborted", "plain", "committed", "abort-marker", "commit-marker",
	"plain", "open", "aborted", "abort-marker", "committed", "commit-marker"}

// shownEntry is what tail prints with --json.
type shownEntry struct {
	Partition       int32
	Offset          int64
	Status          string
	Stable          bool
	ProducerID      *int64  `json:"producer_id"`
	ProducerEpoch   *int16  `json:"producer_epoch"`
	TransactionalID string  `json:"transactional_id"`
	Coordinator     *int32  `json:"coordinator_epoch"`
	Key, Value      *string // nil: not there, or null
}

func entries(t *testing.T, out string) (all []shownEntry) {
	t.Helper()
	for line := range strings.Lines(out) {
		var e shownEntry
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatalf("%v in %s", err, line)
		}
		all = append(all, e)
	}
	return all
}

func statuses(all []shownEntry) string {
	var words []string
	for _, e := range all {
		words = append(words, fmt.Sprintf("%d=%s", e.Offset, e.Status))
	}
	return strings.Join(words, " ")
}

func numbered(statuses []string, keep func(offset int, status string) bool) string {
	var words []string
	for i, s := range statuses {
		if keep(i, s) {
			words = append(words, fmt.Sprintf("%d=%s", i, s))
		}
	}
	return strings.Join(words, " ")
}

// checkHistory runs tail over the history in every way that shows something else.
func checkHistory(t *testing.T, brokers, topic string) {
	tail := func(args ...string) result {
		return command(t.Context(), append([]string{"tail", topic, "--brokers", brokers}, args...)...)
	}
	is := func(words ...string) func(int, string) bool {
		return func(_ int, s string) bool { return strings.Contains(" "+strings.Join(words, " ")+" ", " "+s+" ") }
	}
	for _, c := range []struct {
		name string
		args []string
		keep func(offset int, status string) bool
		says []string
	}{
		{"everything", nil, func(int, string) bool { return true },
			[]string{"3 committed, 2 aborted, 1 open, 3 plain records, and 4 markers", "stop at offset 8",
				"read_committed returns 5 of these records so far, read_uncommitted 9: 2 aborted; 1 of an open transaction"}},
		{"as read_committed", []string{"--isolation", "read_committed"},
			func(o int, s string) bool { return o < 8 && (s == "plain" || s == "committed") },
			[]string{"stop at offset 8", "-validator", "5 more offsets"}},
		{"markers of read_committed", []string{"--isolation", "read_committed", "--show", "markers"},
			func(o int, s string) bool { return o < 8 && strings.HasSuffix(s, "-marker") }, nil},
		{"issue's words", []string{"--show", "open,aborted,committed"}, is("open", "aborted", "committed"), nil},
		{"the last ones", []string{"--from", "-4"}, func(o int, _ string) bool { return o >= 9 }, nil},
		{"a range", []string{"--from", "1", "--to", "3"}, func(o int, _ string) bool { return o == 1 || o == 2 },
			[]string{"1 committed, 1 aborted records"}},
		{"a limit", []string{"--limit", "2", "--show", "aborted"}, is("aborted"), []string{"go on with --partition 0 --from 10"}},
		{"an end", []string{"--from", "end"}, func(int, string) bool { return false }, []string{"nothing from offset 13 on"}},
		{"plain ones", []string{"--from", "7", "--to", "8"}, is("plain"), nil},
	} {
		got := tail(append(c.args, "--json")...)
		if got.code != exitOK {
			t.Fatalf("%s: exit code %d: %s", c.name, got.code, got.stderr)
		}
		want := numbered(historyStatuses, c.keep)
		if c.name == "plain ones" {
			want = "7=plain"
		}
		if s := statuses(entries(t, got.stdout)); s != want {
			t.Errorf("%s:\n got %s\nwant %s", c.name, s, want)
		}
		for _, says := range c.says {
			if !strings.Contains(strings.Join(strings.Fields(got.stderr), " "), says) {
				t.Errorf("%s: standard error lacks %q:\n%s", c.name, says, got.stderr)
			}
		}
	}
	checkAuthors(t, topic, entries(t, tail("--json").stdout))
	text := tail()
	if strings.ContainsRune(text.stdout, '\x1b') || !strings.Contains(text.stdout, `"v\x1b[2J\na4"`) {
		t.Errorf("bytes of records reach the terminal:\n%q", text.stdout)
	}
	for _, id := range []string{topic + "-validator", topic + "-rater"} {
		told := regexp.MustCompile(`pid (\d+) is `+regexp.QuoteMeta(id)+`\n`).FindAllStringSubmatch(text.stderr, -1)
		if len(told) != 1 || strings.Contains(text.stdout, id) || !strings.Contains(text.stdout, "  pid "+told[0][1]+" epoch ") {
			t.Errorf("the transactional id %s is not told once, beside the lines with its producer id", id)
		}
	}
	t.Logf("as a person sees it:\n%s%s", text.stdout, text.stderr)
}

func checkAuthors(t *testing.T, topic string, all []shownEntry) {
	t.Helper()
	for _, e := range all {
		want := ""
		switch e.Offset {
		case 1, 4, 6, 8:
			want = topic + "-validator"
		case 2, 5, 9, 10, 11, 12:
			want = topic + "-rater"
		}
		if e.TransactionalID != want {
			t.Errorf("offset %d: written by %q, want %q", e.Offset, e.TransactionalID, want)
		}
		if want != "" && (e.ProducerID == nil || e.ProducerEpoch == nil) {
			t.Errorf("offset %d: no producer id and epoch", e.Offset)
		}
		marker := strings.HasSuffix(e.Status, "-marker")
		if marker != (e.Coordinator != nil) || marker == (e.Key != nil) {
			t.Errorf("offset %d: coordinator epoch or key where none is, or the other way round: %+v", e.Offset, e)
		}
		if e.Stable != (e.Offset < 8) {
			t.Errorf("offset %d: stable %v", e.Offset, e.Stable)
		}
	}
}

func TestKafkaTail(t *testing.T) {
	t.Parallel()
	k := kafkatest.Start(t)
	h := transactions{t: t, topic: k.CreateTopic(t, kafkatest.UniqueName("tail"), 1, nil)}
	h.log = wire.Log{Client: k.Client(t), Topic: h.topic}
	h.history(func(o ...kgo.Opt) *kgo.Client { return k.Client(t, o...) })
	checkHistory(t, strings.Join(k.Addrs, ","), h.topic)
}

// A follower shows what is written after it has begun, and ends well when it is interrupted.
func TestKafkaTailFollows(t *testing.T) {
	t.Parallel()
	k := kafkatest.Start(t)
	h := transactions{t: t, topic: k.CreateTopic(t, kafkatest.UniqueName("follow"), 2, nil)}
	h.log = wire.Log{Client: k.Client(t), Topic: h.topic}
	w := k.Client(t, kgo.TransactionalID(h.topic), kgo.TransactionTimeout(time.Minute), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	h.begin(w, "old")
	h.end(w, kgo.TryCommit, 2)
	ctx, cancel := context.WithCancelCause(t.Context())
	read, write := io.Pipe()
	ended := make(chan int, 1)
	var errs strings.Builder
	go func() {
		ended <- run(ctx, noEnvironment, []string{"tail", h.topic, "--brokers", strings.Join(k.Addrs, ","), "--json", "--follow",
			"--isolation", "read_committed"}, strings.NewReader(""), write, &errs)
		_ = write.Close() // a pipe's Close returns nil always
	}()
	lines := bufio.NewScanner(read)
	next := func() shownEntry {
		if !lines.Scan() {
			t.Fatalf("the follower ended: %v", lines.Err())
		}
		return entries(t, lines.Text())[0]
	}
	if e := next(); *e.Key != "old" || e.Status != "committed" {
		t.Errorf("got %+v", e)
	}
	h.begin(w, "gone")
	h.end(w, kgo.TryAbort, 4)
	h.begin(w, "kept")
	h.end(w, kgo.TryCommit, 6)
	if e := next(); *e.Key != "kept" || e.Status != "committed" || e.TransactionalID != h.topic {
		t.Errorf("got %+v", e)
	}
	cancel(errInterrupted)
	if code := <-ended; code != exitOK {
		t.Errorf("exit code %d\n%s", code, errs.String())
	}
	if !strings.Contains(errs.String(), "2 committed, 1 aborted records") {
		t.Errorf("standard error:\n%s", errs.String())
	}
}
