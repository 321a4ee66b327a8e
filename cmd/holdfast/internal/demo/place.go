package demo

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/audit"
	"github.com/holdfast-go/holdfast/devbroker"
	"github.com/holdfast-go/holdfast/internal/wiretap"
	"github.com/holdfast-go/holdfast/kafka"
	"github.com/holdfast-go/holdfast/stream"
)

const (
	partitions   = 4
	replicasMost = 3
	closeTimeout = 20 * time.Second
	adminTimeout = 30 * time.Second
	lookEvery    = 50 * time.Millisecond
)

// place is where a run happens: a cluster, and a group and topics of its own on it.
type place struct {
	audit.Place
	kafka    kafka.Config
	brokers  []string // every advertised address
	where    string   // for people
	embedded bool
	topics   map[string]topic

	transactionVersion int // finalized feature, 0: none

	dial   wiretap.Dial // to a broker, with TLS if it speaks TLS
	client *kgo.Client
	admin  *kadm.Client
	close  []func() error // in reverse order
}

// openPlace starts an embedded broker, or goes to the given cluster, and makes the topics.
func openPlace(ctx context.Context, o Options) (*place, error) {
	prefix := "holdfast-demo-" + strconv.FormatInt(time.Now().UnixNano(), 36)
	p := &place{
		Place:  audit.Place{Group: prefix, Input: prefix + "-lessons", Snapshots: prefix + "-snapshots", Outputs: prefix + "-progress"},
		topics: map[string]topic{},
	}
	err := p.connect(o)
	if err == nil {
		err = p.makeTopics(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, p.shut())
	}
	return p, nil
}

func (p *place) connect(o Options) error {
	if o.Kafka != nil {
		p.kafka, p.where = *o.Kafka, fmt.Sprintf("your cluster at %v", o.Kafka.Brokers)
	} else if err := p.embed(o.Keep, o.Logger); err != nil {
		return err
	}
	cl, err := p.kafka.Client()
	if err != nil {
		return err
	}
	p.client, p.admin = cl, kadm.NewClient(cl)
	p.close = append(p.close, func() error { cl.Close(); return nil })
	dial, ok := cl.OptValue(kgo.Dialer).(wiretap.Dial)
	if !ok {
		return fmt.Errorf("the client has no dialer that a tap could use")
	}
	p.dial = dial
	return nil
}

// embed starts a broker on disk in this process.
func (p *place) embed(keep string, logger *slog.Logger) error {
	dir := keep
	if dir == "" {
		temporary, err := os.MkdirTemp("", "holdfast-")
		if err != nil {
			return fmt.Errorf("make a directory for the broker: %w", err)
		}
		dir = temporary
		p.close = append(p.close, func() error { return os.RemoveAll(temporary) })
	}
	b, err := devbroker.Start(devbroker.Config{Listen: "127.0.0.1:0", DataDir: dir, Logger: logger})
	if err != nil {
		return err
	}
	p.close = append(p.close, b.Close)
	p.kafka, p.embedded = b.Kafka(), true
	p.where = fmt.Sprintf("embedded broker on %s, on disk in %s", b.Addr(), filepath.Clean(dir))
	return nil
}

// makeTopics makes the topics of this run and learns their ids and the brokers' addresses.
func (p *place) makeTopics(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, adminTimeout)
	defer cancel()
	wrap := func(err error) error {
		return stream.NewError("make the demo's topics", kafka.Explain(err)).
			Hinted("let this user create and delete topics and groups named holdfast-demo-*")
	}
	if err := p.readTransactionVersion(ctx); err != nil {
		return wrap(err)
	}
	brokers, err := p.admin.ListBrokers(ctx)
	if err != nil {
		return wrap(err)
	}
	for _, b := range brokers {
		p.brokers = append(p.brokers, net.JoinHostPort(b.Host, strconv.Itoa(int(b.Port))))
	}
	replicas := int16(min(replicasMost, len(brokers)))
	compact := "compact"
	for _, t := range []struct {
		name   string
		config map[string]*string
	}{{p.Input, nil}, {p.Snapshots, map[string]*string{"cleanup.policy": &compact}}, {p.Outputs, nil}} {
		made, err := p.admin.CreateTopic(ctx, partitions, replicas, t.config, t.name)
		if err != nil {
			return wrap(err)
		}
		p.topics[t.name] = topic{name: t.name, id: made.ID}
		if !p.embedded {
			p.close = append(p.close, func() error { return p.removeTopic(t.name) })
		}
	}
	if !p.embedded {
		p.close = append(p.close, p.removeGroup)
	}
	if err := p.awaitLeaders(ctx); err != nil {
		return wrap(err)
	}
	return nil
}

// awaitLeaders waits until every broker knows a leader for each partition: a broker learns of a topic
// some time after another has answered its creation, and a member that asks it in between would find
// no topic.
func (p *place) awaitLeaders(ctx context.Context) error {
	for _, address := range p.brokers {
		cl, err := kgo.NewClient(append(p.client.Opts(), kgo.SeedBrokers(address))...)
		if err != nil {
			return err
		}
		err = p.awaitLeadersAt(ctx, cl)
		cl.Close()
		if err != nil {
			return fmt.Errorf("broker %s: %w", address, err)
		}
	}
	return nil
}

func (p *place) awaitLeadersAt(ctx context.Context, cl *kgo.Client) error {
	ask := kmsg.NewPtrMetadataRequest()
	for name := range p.topics {
		t := kmsg.NewMetadataRequestTopic()
		t.Topic = kmsg.StringPtr(name)
		ask.Topics = append(ask.Topics, t)
	}
	for {
		led := 0
		answer, err := ask.RequestWith(ctx, cl.SeedBrokers()[0])
		if err == nil {
			for _, t := range answer.Topics {
				for _, one := range t.Partitions {
					if one.ErrorCode == 0 && one.Leader >= 0 {
						led++
					}
				}
			}
		}
		if led == partitions*len(p.topics) {
			return nil
		}
		select {
		case <-time.After(lookEvery):
		case <-ctx.Done():
			return fmt.Errorf("%d of %d partitions have a leader: %w", led, partitions*len(p.topics), errors.Join(context.Cause(ctx), err))
		}
	}
}

func (p *place) removeTopic(name string) error {
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	if _, err := p.admin.DeleteTopic(ctx, name); err != nil {
		return fmt.Errorf("remove topic %s: %w", name, err)
	}
	return nil
}

// removeGroup removes the group. One whose members were killed has them until their sessions end.
func (p *place) removeGroup() error {
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	for {
		_, err := p.admin.DeleteGroup(ctx, p.Group)
		switch {
		case err == nil, errors.Is(err, kerr.GroupIDNotFound):
			return nil
		case !errors.Is(err, kerr.NonEmptyGroup):
			return fmt.Errorf("remove group %s (it expires by itself): %w", p.Group, err)
		}
		select {
		case <-time.After(lookEvery):
		case <-ctx.Done():
			return fmt.Errorf("remove group %s (it expires by itself): %w", p.Group, err)
		}
	}
}

// shut undoes everything in reverse order.
func (p *place) shut() error {
	var errs []error
	for i := len(p.close) - 1; i >= 0; i-- {
		errs = append(errs, p.close[i]())
	}
	p.close = nil
	return errors.Join(errs...)
}

// committed returns the group's committed offset of an input partition, 0 if there is none.
func (p *place) committed(ctx context.Context) (map[int32]int64, error) {
	offsets, err := p.admin.FetchOffsets(ctx, p.Group)
	if err != nil {
		return nil, fmt.Errorf("read committed offsets: %w", err)
	}
	at := map[int32]int64{}
	for partition := range int32(partitions) {
		if o, ok := offsets.Lookup(p.Input, partition); ok && o.Err == nil {
			at[partition] = max(o.At, 0)
		}
	}
	return at, nil
}

// readTransactionVersion learns the finalized feature that the claims depend on.
func (p *place) readTransactionVersion(ctx context.Context) error {
	ask := kmsg.NewPtrApiVersionsRequest()
	ask.ClientSoftwareName, ask.ClientSoftwareVersion = "holdfast", "demo"
	answer, err := ask.RequestWith(ctx, p.client)
	if err != nil {
		return err
	}
	for _, f := range answer.FinalizedFeatures {
		if f.Name == "transaction.version" {
			p.transactionVersion = int(f.MaxVersionLevel)
		}
	}
	return nil
}
