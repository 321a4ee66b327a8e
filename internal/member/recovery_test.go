package member_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/codec"
	"github.com/holdfast-go/holdfast/kafka"
	"github.com/holdfast-go/holdfast/snapshot"
	"github.com/holdfast-go/holdfast/stream"
)

const (
	input    = "in"
	states   = "flow-snapshots"
	patience = time.Minute // bounds waits; nothing ends by it unless it fails
)

// place is an embedded broker with one input of one partition and its snapshot topic.
type place struct {
	t       *testing.T
	cluster *kfake.Cluster
	k       kafka.Config
	cl      *kgo.Client
}

func newPlace(t *testing.T) *place {
	t.Helper()
	return newPlaceOn(t, "kfake")
}

// newPlaceOn is newPlace on a cluster of that id.
func newPlaceOn(t *testing.T, cluster string) *place {
	t.Helper()
	c, err := kfake.NewCluster(kfake.ClusterID(cluster), kfake.NumBrokers(1), kfake.BrokerConfigs(map[string]string{"group.min.session.timeout.ms": "100"}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	p := &place{t: t, cluster: c, k: kafka.Config{Brokers: c.ListenAddrs()}}
	if p.cl, err = p.k.Client(kgo.DefaultProduceTopic(input), kgo.RecordPartitioner(kgo.ManualPartitioner())); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.cl.Close)
	p.create(input, nil)
	p.create(states, map[string]*string{"cleanup.policy": kadm.StringPtr("compact")})
	return p
}

func (p *place) create(topic string, configs map[string]*string) {
	p.t.Helper()
	if _, err := kadm.NewClient(p.cl).CreateTopic(p.t.Context(), 1, 1, configs, topic); err != nil {
		p.t.Fatal(err)
	}
}

// produce writes n records of one key; each adds 1.
func (p *place) produce(key string, n int) {
	p.t.Helper()
	for range n {
		if err := p.cl.ProduceSync(p.t.Context(), &kgo.Record{Key: []byte(key), Value: []byte("1")}).FirstErr(); err != nil {
			p.t.Fatal(err)
		}
	}
}

// config is a flow that counts the records of a key and commits at once.
func (p *place) config() holdfast.Config[int] {
	return holdfast.Config[int]{
		Kafka: p.k, Group: "flow", Inputs: []string{input}, Codec: codec.JSON[int](), Fold: count(1),
		Member: holdfast.Member{HeartbeatInterval: 100 * time.Millisecond},
		Commit: holdfast.Commit{Persist: time.Millisecond, Interval: time.Millisecond},
	}
}

func count(by int) func(context.Context, *holdfast.Key[int], stream.Record) error {
	return func(_ context.Context, k *holdfast.Key[int], _ stream.Record) error {
		n, _ := k.State()
		k.Set(n + by)
		return nil
	}
}

// until runs a flow until the committed offset is next, and returns what Run does.
func until[S any](p *place, c holdfast.Config[S], next int64) error {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.t.Context(), patience)
	defer cancel()
	reached := false
	var mu sync.Mutex
	c.Hooks = append(c.Hooks, holdfast.Hooks{Committed: func(e stream.Committed) {
		mu.Lock()
		defer mu.Unlock()
		if e.Next >= next {
			reached = true
			cancel()
		}
	}})
	f, err := holdfast.New(c)
	if err != nil {
		p.t.Fatal(err)
	}
	err = f.Run(ctx)
	mu.Lock()
	defer mu.Unlock()
	if err == nil && !reached {
		p.t.Fatalf("%d was not committed", next)
	}
	return err
}

func (p *place) must(err error) {
	p.t.Helper()
	if err != nil {
		p.t.Fatal(err)
	}
}

// stored reads the states of the newest incarnation.
func (p *place) stored() map[string]string {
	p.t.Helper()
	return p.storedIn(0)
}

func (p *place) storedIn(partition int32) map[string]string {
	p.t.Helper()
	got, newest := map[string]string{}, uint64(0)
	_, err := snapshot.Restore(p.t.Context(), snapshot.RestoreConfig{Client: p.cl, Topic: states, Partition: partition, Each: func(r stream.Record) error {
		if snapshot.Reserved(r.Key) {
			return nil
		}
		s, err := snapshot.Decode(r)
		if s.Incarnation > newest {
			newest = s.Incarnation
			clear(got)
		}
		if got[string(s.Key)] = string(s.Value); s.Kind == snapshot.Tombstone {
			delete(got, string(s.Key))
		}
		return err
	}})
	p.must(err)
	return got
}

func (p *place) wantStored(want map[string]string) {
	p.t.Helper()
	if got := p.stored(); !maps.Equal(got, want) {
		p.t.Errorf("stored %v, want %v", got, want)
	}
}

// What the hints name as the remedy has to be one: Rebuild folds the input again although the offsets
// agree, and the flow goes on without it after that.
func TestRebuildCuresWhatItIsNamedFor(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		change func(*place, *holdfast.Config[int])
		stops  error
		want   string
	}{
		{"another fold version", func(_ *place, c *holdfast.Config[int]) { c.FoldVersion, c.Fold = "2", count(10) }, stream.ErrFoldVersion, "50"},
		{"a codec that cannot read the states", func(_ *place, c *holdfast.Config[int]) { c.Codec = tenfold{} }, stream.ErrCorruptSnapshot, "x5"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			p.produce("k", 3)
			p.must(until(p, p.config(), 3))
			p.produce("k", 2)
			conf := p.config()
			c.change(p, &conf)
			if err := until(p, conf, 5); !errors.Is(err, c.stops) {
				t.Fatalf("I2: without Rebuild: %v, want %v", err, c.stops)
			}
			var begun []int64
			conf.Start.Disagreement = holdfast.Rebuild
			conf.Hooks = []holdfast.Hooks{{Restored: func(e stream.Restored) {
				if e.Partition.Partition == 0 {
					begun = append(begun, e.Start)
				}
			}}}
			p.must(until(p, conf, 5))
			p.wantStored(map[string]string{"k": c.want})
			p.produce("l", 1)
			p.must(until(p, conf, 6)) // Rebuild stays in the configuration, and does nothing any more
			conf.Start.Disagreement = holdfast.StopAndAsk
			p.produce("l", 1)
			p.must(until(p, conf, 7))
			if fmt.Sprint(begun) != "[0 5 6]" {
				t.Errorf("folding began at %v", begun)
			}
		})
	}
}

// tenfold writes what JSON cannot read, and reads nothing else.
type tenfold struct{}

func (tenfold) Append(dst []byte, s int) ([]byte, error) { return fmt.Appendf(dst, "x%d", s), nil }
func (tenfold) Decode(b []byte) (int, error) {
	if len(b) == 0 || b[0] != 'x' {
		return 0, errors.New("it does not begin with x")
	}
	return strconv.Atoi(string(b[1:]))
}

func (p *place) add(n int) {
	p.t.Helper()
	for _, topic := range []string{input, states} {
		resp, err := kadm.NewClient(p.cl).CreatePartitions(p.t.Context(), n, topic)
		p.must(err)
		p.must(resp.Error())
	}
}

// The hint of an offset that was reset back says to reset it to the snapshots' offset. Kafka's own
// tools commit without our metadata.
func TestOffsetResetToTheSnapshots(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.produce("k", 3)
	p.must(until(p, p.config(), 3))
	var offsets kadm.Offsets
	offsets.AddOffset(input, 0, 3, -1)
	p.must(kadm.NewClient(p.cl).CommitAllOffsets(p.t.Context(), "flow", offsets))
	p.produce("k", 1)
	p.must(until(p, p.config(), 4))
	p.wantStored(map[string]string{"k": "4"})
}

// expel has the group forget its member with the next heartbeat.
func (p *place) expel() {
	p.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Heartbeat}, Err: kerr.UnknownMemberID, Count: 1})
}

// A fold that ends because the ownership does is no reason to skip its record.
func TestSkipIsNotAskedForALostOwnership(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.produce("k", 1)
	c := p.config()
	first := true
	c.Fold = func(ctx context.Context, k *holdfast.Key[int], r stream.Record) error {
		if first { // the next call is under the next ownership, after this one
			first = false
			p.expel()
			<-ctx.Done()
			return ctx.Err()
		}
		return count(1)(ctx, k, r)
	}
	c.OnError = func(_ context.Context, e *stream.RecordError) stream.Action { return stream.Skip }
	p.must(until(p, c, 1))
	p.wantStored(map[string]string{"k": "1"})
}

// Without Clone each failure of a fold that was given the state costs a restore. The policy still sees
// the attempts rise.
func TestAttemptsRiseOverRestores(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.produce("k", 2)
	var seen []int
	c := holdfast.Config[map[string]int]{
		Kafka: p.k, Group: "flow", Inputs: []string{input}, Codec: codec.JSON[map[string]int](),
		Member: holdfast.Member{HeartbeatInterval: 100 * time.Millisecond},
		Commit: holdfast.Commit{Persist: time.Millisecond, Interval: time.Millisecond},
		Fold: func(_ context.Context, k *holdfast.Key[map[string]int], r stream.Record) error {
			if s, ok := k.State(); ok {
				s["n"]++
				return errors.New("no")
			}
			k.Set(map[string]int{"n": 1})
			return nil
		},
		OnError: func(_ context.Context, e *stream.RecordError) stream.Action {
			seen = append(seen, e.Attempt)
			if e.Attempt < 3 {
				return stream.Retry
			}
			return stream.Skip
		},
	}
	p.must(until(p, c, 2))
	p.wantStored(map[string]string{"k": `{"n":1}`})
	if fmt.Sprint(seen) != "[1 2 3]" {
		t.Errorf("attempts %v", seen)
	}
}

// One end of an ownership is told once, whoever finds it.
func TestLossIsToldOnce(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.produce("k", 1)
	c := p.config()
	told := map[int64]int{}
	var mu sync.Mutex
	tell := func(e stream.Released) {
		mu.Lock()
		told[e.Ownership]++
		mu.Unlock()
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	c.Hooks = []holdfast.Hooks{{Lost: tell, Revoked: tell, Restored: func(stream.Restored) {
		mu.Lock()
		defer mu.Unlock()
		if len(told) == 3 {
			cancel()
			return
		}
		p.expel()
	}}}
	f, err := holdfast.New(c)
	p.must(err)
	p.must(f.Run(ctx))
	mu.Lock()
	defer mu.Unlock()
	for ownership, n := range told {
		if n != 1 {
			t.Errorf("the end of ownership %d was told %d times", ownership, n)
		}
	}
	if len(told) < 4 {
		t.Errorf("%d ends were told", len(told))
	}
}
