package devbroker

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"

	"github.com/holdfast-go/holdfast/stream"
)

// openDir creates and locks the data directory. It holds keys and passwords, so that nobody else may read them,
// and nobody else may have put something in their place.
func (b *Broker) openDir() error {
	dir := b.cfg.DataDir
	if dir == "" {
		return nil
	}
	inside, users := filepath.Join(dir, "kafka"), filepath.Join(dir, "kafka", "sasl.json")
	if err := os.MkdirAll(inside, 0o700); err != nil {
		return fault(err, "choose a directory that can be written")
	}
	if err := b.safe(); err != nil {
		return err
	}
	unlock, err := lock(filepath.Join(dir, "lock"))
	if err != nil {
		return fault(fmt.Errorf("%w: data directory %s: %w", stream.ErrConfig, dir, err),
			"stop the broker that uses it, or choose another directory")
	}
	b.unlock = unlock
	// What was configured wins over the users of the last run, which kfake would load.
	for _, old := range []string{users, users + ".tmp"} {
		if err := os.Remove(old); err != nil && !errors.Is(err, os.ErrNotExist) {
			return fault(err, "remove the file")
		}
	}
	// kfake writes the users here first, and would make the file one that everybody may read.
	f, err := os.OpenFile(users+".tmp", os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return fault(err, "choose a directory that can be written")
	}
	return f.Close()
}

// safe refuses a data directory that another account may change, parts of it that another one may read, and
// symbolic links, through which what is written would end up elsewhere.
func (b *Broker) safe() error {
	for _, one := range []struct {
		name  string
		never fs.FileMode // bits of the mode; of sasl.json none, as it is made anew
	}{
		{"", 0o022}, {"kafka", 0o077}, {"tls", 0o077}, {"lock", 0o022}, {filepath.Join("kafka", "sasl.json"), 0},
		{filepath.Join("tls", "key.pem"), 0o077}, {filepath.Join("tls", "cert.pem"), 0o022},
	} {
		path := filepath.Join(b.cfg.DataDir, one.name)
		info, err := os.Lstat(path)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return fault(err, "choose a directory that can be read and written")
		}
		refuse := func(hint, what string) error {
			return fault(fmt.Errorf("%w: %s %s", stream.ErrConfig, path, what), hint)
		}
		mode := info.Mode()
		switch {
		case mode&fs.ModeSymlink != 0:
			return refuse("name the directory itself, and put no link into it", "is a symbolic link, which is not followed")
		case !mode.IsDir() && !mode.IsRegular():
			return refuse("remove it", "is neither a file nor a directory")
		case runtime.GOOS == "windows":
		case mode.Perm()&one.never != 0:
			return refuse("take the rights from other accounts: chmod -R go-rwx "+b.cfg.DataDir, fmt.Sprintf("has the mode %v, with rights of other accounts", mode.Perm()))
		case !owned(info):
			return refuse("choose a directory of this user", "belongs to another account")
		}
	}
	return nil
}

// closeUsers takes the users' passwords from other accounts, which kfake writes with the rights of any file.
func (b *Broker) closeUsers() error {
	if b.cfg.DataDir == "" {
		return nil
	}
	err := os.Chmod(filepath.Join(b.cfg.DataDir, "kafka", "sasl.json"), 0o600)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return err
}
