package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/holdfast-go/holdfast/internal/kafkatest"
)

// TestMain lets the test binary be a process that the demo or prove starts, which run their own program.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && (os.Args[1] == memberName || os.Args[1] == rivalName) {
		main()
	}
	kafkatest.Main(m)
}

// result is what a command line came to.
type result struct {
	code           int
	stdout, stderr string
}

// noEnvironment keeps the variables of the tests, of which HOLDFAST_BROKERS is one, out of the commands:
// what is tested on an embedded broker would else run on that cluster.
func noEnvironment(string) (string, bool) { return "", false }

func command(ctx context.Context, args ...string) result {
	var out, errs bytes.Buffer
	code := run(ctx, noEnvironment, args, strings.NewReader(""), &out, &errs)
	return result{code: code, stdout: out.String(), stderr: errs.String()}
}

func TestExitCodes(t *testing.T) {
	t.Parallel()
	missing := filepath.Join(t.TempDir(), "missing")
	for _, c := range []struct {
		name string
		args []string
		code int
		says []string // on standard error
	}{
		{"help", []string{"help"}, exitOK, nil},
		{"nothing", nil, exitOK, nil},
		{"version", []string{"version"}, exitOK, nil},
		{"unknown command", []string{"dance"}, exitUsage, []string{"dance", "Try: holdfast --help"}},
		{"misspelt command", []string{"dmeo"}, exitUsage, []string{"dmeo", "Try: holdfast demo"}},
		{"unknown flag", []string{"demo", "--dance"}, exitUsage, []string{"--dance", "Try: holdfast demo --help"}},
		{"argument too many", []string{"version", "now"}, exitUsage, []string{"Try: holdfast version --help"}},
		{"unknown rule", []string{"demo", "--sabotage", "luck"}, exitUsage,
			[]string{"luck", "grant-id", "restore-bound", "two-write-delete", "applied-skip", "outputs-first", "holds", "Try: "}},
		{"version by a flag", []string{"--version"}, exitOK, nil},
		{"no number", []string{"demo", "--seed", "abc"}, exitUsage, []string{"--seed abc: not a whole number", "Try: "}},
		{"unknown shell", []string{"completion", "tcsh"}, exitUsage, []string{"tcsh", "Try: "}},
		{"two choices", []string{"demo", "--plain", "--sabotage", "grant-id"}, exitUsage, []string{"exclude each other", "Try: "}},
		{"too few events", []string{"demo", "--events", "1"}, exitUsage, []string{"Try: --events"}},
		{"keep of a cluster", []string{"demo", "--keep", missing, "--brokers", "127.0.0.1:1"}, exitUsage, []string{"Try: "}},
		{"nobody listens", []string{"demo", "--brokers", "127.0.0.1:1", "--timeout", "5s"}, exitUnreachable, []string{"127.0.0.1:1", "(nothing listens on that address)", "Try: check host and port"}},
		{"bad address", []string{"demo", "--brokers", "kafka://x"}, exitUsage, []string{"Try: "}},
		{"half of the credentials", []string{"demo", "--brokers", "127.0.0.1:1", "--sasl-user", "u"}, exitUsage, []string{"--sasl-password-file", "Try: "}},
		{"no password file", []string{"demo", "--brokers", "127.0.0.1:1", "--sasl-mechanism", "PLAIN", "--sasl-user", "u",
			"--sasl-password-file", missing}, exitUsage, []string{missing, "Try: "}},
		{"no certificate", []string{"demo", "--brokers", "127.0.0.1:1", "--tls-ca", missing}, exitUsage, []string{missing, "Try: "}},
		{"no properties", []string{"demo", "--command-config", missing}, exitUsage, []string{missing, "Try: "}},
		{"bad topic", []string{"broker", "--topic", "payments"}, exitUsage, []string{"payments", "Try: --topic payments:3"}},
		{"TLS without data", []string{"broker", "--tls"}, exitUsage, []string{"Try: add --data"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got := command(t.Context(), c.args...)
			if got.code != c.code {
				t.Errorf("exit code %d, want %d\n%s", got.code, c.code, got.stderr)
			}
			for _, want := range c.says {
				if !strings.Contains(got.stderr, want) {
					t.Errorf("standard error lacks %q:\n%s", want, got.stderr)
				}
			}
			if c.code != exitOK && got.stdout != "" {
				t.Errorf("a failed command wrote to standard output:\n%s", got.stdout)
			}
		})
	}
}

func TestInterruptedHasItsExitCode(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errInterrupted)
	if got := command(ctx, "demo"); got.code != exitInterrupted {
		t.Errorf("exit code %d, want %d\n%s", got.code, exitInterrupted, got.stderr)
	}
}

func TestEveryGlobalFlagHasAVariable(t *testing.T) {
	t.Parallel()
	set := map[string]string{
		"HOLDFAST_BROKERS": "a:1,b:2", "HOLDFAST_COMMAND_CONFIG": "f", "HOLDFAST_TLS_CA": "ca", "HOLDFAST_TLS_CERT": "c",
		"HOLDFAST_TLS_KEY": "k", "HOLDFAST_SASL_MECHANISM": "PLAIN", "HOLDFAST_SASL_USER": "u",
		"HOLDFAST_SASL_PASSWORD_FILE": "p", "HOLDFAST_TIMEOUT": "7s", "HOLDFAST_JSON": "true", "HOLDFAST_NO_COLOR": "true",
		"HOLDFAST_VERBOSE": "2",
	}
	a := &app{stdin: strings.NewReader(""), stdout: harmless(io.Discard), stderr: harmless(io.Discard)}
	flags := a.root().PersistentFlags()
	if err := flags.Set("sasl-user", "given"); err != nil {
		t.Fatal(err)
	}
	asked := map[string]bool{}
	err := fromEnvironment(flags, func(name string) (string, bool) {
		asked[name] = true
		v, ok := set[name]
		return v, ok
	})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := slices.Sorted(maps.Keys(asked)), slices.Sorted(maps.Keys(set)); !slices.Equal(got, want) {
		t.Errorf("asked for %v, want %v", got, want)
	}
	if a.connection.saslUser != "given" {
		t.Errorf("the variable won over the flag: user %q", a.connection.saslUser)
	}
	if got := strings.Join(a.connection.arguments(), " "); got != "--brokers=a:1,b:2 --command-config=f --tls-ca=ca --tls-cert=c "+
		"--tls-key=k --sasl-mechanism=PLAIN --sasl-user=given --sasl-password-file=p --timeout=7s" {
		t.Errorf("a child process would get %s", got)
	}
	if !a.json || !a.noColor || a.verbose != 2 {
		t.Errorf("json %v, no colour %v, verbose %d", a.json, a.noColor, a.verbose)
	}
}

func TestNoFlagTakesASecret(t *testing.T) {
	t.Parallel()
	a := &app{stdin: strings.NewReader(""), stdout: harmless(io.Discard), stderr: harmless(io.Discard)}
	root := a.root()
	for _, c := range append(root.Commands(), root) {
		c.Flags().VisitAll(func(f *pflag.Flag) { refuseSecret(t, f.Name) })
		c.PersistentFlags().VisitAll(func(f *pflag.Flag) { refuseSecret(t, f.Name) })
	}
}

func refuseSecret(t *testing.T, flag string) {
	for _, word := range []string{"password", "secret", "token"} {
		if strings.Contains(flag, word) && !strings.HasSuffix(flag, "-file") {
			t.Errorf("--%s takes a secret, which other users of the machine could read", flag)
		}
	}
}

func TestVersion(t *testing.T) {
	t.Parallel()
	got := command(t.Context(), "version", "--json")
	var b build
	if err := json.Unmarshal([]byte(got.stdout), &b); err != nil {
		t.Fatal(err)
	}
	if b.Version == "" || !strings.HasPrefix(b.Go, "go1.") || !strings.HasPrefix(b.FranzGo, "v1.") {
		t.Errorf("got %+v", b)
	}
	if text := command(t.Context(), "version").stdout; !strings.Contains(text, b.FranzGo) || !strings.Contains(text, b.Go) {
		t.Errorf("the text says %q", text)
	}
}

func TestCompletion(t *testing.T) {
	t.Parallel()
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		if got := command(t.Context(), "completion", shell); got.code != exitOK || !strings.Contains(got.stdout, "holdfast") {
			t.Errorf("%s: exit code %d, %d bytes", shell, got.code, len(got.stdout))
		}
	}
}

// TestHelpListsWhatMatters: a flag for a connection is listed where there is one.
func TestHelpListsWhatMatters(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		args         []string
		lists, lacks []string
	}{
		{[]string{"--help"}, []string{"--brokers", "--sasl-user", "--json", "holdfast prove ", "holdfast tail ", "holdfast dlq "}, nil},
		{[]string{"demo", "--help"}, []string{"--brokers", "--sasl-user", "--json"}, []string{"--schedule"}},
		{[]string{"broker", "--help"}, []string{"--sasl-user", "--json"}, []string{"--brokers", "--tls-ca", "--timeout"}},
		{[]string{"version", "--help"}, []string{"--json"}, []string{"--brokers", "--sasl-user"}},
		{[]string{"completion", "bash", "--help"}, nil, []string{"--brokers", "--sasl-user"}},
	} {
		got := command(t.Context(), c.args...).stdout
		for _, want := range c.lists {
			if !strings.Contains(got, want) {
				t.Errorf("%v lacks %s:\n%s", c.args, want, got)
			}
		}
		for _, not := range c.lacks {
			if strings.Contains(got, not) {
				t.Errorf("%v lists %s:\n%s", c.args, not, got)
			}
		}
	}
}

func TestProgramName(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]string{
		"holdfast": "holdfast", "./bin/holdfast": "./bin/holdfast", "/var/go-build123/b001/exe/holdfast": "go run ./cmd/holdfast",
	} {
		if got := programName(path); got != want {
			t.Errorf("%s: got %s, want %s", path, got, want)
		}
	}
}
