package kafkatest

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"hash/fnv"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
)

// DefaultVersion is the Apache Kafka version that runs when HOLDFAST_KAFKA_VERSION is not set.
const DefaultVersion = "4.4.0"

// ErrTools is returned when Java or Maven is missing. The message has the command that installs
// them.
var ErrTools = errors.New("kafkatest: Java 17 or Maven is missing")

const installCommand = "apt-get install -y --no-install-recommends openjdk-17-jdk-headless maven"

//go:embed pom.xml
var pom []byte

//go:embed streams.xml
var streamsPOM []byte

// Version returns the Apache Kafka version that the tests run against.
func Version() string {
	if v := os.Getenv("HOLDFAST_KAFKA_VERSION"); v != "" {
		return v
	}
	return DefaultVersion
}

// install is one version's place in the cache.
type install struct {
	version string
	java    string // path of the java command
	dir     string
}

func (in install) lib() string { return filepath.Join(in.dir, "lib") }

// archive is the class data sharing archive of this version for this JVM. The JVM ignores an archive
// that another JVM wrote, so that the name carries what tells two JVMs apart.
func (in install) archive() string {
	h := fnv.New64a()
	real, err := filepath.EvalSymlinks(in.java)
	if err != nil {
		real = in.java
	}
	fmt.Fprintln(h, real, jvmFlags)
	// The launcher is tiny and the same in many releases: the class library is what changes.
	for _, f := range []string{real, filepath.Join(filepath.Dir(filepath.Dir(real)), "lib", "modules")} {
		if st, err := os.Stat(f); err == nil {
			fmt.Fprintln(h, st.Size(), st.ModTime().UnixNano())
		}
	}
	return filepath.Join(in.dir, fmt.Sprintf("classes-%x.jsa", h.Sum64()))
}

// Fetch makes sure that the jars of a version and its class data sharing archive are in the cache, as
// Start and New do by themselves. It takes under a minute when they are not there yet. The error wraps
// ErrTools when Java or Maven is missing. It is safe for concurrent use, also by several processes.
func Fetch(ctx context.Context, version string) error {
	in, err := fetch(ctx, version)
	if err != nil {
		return err
	}
	return in.makeArchive(ctx)
}

func fetch(ctx context.Context, version string) (install, error) {
	java, err := exec.LookPath("java")
	if err != nil {
		return install{}, fmt.Errorf("%w (java): run: %s", ErrTools, installCommand)
	}
	root := os.Getenv("HOLDFAST_KAFKA_CACHE")
	if root == "" {
		base, err := os.UserCacheDir()
		if err != nil {
			return install{}, fmt.Errorf("kafkatest: no cache directory, set HOLDFAST_KAFKA_CACHE: %w", err)
		}
		root = filepath.Join(base, "holdfast-kafka")
	}
	root, err = filepath.Abs(root)
	if err != nil {
		return install{}, fmt.Errorf("kafkatest: cache directory: %w", err)
	}
	in := install{version: version, java: java, dir: filepath.Join(root, version)}
	if exists(in.lib()) {
		return in, nil
	}
	if err := os.MkdirAll(in.dir, 0o755); err != nil {
		return in, fmt.Errorf("kafkatest: cache directory: %w", err)
	}
	unlock, err := in.lock(ctx)
	if err != nil {
		return in, err
	}
	defer unlock()
	if exists(in.lib()) { // another test binary fetched them while this one waited
		return in, nil
	}
	return in, in.download(ctx)
}

// download fetches into a directory of its own and renames it, so that an interrupted fetch never
// looks like a complete one.
func (in install) download(ctx context.Context) error { return in.copyJars(ctx, pom, in.lib()) }

func (in install) copyJars(ctx context.Context, pom []byte, target string) error {
	mvn, err := exec.LookPath("mvn")
	if err != nil {
		return fmt.Errorf("%w (mvn): run: %s", ErrTools, installCommand)
	}
	tmp, err := os.MkdirTemp(in.dir, "fetch-")
	if err != nil {
		return fmt.Errorf("kafkatest: fetch Kafka %s: %w", in.version, err)
	}
	defer os.RemoveAll(tmp)
	file := filepath.Join(tmp, "pom.xml")
	if err := os.WriteFile(file, pom, 0o644); err != nil {
		return fmt.Errorf("kafkatest: fetch Kafka %s: %w", in.version, err)
	}
	lib := filepath.Join(tmp, "lib")
	cmd := exec.CommandContext(ctx, mvn, "-q", "-B", "-f", file, "-Dkafka.version="+in.version,
		"dependency:copy-dependencies", "-DincludeScope=runtime", "-DoutputDirectory="+lib)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("kafkatest: fetch Kafka %s with Maven: %w\n%s", in.version, err, tail(out, 3000))
	}
	if err := verify(pinned, in.version, filepath.Base(target), lib); err != nil {
		return err
	}
	if err := os.Rename(lib, target); err != nil {
		return fmt.Errorf("kafkatest: fetch Kafka %s: %w", in.version, err)
	}
	return nil
}

// lock takes the version's lock between processes. It asks again and again instead of blocking in the
// kernel, so that the context can end the wait.
func (in install) lock(ctx context.Context) (unlock func(), err error) {
	f, err := os.OpenFile(filepath.Join(in.dir, "lock"), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, fmt.Errorf("kafkatest: lock the cache: %w", err)
	}
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return func() { f.Close() }, nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR) {
			f.Close()
			return nil, fmt.Errorf("kafkatest: lock %s: %w", f.Name(), err)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			f.Close()
			return nil, fmt.Errorf("kafkatest: lock %s, held by another process: %w", f.Name(), context.Cause(ctx))
		}
	}
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func tail(b []byte, n int) []byte { return b[max(0, len(b)-n):] }
