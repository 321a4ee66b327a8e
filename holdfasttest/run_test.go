package holdfasttest

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/wiretap"
	"github.com/holdfast-go/holdfast/kafka"
	"github.com/holdfast-go/holdfast/pipe"
)

// patience bounds every wait for an event: it is far above what a healthy run takes.
const patience = 60 * time.Second

// run is one group on a broker of its own, with a member or several.
type run struct {
	t       *testing.T
	k       kafka.Config
	conf    holdfast.Config[tally]
	pipe    *pipe.Config // instead of a flow
	cl      *kgo.Client
	members []*member
	history History // of the last check
}

// newRun makes the topics and a configuration that commits only what a record asks for.
func newRun(t *testing.T, k kafka.Config) *run { return newRunWith(t, k, 1) }

func newRunWith(t *testing.T, k kafka.Config, partitions int32) *run {
	t.Helper()
	cl, err := k.Client(kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.MetadataMinAge(100*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	r := &run{t: t, k: k, cl: cl, conf: testConfig(k)}
	suffix := "-" + strings.Map(func(c rune) rune {
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' {
			return c
		}
		return '-'
	}, t.Name())
	r.conf.Group += suffix
	r.conf.Inputs, r.conf.Outputs = []string{testInput + suffix}, []string{testOutput + suffix}
	r.conf.Fold = countdown(r.output())
	r.create(partitions, r.input(), r.output())
	r.conf.Snapshots.Create = &holdfast.TopicConfig{}
	r.conf.Commit = holdfast.Commit{Persist: time.Hour, PersistCooldown: time.Nanosecond, Interval: 20 * time.Millisecond, RevokeBudget: 5 * time.Second}
	r.conf.Member = holdfast.Member{SessionTimeout: 2 * time.Second, RebalanceTimeout: 10 * time.Second, HeartbeatInterval: 200 * time.Millisecond, TransactionTimeout: 2 * time.Second}
	return r
}

func (r *run) create(partitions int32, topics ...string) {
	r.t.Helper()
	for _, topic := range topics {
		if _, err := kadm.NewClient(r.cl).CreateTopic(r.t.Context(), partitions, 1, nil, topic); err != nil {
			r.t.Fatal(err)
		}
		for { // the broker that is asked next may not know it yet
			topics, err := kadm.NewClient(r.cl).ListTopics(r.t.Context(), topic)
			if err == nil && len(topics[topic].Partitions) == int(partitions) {
				break
			}
			select {
			case <-time.After(20 * time.Millisecond):
			case <-r.t.Context().Done():
				r.t.Fatal(err)
			}
		}
	}
}

func (r *run) input() string  { return r.conf.Inputs[0] }
func (r *run) output() string { return r.conf.Outputs[0] }

// progress is the topic of the snapshots, or of a pipe's progress records.
func (r *run) progress() string {
	if r.pipe != nil {
		return r.conf.Group + "-progress"
	}
	return r.conf.Group + "-snapshots"
}

// awaitOutput waits for the first record of the output topic, committed or not.
func (r *run) awaitOutput() {
	r.t.Helper()
	from := map[string]map[int32]kgo.Offset{r.output(): {0: kgo.NewOffset().AtStart()}}
	cl, err := r.k.Client(kgo.ConsumePartitions(from), kgo.FetchMaxWait(100*time.Millisecond))
	if err != nil {
		r.t.Fatal(err)
	}
	defer cl.Close()
	ctx, cancel := context.WithTimeout(r.t.Context(), patience)
	defer cancel()
	for {
		fetches := cl.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			r.t.Fatal(err)
		}
		if fetches.NumRecords() > 0 {
			return
		}
	}
}

// send writes records, each "key value", and waits until the broker has them.
func (r *run) send(records ...string) {
	r.t.Helper()
	for _, text := range records {
		key, value, _ := strings.Cut(text, " ")
		if err := r.cl.ProduceSync(r.t.Context(), &kgo.Record{Topic: r.input(), Key: []byte(key), Value: []byte(value)}).FirstErr(); err != nil {
			r.t.Fatal(err)
		}
	}
}

// member is one process of the group, as far as the brokers can see: it has connections of its own.
type member struct {
	r      *run
	tap    *wiretap.Cluster
	rec    *Recorder
	lines  *lines
	cancel context.CancelFunc
	done   chan struct{}
	killed bool
}

// runner is a flow or a pipe.
type runner interface{ Run(context.Context) error }

// start runs a member. ctx may carry rules that are switched off.
func (r *run) start(ctx context.Context, name string, change ...func(*holdfast.Config[tally])) *member {
	r.t.Helper()
	return r.launch(ctx, name, func(m *member) (runner, error) {
		if r.pipe != nil {
			conf := *r.pipe
			conf.Kafka.Opts = append(slices.Clone(conf.Kafka.Opts), kgo.Dialer(m.tap.Dialer()))
			conf.Hooks = append(slices.Clone(conf.Hooks), m.rec.Hooks())
			return pipe.New(conf)
		}
		conf := r.conf
		for _, f := range change {
			f(&conf)
		}
		conf.Kafka.Opts = append(slices.Clone(conf.Kafka.Opts), kgo.Dialer(m.tap.Dialer()))
		return holdfast.New(Watch(m.rec, conf))
	})
}

func (r *run) launch(ctx context.Context, name string, build func(*member) (runner, error)) *member {
	r.t.Helper()
	tap, err := wiretap.NewCluster(r.k.Brokers)
	if err != nil {
		r.t.Fatal(err)
	}
	m := &member{r: r, tap: tap, lines: &lines{wake: make(chan struct{})}, done: make(chan struct{})}
	m.rec = NewRecorder(name, m.lines)
	flow, err := build(m)
	if err != nil {
		r.t.Fatal(err)
	}
	ctx, m.cancel = context.WithCancel(ctx)
	go func() {
		defer close(m.done)
		m.rec.Stopped(flow.Run(ctx))
	}()
	r.t.Cleanup(func() {
		m.cancel()
		<-m.done
		if err := tap.Close(); err != nil && !m.killed {
			r.t.Error(err)
		}
	})
	r.members = append(r.members, m)
	return m
}

// stop ends the member in good order.
func (m *member) stop() {
	m.cancel()
	<-m.done
}

// kill cuts the member off for good: nothing that it does afterwards reaches a broker. It is not waited
// for.
func (m *member) kill() {
	m.killed = true
	m.tap.LoseRequests(true)
	m.tap.Refuse(true)
	m.tap.Cut(nil)
	m.cancel()
}

// await waits for the n-th event of a kind at offset.
func (m *member) await(kind string, offset int64, n int) {
	m.r.t.Helper()
	limit := time.After(patience)
	for {
		events, wake := m.lines.all()
		found := 0
		for _, e := range events {
			if e.Kind == kind && e.Offset == offset {
				found++
			}
		}
		if found >= n {
			return
		}
		select {
		case <-wake:
		case <-m.done:
			m.r.t.Fatalf("member %s ended while %s at %d was awaited: %v", m.rec.name, kind, offset, events[len(events)-1])
		case <-limit:
			m.r.t.Fatalf("member %s: no %s at %d within %v, but %v", m.rec.name, kind, offset, patience, events)
		}
	}
}

// hold holds requests of the member and waits until one is caught.
func (m *member) hold(match wiretap.Match) *wiretap.Fault {
	f := m.tap.Fault(wiretap.HoldRequest, match)
	m.r.t.Cleanup(f.Lift)
	return f
}

func (r *run) caught(f *wiretap.Fault) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), patience)
	defer cancel()
	if err := f.Await(ctx, 1); err != nil {
		r.t.Fatal(err)
	}
}

// producing matches a produce request to a topic.
func (r *run) producing(topic string) wiretap.Match {
	r.t.Helper()
	topics, err := kadm.NewClient(r.cl).ListTopics(r.t.Context(), topic)
	if err != nil {
		r.t.Fatal(err)
	}
	id := topics[topic].ID
	return wiretap.All(wiretap.Keys(kmsg.Produce), func(q wiretap.Request) bool {
		req, err := q.Decoded()
		return err == nil && slices.ContainsFunc(req.(*kmsg.ProduceRequest).Topics, func(t kmsg.ProduceRequestTopic) bool {
			return t.Topic == topic || t.TopicID == id
		})
	})
}

// check collects what the run has left and judges it.
func (r *run) check() []Violation {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), patience)
	defer cancel()
	model := Flow(r.conf)
	if r.pipe != nil {
		model = Pipe(*r.pipe)
	}
	var logs []Member
	for _, m := range r.members {
		m.stop()
		one, err := ReadMembers(bytes.NewReader(m.lines.bytes()))
		if err != nil || len(one) != 1 {
			r.t.Fatalf("%d members in a log of one: %v", len(one), err)
		}
		one[0].Killed = m.killed
		logs = append(logs, one[0])
	}
	h, err := Collect(ctx, model, logs...)
	if err != nil {
		r.t.Fatal(err)
	}
	r.history = h
	return Check(h, model)
}

// lines is where a recorder writes: it wakes whoever waits.
type lines struct {
	mu     sync.Mutex
	text   []byte
	events []Event
	wake   chan struct{}
}

func (l *lines) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var e Event
	if err := json.Unmarshal(line, &e); err != nil {
		return 0, err
	}
	l.text, l.events = append(l.text, line...), append(l.events, e)
	close(l.wake)
	l.wake = make(chan struct{})
	return len(line), nil
}

func (l *lines) all() ([]Event, <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.events, l.wake
}

func (l *lines) bytes() []byte {
	l.mu.Lock()
	defer l.mu.Unlock()
	return bytes.Clone(l.text)
}
