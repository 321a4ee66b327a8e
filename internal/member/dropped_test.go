package member_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/snapshot"
	"github.com/holdfast-go/holdfast/stream"
)

// readers returns what somebody who knows nothing of incarnations has of the snapshot topic, under
// read_committed: the newest value of each key.
func (p *place) readers() map[string]string {
	p.t.Helper()
	got := map[string]string{}
	_, err := snapshot.Restore(p.t.Context(), snapshot.RestoreConfig{Client: p.cl, Topic: states, Each: func(r stream.Record) error {
		switch {
		case snapshot.Reserved(r.Key):
		case r.Value == nil:
			delete(got, string(r.Key))
		default:
			got[string(r.Key)] = string(r.Value)
		}
		return nil
	}})
	p.must(err)
	return got
}

// routed is a flow of a version: it counts the records of a key, of which there are n, under other keys.
func (p *place) routed(g holdfast.Guarantee, version string, n int) (holdfast.Config[int], map[string]string) {
	c := p.config()
	c.Guarantee, c.FoldVersion, c.Start.Disagreement = g, version, holdfast.Rebuild
	c.Commit = holdfast.Commit{Interval: 10 * time.Millisecond, MaxWrites: 5}
	if g != holdfast.FencedOutputs {
		c.Commit.Persist = 10 * time.Millisecond
	}
	key := func(i string) string { return "of " + version + " " + i }
	if version != "1" {
		key = func(i string) string { return strings.Replace("of "+version+" "+i, "of "+version+" 1", "of 1 1", 1) } // some come again
	}
	c.Route = func(r stream.Record) ([]byte, bool) { return []byte(key(string(r.Key))), true }
	want := map[string]string{}
	for i := range n {
		want[key(fmt.Sprint(i))] = "1"
	}
	return c, want
}

// dropping is a flow that was folded under version 1, and its states under version 2.
func dropping(t *testing.T, g holdfast.Guarantee, n int) (p *place, c holdfast.Config[int], want map[string]string) {
	t.Helper()
	p = newPlace(t)
	var rs []*kgo.Record
	for i := range n {
		rs = append(rs, &kgo.Record{Key: fmt.Append(nil, i), Value: []byte("1")})
	}
	p.must(p.cl.ProduceSync(t.Context(), rs...).FirstErr())
	c, before := p.routed(g, "1", n)
	p.must(until(p, c, int64(n)))
	if got := p.readers(); !maps.Equal(got, before) {
		t.Fatalf("readers have %v, want %v", got, before)
	}
	c, want = p.routed(g, "2", n)
	return p, c, want
}

// untilRead runs a flow until readers have what they are to have, and reports what they have if it never comes.
func untilRead(p *place, c holdfast.Config[int], want map[string]string) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.t.Context(), patience)
	defer cancel()
	looked := make(chan struct{}, 1)
	c.Hooks = append(c.Hooks, holdfast.Hooks{Committed: func(stream.Committed) {
		select {
		case looked <- struct{}{}:
		default:
		}
	}})
	f, err := holdfast.New(c)
	p.must(err)
	done := make(chan error, 1)
	go func() { done <- f.Run(ctx) }()
	for ctx.Err() == nil {
		select {
		case <-looked:
			if maps.Equal(p.readers(), want) {
				cancel()
			}
		case err := <-done:
			p.t.Fatalf("run: %v", err)
		case <-ctx.Done():
		}
	}
	p.must(<-done)
	got := p.readers()
	for _, key := range slices.Sorted(maps.Keys(got)) {
		if _, ok := want[key]; !ok {
			p.t.Errorf("I2: a reader has %q, which the rebuild has dropped", key)
		}
	}
	for key, value := range want {
		if got[key] != value {
			p.t.Errorf("I2: a reader has %q for %q, want %q", got[key], key, value)
		}
	}
}

var guarantees = []holdfast.Guarantee{holdfast.FencedState, holdfast.FencedOutputs, holdfast.Unfenced}

// I2 and R30: a rebuild under another Route leaves readers of the snapshot topic the new keys alone. The next
// start finds the same.
func TestRebuildDropsKeysForReaders(t *testing.T) {
	t.Parallel()
	for _, g := range guarantees {
		t.Run(g.String(), func(t *testing.T) {
			t.Parallel()
			const n = 30
			p, c, want := dropping(t, g, n)
			untilRead(p, c, want)
			c.Start.Disagreement = holdfast.StopAndAsk
			p.must(p.cl.ProduceSync(t.Context(), &kgo.Record{Key: []byte("0"), Value: []byte("1")}).FirstErr())
			p.must(until(p, c, n+1))
			want["of 2 0"] = "2"
			p.wantStored(want)
		})
	}
}

// I2 and R30: the owner ends between the first commit of a rebuild and the tombstones, or among these. The next
// one, whose policy is not to rebuild, goes on with them.
func TestRebuildThatEndsBeforeItsTombstones(t *testing.T) {
	t.Parallel()
	for _, g := range []holdfast.Guarantee{holdfast.FencedState, holdfast.FencedOutputs} {
		for _, commits := range []int32{1, 3} {
			t.Run(fmt.Sprintf("%v after %d commits", g, commits), func(t *testing.T) {
				t.Parallel()
				const n = 30
				p, c, want := dropping(t, g, n)
				ctx, cancel := context.WithTimeout(t.Context(), patience)
				defer cancel()
				var bound atomic.Int32
				var over atomic.Bool
				p.cluster.ControlKey(int16(kmsg.TxnOffsetCommit), func(req kmsg.Request) (kmsg.Response, error, bool) {
					probe := req.(*kmsg.TxnOffsetCommitRequest).Group != c.Group
					if p.cluster.KeepControl(); probe || over.Load() || bound.Add(1) <= commits {
						return nil, nil, false
					}
					cancel()
					resp := req.ResponseKind().(*kmsg.TxnOffsetCommitResponse)
					for _, topic := range req.(*kmsg.TxnOffsetCommitRequest).Topics {
						at := kmsg.NewTxnOffsetCommitResponseTopic()
						at.Topic = topic.Topic
						for _, one := range topic.Partitions {
							answer := kmsg.NewTxnOffsetCommitResponseTopicPartition()
							answer.Partition, answer.ErrorCode = one.Partition, kerr.UnknownMemberID.Code
							at.Partitions = append(at.Partitions, answer)
						}
						resp.Topics = append(resp.Topics, at)
					}
					return resp, nil, true
				})
				f, err := holdfast.New(c)
				p.must(err)
				p.must(f.Run(ctx))
				if bound.Load() <= commits { // each batch has five of nineteen tombstones at most
					t.Fatal("no batch was refused: the test shows nothing")
				}
				over.Store(true)
				c.Start.Disagreement = holdfast.StopAndAsk
				untilRead(p, c, want)
			})
		}
	}
}
