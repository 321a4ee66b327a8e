//go:build unix && !solaris && !aix

package devbroker

import (
	"errors"
	"os"
	"syscall"
)

// lock takes an exclusive lock on path. The kernel gives it back when the process ends, however it
// ends, so that a broker that was killed does not keep its successor out.
func lock(path string) (unlock func() error, err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		if errors.Is(err, syscall.EWOULDBLOCK) {
			err = errors.New("another broker uses it")
		}
		return nil, errors.Join(err, f.Close())
	}
	return f.Close, nil
}

// owned reports whether a file is this user's. Root may use everybody's.
func owned(info os.FileInfo) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	return !ok || int(stat.Uid) == os.Geteuid() || os.Geteuid() == 0
}
