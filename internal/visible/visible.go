// Package visible makes text of strangers fit to be printed. A terminal or a viewer of logs obeys control
// characters, and shows text in another order for those of bidirectional text; here each of them becomes an
// escape that says which it is. What Go calls printable (unicode.IsPrint) stays as it is.
//
// Escapes are those of JSON, so that what is escaped within a string of JSON is still the same string. A byte
// that is no UTF-8 is shown as \xff, which JSON has not and which JSON's encoder lets nothing through for.
package visible

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// Text returns s as one line. Line breaks and tabs are escaped, too.
func Text(s string) string { return escape(s, "") }

// Lines returns s with its line breaks and tabs as they are and everything else escaped.
func Lines(s string) string { return escape(s, "\n\t") }

// Name returns s as it is if it is printable and has neither blanks, quotes nor backslashes, so that nothing
// in it can be taken for something else, and quoted otherwise.
func Name(s string) string {
	if q := strconv.Quote(s); q[1:len(q)-1] != s || strings.Contains(s, " ") {
		return q
	}
	return s
}

// Quote returns the first limit bytes of s quoted, and says that there is more.
func Quote(s string, limit int) string {
	if len(s) > limit {
		return strconv.Quote(s[:limit]) + "…"
	}
	return strconv.Quote(s)
}

// escape escapes what is not printable and not in kept.
func escape(s, kept string) string {
	if plain(s, kept) {
		return s
	}
	var b strings.Builder
	for s != "" {
		r, n := utf8.DecodeRuneInString(s)
		write(&b, r, n, s[0], kept)
		s = s[n:]
	}
	return b.String()
}

func plain(s, kept string) bool {
	return utf8.ValidString(s) && strings.IndexFunc(s, func(r rune) bool { return !unicode.IsPrint(r) && !strings.ContainsRune(kept, r) }) < 0
}

// write appends the rune r that was decoded from n bytes, of which the first is raw.
func write(b *strings.Builder, r rune, n int, raw byte, kept string) {
	switch {
	case r == utf8.RuneError && n == 1:
		fmt.Fprintf(b, `\x%02x`, raw)
	case unicode.IsPrint(r) || strings.ContainsRune(kept, r):
		b.WriteRune(r)
	case r == '\n':
		b.WriteString(`\n`)
	case r == '\r':
		b.WriteString(`\r`)
	case r == '\t':
		b.WriteString(`\t`)
	case r > 0xffff:
		high, low := utf16.EncodeRune(r)
		fmt.Fprintf(b, `\u%04x\u%04x`, high, low)
	default:
		fmt.Fprintf(b, `\u%04x`, r)
	}
}
