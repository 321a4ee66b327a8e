package outputs

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"errors"
	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/snapshot"
	"github.com/holdfast-go/holdfast/stream"
)

// view reads every partition of a topic to its end, with what became of each record. It waits until no
// transaction is open: the markers of the last commit may come after its writer was told.
func (l *lab) view(topic string) (entries []wire.Entry) {
	l.t.Helper()
	ctx, cancel := context.WithTimeout(l.t.Context(), patience)
	defer cancel()
	topics, err := l.admin.ListTopics(ctx, topic)
	if err != nil {
		l.t.Fatal(err)
	}
	for p := range int32(len(topics[topic].Partitions)) {
		log := wire.Log{Client: l.read, Topic: topic, Partition: p}
		start, end, stable, err := log.Ends(ctx)
		for err == nil && stable < end {
			time.Sleep(5 * time.Millisecond)
			_, _, stable, err = log.Ends(ctx)
		}
		if err == nil {
			_, err = log.View(ctx, wire.ViewOptions{From: start, To: end}, func(e wire.Entry) error {
				entries = append(entries, e)
				return nil
			})
		}
		if err != nil {
			l.t.Fatalf("%s/%d: %v", topic, p, err)
		}
	}
	return entries
}

// attempt tells transactions of one id apart: from transaction.version 2 on the epoch rises with each.
type attempt struct {
	producer int64
	epoch    int16
}

// transaction is what one transaction has written.
type transaction struct {
	attempt
	partition int32 // of the progress topic
	status    wire.Status
	progress  []fence.Progress
	outputs   []string          // "key=value", in the order of the log, one partition after the other
	states    map[string]string // snapshots
}

// transactions returns those that have touched the component's topics, of each partition in the order
// in which they were begun.
func (l *lab) transactions() (list []*transaction) {
	l.t.Helper()
	by := map[attempt]*transaction{}
	find := func(e wire.Entry) *transaction {
		a := attempt{e.Record.ProducerID, e.Record.ProducerEpoch}
		if e.Status.Control() || by[a] != nil {
			return by[a]
		}
		by[a] = &transaction{attempt: a, partition: -1, status: e.Status, states: map[string]string{}}
		list = append(list, by[a])
		return by[a]
	}
	for _, e := range l.view(l.progress()) {
		tx := find(e)
		if e.Status.Control() {
			continue
		}
		tx.partition = e.Record.Partition
		switch {
		case e.Status != tx.status:
			l.t.Errorf("producer %v has a record that is %s and one that is %s", tx.attempt, e.Status, tx.status)
		case fence.IsProgressKey(e.Record.Key):
			p, err := fence.DecodeProgress(e.Record.Value)
			if err != nil {
				l.t.Fatal(err)
			}
			tx.progress = append(tx.progress, p)
		default:
			tx.states[string(e.Record.Key)] = string(e.Record.Value)
		}
	}
	for _, e := range l.view(l.conf.Output) {
		if e.Status.Control() {
			continue
		}
		tx := find(e)
		if e.Status != tx.status {
			l.t.Errorf("producer %v has an output that is %s, and a progress record that is %s", tx.attempt, e.Status, tx.status)
		}
		tx.outputs = append(tx.outputs, fmt.Sprintf("%s=%s", e.Record.Key, e.Record.Value))
	}
	return list
}

// committed returns the stable committed next offsets, 0 where there is none.
func (l *lab) committed() map[int32]int64 {
	l.t.Helper()
	ctx, cancel := context.WithTimeout(l.t.Context(), patience)
	defer cancel()
	topics, err := l.admin.ListTopics(ctx, l.conf.Input)
	if err != nil {
		l.t.Fatal(err)
	}
	topic := topics[l.conf.Input]
	next := map[int32]int64{}
	for p := range int32(len(topic.Partitions)) {
		at := stream.Partition{Topic: l.conf.Input, Partition: p}
		o, err := wire.FetchOffset(ctx, l.read, l.conf.Group, wire.Member{}, at, topic.ID)
		for errors.Is(err, kerr.UnstableOffsetCommit) && ctx.Err() == nil {
			o, err = wire.FetchOffset(ctx, l.read, l.conf.Group, wire.Member{}, at, topic.ID)
		}
		if err != nil {
			l.t.Fatalf("committed offset of %v: %v", at, err)
		}
		next[p] = max(o.Next, 0)
	}
	return next
}

// step is what one input record gives.
type step struct {
	offset  int64
	key     string
	outputs []string
	state   tally // of the key, afterwards
}

// steps does the component's work again, over the committed records of the input.
func (l *lab) steps() map[int32][]step {
	l.t.Helper()
	out := map[int32][]step{}
	states := map[string]tally{}
	for _, e := range l.view(l.conf.Input) {
		if !e.ReadCommitted() || l.skipped[e.Record.Offset] {
			continue
		}
		var n int
		if _, err := fmt.Sscan(string(e.Record.Value), &n); err != nil {
			l.t.Fatal(err)
		}
		s := step{offset: e.Record.Offset, key: string(e.Record.Key)}
		s.state = states[s.key].with(n)
		states[s.key] = s.state
		for i := range fanout(n) {
			r := wire.Record(e.Record)
			s.outputs = append(s.outputs, fmt.Sprintf("%s=%s", s.key, l.conf.value(r, text(l.kind, n, i, s.state))))
		}
		out[e.Record.Partition] = append(out[e.Record.Partition], s)
	}
	return out
}

// byKey is a list of "key=value", by key and in order.
func byKey(list []string) map[string][]string {
	out := map[string][]string{}
	for _, s := range list {
		key, value, _ := strings.Cut(s, "=")
		out[key] = append(out[key], value)
	}
	return out
}

// verify recomputes everything that the component has written from its input, up to the committed
// offsets: what read_committed readers find is each output once, in the order of its key's steps. From
// transaction.version 2 on it also looks at each transaction on its own. Call it when nothing runs.
func (l *lab) verify() {
	l.t.Helper()
	next := l.committed()
	steps := l.steps()
	var want []string
	states := map[string]tally{}
	for p, list := range steps {
		for _, s := range list {
			if s.offset < next[p] {
				want = append(want, s.outputs...)
				states[s.key] = s.state
			}
		}
	}
	var got []string
	for _, e := range l.view(l.conf.Output) {
		if e.ReadCommitted() {
			got = append(got, fmt.Sprintf("%s=%s", e.Record.Key, e.Record.Value))
		}
	}
	l.same("outputs of read_committed readers", byKey(got), byKey(want))
	if l.kind == isFlow {
		l.sameStates(states)
	}
	if l.epochs() {
		l.verifyTransactions(next, steps)
	}
}

// epochs reports whether each transaction has an epoch of its own.
func (l *lab) epochs() bool {
	f, err := wire.LookupFeatures(l.t.Context(), l.read)
	if err != nil {
		l.t.Fatal(err)
	}
	return f.Fenced()
}

func (l *lab) same(what string, got, want map[string][]string) {
	l.t.Helper()
	for key := range want {
		if !slices.Equal(got[key], want[key]) {
			l.t.Errorf("%s: key %s has\n%q, the input gives\n%q", what, key, got[key], want[key])
		}
	}
	for key := range got {
		if want[key] == nil {
			l.t.Errorf("%s: key %s has %q, the input gives none", what, key, got[key])
		}
	}
}

// sameStates compares the newest committed snapshots with what the input gives.
func (l *lab) sameStates(want map[string]tally) {
	l.t.Helper()
	got := map[string]tally{}
	for _, e := range l.view(l.progress()) {
		if !e.ReadCommitted() || snapshot.Reserved(e.Record.Key) {
			continue
		}
		var s tally
		if err := json.Unmarshal(e.Record.Value, &s); err != nil {
			l.t.Fatal(err)
		}
		got[string(e.Record.Key)] = s
	}
	for key, s := range want {
		if got[key] != s {
			l.t.Errorf("key %s is stored as %+v, the input gives %+v", key, got[key], s)
		}
	}
	if len(got) != len(want) {
		l.t.Errorf("%d keys are stored, the input gives %d", len(got), len(want))
	}
}

// verifyTransactions looks at each committed transaction on its own: one progress record, and exactly
// the outputs and states of the steps from the offset of the transaction before to its own.
func (l *lab) verifyTransactions(next map[int32]int64, steps map[int32][]step) {
	l.t.Helper()
	at := map[int32]int64{}
	for _, tx := range l.transactions() {
		if tx.status != wire.StatusCommitted {
			continue
		}
		if len(tx.progress) != 1 {
			l.t.Errorf("producer %v has committed %d progress records in one transaction, with outputs %q", tx.attempt, len(tx.progress), tx.outputs)
			continue
		}
		from, to := at[tx.partition], tx.progress[0].Inputs[0].Next
		at[tx.partition] = to
		var want []string
		states := map[string]string{}
		for _, s := range steps[tx.partition] {
			if s.offset < from || s.offset >= to {
				continue
			}
			want = append(want, s.outputs...)
			if l.kind == isFlow {
				text, err := json.Marshal(s.state)
				if err != nil {
					l.t.Fatal(err)
				}
				states[s.key] = string(text)
			}
		}
		where := fmt.Sprintf("the transaction of offsets %d to %d", from, to)
		l.same(where, byKey(tx.outputs), byKey(want))
		for key, s := range states {
			if tx.states[key] != s {
				l.t.Errorf("%s has state %q of key %s, the input gives %q", where, tx.states[key], key, s)
			}
		}
		if len(tx.states) != len(states) {
			l.t.Errorf("%s has %d states, the input gives %d", where, len(tx.states), len(states))
		}
	}
	for p, n := range next {
		if at[p] != n {
			l.t.Errorf("offset %d of partition %d is committed, the last committed progress record has %d", n, p, at[p])
		}
	}
}

// awaitCommitted waits until every partition of the input is committed up to next.
func (l *lab) awaitCommitted(next int64) {
	l.t.Helper()
	limit := time.After(patience)
	for tick := time.NewTicker(50 * time.Millisecond); ; {
		found := l.committed()
		done := len(found) > 0
		for _, n := range found {
			done = done && n >= next
		}
		if done {
			return
		}
		select {
		case <-tick.C:
		case <-limit:
			l.t.Fatalf("committed %v within %v, want all at %d", found, patience, next)
		}
	}
}
