package tail

import (
	"context"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/holdfast-go/holdfast/internal/wire"
)

// names finds the transactional ids of producer ids, for one goroutine.
type names struct {
	client   *kgo.Client
	patience time.Duration

	known   map[int64]string
	unknown map[int64]bool // was asked for, and no coordinator showed it
	err     error          // why the coordinators could not be asked, or not all of them
}

// of returns the transactional id of a producer id, "" if no coordinator shows one. fresh tells that
// the producer may have come since the coordinators were asked.
func (n *names) of(ctx context.Context, producerID int64, fresh bool) string {
	if id, ok := n.known[producerID]; ok {
		return id
	}
	if n.unknown[producerID] {
		return ""
	}
	// Asked once for all ids, and again only for one that was not there yet.
	if n.known == nil || fresh && n.err == nil {
		n.ask(ctx)
	}
	id := n.known[producerID]
	if id == "" {
		n.unknown[producerID] = true
	}
	return id
}

func (n *names) ask(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, n.patience)
	defer cancel()
	n.known, n.err = wire.TransactionalIDs(ctx, n.client)
}
