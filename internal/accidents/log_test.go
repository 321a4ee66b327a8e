package accidents

import (
	"context"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/stream"
)

// log is a partition of a topic as the broker has it.
func (l *lab) log(topic string, partition int32) wire.Log {
	return wire.Log{Client: l.k.Client(l.t), Topic: topic, Partition: partition}
}

// ends returns the first offset, the high watermark and the last stable offset of a log.
func (l *lab) ends(topic string) (start, high, stable int64) {
	l.t.Helper()
	ctx, cancel := context.WithTimeout(l.t.Context(), patience)
	defer cancel()
	start, high, stable, err := l.log(topic, 0).Ends(ctx)
	if err != nil {
		l.t.Fatal(err)
	}
	return start, high, stable
}

// read returns the committed records of partition 0 of a topic, when no transaction is open in it.
func (l *lab) read(topic string) (rs []stream.Record) {
	l.t.Helper()
	ctx, cancel := context.WithTimeout(l.t.Context(), patience)
	defer cancel()
	start, high, _ := l.ends(topic)
	_, err := l.log(topic, 0).Read(ctx, wire.ReadOptions{From: start, To: high, Committed: true}, func(r *kgo.Record) error {
		rs = append(rs, wire.Record(r))
		return nil
	})
	if err != nil {
		l.t.Fatal(err)
	}
	return rs
}

// snapshotOf returns the next offset of the newest progress record, -1 if there is none.
func (l *lab) snapshotOf() int64 {
	l.t.Helper()
	next := int64(-1)
	for _, r := range l.read(l.progress()) {
		if fence.IsProgressKey(r.Key) {
			p, err := fence.DecodeProgress(r.Value)
			if err != nil {
				l.t.Fatal(err)
			}
			next = p.Inputs[0].Next
		}
	}
	return next
}

// until asks again and again until f is true: what it waits for gives no other sign.
func (l *lab) until(what string, f func() bool) {
	l.t.Helper()
	limit := time.After(patience)
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for !f() {
		select {
		case <-tick.C:
		case <-limit:
			l.t.Fatalf("not within %v: %s", patience, what)
		}
	}
}
