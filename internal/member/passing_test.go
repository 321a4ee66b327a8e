package member

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/stream"
)

func TestPassing(t *testing.T) {
	t.Parallel()
	refused := &net.OpError{Op: "dial", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
	for name, c := range map[string]struct {
		err  error
		want bool
	}{
		"a deadline":                       {context.DeadlineExceeded, true},
		"a broker that cannot yet":         {kerr.NotLeaderForPartition, true},
		"a broker that is being restarted": {fmt.Errorf("end of leader epoch: %w", &kadm.ShardErrors{Errs: []kadm.ShardError{{Err: fmt.Errorf("unable to dial: %w", refused)}}}), true},
		"no brokers":                       {fmt.Errorf("fetch: %w", stream.ErrUnreachable), true},
		"no permission, then silence":      {errors.Join(stream.ErrNotAuthorized, stream.ErrUnreachable), false},
		"a codec's own deadline":           {fmt.Errorf("%w: %w", stream.ErrEncode, context.DeadlineExceeded), false},
		"a fold's own deadline":            {fmt.Errorf("%w: %w", stream.ErrFold, context.DeadlineExceeded), false},
		"an output topic without brokers":  {fmt.Errorf("%w: %w", stream.ErrOutput, kerr.NotLeaderForPartition), false},
	} {
		if got := passing(c.err); got != c.want {
			t.Errorf("%s: passing %v, want %v", name, got, c.want)
		}
	}
}

// Renewals are in a row when one follows the other, not when a partition makes no commit.
func TestRenewalsOfAQuietPartitionDoNotAddUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := New(Config{Logger: slog.New(slog.DiscardHandler), TransactionTimeout: 30 * time.Second, Session: fence.Session{}.WithDefaults()})
		w := &worker{m: m, own: &fence.Ownership{}}
		for _, c := range []struct {
			after    time.Duration
			restored bool
			want     bool
		}{{time.Hour, false, false}, {2 * time.Minute, true, false}, {time.Hour, true, true}} {
			m.renewed[w.own.Partition()] = renewals
			w.restored = time.Time{}
			if c.restored {
				w.restored = time.Now()
			}
			time.Sleep(c.after)
			w.calm()
			if got := m.mayRenew(w.own.Partition()); got != c.want {
				t.Errorf("%v after its restore (%v): may be renewed %v, want %v", c.after, c.restored, got, c.want)
			}
		}
	})
}
