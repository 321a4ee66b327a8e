package visible

import (
	"bytes"
	"encoding/json"
	"errors"
	"log/slog"
	"net"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

func TestText(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ in, text, lines string }{
		{"plain: ä 日本 ×", "plain: ä 日本 ×", "plain: ä 日本 ×"},
		{"a\x1b[2Jb", `a\u001b[2Jb`, `a\u001b[2Jb`},
		{"one\ntwo\tthree\rfour", `one\ntwo\tthree\rfour`, "one\ntwo\tthree\\rfour"},
		{"c1 \u009b2J", `c1 \u009b2J`, `c1 \u009b2J`},
		{"bidi \u202egpj.exe\u2069", `bidi \u202egpj.exe\u2069`, `bidi \u202egpj.exe\u2069`},
		{"line \u2028 and \u2029", `line \u2028 and \u2029`, `line \u2028 and \u2029`},
		{"tag \U000e0041", `tag \udb40\udc41`, `tag \udb40\udc41`},
		{"no UTF-8 \x9b2J", `no UTF-8 \x9b2J`, `no UTF-8 \x9b2J`},
		{"", "", ""},
	} {
		if got := Text(c.in); got != c.text {
			t.Errorf("Text(%q) = %s, want %s", c.in, got, c.text)
		}
		if got := Lines(c.in); got != c.lines {
			t.Errorf("Lines(%q) = %q, want %q", c.in, got, c.lines)
		}
	}
	for in, want := range map[string]string{"ledger-0": "ledger-0", "a b": `"a b"`, `a"b`: `"a\"b"`, "a\u202e": `"a\u202e"`} {
		if got := Name(in); got != want {
			t.Errorf("Name(%q) = %s, want %s", in, got, want)
		}
	}
	if got := Quote("abc\x1b", 3); got != `"abc"…` {
		t.Errorf("Quote cut to 3: %s", got)
	}
}

func TestWriterLetsItsOwnColoursThrough(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	w := NewWriter(&out, "\x1b[32m", "\x1b[0m")
	text := "\x1b[32mOK\x1b[0m \x1b[31mred ä\x1b"
	for i := range len(text) { // in parts of one byte
		if n, err := w.Write([]byte{text[i]}); n != 1 || err != nil {
			t.Fatal(n, err)
		}
	}
	if _, err := w.Write([]byte("\n")); err != nil {
		t.Fatal(err)
	}
	if want := "\x1b[32mOK\x1b[0m \\u001b[31mred ä\\u001b\n"; out.String() != want {
		t.Errorf("written: %q, want %q", out.String(), want)
	}
}

// harmless reports whether a terminal obeys nothing of s but the kept characters.
func harmless(s, kept string) bool {
	return utf8.ValidString(s) && strings.IndexFunc(s, func(r rune) bool {
		return !strings.ContainsRune(kept, r) && (unicode.IsControl(r) || unicode.Is(unicode.Cf, r) || unicode.Is(unicode.Zl, r) || unicode.Is(unicode.Zp, r))
	}) < 0
}

// FuzzVisible: whatever a stranger writes, nothing that is printed of it is obeyed, a text is one line, JSON
// means the same behind the writer, and it does not matter in which parts something is written.
func FuzzVisible(f *testing.F) {
	for _, s := range []string{"a\x1b]0;t\x07", "\u202e\u2066", "\x9b2J", "a\r\nTry: rm", "\u0085", "\U000e0041", `\u001b`, "\xe2\x80"} {
		f.Add(s, 1)
	}
	f.Fuzz(func(t *testing.T, s string, at int) {
		if got := Text(s); !harmless(got, "") {
			t.Errorf("Text(%q) = %q", s, got)
		}
		if got := Lines(s); !harmless(got, "\n\t") {
			t.Errorf("Lines(%q) = %q", s, got)
		}
		if got := Name(s); !harmless(got, "") {
			t.Errorf("Name(%q) = %q", s, got)
		}
		if got := Quote(s, 8); !harmless(got, "") {
			t.Errorf("Quote(%q) = %q", s, got)
		}
		if Text(Text(s)) != Text(s) {
			t.Errorf("Text of what is escaped already changes it: %q", Text(s))
		}
		encoded, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		encoded = append(encoded, '\n')
		at = max(0, min(at, len(encoded)))
		var out bytes.Buffer
		w := NewWriter(&out)
		for _, part := range [][]byte{encoded[:at], encoded[at:]} {
			if _, err := w.Write(part); err != nil {
				t.Fatal(err)
			}
		}
		if !harmless(out.String(), "\n") {
			t.Errorf("JSON of %q is written as %q", s, out.String())
		}
		var back, want string
		if err := json.Unmarshal(encoded, &want); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(out.Bytes(), &back); err != nil || back != want {
			t.Errorf("JSON of %q comes back as %q, %v", s, back, err)
		}
	})
}

func TestHandlerEscapesWhatALogHolds(t *testing.T) {
	t.Parallel()
	const evil = "a\u009b2J\u202eb\x1b[2J"
	var out bytes.Buffer
	log := slog.New(NewHandler(NewHandler(slog.NewJSONHandler(&out, nil)))).With("with", evil).WithGroup("g")
	log.Info("message", "text", evil, "error", errors.New(evil), "list", []string{evil}, slog.Group("in", "it", evil), "n", 7,
		"stringer", &net.DNSError{Err: evil, Name: evil}, "nil", error((*net.DNSError)(nil)))
	if !harmless(out.String(), "\n") {
		t.Errorf("I6: logged: %q", out.String())
	}
	var line struct {
		With string
		G    struct {
			Text, Error string
			List        []string
			In          struct{ It string }
			N           int
		}
	}
	if err := json.Unmarshal(out.Bytes(), &line); err != nil {
		t.Fatal(err)
	}
	for _, got := range []string{line.With, line.G.Text, line.G.Error, line.G.List[0], line.G.In.It} {
		if want := `a\u009b2J\u202eb\u001b[2J`; got != want {
			t.Errorf("logged as %q, want %q", got, want)
		}
	}
	if line.G.N != 7 {
		t.Errorf("a number is logged as %v", line.G.N)
	}
}
