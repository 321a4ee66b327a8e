package kafkatest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"os"
	"path/filepath"
)

// format makes the storage of a broker that has not run yet. StorageTool is a JVM of its own and writes the same for each
// broker of one id and one version of transactions: that is kept in the cache and copied. With users it runs each time,
// since their names and passwords are a test's.
func (b *Broker) format(ctx context.Context) error {
	if len(b.c.opts.Users) > 0 {
		return b.runStorageTool(ctx)
	}
	kept := b.formatted()
	if !exists(kept) {
		return b.formatAndKeep(ctx, kept)
	}
	return b.copyStorage(kept, b.data())
}

// data is the broker's log.dirs.
func (b *Broker) data() string { return filepath.Join(b.c.dir.path, fmt.Sprintf("data%d", b.ID)) }

// formatted is where the cache keeps the storage of such a broker. Its name carries what StorageTool is told: what else
// differs between two clusters, ports and paths among it, is not in the storage.
func (b *Broker) formatted() string {
	h := fnv.New64a()
	fmt.Fprintln(h, b.ID, b.c.formatArgs(""))
	return filepath.Join(b.c.install.dir, fmt.Sprintf("storage-%x", h.Sum64()))
}

// formatAndKeep formats the broker's own storage and renames a copy into its place, so that a copy that is there is a
// complete one. Of two processes that do so at once the second leaves the first one's.
func (b *Broker) formatAndKeep(ctx context.Context, kept string) error {
	if err := b.runStorageTool(ctx); err != nil {
		return err
	}
	tmp, err := os.MkdirTemp(b.c.install.dir, "storage-")
	if err != nil {
		return fmt.Errorf("kafkatest: keep the storage of broker %d: %w", b.ID, err)
	}
	defer os.RemoveAll(tmp)
	made := filepath.Join(tmp, "data")
	if err := b.copyStorage(b.data(), made); err != nil {
		return err
	}
	if err := os.Rename(made, kept); err != nil && !exists(kept) {
		return fmt.Errorf("kafkatest: keep the storage of broker %d: %w", b.ID, err)
	}
	return nil
}

func (b *Broker) copyStorage(from, to string) error {
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		return fmt.Errorf("kafkatest: copy the storage of broker %d: %w", b.ID, err)
	}
	return nil
}

func (b *Broker) runStorageTool(ctx context.Context) error {
	var out bytes.Buffer
	cmd := b.java("kafka.tools.StorageTool", b.c.formatArgs(b.conf)...)
	cmd.Stdout, cmd.Stderr = &out, &out
	p, err := start(cmd)
	if err != nil {
		return err
	}
	select {
	case <-p.exited:
	case <-ctx.Done():
		return errors.Join(fmt.Errorf("kafkatest: format broker %d: %w", b.ID, context.Cause(ctx)), p.kill())
	}
	if p.err != nil {
		return fmt.Errorf("kafkatest: format broker %d: %w\n%s", b.ID, p.err, tail(out.Bytes(), 3000))
	}
	return nil
}
