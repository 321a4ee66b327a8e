package devbroker_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/devbroker"
	"github.com/holdfast-go/holdfast/stream"
)

func keep(t *testing.T, dir string) error {
	t.Helper()
	b, err := devbroker.Start(devbroker.Config{Listen: "127.0.0.1:0", DataDir: dir, TLS: true,
		Users: []devbroker.User{{Name: "holdfast", Password: "correct horse"}}})
	if err != nil {
		return err
	}
	return b.Close()
}

// What another account of the machine has prepared is not written through, and what is secret is not shown to it.
func TestDataDirectoryIsThisUsersAlone(t *testing.T) {
	t.Parallel()
	for name, prepare := range map[string]func(dir, victim string) error{
		"others may change it":       func(dir, _ string) error { return os.Chmod(dir, 0o777) },
		"others may read the topics": func(dir, _ string) error { return os.Mkdir(filepath.Join(dir, "kafka"), 0o755) },
		"others may read the key": func(dir, _ string) error {
			return errors.Join(os.Mkdir(filepath.Join(dir, "tls"), 0o700), os.WriteFile(filepath.Join(dir, "tls", "key.pem"), nil, 0o644))
		},
		"the lock is a link": func(dir, victim string) error {
			return os.Symlink(filepath.Join(victim, "new"), filepath.Join(dir, "lock"))
		},
		"the topics are": func(dir, victim string) error { return os.Symlink(victim, filepath.Join(dir, "kafka")) },
		"the keys are":   func(dir, victim string) error { return os.Symlink(victim, filepath.Join(dir, "tls")) },
	} {
		dir, victim := filepath.Join(t.TempDir(), "data"), t.TempDir()
		if err := errors.Join(os.Mkdir(dir, 0o755), prepare(dir, victim)); err != nil {
			t.Fatal(err)
		}
		if err := keep(t, dir); !errors.Is(err, stream.ErrConfig) {
			t.Errorf("I6: %s: %v, want ErrConfig", name, err)
		}
		if left, err := os.ReadDir(victim); err != nil || len(left) > 0 {
			t.Errorf("I6: %s: a broker wrote through a link: %v, %v", name, left, err)
		}
	}
	dir := filepath.Join(t.TempDir(), "data")
	if err := errors.Join(os.Mkdir(dir, 0o755), keep(t, dir), keep(t, dir)); err != nil {
		t.Fatalf("a directory of this user: %v", err)
	}
	for _, file := range []string{"kafka/sasl.json", "tls/key.pem", "kafka", "tls"} {
		info, err := os.Stat(filepath.Join(dir, file))
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode().Perm()&0o077 != 0 {
			t.Errorf("I6: %s has the mode %v", file, info.Mode())
		}
	}
}

func TestUsersAreShownWithoutPasswords(t *testing.T) {
	t.Parallel()
	const secret = "correct horse"
	u := devbroker.User{Name: "holdfast", Password: secret}
	c := devbroker.Config{Users: []devbroker.User{u}}
	for _, v := range []any{u, &u, c, &c, []any{u}, map[string]devbroker.User{"a": u}} {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x"} {
			text := fmt.Sprintf(verb, v)
			if strings.Contains(text, secret) || strings.Contains(text, fmt.Sprintf("%x", secret)) {
				t.Errorf("I6: %s of %T shows the password", verb, v)
			}
		}
		var log strings.Builder
		slog.New(slog.NewTextHandler(&log, nil)).Info("m", "v", v)
		slog.New(slog.NewJSONHandler(&log, nil)).Info("m", "v", v)
		if strings.Contains(log.String(), secret) {
			t.Errorf("I6: the log of %T shows the password: %s", v, log.String())
		}
	}
	text, err := json.Marshal(u)
	if err != nil || strings.Contains(string(text), secret) {
		t.Errorf("I6: JSON: %s, %v", text, err)
	}
}
