package trial

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Commit is the commit that is tested, "none" outside a repository.
func Commit(t testing.TB) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "git", "rev-parse", "HEAD").Output()
	if err != nil {
		t.Logf("no commit is known: %v", err)
		return "none"
	}
	return strings.TrimSpace(string(out))
}

// Tested is Commit, and says whether anything of it was changed. Results that are kept are no change of what
// was tested.
func Tested(t testing.TB) string {
	t.Helper()
	if exec.CommandContext(t.Context(), "git", "diff", "--quiet", "HEAD", "--", ":/", ":(top,exclude)results").Run() != nil {
		return Commit(t) + ", with changes"
	}
	return Commit(t)
}

// Keep writes results to the file that the environment variable names; unset: it does nothing.
func Keep(t testing.TB, variable, text string) {
	t.Helper()
	path := os.Getenv(variable)
	if path == "" {
		return
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Error(err)
	}
}
