package member

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/stream"
)

// Partitions that are due at one time are asked for side by side, while rebalances wait: a coordinator that
// does not answer holds them up for one heartbeat interval, and not for one each.
func TestPartitionsAreRenewedSideBySide(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const partitions = 20
		s := fence.Session{Group: "g", HeartbeatInterval: time.Second}.WithDefaults()
		m := New(Config{Session: s, Logger: slog.New(slog.DiscardHandler)})
		ctx, cancel := context.WithCancel(t.Context())
		m.ctx = ctx
		var mu sync.Mutex
		asked := 0
		m.renew = func(ctx context.Context, _ *fence.Ownership) (*fence.Ownership, error) {
			mu.Lock()
			asked++
			mu.Unlock()
			<-ctx.Done()
			return nil, errors.New("no answer")
		}
		for range partitions {
			m.due = append(m.due, &worker{m: m, own: &fence.Ownership{}})
		}
		began := time.Now()
		m.renewDue()
		if took := time.Since(began); took > s.HeartbeatInterval || asked != partitions {
			t.Errorf("I7: rebalances were held up for %v, and %d of %d partitions were asked for", took, asked, partitions)
		}
		cancel()
		m.wg.Wait()
		if len(m.due) > 0 || m.renewed[stream.Partition{}] != partitions {
			t.Errorf("%d are due, and %d renewals counted", len(m.due), m.renewed[stream.Partition{}])
		}
	})
}
