package visible

import (
	"io"
	"strings"
	"sync"
	"unicode/utf8"
)

// A Writer writes text as Lines returns it, and so is what stands last between a program and a terminal. A
// line break is one to it: where a stranger's text has its place on a line, it goes through Text before.
//
// It is safe for concurrent use.
type Writer struct {
	to      io.Writer
	allowed []string

	mu   sync.Mutex
	held string // the begin of a rune or of an allowed sequence
}

// NewWriter returns a Writer to to. Sequences that are allowed, as colours, go through as they are.
func NewWriter(to io.Writer, allowed ...string) *Writer { return &Writer{to: to, allowed: allowed} }

// Unwrap returns what w writes to.
func (w *Writer) Unwrap() io.Writer { return w.to }

// Write implements io.Writer. A rune may come in parts.
func (w *Writer) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := w.held + string(p)
	w.held = ""
	var b strings.Builder
	for s != "" {
		if n := w.sequence(s); n > 0 {
			b.WriteString(s[:n])
			s = s[n:]
			continue
		} else if n < 0 || !utf8.FullRuneInString(s) {
			w.held = s
			break
		}
		r, n := utf8.DecodeRuneInString(s)
		write(&b, r, n, s[0], "\n\t")
		s = s[n:]
	}
	if _, err := io.WriteString(w.to, b.String()); err != nil {
		return 0, err
	}
	return len(p), nil
}

// sequence returns the length of the allowed sequence that s begins with, 0 if there is none, and -1 if it
// ends too soon to say.
func (w *Writer) sequence(s string) int {
	for _, a := range w.allowed {
		if strings.HasPrefix(s, a) {
			return len(a)
		}
		if strings.HasPrefix(a, s) {
			return -1
		}
	}
	return 0
}
