package member_test

import (
	"context"
	"encoding/binary"
	"hash/crc32"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/stream"
)

// transaction writes n records of one key in one transaction, which takes up n offsets and one for its marker.
func (p *place) transaction(key string, n int, end kgo.TransactionEndTry) {
	p.t.Helper()
	cl, err := p.k.Client(kgo.DefaultProduceTopic(input), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.TransactionalID("writer"))
	p.must(err)
	defer cl.Close()
	p.must(cl.BeginTransaction())
	for range n {
		p.must(cl.ProduceSync(p.t.Context(), &kgo.Record{Key: []byte(key), Value: []byte("1")}).FirstErr())
	}
	p.must(cl.EndTransaction(p.t.Context(), end))
}

// trim deletes the records below an offset, as retention does.
func (p *place) trim(below int64) {
	p.t.Helper()
	var gone kadm.Offsets
	gone.AddOffset(input, 0, below, -1)
	deleted, err := kadm.NewClient(p.cl).DeleteRecords(p.t.Context(), gone)
	p.must(err)
	p.must(deleted.Error())
}

// I7: the committed offset of an idle input is its end, whatever the log ends in, and what is deleted then was read.
func TestCommittedOffsetIsTheEndOfAnIdleInput(t *testing.T) {
	t.Parallel()
	guarantees := map[string]holdfast.Guarantee{
		"FencedState": holdfast.FencedState, "FencedOutputs": holdfast.FencedOutputs, "Unfenced": holdfast.Unfenced,
	}
	tails := map[string]func(*place, *holdfast.Config[int]){
		"a marker": func(p *place, _ *holdfast.Config[int]) { p.transaction("k", 3, kgo.TryCommit) },
		"an aborted transaction": func(p *place, _ *holdfast.Config[int]) {
			p.produce("k", 3)
			p.transaction("k", 3, kgo.TryAbort)
		},
		"aborted transactions alone": func(p *place, _ *holdfast.Config[int]) {
			p.transaction("k", 3, kgo.TryAbort)
			p.transaction("k", 1, kgo.TryAbort)
		},
		"what Route skips": func(p *place, c *holdfast.Config[int]) {
			p.transaction("k", 3, kgo.TryCommit)
			p.transaction("other", 3, kgo.TryCommit)
			c.Route = func(r stream.Record) ([]byte, bool) { return r.Key, string(r.Key) == "k" }
		},
	}
	for guarantee, g := range guarantees {
		for tail, write := range tails {
			t.Run(guarantee+"/"+tail, func(t *testing.T) {
				t.Parallel()
				p := newPlace(t)
				c := p.config()
				if c.Guarantee = g; g == holdfast.FencedOutputs {
					c.Commit.Persist = 0
				}
				write(p, &c)
				end := p.end(input)
				p.mustReach(c, end)
				before := p.stored()
				p.trim(end)
				p.produce("k", 1)
				p.mustReach(c, end+1)
				if want := map[string]string{"": "1", "3": "4"}[before["k"]]; p.stored()["k"] != want {
					t.Errorf("I2: the state is %q, and after one record more %q, want %q", before["k"], p.stored()["k"], want)
				}
			})
		}
	}
}

// mustReach runs a flow until the committed offset is the end of the input.
func (p *place) mustReach(c holdfast.Config[int], end int64) {
	p.t.Helper()
	if err := untilAt(p, c, end); err != nil {
		p.t.Fatalf("I7: the committed offset has not come to %d, the end of the input: %v", end, err)
	}
}

// I7: a flow that begins at the end of a log which ends in a marker is at its end, also after retention.
func TestLatestOnALogThatEndsInAMarker(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.transaction("k", 2, kgo.TryCommit)
	c := p.config()
	c.Start.New = holdfast.Latest
	p.mustReach(c, 3)
	p.trim(3)
	p.produce("k", 1)
	p.mustReach(c, 4)
	p.wantStored(map[string]string{"k": "1"})
}

// I7: the end of a compacted log may be a batch that compaction has left nothing of. The client passes over it and
// does not tell, also where it comes alone, as to an owner that begins behind what was folded before it.
func TestCompactionGapAtTheEnd(t *testing.T) {
	t.Parallel()
	for name, folded := range map[string]bool{"behind records": false, "alone": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			p.produce("k", 2)
			if folded {
				p.mustReach(p.config(), 2)
			}
			p.produce("gone", 3)
			p.emptied(2, 5)
			p.mustReach(p.config(), 5)
			p.wantStored(map[string]string{"k": "2"})
		})
	}
}

// emptied has fetches of the input find a batch without records between two offsets, the latter the end of the log.
func (p *place) emptied(from, end int64) {
	left, id := emptyBatch(from, int32(end-from)), p.topicID(input)
	p.cluster.ControlKey(int16(kmsg.Fetch), func(kreq kmsg.Request) (kmsg.Response, error, bool) {
		p.cluster.KeepControl()
		req := kreq.(*kmsg.FetchRequest)
		if len(req.Topics) != 1 || req.Topics[0].TopicID != id || len(req.Topics[0].Partitions) != 1 {
			return nil, nil, false
		}
		at := &req.Topics[0].Partitions[0]
		if at.FetchOffset < from { // the first batches are as they are, and nothing behind them comes along
			at.PartitionMaxBytes = 1
			return nil, nil, false
		}
		if at.FetchOffset >= end {
			return nil, nil, false
		}
		rp := kmsg.NewFetchResponseTopicPartition()
		rp.HighWatermark, rp.LastStableOffset, rp.LogStartOffset, rp.RecordBatches = end, end, 0, left
		rt := kmsg.NewFetchResponseTopic()
		rt.Topic, rt.TopicID, rt.Partitions = input, id, append(rt.Partitions, rp)
		resp := req.ResponseKind().(*kmsg.FetchResponse)
		resp.Topics = append(resp.Topics, rt)
		return resp, nil, true
	})
}

// emptyBatch is what compaction leaves of a batch without records: its header.
func emptyBatch(first int64, n int32) []byte {
	b := kmsg.RecordBatch{
		FirstOffset: first, Length: 49, Magic: 2, LastOffsetDelta: n - 1, ProducerID: -1, ProducerEpoch: -1, FirstSequence: -1,
	}
	raw := b.AppendTo(nil)
	binary.BigEndian.PutUint32(raw[17:], crc32.Checksum(raw[21:], crc32.MakeTable(crc32.Castagnoli)))
	return raw
}

// untilAt is until for a committed offset that is never passed.
func untilAt(p *place, c holdfast.Config[int], next int64) error {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.t.Context(), patience)
	defer cancel()
	reached := make(chan struct{})
	c.Hooks = append(c.Hooks, holdfast.Hooks{Committed: func(e stream.Committed) {
		if e.Next == next {
			close(reached)
			cancel()
		}
	}})
	f, err := holdfast.New(c)
	p.must(err)
	if err := f.Run(ctx); err != nil {
		return err
	}
	select {
	case <-reached:
		return nil
	default:
		return context.DeadlineExceeded
	}
}
