package trial

import (
	"context"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/internal/kafkatest"
)

// keys is how many keys a partition has.
const keys = 5

// Field is an application with its topics, records and members on a cluster. Its methods, and those of
// its members, are for the test's own goroutine.
type Field struct {
	TB         testing.TB
	Cluster    *kafkatest.Cluster
	App        App // what new members run
	Partitions int32
	Admin      *kadm.Client
	Client     *kgo.Client // past the proxies; writes to the partitions that records name
	// Patience bounds every wait: it is far above what a healthy run takes, so that only a hang meets it.
	Patience time.Duration
	// Unfinished says why the run is not to reach the end of its input. "": it is.
	Unfinished string

	log     *eventLog
	dir     string
	members []*Member

	mu   sync.Mutex
	next int             // value of the next record
	ends map[int32]int64 // of the input, as far as brokers have acknowledged records
}

// New makes the topics of an application, with names of their own where it has none. configs are added
// to those of the topics, by the topic's role: "input", "output", "progress".
func New(tb testing.TB, c *kafkatest.Cluster, app App, partitions int32, configs ...map[string]map[string]string) *Field {
	tb.Helper()
	app = app.withDefaults()
	app.Addrs = c.Addrs
	if app.Group == "" {
		app.Group = kafkatest.UniqueName("trial")
	}
	if app.Input == "" {
		app.Input = app.Group + "-input"
	}
	if app.Output == "" {
		app.Output = app.Group + "-output"
	}
	f := &Field{
		TB: tb, Cluster: c, App: app, Partitions: partitions, Patience: 90 * time.Second,
		log: newEventLog(), dir: tb.TempDir(), ends: map[int32]int64{},
	}
	f.Client = c.Client(tb, kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerLinger(0))
	f.Admin = kadm.NewClient(f.Client)
	f.ServerSideTimings(app.Session, app.Heartbeat)
	with := map[string]map[string]string{"input": {}, "output": {}, "progress": {"cleanup.policy": "compact"}}
	for _, more := range configs {
		for role, settings := range more {
			maps.Copy(with[role], settings)
		}
	}
	for role, topic := range map[string]string{"input": app.Input, "output": app.Output, "progress": app.Progress()} {
		c.CreateTopic(tb, topic, partitions, with[role])
	}
	return f
}

// ServerSideTimings sets the times that the brokers have for the group if its protocol is server-side.
// Brokers of other protocols leave them unused, and those before 4.0 do not know them.
func (f *Field) ServerSideTimings(session, heartbeat time.Duration) {
	f.TB.Helper()
	if strings.HasPrefix(kafkatest.Version(), "3.") {
		return
	}
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	group := kmsg.NewIncrementalAlterConfigsRequestResource()
	group.ResourceType, group.ResourceName = kmsg.ConfigResourceTypeGroupConfig, f.App.Group
	for name, d := range map[string]time.Duration{"consumer.session.timeout.ms": session, "consumer.heartbeat.interval.ms": heartbeat} {
		c := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
		c.Name, c.Op, c.Value = name, kmsg.IncrementalAlterConfigOpSet, kmsg.StringPtr(strconv.FormatInt(d.Milliseconds(), 10))
		group.Configs = append(group.Configs, c)
	}
	req.Resources = append(req.Resources, group)
	resp, err := req.RequestWith(f.TB.Context(), f.Client)
	if err != nil {
		f.TB.Fatal(err)
	}
	for _, r := range resp.Resources {
		if err := kerr.ErrorForCode(r.ErrorCode); err != nil {
			f.TB.Fatalf("configure group %s: %v", f.App.Group, err)
		}
	}
}

// TransactionalID is that of an input partition.
func (f *Field) TransactionalID(partition int32) string {
	return fence.TransactionalID(f.App.Group, f.App.Progress(), partition)
}

// Send writes the next n records, spread over partitions and keys, and waits until brokers have them.
func (f *Field) Send(n int) {
	f.TB.Helper()
	if err := f.send(f.TB.Context(), n); err != nil {
		f.TB.Fatal(err)
	}
}

// SendTo is Send to one partition. It returns the offset of the last one.
func (f *Field) SendTo(partition int32, n int) int64 {
	f.TB.Helper()
	f.mu.Lock()
	var rs []*kgo.Record
	for range n {
		rs = append(rs, f.record(partition))
	}
	f.mu.Unlock()
	if err := f.produce(f.TB.Context(), rs); err != nil {
		f.TB.Fatal(err)
	}
	return rs[n-1].Offset
}

func (f *Field) send(ctx context.Context, n int) error {
	f.mu.Lock()
	var rs []*kgo.Record
	for range n {
		rs = append(rs, f.record(int32(f.next)%f.Partitions))
	}
	f.mu.Unlock()
	return f.produce(ctx, rs)
}

// record is called with mu locked.
func (f *Field) record(partition int32) *kgo.Record {
	value := f.next
	f.next++
	key := fmt.Sprintf("k%d-%d", partition, value/int(f.Partitions)%keys)
	return &kgo.Record{Topic: f.App.Input, Partition: partition, Key: []byte(key), Value: []byte(strconv.Itoa(value))}
}

func (f *Field) produce(ctx context.Context, rs []*kgo.Record) error {
	if err := f.Client.ProduceSync(ctx, rs...).FirstErr(); err != nil {
		return fmt.Errorf("load: %w", err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, r := range rs {
		f.ends[r.Partition] = max(f.ends[r.Partition], r.Offset+1)
	}
	return nil
}

// Load writes that many records a second, until stop is called or the test ends. stop waits for what is
// on its way.
func (f *Field) Load(perSecond int) (stop func()) {
	ctx, cancel := context.WithCancel(f.TB.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		const each = 50 * time.Millisecond
		tick := time.NewTicker(each)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			// The records are sent to their end: one that was given up might be there all the same.
			if err := f.send(context.WithoutCancel(ctx), max(1, int(int64(perSecond)*int64(each)/int64(time.Second)))); err != nil {
				f.TB.Error(err)
				return
			}
		}
	}()
	stop = func() { cancel(); <-done }
	f.TB.Cleanup(stop)
	return stop
}

// Ends returns the next offsets of the input, as far as brokers have acknowledged records.
func (f *Field) Ends() map[int32]int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return maps.Clone(f.ends)
}

// Committed returns the group's next offsets, 0 where there is none.
func (f *Field) Committed(ctx context.Context) (map[int32]int64, error) {
	os, err := f.Admin.FetchOffsetsForTopics(ctx, f.App.Group, f.App.Input)
	if err != nil {
		return nil, err
	}
	next := map[int32]int64{}
	os.Each(func(o kadm.OffsetResponse) {
		if o.Topic == f.App.Input {
			next[o.Partition] = max(o.At, 0)
		}
	})
	return next, nil
}

// CaughtUp waits until what the input has by now is committed, and returns how long that took. Load may
// go on.
func (f *Field) CaughtUp() time.Duration {
	f.TB.Helper()
	begin, want := time.Now(), f.Ends()
	ctx, cancel := context.WithTimeout(f.TB.Context(), f.Patience)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		found, err := f.Committed(ctx)
		behind := err != nil
		for p, end := range want {
			behind = behind || found[p] < end
		}
		if !behind {
			return time.Since(begin)
		}
		f.log.mu.Lock()
		fault := f.log.fault
		f.log.mu.Unlock()
		if fault != nil {
			f.TB.Fatalf("committed %v of %v: %v", found, want, fault)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			f.TB.Fatalf("committed %v of %v within %v (%v)", found, want, f.Patience, err)
		}
	}
}
