package member_test

import (
	"context"
	"errors"
	"maps"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/stream"
)

// R26: the snapshot of the key a is deleted from the head of the log, that of b and the progress record stay.
// Committed offset and progress record agree, and a would begin at nothing.
func TestHeadOfTheSnapshotsIsDeleted(t *testing.T) {
	t.Parallel()
	for name, guarantee := range map[string]holdfast.Guarantee{
		"unfenced": holdfast.Unfenced, "state": holdfast.FencedState, "outputs": holdfast.FencedOutputs,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlaceOn(t, "a cluster whose compaction keeps the start of a log")
			c := p.config()
			c.Guarantee = guarantee
			if guarantee == holdfast.FencedOutputs {
				c.Commit = holdfast.Commit{}
			}
			p.produce("a", 1)
			p.must(until(p, c, 1))
			first := p.end(states)
			p.produce("b", 1)
			p.must(until(p, c, 2))
			p.trimTopic(states, first)
			p.produce("a", 1)
			if err := until(p, c, 3); !errors.Is(err, stream.ErrSnapshotsLost) {
				t.Fatalf("I2: the state of a key is gone, and the flow ended with %v, want %v", err, stream.ErrSnapshotsLost)
			}
			c.Start.Disagreement = holdfast.AdoptRemaining
			p.must(until(p, c, 3))
			if want := map[string]string{"a": "1", "b": "1"}; !maps.Equal(p.stored(), want) {
				t.Errorf("what is left is adopted: %v, want %v", p.stored(), want)
			}
			c.Start.Disagreement = holdfast.StopAndAsk
			p.produce("b", 1)
			if err := until(p, c, 4); err != nil {
				t.Fatalf("I7: what was adopted is not noted: %v", err)
			}
			p.trimTopic(states, p.end(states)-3)
			p.produce("b", 1)
			if err := until(p, c, 5); !errors.Is(err, stream.ErrSnapshotsLost) {
				t.Fatalf("I2: states are gone again, and the flow ended with %v, want %v", err, stream.ErrSnapshotsLost)
			}
			c.Start.Disagreement = holdfast.Rebuild
			p.must(until(p, c, 5))
			c.Start.Disagreement = holdfast.StopAndAsk
			p.produce("b", 1)
			p.must(until(p, c, 6))
			p.wantStored(map[string]string{"a": "2", "b": "4"})
		})
	}
}

// R26: Kafka deletes from the snapshot topic while a member runs, or would at its next look at retention.
func TestSnapshotTopicIsWatched(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		want error
		do   func(*place)
	}{
		"its policy is another": {stream.ErrTopic, func(p *place) { p.policy("delete") }},
		"its head is deleted":   {stream.ErrSnapshotsLost, func(p *place) { p.trimTopic(states, 1) }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlaceOn(t, "a cluster whose compaction keeps the start of a log")
			p.produce("k", 1)
			ctx, cancel := context.WithTimeout(t.Context(), 3*patience) // it looks each 30 s
			defer cancel()
			conf := p.config()
			var once sync.Once
			conf.Hooks = []holdfast.Hooks{{Committed: func(e stream.Committed) {
				if e.Next == 1 {
					once.Do(func() { c.do(p) })
				}
			}}}
			f, err := holdfast.New(conf)
			p.must(err)
			if err := f.Run(ctx); !errors.Is(err, c.want) {
				t.Errorf("I2: snapshots are deleted from under a member, and it ended with %v, want %v", err, c.want)
			}
		})
	}
}

// R28: a running member is not stopped by one answer, as that of a broker that has not heard of the policy's change.
func TestSnapshotTopicIsNotJudgedByOneAnswer(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.produce("k", 1)
	var wrong atomic.Int32 // 1: the next answer is wrong; 2: it was given; 3: the member has asked again
	again := make(chan struct{})
	p.cluster.ControlKey(int16(kmsg.DescribeConfigs), func(kreq kmsg.Request) (kmsg.Response, error, bool) {
		p.cluster.KeepControl()
		req := kreq.(*kmsg.DescribeConfigsRequest)
		if len(req.Resources) != 1 || req.Resources[0].ResourceName != states {
			return nil, nil, false
		}
		if wrong.CompareAndSwap(2, 3) {
			close(again)
		}
		if !wrong.CompareAndSwap(1, 2) {
			return nil, nil, false
		}
		config := kmsg.NewDescribeConfigsResponseResourceConfig()
		config.Name, config.Value = "cleanup.policy", kmsg.StringPtr("delete")
		of := kmsg.NewDescribeConfigsResponseResource()
		of.ResourceType, of.ResourceName, of.Configs = kmsg.ConfigResourceTypeTopic, states, append(of.Configs, config)
		resp := req.ResponseKind().(*kmsg.DescribeConfigsResponse)
		resp.Resources = append(resp.Resources, of)
		return resp, nil, true
	})
	ctx, cancel := context.WithTimeout(t.Context(), 3*patience) // it looks each 30 s
	defer cancel()
	conf := p.config()
	conf.Hooks = []holdfast.Hooks{{Committed: func(e stream.Committed) {
		switch e.Next {
		case 1:
			wrong.CompareAndSwap(0, 1)
		case 2:
			cancel()
		}
	}}}
	f, err := holdfast.New(conf)
	p.must(err)
	ended := make(chan error, 1)
	go func() { ended <- f.Run(ctx) }()
	select {
	case <-again:
		p.produce("k", 1) // what the member makes of the second answer shows in the commit of this one
		err = <-ended
	case err = <-ended:
	}
	if err != nil || wrong.Load() != 3 {
		t.Errorf("I7: a member ended with %v at one wrong answer, or has not asked again (%d, want 3)", err, wrong.Load())
	}
}

// policy sets the cleanup policy of the snapshot topic.
func (p *place) policy(policy string) {
	p.t.Helper()
	rs, err := kadm.NewClient(p.cl).AlterTopicConfigs(p.t.Context(), []kadm.AlterConfig{{Op: kadm.SetConfig, Name: "cleanup.policy", Value: &policy}}, states)
	p.must(err)
	p.must(rs[0].Err)
}

// The embedded broker's compaction moves the start of a log, so that nothing can be told from it there.
func TestCompactionOfTheEmbeddedBrokerIsNoLoss(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	for i := range int64(3) {
		p.produce("k", 1)
		p.must(until(p, p.config(), i+1))
	}
	p.cluster.Compact()
	starts, err := kadm.NewClient(p.cl).ListStartOffsets(t.Context(), states)
	p.must(err)
	if o, _ := starts.Lookup(states, 0); o.Offset == 0 {
		t.Error("the embedded broker's compaction keeps the start of a log now: the guard can be on there too")
	}
	p.produce("k", 1)
	p.must(until(p, p.config(), 4))
	p.wantStored(map[string]string{"k": "4"})
}

// trimTopic deletes the records of a topic's one partition that are below an offset.
func (p *place) trimTopic(topic string, below int64) {
	p.t.Helper()
	os := kadm.Offsets{}
	os.AddOffset(topic, 0, below, -1)
	rs, err := kadm.NewClient(p.cl).DeleteRecords(p.t.Context(), os)
	p.must(err)
	p.must(rs.Error())
}

// A rebuild folds what the input still has. Check says so where one is asked for and the input is deleted from.
func TestCheckAdvisesWhereARebuildLosesStates(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		policy  holdfast.Disagreement
		keep    bool
		advised bool
	}{{holdfast.Rebuild, false, true}, {holdfast.Rebuild, true, false}, {holdfast.StopAndAsk, false, false}} {
		p := newPlace(t)
		if c.keep {
			forever := "-1"
			rs, err := kadm.NewClient(p.cl).AlterTopicConfigs(t.Context(), []kadm.AlterConfig{
				{Op: kadm.SetConfig, Name: "retention.ms", Value: &forever}, {Op: kadm.SetConfig, Name: "retention.bytes", Value: &forever},
			}, input)
			p.must(err)
			p.must(rs[0].Err)
		}
		conf := p.config()
		conf.Start.Disagreement = c.policy
		f, err := holdfast.New(conf)
		p.must(err)
		report, err := f.Check(t.Context())
		p.must(err)
		advised := false
		for _, finding := range report.Findings {
			advised = advised || finding.ID == "topic.input" && strings.Contains(finding.Advice, "a rebuild folds what is left")
		}
		if advised != c.advised {
			t.Errorf("policy %d, kept for ever %t: advised %t, want %t", c.policy, c.keep, advised, c.advised)
		}
	}
}

// R26: records are deleted from the head of the log while the states are kept in memory. What is in memory is whole,
// and the next owner's would not be: it is not gone on with in silence.
func TestRetainedStateWhoseLogLostItsHead(t *testing.T) {
	t.Parallel()
	p := newPlaceOn(t, "a cluster whose compaction keeps the start of a log")
	a, back, ok := away(p, t.Context(), p.config(), func(_ *part, moved int32) {
		os := kadm.Offsets{}
		os.AddOffset(states, moved, 1, -1)
		_, err := kadm.NewClient(p.cl).DeleteRecords(t.Context(), os)
		p.must(err)
	})
	if ok || !errors.Is(a.err, stream.ErrSnapshotsLost) {
		t.Errorf("I2: the partition came back as %+v (%v), and the flow ended with %v, want %v", back, ok, a.err, stream.ErrSnapshotsLost)
	}
}
