package kafkatest

import (
	"context"
	"fmt"
	"hash/fnv"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Java is a Java program that a test runs in a process of its own, beside the jars of Apache Kafka.
type Java struct {
	Class  string // the class with main, in no package
	Source string // of the file Class.java; Java 17, and no jar but Kafka's
	// Streams adds the jar of Kafka Streams, without RocksDB: the stores must be those in memory.
	Streams bool
}

// StartJava compiles the program, unless the cache has it, and runs it with args until the test's end
// at the latest. Each line of its standard output is an event. Process.Stop sends SIGTERM, after which
// a JVM ends with code 143 unless the program halts it with another.
func StartJava(tb testing.TB, j Java, args ...string) *Process {
	tb.Helper()
	p, err := startJava(tb.Context(), j, args)
	needs(tb, err)
	ownProcess(tb, p)
	return p
}

func startJava(ctx context.Context, j Java, args []string) (*Process, error) {
	in, err := fetch(ctx, Version())
	if err != nil {
		return nil, err
	}
	path := in.lib() + "/*"
	if j.Streams {
		lib, err := in.streams(ctx)
		if err != nil {
			return nil, err
		}
		path += string(os.PathListSeparator) + lib + "/*"
	}
	classes, err := in.compile(ctx, j, path)
	if err != nil {
		return nil, err
	}
	flags := append([]string{}, jvmFlags...)
	// The brokers' archive has most of what a client loads. It fits any class path that begins with
	// the jars it was made with, and the JVM ignores one that is not there.
	flags = append(flags, "-Xmx96m", "-Xms16m", "-Xshare:auto", "-XX:SharedArchiveFile="+in.archive(),
		"-cp", path+string(os.PathListSeparator)+classes, j.Class)
	return startProcess(j.Class, exec.Command(in.java, append(flags, args...)...))
}

// compile returns the directory with the program's classes. Its name carries the source's hash, and
// it is renamed into its place when it is complete.
func (in install) compile(ctx context.Context, j Java, path string) (string, error) {
	h := fnv.New64a()
	fmt.Fprint(h, j.Class, "\n", j.Source)
	dir := filepath.Join(in.dir, fmt.Sprintf("java-%s-%x", j.Class, h.Sum64()))
	if exists(dir) {
		return dir, nil
	}
	javac, err := exec.LookPath("javac")
	if err != nil {
		return "", fmt.Errorf("%w (javac, which a JRE lacks): run: %s", ErrTools, installCommand)
	}
	unlock, err := in.lock(ctx)
	if err != nil {
		return "", err
	}
	defer unlock()
	if exists(dir) { // another test binary compiled it while this one waited
		return dir, nil
	}
	tmp, err := os.MkdirTemp(in.dir, "javac-")
	if err != nil {
		return "", fmt.Errorf("kafkatest: compile %s: %w", j.Class, err)
	}
	defer os.RemoveAll(tmp)
	source, classes := filepath.Join(tmp, j.Class+".java"), filepath.Join(tmp, "classes")
	if err := os.WriteFile(source, []byte(j.Source), 0o600); err != nil {
		return "", fmt.Errorf("kafkatest: compile %s: %w", j.Class, err)
	}
	cmd := exec.CommandContext(ctx, javac, "--release", "17", "-cp", path, "-d", classes, source)
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("kafkatest: compile %s: %w\n%s", j.Class, err, tail(out, 3000))
	}
	if err := os.Rename(classes, dir); err != nil {
		return "", fmt.Errorf("kafkatest: compile %s: %w", j.Class, err)
	}
	return dir, nil
}

// streams returns the directory with the jar of Kafka Streams, which a broker has no use for.
func (in install) streams(ctx context.Context) (string, error) {
	dir := filepath.Join(in.dir, "streams")
	if exists(dir) {
		return dir, nil
	}
	unlock, err := in.lock(ctx)
	if err != nil {
		return "", err
	}
	defer unlock()
	if exists(dir) { // another test binary fetched it while this one waited
		return dir, nil
	}
	return dir, in.copyJars(ctx, streamsPOM, dir)
}

// startProcess starts cmd, with its standard output as events.
func startProcess(name string, cmd *exec.Cmd) (*Process, error) {
	p := &Process{Name: name, events: newLines(), stderr: &lockedBuffer{}}
	cmd.Stdout, cmd.Stderr = p.events, p.stderr
	cmd.WaitDelay = 5 * time.Second // a grandchild that inherited the pipes must not keep Wait from ending
	var err error
	if p.proc, err = start(cmd); err != nil {
		return nil, err
	}
	return p, nil
}

// ownProcess kills p at the test's end, and logs its standard error if the test failed.
func ownProcess(tb testing.TB, p *Process) {
	tb.Cleanup(func() {
		if err := p.Kill(); err != nil {
			tb.Error(err)
		}
		if log := p.stderr.Bytes(); tb.Failed() && len(log) > 0 {
			tb.Logf("%s %d:\n%s", p.Name, p.Pid(), strings.TrimSpace(string(tail(log, 8000))))
		}
	})
}
