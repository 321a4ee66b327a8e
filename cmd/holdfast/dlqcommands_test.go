package main

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/kafkatest"
	"github.com/holdfast-go/holdfast/stream"
)

func TestDLQ(t *testing.T) {
	t.Parallel()
	checkDLQ(t, development(t))
}

func TestKafkaDLQ(t *testing.T) {
	t.Parallel()
	checkDLQ(t, strings.Join(kafkatest.Start(t).Addrs, ","))
}

// checkDLQ runs every command on a cluster.
func checkDLQ(t *testing.T, brokers string) {
	for name, check := range map[string]func(*testing.T, *deadLetters){
		"list": checkList, "show": checkShow, "replay": checkReplay, "replay to another topic": checkReplayTo,
		"replay fails again": checkReplayAgain, "topics": checkTopics,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			check(t, newDeadLetters(t, brokers))
		})
	}
}

func expectText(t *testing.T, what, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %q, want %q", what, got, want)
	}
}

func checkList(t *testing.T, d *deadLetters) {
	if got := d.run(exitOK, "list", d.dead).stdout; !strings.Contains(got, "has no such letters") {
		t.Errorf("an empty topic: %q", got)
	}
	expectText(t, "empty", places(d.json(exitOK, "list", d.dead)), "")
	d.write(stream.Message{Topic: d.orders, Value: []byte("no letter"), Timestamp: d.when}, 2)
	for _, args := range [][]string{{"list", d.orders}, {"list", d.orders, "--json"}} {
		got := strings.Join(strings.Fields(d.run(exitOK, args...).stderr), " ")
		if want := d.orders + " does not look like a dead-letter topic"; !strings.Contains(got, want) {
			t.Errorf("%v: %q is missing in %q", args, want, got)
		}
	}
	d.standard()
	if got := d.run(exitOK, "list", d.dead); strings.Contains(got.stderr, "look like") {
		t.Errorf("one record without headers among letters: %s", got.stderr)
	}
	for _, c := range []struct {
		args []string
		want string
	}{
		{nil, "0:0/holdfast/0/1 0:1/holdfast/0/2 0:2/holdfast/2/3 0:3/unknown/<nil>/<nil> 1:0/holdfast/1/1 1:1/spring/1/<nil>"},
		{[]string{"--dedup"}, "0:1/holdfast/0/2 0:2/holdfast/2/3 0:3/unknown/<nil>/<nil> 1:0/holdfast/1/1 1:1/spring/1/<nil>"},
		{[]string{"--dedup", "--limit", "1"}, "0:1/holdfast/0/2"},
		{[]string{"--limit", "2"}, "0:0/holdfast/0/1 0:1/holdfast/0/2"},
		{[]string{"--reason", "amount"}, "0:0/holdfast/0/1 0:1/holdfast/0/2 1:0/holdfast/1/1"},
		{[]string{"--partition", "1"}, "1:0/holdfast/1/1 1:1/spring/1/<nil>"},
		{[]string{"--partition", "0", "--from", "1", "--to-offset", "3"}, "0:1/holdfast/0/2 0:2/holdfast/2/3"},
		{[]string{"--origin-topic", "other"}, ""},
		{[]string{"--origin-topic", d.orders, "--reason", "spring"}, "1:1/spring/1/<nil>"},
	} {
		expectText(t, strings.Join(c.args, " "), places(d.json(exitOK, append([]string{"list", d.dead}, c.args...)...), "family", "origin", "attempt"), c.want)
	}
	text := d.run(exitOK, "list", d.dead, "--dedup").stdout
	for _, want := range []string{"LETTER", "0:1", d.orders + "/0/5", "2×", "(and 1 letter)", "no dead-letter headers", "spring says no", d.when.Format(time.RFC3339)} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing in\n%s", want, text)
		}
	}
	if strings.Contains(text, "\x1b") || strings.Contains(text, "payload") {
		t.Errorf("a control character or a payload was printed:\n%q", text)
	}
}

func checkShow(t *testing.T, d *deadLetters) {
	d.standard()
	text := d.run(exitOK, "show", d.dead, "0:1").stdout
	for _, want := range []string{"holdfast", d.orders + "/0/5", "2×", "mine = 1", "null = null", "dlq.stage = fold", "Key (1 byte)\n  a\n", "Value (7 bytes)\n  payload\n"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing in\n%s", want, text)
		}
	}
	if text := d.run(exitOK, "show", d.dead, "0:3").stdout; !strings.Contains(text, "Key (null)") || !strings.Contains(text, "ff 00") {
		t.Errorf("binary: %s", text)
	}
	if text := d.run(exitOK, "show", d.dead, "1:1").stdout; !strings.Contains(text, "original-offset = 0x0000000000000008") || !strings.Contains(text, "Value (null)") {
		t.Errorf("spring: %s", text)
	}
	got := d.json(exitOK, "show", d.dead, "1:1")
	if got["value"] != nil || got["key"].(map[string]any)["text"] != "c" || got["family"] != "spring" || got["offset"] != 1.0 {
		t.Errorf("got %v", got)
	}
	if got := d.run(exitFailed, "show", d.dead, "1:2"); !strings.Contains(got.stderr, "1:2") || !strings.Contains(got.stderr, "the nearest letter is 1:1") || !strings.Contains(got.stderr, "Try: ") {
		t.Errorf("a letter that is not there: %s", got.stderr)
	}
}

func checkReplay(t *testing.T, d *deadLetters) {
	d.standard()
	plan := d.run(exitFailed, "replay", d.dead)
	for _, want := range []string{"Would send 4 letters", "Nothing was sent", "--execute", "1 letter left out", "Letter 0:3 cannot be replayed"} {
		if !strings.Contains(plan.stdout, want) {
			t.Errorf("%q is missing in\n%s", want, plan.stdout)
		}
	}
	if !strings.Contains(plan.stderr, "1 letter without a readable origin") {
		t.Errorf("got %s", plan.stderr)
	}
	d.expectArrived(d.orders)
	dry := d.json(exitOK, "replay", d.dead, "--origin-topic", d.orders)
	expectText(t, "plan", places(dry, "origin", "to", "attempt"), "0:1/0/0/3 0:2/2/2/4 1:0/1/1/2 1:1/1/1/2")
	if dry["executed"] != false || dry["sent"] != 0.0 || dry["not_sent"] != 4.0 || dry["repeats"] != 1.0 {
		t.Errorf("got %v", dry)
	}
	d.expectArrived(d.orders)

	sent := d.json(exitOK, "replay", d.dead, "--origin-topic", d.orders, "--execute")
	if sent["executed"] != true || sent["sent"] != 4.0 || sent["not_sent"] != 0.0 || sent["doubtful"] != 0.0 {
		t.Errorf("got %v", sent)
	}
	if later := sent["later"].(map[string]any); later["0"] != 3.0 || later["1"] != 2.0 {
		t.Errorf("later letters: %v", later)
	}
	d.expectArrived(d.orders, "0:a:3:0/1", "1:b:2:1/0", "1:c:2:1/1", "2:-:4:0/2")

	// All letters of a record, of one partition.
	if got := d.run(exitOK, "replay", d.dead, "--partition", "0", "--to-offset", "2", "--dedup=false", "--execute").stdout; !strings.Contains(got, "Sent 2 letters") {
		t.Errorf("got %s", got)
	}
	d.expectArrived(d.orders, "0:a:3:0/1", "0:a:2:0/0", "0:a:3:0/1", "1:b:2:1/0", "1:c:2:1/1", "2:-:4:0/2")
}

func checkReplayTo(t *testing.T, d *deadLetters) {
	d.standard()
	other := d.dead + "-other"
	d.create(other, 2)
	d.run(exitOK, "replay", d.dead, "--origin-topic", d.orders, "--to", other, "--execute")
	// Kafka's own producer puts the keys a, b and c into partition 0 of two.
	got := d.arrived(other)
	slices.Sort(got)
	expectText(t, "arrived", strings.Join(got, " "), "0:-:4:0/2 0:a:3:0/1 0:b:2:1/0 0:c:2:1/1")
	byKey := d.json(exitOK, "replay", d.dead, "--origin-topic", d.orders, "--by-key", "--reason", "too late")
	expectText(t, "a record without a key stays where it was", places(byKey, "to"), "0:2/2")
}

func checkReplayAgain(t *testing.T, d *deadLetters) {
	d.letter([]byte("a"), 0, 5, 3, "no amount")
	d.run(exitOK, "replay", d.dead, "--execute")
	d.expectArrived(d.orders, "0:a:4:0/0")
	// Its second failure has another letter with the same origin and more attempts.
	d.letter([]byte("a"), 0, 5, 4, "still none")
	if got := d.json(exitOK, "list", d.dead, "--dedup"); places(got, "attempt", "repeats") != "0:1/4/1" {
		t.Errorf("got %v", got)
	}
	d.run(exitOK, "replay", d.dead, "--execute")
	d.expectArrived(d.orders, "0:a:4:0/0", "0:a:5:0/1")
}

func checkTopics(t *testing.T, d *deadLetters) {
	d.letter([]byte("a"), 0, 5, 3, "no amount")
	for _, c := range []struct {
		name string
		code int
		args []string
		says []string
	}{
		{"missing", exitFailed, []string{"list", "missing"}, []string{"missing", "does not exist", "Try: see which topics"}},
		{"missing to replay", exitFailed, []string{"replay", "missing"}, []string{"does not exist"}},
		{"missing partition", exitFailed, []string{"list", d.dead, "--partition", "7"}, []string{"no partition 7", "0 to 1"}},
		{"missing target", exitFailed, []string{"replay", d.dead, "--to", "missing", "--execute"}, []string{"missing", "does not exist", "--to"}},
		{"itself", exitUsage, []string{"replay", d.dead, "--to", d.dead}, []string{"itself"}},
		{"bad name", exitUsage, []string{"list", "a b"}, []string{`"a b"`}},
	} {
		got := d.run(c.code, c.args...)
		for _, want := range c.says {
			if !strings.Contains(got.stderr, want) {
				t.Errorf("%s: %q is missing in %s", c.name, want, got.stderr)
			}
		}
	}
	d.expectArrived(d.orders)
}

func TestDLQUsage(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		args []string
		says []string
	}{
		{"no topic", []string{"list"}, []string{"one dead-letter topic", "Try: holdfast dlq list TOPIC"}},
		{"two topics", []string{"replay", "a", "b"}, []string{"one dead-letter topic"}},
		{"misspelt", []string{"lst"}, []string{`"lst"`, "Try: holdfast dlq list"}},
		{"no place", []string{"show", "a"}, []string{"a place"}},
		{"bad place", []string{"show", "a", "1"}, []string{`"1" is no PARTITION:OFFSET`, "Try: 0:17"}},
		{"negative place", []string{"show", "a", "0:-1"}, []string{"PARTITION:OFFSET"}},
		{"offsets of many partitions", []string{"list", "a", "--from", "1"}, []string{"Try: --partition P"}},
		{"nothing between", []string{"list", "a", "--partition", "1", "--from", "2", "--to-offset", "2"}, []string{"--to-offset 2 is not above --from 2"}},
		{"negative", []string{"list", "a", "--limit", "-1"}, []string{"--limit"}},
		{"execute a list", []string{"list", "a", "--execute"}, []string{"--execute", "Try: holdfast dlq list --help"}},
		{"no brokers", []string{"list", "a"}, []string{"no broker was named"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got := command(t.Context(), append([]string{"dlq"}, c.args...)...)
			if got.code != exitUsage {
				t.Errorf("exit code %d, want %d", got.code, exitUsage)
			}
			for _, want := range c.says {
				if !strings.Contains(got.stderr, want) {
					t.Errorf("%q is missing in %q", want, got.stderr)
				}
			}
		})
	}
	got := command(t.Context(), "dlq", "list", "a", "--brokers", "127.0.0.1:1", "--timeout", "5s")
	if got.code != exitUnreachable || !strings.Contains(got.stderr, "Try: ") {
		t.Errorf("nobody listens: %d, %s", got.code, got.stderr)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errInterrupted)
	if got := command(ctx, "dlq", "list", "a", "--brokers", "127.0.0.1:1"); got.code != exitInterrupted {
		t.Errorf("interrupted: %d", got.code)
	}
	if got := command(t.Context(), "dlq", "replay", "--help").stdout; !strings.Contains(got, "--brokers") || !strings.Contains(got, "--execute") {
		t.Errorf("help: %s", got)
	}
}
