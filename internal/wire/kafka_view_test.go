package wire

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/holdfast-go/holdfast/internal/kafkatest"
	"github.com/holdfast-go/holdfast/stream"
)

// put writes keys in the transaction that is open, or outside of any.
func (w writer) put(keys ...string) {
	w.t.Helper()
	for _, k := range keys {
		if err := w.cl.ProduceSync(w.t.Context(), &kgo.Record{Topic: w.topic, Key: []byte(k)}).FirstErr(); err != nil {
			w.t.Fatal(err)
		}
	}
}

// awaitEnd waits until the log ends at hw: a marker is written some time after EndTxn was answered.
func awaitEnd(t *testing.T, l Log, hw int64) {
	t.Helper()
	ctx := within(t, time.Minute)
	for {
		_, now, _, err := l.Ends(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if now == hw {
			return
		}
		if now > hw || !sleep(ctx, 10*time.Millisecond) {
			t.Fatalf("the log ends at %d, want %d", now, hw)
		}
	}
}

// said is an entry in a word: key=status, "!" behind it where read_committed does not get.
func said(e Entry) string {
	word := string(e.Status)
	if !e.Status.Control() {
		word = string(e.Record.Key) + "=" + word
	}
	if !e.Stable {
		word += "!"
	}
	return word
}

func look(t *testing.T, v view) (words []string) {
	t.Helper()
	v.position = v.opts.From
	v.each = func(e Entry) error {
		if want := v.opts.From + int64(len(words)); e.Record.Offset != want {
			return fmt.Errorf("offset %d, want %d", e.Record.Offset, want)
		}
		words = append(words, said(e))
		return nil
	}
	if err := v.run(within(t, time.Minute)); err != nil {
		t.Fatal(err)
	}
	if v.position != v.opts.To {
		t.Fatalf("the view ended at %d, want %d", v.position, v.opts.To)
	}
	return words
}

// interleave writes what a view has to tell apart and returns what it is.
func interleave(t *testing.T, l Log, a, b, c, plain writer) []string {
	t.Helper()
	plain.put("p0")
	a.open("a1")
	b.open("b1")
	plain.put("p3")
	a.put("a4")
	b.end(kgo.TryAbort)
	awaitEnd(t, l, 6)
	a.end(kgo.TryCommit)
	awaitEnd(t, l, 7)
	b.open("b7")
	c.open("c8") // stays open: nothing is stable from here on
	b.put("b9")
	b.end(kgo.TryAbort)
	awaitEnd(t, l, 11)
	a.commit("a11")
	awaitEnd(t, l, 13)
	plain.put("p13")
	c.put("c14")
	a.abort("a15")
	awaitEnd(t, l, 17)
	b.commit("b17")
	awaitEnd(t, l, 19)
	return []string{"p0=plain", "a1=committed", "b1=aborted", "p3=plain", "a4=committed", "abort-marker", "commit-marker",
		"b7=aborted", "c8=open!", "b9=aborted!", "abort-marker!", "a11=committed!", "commit-marker!", "p13=plain!",
		"c14=open!", "a15=aborted!", "abort-marker!", "b17=committed!", "commit-marker!"}
}

// Wherever a view begins and ends, a record's status is that of its whole transaction.
func everyRange(t *testing.T, l Log, want []string) {
	t.Helper()
	end := int64(len(want))
	for _, o := range []struct {
		maxBytes int32
		limit    int
	}{{0, markerLimit}, {1, 2}} {
		for from := range end {
			for to := from; to <= end; to++ {
				if to != end && (from+to)%7 != 0 { // a seventh of them, to be quick
					continue
				}
				got := look(t, view{log: l, limit: o.limit, opts: ViewOptions{From: from, To: to, MaxBytes: o.maxBytes}})
				if g, w := strings.Join(got, " "), strings.Join(want[from:to], " "); g != w {
					t.Errorf("from %d to %d in fetches of %d:\n got %s\nwant %s", from, to, o.maxBytes, g, w)
				}
			}
		}
	}
}

func TestKafkaViewTellsTransactionsApart(t *testing.T) {
	t.Parallel()
	k := kafkatest.Start(t)
	topic := k.CreateTopic(t, kafkatest.UniqueName("view"), 1, nil)
	w := func(id string) writer { return newWriter(t, k, topic, topic+id, 10*time.Minute) }
	l := Log{Client: k.Client(t), Topic: topic}
	c := w("-c")
	want := interleave(t, l, w("-a"), w("-b"), c, writer{t, k.Client(t), topic})
	everyRange(t, l, want)
	if got := look(t, view{log: l, limit: markerLimit, opts: ViewOptions{To: 8, Stable: true}}); strings.Join(got, " ") != strings.Join(want[:8], " ") {
		t.Errorf("below the last stable offset: got %s", got)
	}
	// The end of the open transaction makes everything stable.
	c.end(kgo.TryCommit)
	awaitEnd(t, l, 20)
	if end := stableEnd(t, l); end != 20 {
		t.Fatalf("the log ends at %d", end)
	}
	for i := range want {
		want[i] = strings.TrimSuffix(strings.ReplaceAll(want[i], "open", "committed"), "!")
	}
	everyRange(t, l, append(want, "commit-marker"))
}

// A view that follows hands over an open record at once, and its marker when it comes; one that reads
// as read_committed does waits for the marker.
func TestKafkaViewFollows(t *testing.T) {
	t.Parallel()
	k := kafkatest.Start(t)
	topic := k.CreateTopic(t, kafkatest.UniqueName("follow"), 1, nil)
	w := newWriter(t, k, topic, topic, 10*time.Minute)
	w.open("a")
	l := Log{Client: k.Client(t), Topic: topic}
	follow := func(stable bool) (<-chan string, <-chan error, context.CancelFunc) {
		ctx, cancel := context.WithCancel(within(t, time.Minute))
		entries, done := make(chan string, 10), make(chan error, 1)
		go func() {
			position, err := l.View(ctx, ViewOptions{To: math.MaxInt64, Stable: stable}, func(e Entry) error {
				entries <- said(e)
				return nil
			})
			if position != 4 {
				err = fmt.Errorf("ended at %d, want 4: %w", position, err)
			}
			done <- err
		}()
		return entries, done, cancel
	}
	raw, rawDone, stopRaw := follow(false)
	stable, stableDone, stopStable := follow(true)
	if got := <-raw; got != "a=open!" {
		t.Fatalf("got %s", got)
	}
	select {
	case got := <-stable:
		t.Fatalf("an open transaction let %s through", got)
	default:
	}
	w.end(kgo.TryAbort)
	for _, want := range []string{"a=aborted", "abort-marker"} {
		if got := <-stable; got != want {
			t.Errorf("stable: got %s, want %s", got, want)
		}
	}
	if got := <-raw; strings.TrimSuffix(got, "!") != "abort-marker" {
		t.Errorf("got %s", got)
	}
	w.commit("b")
	for _, c := range []<-chan string{raw, stable} {
		for _, want := range []string{"b=committed", "commit-marker"} {
			// A follower that looks between the record and its marker finds it open.
			if got := strings.TrimSuffix(<-c, "!"); got != want && (c != raw || got != "b=open") {
				t.Errorf("got %s, want %s", got, want)
			}
		}
	}
	stopRaw()
	stopStable()
	for _, done := range []<-chan error{rawDone, stableDone} {
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("a view that was stopped returned %v", err)
		}
	}
}

func TestKafkaViewPastTheEnd(t *testing.T) {
	t.Parallel()
	k := kafkatest.Start(t)
	topic := k.CreateTopic(t, kafkatest.UniqueName("past"), 1, nil)
	l := Log{Client: k.Client(t), Topic: topic}
	_, err := l.View(within(t, time.Minute), ViewOptions{From: 5, To: 9}, func(Entry) error { return nil })
	if !errors.Is(err, stream.ErrTruncated) {
		t.Errorf("got %v, want ErrTruncated", err)
	}
	stop := errors.New("stop")
	writer{t, k.Client(t), topic}.put("a", "b")
	position, err := l.View(within(t, time.Minute), ViewOptions{To: 2}, func(e Entry) error {
		if e.Record.Offset == 1 {
			return stop
		}
		return nil
	})
	if !errors.Is(err, stop) || position != 1 {
		t.Errorf("got %v at %d, want the caller's error at 1", err, position)
	}
}

// Compaction takes away aborted records, and with delete.retention.ms 0 markers too; what is left keeps
// its status. The log is in tiny segments and ends in an aborted tail.
func TestKafkaViewOverCompactedLog(t *testing.T) {
	t.Parallel()
	k := kafkatest.New(t, kafkatest.Options{Properties: map[string]string{"log.cleaner.backoff.ms": "100"}})
	topic := k.CreateTopic(t, kafkatest.UniqueName("compacted"), 1, map[string]string{
		"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.001", "segment.ms": "100",
		"max.compaction.lag.ms": "100", "delete.retention.ms": "0",
	})
	w := newWriter(t, k, topic, topic, time.Minute)
	l := Log{Client: k.Client(t), Topic: topic}
	ctx := within(t, 2*time.Minute)
	w.commit("kept")
	w.abort("gone")
	tailSeen := false // the cleaner may be quicker than the view
	for w.commit("a"); ; w.commit("a") {
		stableEnd(t, l)
		w.abort("kept", "tail") // must never win over the committed record, nor take it away
		end := stableEnd(t, l)
		var words []string
		first := int64(-1)
		position, err := l.View(ctx, ViewOptions{To: end}, func(e Entry) error {
			if first < 0 {
				first = e.Record.Offset
			}
			words = append(words, fmt.Sprintf("%d:%s", e.Record.Offset, said(e)))
			return nil
		})
		if err != nil || position != end {
			t.Fatalf("ended at %d, %v: want %d", position, err, end)
		}
		got := strings.Join(words, " ")
		if first != 0 || !strings.HasPrefix(got, "0:kept=committed") || strings.Count(got, "kept=committed") != 1 {
			t.Fatalf("got %s: want the committed record first", got)
		}
		tailSeen = tailSeen || strings.Contains(got, "tail=aborted")
		if strings.Contains(got, "gone=committed") || strings.Contains(got, "tail=committed") || strings.Contains(got, "a=aborted") {
			t.Fatalf("got %s", got)
		}
		if end > 40 && tailSeen && !strings.Contains(got, "gone=") && int64(len(words)) < end/2 {
			return // aborted records and some markers are compacted away
		}
		if !sleep(ctx, 200*time.Millisecond) {
			t.Fatalf("the log was not compacted: %s", got)
		}
	}
}
