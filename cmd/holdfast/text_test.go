package main

import "testing"

func TestIndent(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, line, want string
	}{
		{"short", "  1.0 s  all well", "  1.0 s  all well"},
		{"long", "  1.0 s  one two three four", "  1.0 s  one two\n         three\n         four"},
		{"a word that is too long", "  1.0 s  abcdefghijklmnopqrstuvwxyz", "  1.0 s  abcdefghijklmnopqrstuvwxyz"},
		{"nothing but the margin", "  1.0 s", "  1.0 s"},
	} {
		if got := indent(c.line, 9, 17); got != c.want {
			t.Errorf("%s: got\n%s\nwant\n%s", c.name, got, c.want)
		}
	}
}
