package kafkatest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A jar runs as whoever runs the tests: another one than the pinned one is not run.
func TestJarsAreThePinnedOnes(t *testing.T) {
	t.Parallel()
	const sum = "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824" // of "hello"
	list := sum + "  9.9.9/lib/a.jar\n" + sum + "  9.9.9/lib/b.jar\n" + sum + "  9.9.9/streams/c.jar\n"
	for name, c := range map[string]struct {
		files map[string]string
		says  string
	}{
		"pinned":    {map[string]string{"a.jar": "hello", "b.jar": "hello"}, ""},
		"changed":   {map[string]string{"a.jar": "hello", "b.jar": "hullo"}, "b.jar has the SHA-256"},
		"one more":  {map[string]string{"a.jar": "hello", "b.jar": "hello", "z.jar": "hello"}, "z.jar has the SHA-256"},
		"one less":  {map[string]string{"a.jar": "hello"}, "b.jar is missing"},
		"other set": {map[string]string{"a.jar": "hello", "b.jar": "hello", "c.jar": "hello"}, "c.jar has the SHA-256"},
	} {
		dir := t.TempDir()
		for file, text := range c.files {
			if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		err := verify(list, "9.9.9", "lib", dir)
		if c.says == "" && err != nil || c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says)) {
			t.Errorf("I6: %s: %v, want %q", name, err, c.says)
		}
	}
	if err := verify(list, "9.9.8", "lib", t.TempDir()); err == nil && os.Getenv(unpinned) == "" {
		t.Error("I6: a version without sums is run")
	}
	for _, version := range []string{DefaultVersion, "4.0.0", "3.9.1"} {
		if n := len(sums(pinned, version, "lib")); n < 30 {
			t.Errorf("%d jars of Kafka %s are pinned", n, version)
		}
	}
}
