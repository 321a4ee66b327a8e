package wiretap

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// writeKeys are the requests that change what a fence protects.
var writeKeys = []kmsg.Key{
	kmsg.Produce, kmsg.AddPartitionsToTxn, kmsg.AddOffsetsToTxn, kmsg.TxnOffsetCommit, kmsg.EndTxn, kmsg.OffsetCommit,
}

// staleErrors are the answers by which a broker tells a writer that it is not the owner any more.
var staleErrors = []*kerr.Error{
	kerr.IllegalGeneration, kerr.UnknownMemberID, kerr.StaleMemberEpoch, kerr.FencedMemberEpoch, kerr.FencedInstanceID,
	kerr.GroupIDNotFound, kerr.InvalidProducerEpoch, kerr.ProducerFenced, kerr.InvalidTxnState,
}

// Stale returns the broker's refusal of a stale writer that code stands for, or nil when it stands for
// something else.
func Stale(code int16) *kerr.Error {
	for _, e := range staleErrors {
		if e.Code == code {
			return e
		}
	}
	return nil
}

// Refusal is one stale write that a broker refused: one partition of an answer, or a whole answer where
// it has no partitions.
type Refusal struct {
	Request   Request
	Err       *kerr.Error
	Topic     string   // empty where the answer names the topic by id, or has none
	TopicID   [16]byte // zero where the answer names the topic by name, or has none
	Partition int32    // -1 where the answer has no partitions
}

func (r Refusal) String() string {
	where := ""
	if r.Partition >= 0 {
		where = fmt.Sprintf(" %s/%d", r.Topic, r.Partition)
		if r.Topic == "" {
			where = fmt.Sprintf(" %x/%d", r.TopicID, r.Partition)
		}
	}
	return fmt.Sprintf("%s%s of %q refused: %s", r.Request.Name(), where, r.Request.ClientID, r.Err.Message)
}

// Classify returns the stale writes that resp, the answer to req, refuses. It is nil for requests that
// write nothing.
func Classify(req Request, resp kmsg.Response) []Refusal {
	var out []Refusal
	note := func(code int16, topic string, id [16]byte, partition int32) {
		if e := Stale(code); e != nil {
			out = append(out, Refusal{Request: req, Err: e, Topic: topic, TopicID: id, Partition: partition})
		}
	}
	switch resp := resp.(type) {
	case *kmsg.ProduceResponse:
		for _, t := range resp.Topics {
			for _, p := range t.Partitions {
				note(p.ErrorCode, t.Topic, t.TopicID, p.Partition)
			}
		}
	case *kmsg.TxnOffsetCommitResponse:
		for _, t := range resp.Topics {
			for _, p := range t.Partitions {
				note(p.ErrorCode, t.Topic, t.TopicID, p.Partition)
			}
		}
	case *kmsg.OffsetCommitResponse:
		for _, t := range resp.Topics {
			for _, p := range t.Partitions {
				note(p.ErrorCode, t.Topic, t.TopicID, p.Partition)
			}
		}
	case *kmsg.AddPartitionsToTxnResponse:
		classifyAddPartitions(resp, note)
	case *kmsg.AddOffsetsToTxnResponse:
		note(resp.ErrorCode, "", [16]byte{}, -1)
	case *kmsg.EndTxnResponse:
		note(resp.ErrorCode, "", [16]byte{}, -1)
	}
	return out
}

// classifyAddPartitions reads the three places where versions of this answer have their errors.
func classifyAddPartitions(resp *kmsg.AddPartitionsToTxnResponse, note func(int16, string, [16]byte, int32)) {
	note(resp.ErrorCode, "", [16]byte{}, -1)
	for _, t := range resp.Topics {
		for _, p := range t.Partitions {
			note(p.ErrorCode, t.Topic, [16]byte{}, p.Partition)
		}
	}
	for _, txn := range resp.Transactions {
		for _, t := range txn.Topics {
			for _, p := range t.Partitions {
				note(p.ErrorCode, t.Topic, [16]byte{}, p.Partition)
			}
		}
	}
}

// Refusals collects the stale writes that brokers have refused.
type Refusals struct {
	mu    sync.Mutex
	all   []Refusal
	grown chan struct{} // closed, and replaced, when all grows
}

// Tapped is a Proxy or a Cluster.
type Tapped interface {
	OnResponse(f func(Request, kmsg.Response), keys ...kmsg.Key) (remove func())
}

// WatchRefusals collects the refusals of all brokers behind t from here on.
func WatchRefusals(t Tapped) *Refusals {
	s := &Refusals{grown: make(chan struct{})}
	t.OnResponse(s.observe, writeKeys...)
	return s
}

func (s *Refusals) observe(req Request, resp kmsg.Response) {
	found := Classify(req, resp)
	if len(found) == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = append(s.all, found...)
	close(s.grown)
	s.grown = make(chan struct{})
}

// All returns the refusals so far, in the order they came.
func (s *Refusals) All() []Refusal {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.all)
}

// Count returns how many refusals there were.
func (s *Refusals) Count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.all)
}

// By returns how many refusals there were of each request and error, as "TxnOffsetCommit
// ILLEGAL_GENERATION".
func (s *Refusals) By() map[string]int {
	by := map[string]int{}
	for _, r := range s.All() {
		by[r.Request.Name()+" "+r.Err.Message]++
	}
	return by
}

// Await waits until there were at least n refusals. The error is the cause of ctx.
func (s *Refusals) Await(ctx context.Context, n int) error {
	for {
		s.mu.Lock()
		have, grown := len(s.all), s.grown
		s.mu.Unlock()
		if have >= n {
			return nil
		}
		select {
		case <-grown:
		case <-ctx.Done():
			return fmt.Errorf("wiretap: %d of %d refusals: %w", have, n, context.Cause(ctx))
		}
	}
}
