package kafkatest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
)

// Options says how a cluster differs from the stock one. The zero value is one plaintext broker.
type Options struct {
	// Brokers is 1 (the default) or 3. With 3, topics have three replicas and min.insync.replicas=2.
	Brokers int
	// Version is the Apache Kafka version, by default Version().
	Version string
	// Properties are added to every broker's server.properties, over the package's own.
	Properties map[string]string
	// TransactionVersion sets the feature transaction.version when the storage is formatted: 1 makes a
	// 4.x broker serve transactions as 3.9 does, without an epoch for each. 0, the default, leaves it
	// to the broker. Brokers before 4.0 have no such feature, and it is left out there.
	TransactionVersion int
	// HeapMiB is the most that each broker's heap takes; 0: 256, which requests of tens of megabytes are too much
	// for.
	HeapMiB int
	// Secure adds a SASL_SSL listener with SCRAM and an SSL listener that demands a client
	// certificate. Cluster.Secure has what a client needs. The plaintext listener stays.
	Secure bool
	// Users are the SCRAM users, name to password, with Secure. By default there is one, User with
	// Password.
	Users map[string]string
	// ACLs turns on the authorizer. Plaintext clients are super users; a SCRAM user and a client
	// certificate may do nothing until an ACL allows it.
	ACLs bool
}

func (o Options) withDefaults() (Options, error) {
	if o.Brokers == 0 {
		o.Brokers = 1
	}
	if o.Brokers != 1 && o.Brokers != 3 {
		return o, fmt.Errorf("kafkatest: Options.Brokers is %d, want 1 or 3", o.Brokers)
	}
	if o.Version == "" {
		o.Version = Version()
	}
	if o.Secure && len(o.Users) == 0 {
		o.Users = map[string]string{User: Password}
	}
	o.Properties, o.Users = maps.Clone(o.Properties), maps.Clone(o.Users)
	return o, nil
}

// errPortTaken is returned inside the package when another process bound a port first.
var errPortTaken = errors.New("port was taken")

// Cluster is a running Kafka cluster. It is safe for concurrent use.
type Cluster struct {
	// Addrs are the plaintext addresses, one a broker, host:port.
	Addrs []string
	// Brokers can be killed, paused and restarted. Empty for a cluster of HOLDFAST_BROKERS.
	Brokers []*Broker
	// Secure is nil without Options.Secure.
	Secure *Secure

	dir     *workDir
	install install
	opts    Options
	archive bool   // start the JVMs with the class data sharing archive
	record  string // where the brokers write an archive at their end, or empty
}

// Open starts a cluster and returns when every broker lists all of them as alive. It is for programs;
// tests call Start or New. The caller calls Close. The error wraps ErrTools when Java or Maven is
// missing.
func Open(ctx context.Context, opts Options) (*Cluster, error) {
	opts, err := opts.withDefaults()
	if err != nil {
		return nil, err
	}
	in, err := fetch(ctx, opts.Version)
	if err != nil {
		return nil, err
	}
	archive := true
	if err := in.makeArchive(ctx); err != nil {
		// The archive only makes starts faster: a JVM that cannot write one can still run the tests.
		fmt.Fprintf(os.Stderr, "kafkatest: brokers start slower, for want of a class data sharing archive: %v\n", err)
		archive = false
	}
	return open(ctx, in, opts, archive, "")
}

func open(ctx context.Context, in install, opts Options, archive bool, record string) (*Cluster, error) {
	for try := 1; ; try++ {
		c := &Cluster{install: in, opts: opts, archive: archive, record: record}
		err := c.start(ctx)
		if err == nil {
			return c, nil
		}
		err = errors.Join(err, c.Close())
		if !errors.Is(err, errPortTaken) || try == 5 || ctx.Err() != nil {
			return nil, err
		}
	}
}

func (c *Cluster) start(ctx context.Context) error {
	var err error
	if c.dir, err = newWorkDir(); err != nil {
		return err
	}
	if c.opts.Secure {
		if c.Secure, err = newSecure(filepath.Join(c.dir.path, "tls"), c.opts.Users); err != nil {
			return err
		}
	}
	if err := c.layOut(); err != nil {
		return err
	}
	return c.each(func(b *Broker) error {
		// The start is a JVM, and so is formatting what the cache does not have: the brokers go through them side by side.
		if err := b.format(ctx); err != nil {
			return err
		}
		if err := b.launch(); err != nil {
			return err
		}
		return b.awaitReady(ctx, len(c.Brokers))
	})
}

// layOut chooses the ports and writes one properties file a broker.
func (c *Cluster) layOut() error {
	n := c.opts.Brokers
	const portsEach = 4 // plaintext, controller, SASL_SSL, SSL
	ports, err := freePorts(portsEach * n)
	if err != nil {
		return err
	}
	var voters []string
	for i := range n {
		voters = append(voters, fmt.Sprintf("%d@127.0.0.1:%d", i+1, ports[portsEach*i+1]))
	}
	for i := range n {
		p := ports[portsEach*i : portsEach*(i+1)]
		b := &Broker{ID: int32(i + 1), Addr: loopback(p[0]), c: c}
		b.conf = filepath.Join(c.dir.path, fmt.Sprintf("broker%d.properties", b.ID))
		b.logPath = filepath.Join(c.dir.path, fmt.Sprintf("broker%d.log", b.ID))
		props := c.properties(b, p, strings.Join(voters, ","))
		if err := os.WriteFile(b.conf, []byte(props), 0o600); err != nil {
			return fmt.Errorf("kafkatest: write properties: %w", err)
		}
		c.Brokers = append(c.Brokers, b)
		c.Addrs = append(c.Addrs, b.Addr)
		if c.Secure != nil {
			c.Secure.Addrs = append(c.Secure.Addrs, loopback(p[2]))
			c.Secure.CertAddrs = append(c.Secure.CertAddrs, loopback(p[3]))
		}
	}
	return nil
}

func loopback(port int) string { return fmt.Sprintf("127.0.0.1:%d", port) }

// each runs f for all brokers side by side and joins the errors.
func (c *Cluster) each(f func(*Broker) error) error {
	errs := make([]error, len(c.Brokers))
	var wg sync.WaitGroup
	for i, b := range c.Brokers {
		wg.Go(func() { errs[i] = f(b) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

// Close kills the brokers, waits for their ends and removes their data. Calling it again does nothing.
// A cluster of HOLDFAST_BROKERS is left alone.
func (c *Cluster) Close() error {
	err := c.each((*Broker).Kill)
	if c.dir != nil {
		err = errors.Join(err, c.dir.remove())
	}
	return err
}

// workDir is a directory for the data of one cluster, locked while its owner lives.
type workDir struct {
	path string
	lock *os.File
	once sync.Once
	err  error
}

const workDirPrefix = "holdfast-kafka-"

func newWorkDir() (*workDir, error) {
	sweep()
	path, err := os.MkdirTemp("", workDirPrefix)
	if err != nil {
		return nil, fmt.Errorf("kafkatest: directory for broker data: %w", err)
	}
	// The file gets the name that sweep looks for only when it is locked:
	//
	//  1. This process creates the lock file.
	//  2. Another process sweeps, locks the file first, and removes the directory.
	//  3. This process locks a file that is gone, and starts a broker without a directory.
	made := filepath.Join(path, "lock.made")
	f, err := os.OpenFile(made, os.O_CREATE|os.O_RDWR, 0o600)
	if err == nil {
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	}
	if err == nil {
		err = os.Rename(made, filepath.Join(path, "lock"))
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("kafkatest: lock broker data: %w", err), os.RemoveAll(path))
	}
	return &workDir{path: path, lock: f}, nil
}

func (d *workDir) remove() error {
	d.once.Do(func() {
		d.err = errors.Join(os.RemoveAll(d.path), d.lock.Close())
	})
	return d.err
}

// sweep removes what killed processes left behind: directories whose lock nobody holds. A directory
// without a lock file is being made, and is left alone.
func sweep() {
	dirs, err := filepath.Glob(filepath.Join(os.TempDir(), workDirPrefix+"*"))
	if err != nil {
		return // only a malformed pattern does this
	}
	for _, dir := range dirs {
		f, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_RDWR, 0)
		if err != nil {
			continue
		}
		// What cannot be removed stays for the next sweep: it costs disk space and nothing else.
		if syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil {
			_ = os.RemoveAll(dir)
		}
		f.Close()
	}
}
