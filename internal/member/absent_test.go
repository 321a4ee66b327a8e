package member_test

import (
	"context"
	"sync"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/stream"
)

// A broker that has not heard of a topic yet says that there is none: after a restart of it, or when the
// topic was made a moment ago. The flow goes on (I7).
func TestTopicIsUnknownForAMoment(t *testing.T) {
	t.Parallel()
	for name, guarantee := range map[string]holdfast.Guarantee{
		"unfenced": holdfast.Unfenced, "state": holdfast.FencedState, "outputs": holdfast.FencedOutputs,
	} {
		for request, c := range map[string]struct {
			key   kmsg.Key
			topic string
		}{
			"output":         {kmsg.Produce, "out"},
			"snapshot":       {kmsg.Produce, states},
			"restore":        {kmsg.ListOffsets, states},
			"offset":         {kmsg.TxnOffsetCommit, input},
			"input metadata": {kmsg.Metadata, input},
		} {
			t.Run(name+"/"+request, func(t *testing.T) {
				t.Parallel()
				p := newPlace(t)
				p.create("out", nil)
				p.produce("k", 5)
				conf := p.config()
				conf.Guarantee, conf.Outputs = guarantee, []string{"out"}
				if guarantee == holdfast.FencedOutputs {
					conf.Commit = holdfast.Commit{}
				}
				conf.Fold = func(ctx context.Context, k *holdfast.Key[int], r stream.Record) error {
					k.Emit(stream.Message{Topic: "out", Key: r.Key, Value: r.Value})
					return count(1)(ctx, k, r)
				}
				var once sync.Once
				conf.Hooks = append(conf.Hooks, holdfast.Hooks{Assigned: func(stream.Assigned) {
					once.Do(func() {
						p.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{c.key}, Topic: c.topic, Err: kerr.UnknownTopicOrPartition, Count: 8})
					})
				}})
				if err := until(p, conf, 5); err != nil {
					t.Fatal(err)
				}
			})
		}
	}
}

// The leader of an input partition does not know the topic's id yet, which the client tells after a few
// answers: the topic is the one that it was, and the flow goes on.
func TestInputIDIsUnknownForAMoment(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.produce("k", 5)
	handle := p.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Fetch}, Topic: input, Err: kerr.UnknownTopicID, Count: 8})
	if err := until(p, p.config(), 5); err != nil {
		t.Fatal(err)
	}
	if n := handle.Hits(); n != 8 {
		t.Errorf("%d fetches were refused, want 8", n)
	}
}
