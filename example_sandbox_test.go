package holdfast_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/devbroker"
	"github.com/holdfast-go/holdfast/stream"
)

// often commits what is folded soon, so that an example is over soon. The default persists a state
// every 30 s.
var often = holdfast.Commit{Persist: 10 * time.Millisecond}

// created has the snapshot topic made with the broker's default replication.
var created = holdfast.Snapshots{Create: &holdfast.TopicConfig{}}

// sandbox is an embedded broker with what the examples share.
type sandbox struct {
	*devbroker.Broker
	client *kgo.Client
	ctx    context.Context
	stop   func()
}

// open starts a broker that has topics of one partition each.
func open(topics ...string) *sandbox {
	config := devbroker.Config{Listen: "127.0.0.1:0"}
	for _, name := range topics {
		config.Topics = append(config.Topics, devbroker.Topic{Name: name, Partitions: 1})
	}
	broker, err := devbroker.Start(config)
	if err != nil {
		panic(err)
	}
	client, err := broker.Kafka().Client()
	if err != nil {
		panic(err)
	}
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	return &sandbox{Broker: broker, client: client, ctx: ctx, stop: stop}
}

func (s *sandbox) close() {
	s.stop()
	s.client.Close()
	if err := s.Close(); err != nil {
		fmt.Println(err)
	}
}

// produce writes records, each given as "key value".
func (s *sandbox) produce(topic string, records ...string) {
	for _, record := range records {
		key, value, _ := strings.Cut(record, " ")
		r := &kgo.Record{Topic: topic, Key: []byte(key), Value: []byte(value)}
		if err := s.client.ProduceSync(s.ctx, r).FirstErr(); err != nil {
			fmt.Println(err)
		}
	}
}

// until ends the run once offset is committed.
func (s *sandbox) until(offset int64) holdfast.Hooks {
	return holdfast.Hooks{Committed: func(c stream.Committed) {
		if c.Next >= offset {
			s.stop()
		}
	}}
}

// show prints the last value of each key of a topic, as any read_committed consumer sees it.
func (s *sandbox) show(topic string) {
	last := map[string]string{}
	for _, r := range s.read(topic) {
		if strings.HasPrefix(string(r.Key), "\x00") {
			continue // the progress record of the partition
		}
		last[string(r.Key)] = string(r.Value)
		if r.Value == nil {
			delete(last, string(r.Key))
		}
	}
	for _, key := range slices.Sorted(maps.Keys(last)) {
		fmt.Println(key, last[key])
	}
}

func (s *sandbox) read(topic string) (records []*kgo.Record) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	ends, err := kadm.NewClient(s.client).ListEndOffsets(ctx, topic)
	if err != nil {
		fmt.Println(err)
	}
	end, _ := ends.Lookup(topic, 0)
	reader, err := s.Kafka().Client(kgo.KeepControlRecords(), kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {0: kgo.NewOffset().AtStart()}}))
	if err != nil {
		fmt.Println(err)
	}
	defer reader.Close()
	for next := int64(0); next < end.Offset; {
		fetches := reader.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			fmt.Println(err)
			return nil
		}
		for r := range fetches.RecordsAll() {
			next = r.Offset + 1
			if !r.Attrs.IsControl() {
				records = append(records, r)
			}
		}
	}
	return records
}
