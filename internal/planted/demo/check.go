package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/stream"
)

// tally shows a record that is lost, repeated or out of order.
type tally struct {
	N    int
	Hash uint64
}

func (s tally) with(value []byte) tally {
	hash := s.Hash
	for _, b := range value {
		hash = (hash ^ uint64(b)) * 1099511628211
	}
	return tally{s.N + 1, hash}
}

// ends reports whether the state is dropped: after every ninth record of a key.
func (s tally) ends() bool { return s.N == 9 }

func (s tally) text() []byte { return fmt.Appendf(nil, "%d %d", s.N, s.Hash) }

func fold(output string) func(context.Context, *holdfast.Key[tally], stream.Record) error {
	return func(_ context.Context, k *holdfast.Key[tally], r stream.Record) error {
		s, _ := k.State()
		if s = s.with(r.Value); s.ends() {
			k.Delete()
		} else {
			k.Set(s)
		}
		k.Emit(stream.Message{Topic: output, Key: k.Bytes(), Value: s.text()})
		return nil
	}
}

// check computes states and outputs again.
func (w *world) check(ctx context.Context) error {
	states, outputs := map[string]tally{}, map[string][]string{}
	forwarded := map[string][]string{}
	for _, r := range w.written {
		key := string(r.Key)
		s := states[key].with(r.Value)
		outputs[key] = append(outputs[key], string(s.text()))
		forwarded[key] = append(forwarded[key], string(r.Value))
		if states[key] = s; s.ends() {
			delete(states, key)
		}
	}
	var errs []error
	for _, j := range w.jobs() {
		want := outputs
		if j.name == "pipe" {
			want = forwarded
		} else if err := w.checkStates(ctx, j.name+"-snapshots", states); err != nil {
			errs = append(errs, err)
		}
		if err := w.checkOutputs(ctx, j.output(), want); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// checkStates reads a snapshot topic as a person would: the newest value of a key is its state. An empty
// value is a deletion that waits for its tombstone.
func (w *world) checkStates(ctx context.Context, topic string, want map[string]tally) error {
	got := map[string]tally{}
	var faults []error
	err := w.read(ctx, topic, func(r *kgo.Record) {
		key := string(r.Key)
		delete(got, key)
		if len(r.Value) == 0 || bytes.HasPrefix(r.Key, []byte{0}) || key == tickKey { // a key that begins with 0 is reserved
			return
		}
		var s tally
		if err := json.Unmarshal(r.Value, &s); err != nil {
			faults = append(faults, fmt.Errorf("%s: state of %s: %w", topic, key, err))
		}
		got[key] = s
	})
	for key, s := range want {
		if got[key] != s {
			faults = append(faults, fmt.Errorf("%s: the state of %s is %v, want %v", topic, key, got[key], s))
		}
	}
	if len(got) > len(want) {
		faults = append(faults, fmt.Errorf("%s: %d keys, want %d", topic, len(got), len(want)))
	}
	return errors.Join(append(faults, err)...)
}

func (w *world) checkOutputs(ctx context.Context, topic string, want map[string][]string) error {
	got := map[string][]string{}
	err := w.read(ctx, topic, func(r *kgo.Record) { got[string(r.Key)] = append(got[string(r.Key)], string(r.Value)) })
	for key, outputs := range want {
		if !slices.Equal(got[key], outputs) {
			err = errors.Join(err, fmt.Errorf("%s: outputs of %s are %v, want %v", topic, key, got[key], outputs))
		}
	}
	return err
}

// read gives each the committed records of a topic, partition by partition.
func (w *world) read(ctx context.Context, topic string, each func(*kgo.Record)) error {
	listed, err := kadm.NewClient(w.client).ListEndOffsets(ctx, topic)
	if err != nil {
		return err
	}
	from, left := map[int32]kgo.Offset{}, map[int32]int64{}
	listed.Each(func(o kadm.ListedOffset) {
		if o.Offset > 0 {
			from[o.Partition], left[o.Partition] = kgo.NewOffset().AtStart(), o.Offset
		}
	})
	if len(left) == 0 {
		return nil
	}
	client, err := w.kafka.Client(kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.KeepControlRecords(),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: from}))
	if err != nil {
		return err
	}
	defer client.Close()
	for len(left) > 0 {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return errors.Join(fmt.Errorf("read %s", topic), err, context.Cause(ctx))
		}
		fetches.EachRecord(func(r *kgo.Record) {
			if !r.Attrs.IsControl() {
				each(r)
			}
			if r.Offset+1 >= left[r.Partition] {
				delete(left, r.Partition)
			}
		})
	}
	return nil
}
