package preflight

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/holdfast-go/holdfast/claim"
	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/kafka"
	"github.com/holdfast-go/holdfast/stream"
)

const (
	// openFor is how long a transaction has to hold a partition up to be named: shorter ones are ordinary.
	openFor = 3 * time.Second
	// heldNamed is how many partitions are asked about one by one.
	heldNamed = 5
)

// heldUp is a partition whose readers wait for an open transaction.
type heldUp struct {
	at           stream.Partition
	stable, high int64
}

// openTransactions names transactions that hold up readers of the component's topics (R33). Nothing of them is
// aborted.
func (i *inspection) openTransactions(ctx context.Context) {
	const id, what = "open-transactions", "open transactions"
	held, err := i.heldUp(ctx)
	if err == nil && len(held) > 0 {
		select {
		case <-time.After(openFor):
		case <-ctx.Done():
		}
		var still []heldUp
		still, err = i.heldUp(ctx)
		held = stillHeld(held, still)
	}
	switch {
	case err != nil:
		i.found.add(claim.Finding{ID: id, What: what, Fact: "could not be looked for", Advice: fmt.Sprintf("whether one holds up readers is not known (%v)", kafka.Explain(err)),
			Fix: []string{"look at the brokers, then check again"}})
	case len(held) == 0:
		i.found.add(claim.Finding{ID: id, What: what, Fact: "none holds up a reader"})
	default:
		i.found.add(claim.Finding{ID: id, What: what, Fact: fmt.Sprintf("partitions whose readers wait for one for longer than %v: %d", openFor, len(held))})
		for _, h := range held[:min(len(held), heldNamed)] {
			i.nameHolder(ctx, h)
		}
		if len(held) > heldNamed {
			i.found.advise(fmt.Sprintf("%d more partitions wait", len(held)-heldNamed))
		}
	}
}

// stillHeld returns those of the later look that wait at the same place as before. Where it is another one, that
// transaction has ended.
func stillHeld(before, later []heldUp) []heldUp {
	return slices.DeleteFunc(later, func(h heldUp) bool {
		return !slices.ContainsFunc(before, func(b heldUp) bool { return b.at == h.at && b.stable == h.stable })
	})
}

// heldUp returns the partitions of the component's topics that have something above the last stable offset.
func (i *inspection) heldUp(ctx context.Context) (held []heldUp, err error) {
	var topics []string
	for _, facts := range append(append(slices.Clone(i.found.Inputs), i.found.Progress), mapped(i.found.Outputs)...) {
		if facts.Exists && !slices.Contains(topics, facts.Topic) {
			topics = append(topics, facts.Topic)
		}
	}
	if len(topics) == 0 {
		return nil, nil
	}
	adm := kadm.NewClient(i.client)
	stable, err := adm.ListCommittedOffsets(ctx, topics...)
	if err != nil {
		return nil, err
	}
	high, err := adm.ListEndOffsets(ctx, topics...)
	if err != nil {
		return nil, err
	}
	stable.Each(func(o kadm.ListedOffset) {
		end, ok := high.Lookup(o.Topic, o.Partition)
		err = errors.Join(err, o.Err)
		if ok && end.Err == nil && o.Err == nil && o.Offset < end.Offset {
			held = append(held, heldUp{at: stream.Partition{Topic: o.Topic, Partition: o.Partition}, stable: o.Offset, high: end.Offset})
		}
	})
	slices.SortFunc(held, func(a, b heldUp) int {
		return cmp.Or(cmp.Compare(a.at.Topic, b.at.Topic), cmp.Compare(a.at.Partition, b.at.Partition))
	})
	return held, err
}

func mapped(facts map[string]wire.Facts) (all []wire.Facts) {
	for _, f := range facts {
		all = append(all, f)
	}
	return all
}

// nameHolder adds to the finding who holds a partition up. One that ends by itself is an advice, one that hangs
// a warning.
func (i *inspection) nameHolder(ctx context.Context, h heldUp) {
	log := wire.Log{Client: i.client, Topic: h.at.Topic, Partition: h.at.Partition}
	waits := fmt.Sprintf("readers of %s with read_committed stop at offset %d of %d", h.at, h.stable, h.high)
	holders, err := log.Holders(ctx)
	holder, ok := wire.At(holders, h.stable)
	switch {
	case err != nil:
		fix := "kafka-transactions.sh --bootstrap-server " + wire.Bootstrap(i.client) + " find-hanging --topic " + h.at.Topic
		if e := (*stream.Error)(nil); errors.As(err, &e) && e.Hint != "" {
			fix = e.Hint
		}
		i.found.advise(fmt.Sprintf("%s, and who holds the transaction open could not be asked: %v", waits, err), fix)
	case !ok: // it has ended meanwhile
	case holder.Forgotten() || holder.Overdue():
		i.found.warn(waits+": "+holder.Producer()+holder.Since(), log.AbortCommand(holder))
	default:
		i.found.advise(waits+": "+holder.Producer()+holder.Since(),
			"wait for its end, or stop its producer; to abort it, which loses what it has written: "+log.AbortCommand(holder))
	}
}
