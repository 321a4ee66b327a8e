package acceptance

import (
	"fmt"
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/kafkatest"
	"github.com/holdfast-go/holdfast/internal/rule"
	"github.com/holdfast-go/holdfast/stream"
)

// roundTrip is a partition that goes from member A to member B and back.
type roundTrip struct {
	t            *testing.T
	c            *kafkatest.Cluster
	a            *tap
	input, group string
	snapshots    string
	id           [16]byte // of the snapshot topic
	flowA, flowB *flow
	moved        int32
	upTo         [2]int // records of each partition
}

func newRoundTrip(t *testing.T, guarantee holdfast.Guarantee, off ...rule.Name) *roundTrip {
	c := kafkatest.Start(t)
	r := &roundTrip{t: t, c: c, a: newTap(t, c)}
	r.input = c.CreateTopic(t, kafkatest.UniqueName("input"), 2, nil)
	r.group, r.snapshots = r.input+"-flow", r.input+"-flow-snapshots"
	r.produce(0, 10)
	r.produce(1, 10)
	r.delete(0)
	r.delete(1)
	ctx := rule.Without(t.Context(), off...)
	conf := r.config(guarantee)
	r.flowA = start(t, ctx, "A", tapped(conf, r.a, "A"))
	r.flowA.committedTo(0, 11)
	r.flowA.committedTo(1, 11)
	topics, err := kadm.NewClient(c.Client(t)).ListTopics(t.Context(), r.snapshots)
	if err != nil {
		t.Fatal(err)
	}
	r.id = topics[r.snapshots].ID
	r.flowB = start(t, ctx, "B", conf)
	r.moved = await(r.flowB, 0, any1[stream.Restored]).Partition.Partition
	return r
}

func (r *roundTrip) config(guarantee holdfast.Guarantee) holdfast.Config[tally] {
	conf := config(r.c.Addrs, r.group, r.input)
	conf.Guarantee = guarantee
	if guarantee == holdfast.FencedOutputs {
		conf.Commit.Persist = 0
	}
	return conf
}

func (r *roundTrip) produce(partition int32, n int) {
	r.t.Helper()
	produce(r.t, producer(r.t, r.c), r.input, partition, 3, r.upTo[partition], r.upTo[partition]+n)
	r.upTo[partition] += n
}

// delete deletes a key, which stays in memory as deleted for a while.
func (r *roundTrip) delete(partition int32) {
	r.t.Helper()
	rec := &kgo.Record{Topic: r.input, Partition: partition, Key: fmt.Appendf(nil, "k%d-0", partition), Value: []byte("delete")}
	if err := producer(r.t, r.c).ProduceSync(r.t.Context(), rec).FirstErr(); err != nil {
		r.t.Fatal(err)
	}
	r.upTo[partition]++
}

// back has B leave and returns how the partition came back to A, with the fetches from the snapshot
// partition that A has sent for it.
func (r *roundTrip) back() (stream.Restored, []sight) {
	r.t.Helper()
	mark, wire := r.flowA.mark(), r.a.mark()
	if err := r.flowB.stop(); err != nil {
		r.t.Error(err)
	}
	e := await(r.flowA, mark, func(e stream.Restored) bool { return e.Partition.Partition == r.moved })
	return e, r.a.seen(wire, isRequest[*kmsg.FetchRequest](r.reads))
}

// reads accepts fetches from the snapshot partition of the moved partition.
func (r *roundTrip) reads(s sight) bool {
	return slices.ContainsFunc(s.req.(*kmsg.FetchRequest).Topics, func(t kmsg.FetchRequestTopic) bool {
		return (t.TopicID == r.id || t.Topic == r.snapshots) &&
			slices.ContainsFunc(t.Partitions, func(p kmsg.FetchRequestTopicPartition) bool { return p.Partition == r.moved })
	})
}

// finish folds some more and compares the states with the input.
func (r *roundTrip) finish() (differences []string) {
	r.t.Helper()
	for p := range int32(2) {
		r.produce(p, 10)
		r.flowA.committedTo(p, int64(r.upTo[p]))
	}
	if err := r.flowA.stop(); err != nil {
		r.t.Error(err)
	}
	return check(r.t, r.c, r.group, r.input, r.snapshots)
}

// A partition that comes back unchanged goes on with the states in memory: one fetch from its snapshot
// partition is all there is on the wire, and the states are those that the input gives.
func TestKafkaRetainedStateIsUsed(t *testing.T) {
	for _, guarantee := range []holdfast.Guarantee{holdfast.FencedState, holdfast.FencedOutputs} {
		t.Run(guarantee.String(), func(t *testing.T) {
			t.Parallel()
			r := newRoundTrip(t, guarantee)
			back, reads := r.back()
			if !back.Retained || back.Keys != 2 || back.Start != 11 || len(reads) != 1 {
				t.Errorf("it came back as %+v, with %d fetches", back, len(reads))
			}
			for _, d := range r.finish() {
				t.Error(d)
			}
		})
	}
}

// What was retained is dropped if anything was written meanwhile, committed or not. With the rule off
// it is used: what another owner has committed is overwritten then.
// Public case C14.
func TestKafkaRetainedStateIsDropped(t *testing.T) {
	cases := []struct {
		name  string
		while func(*roundTrip)
		wrong bool // the states are wrong if what was retained is used
	}{
		{"another owner has committed", func(r *roundTrip) {
			r.produce(r.moved, 5)
			r.flowB.committedTo(r.moved, int64(r.upTo[r.moved]))
		}, true},
		{"a transaction was aborted", func(r *roundTrip) {
			cl := r.c.Client(r.t, kgo.TransactionalID(r.group+"-another"), kgo.RecordPartitioner(kgo.ManualPartitioner()))
			if err := cl.BeginTransaction(); err != nil {
				r.t.Fatal(err)
			}
			rec := &kgo.Record{Topic: r.snapshots, Partition: r.moved, Key: []byte("k"), Value: []byte("{}")}
			if err := cl.ProduceSync(r.t.Context(), rec).FirstErr(); err != nil {
				r.t.Fatal(err)
			}
			if err := cl.EndTransaction(r.t.Context(), kgo.TryAbort); err != nil {
				r.t.Fatal(err)
			}
		}, false},
	}
	for _, c := range cases {
		for _, off := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, rule off %v", c.name, off), func(t *testing.T) {
				t.Parallel()
				var rules []rule.Name
				if off {
					rules = append(rules, rule.RetainedCheck)
				}
				r := newRoundTrip(t, holdfast.FencedState, rules...)
				c.while(r)
				back, reads := r.back()
				if back.Retained != off || (len(reads) == 0) != off {
					t.Errorf("it came back as %+v, with %d fetches", back, len(reads))
				}
				if d := r.finish(); (len(d) > 0) != (off && c.wrong) {
					t.Errorf("the states differ: %v", d)
				}
			})
		}
	}
}
