package kafka

import (
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"

	"github.com/holdfast-go/holdfast/internal/visible"
)

// maxFile bounds what is read of a file that is configured: a device or a pipe may have no end.
const maxFile = 1 << 20

// readFile returns what is in a file of at most maxFile bytes, and whether every account of the machine may read it.
// Of a named pipe it waits for a writer.
func readFile(path string) (text []byte, open bool, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, false, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	info, err := f.Stat()
	if err != nil {
		return nil, false, err
	}
	text, err = io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, false, err
	}
	if len(text) > maxFile {
		return nil, false, fmt.Errorf("%s has more than %d bytes", path, maxFile)
	}
	// What Windows says of a mode does not say who may read the file.
	return text, info.Mode().IsRegular() && info.Mode().Perm()&0o004 != 0 && runtime.GOOS != "windows", nil
}

// ReadSecret returns what is in a file that holds a secret, of at most 1 MiB, and a warning if every account of the
// machine may read the file, "" if not. Of a named pipe it waits for a writer.
func ReadSecret(path string) (text []byte, warning string, err error) {
	text, open, err := readFile(path)
	if err == nil && open {
		warning = exposed(path)
	}
	return text, warning, err
}

func exposed(path string) string {
	return fmt.Sprintf("%s holds a secret, and every account of this machine may read it: chmod 600 %[1]s", visible.Name(path))
}

// Warnings says what is allowed and not safe, a sentence each: PLAIN without TLS, which sends the password as it is,
// and files with secrets that FromProperties and WithTLSFiles have read and every account of the machine may read.
// Flows and pipes log them at their start.
func (c Config) Warnings() []string {
	all := append([]string{}, c.exposed...)
	if c.SASL != nil && c.SASL.Name() == MechanismPlain && !c.encrypted() {
		all = append(all, "SASL PLAIN without TLS: whoever sees the connection has the password; use TLS, or SCRAM")
	}
	return all
}

// encrypted reports whether TLS is configured, or may be: a dialer of the program's own may do it.
func (c Config) encrypted() bool {
	if c.TLS != nil {
		return true
	}
	r, err := c.resolve()
	return err != nil || r.tls != nil || r.own
}
