package prove

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/holdfast-go/holdfast/devbroker"
	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/stream"
)

// world is what the exercises share: the cluster, what is known of it, and what was made on it. It
// belongs to one goroutine.
type world struct {
	o        Options
	run      string
	cl       *kgo.Client // asks and reads; it is a member of nothing and writes nothing
	adm      *kadm.Client
	features wire.Features
	brokers  int
	replicas int16
	minISR   int
	weaker   []string

	made struct {
		topics, groups, ids []string
	}
}

// openWorld looks at the cluster and creates nothing.
func openWorld(ctx context.Context, o Options, run string) (*world, error) {
	cl, err := o.Kafka.Client()
	if err != nil {
		return nil, err
	}
	w := &world{o: o, run: run, cl: cl, adm: kadm.NewClient(cl), weaker: []string{}}
	w.made.ids = []string{}
	if err := w.look(ctx); err != nil {
		cl.Close()
		return nil, explain(w.o, "look at the cluster", err)
	}
	return w, nil
}

func (w *world) look(ctx context.Context) (err error) {
	meta, err := w.adm.BrokerMetadata(ctx)
	if err != nil {
		return err
	}
	if w.features, err = wire.LookupFeatures(ctx, w.cl); err != nil {
		return err
	}
	if imitation(meta.Cluster) {
		w.weaker = append(w.weaker, fmt.Sprintf("this is the embedded broker (cluster id %s), an imitation of Kafka, and no proof "+
			"of a fencing claim: run this on a real cluster", meta.Cluster))
	}
	w.brokers = len(meta.Brokers)
	w.replicas, w.minISR = int16(w.o.Replicas), w.o.MinISR
	if w.brokers < w.o.Replicas {
		w.replicas, w.minISR = int16(w.brokers), max(1, min(w.o.MinISR, w.brokers-1))
		w.weaker = append(w.weaker, fmt.Sprintf("the cluster has %s, so that topics have %s and min.insync.replicas %d "+
			"in place of %d and %d: nothing is shown about the loss of a broker", count(w.brokers, "broker"), count(int(w.replicas), "replica"), w.minISR,
			w.o.Replicas, w.o.MinISR))
	}
	if !w.features.Fenced() {
		w.weaker = append(w.weaker, fmt.Sprintf("the cluster has transaction.version %d (2 begins with brokers of 4.0): an end of a "+
			"transaction that the network held back can end a later one of the same producer epoch", w.features.TransactionVersion))
	}
	return nil
}

// imitation reports whether a cluster of this id is devbroker's or kfake's, which has an id of its own
// where nobody gave it one. A cluster of Kafka has 22 characters of a random id.
func imitation(clusterID string) bool {
	return clusterID == devbroker.ClusterID || clusterID == "kfake"
}

func (w *world) name(end string) string { return name(w.o.Prefix, w.run, end) }

// topic creates a topic of this run, and refuses one that is there: it is somebody else's. A request
// that was sent is waited for even if the run is interrupted, so that it is known what to remove.
func (w *world) topic(ctx context.Context, end string, configs map[string]string) (string, error) {
	if err := context.Cause(ctx); err != nil {
		return "", err
	}
	topic := w.name(end)
	facts, err := wire.TopicFacts(ctx, w.cl, topic)
	if err != nil && !facts.Exists && !errors.Is(err, kerr.TopicAuthorizationFailed) {
		return "", err
	}
	if facts.Exists {
		return "", exists("topic", topic)
	}
	all := map[string]*string{"min.insync.replicas": kadm.StringPtr(strconv.Itoa(w.minISR))}
	for k, v := range configs {
		all[k] = kadm.StringPtr(v)
	}
	sent, cancel := context.WithTimeout(context.WithoutCancel(ctx), stepLimit)
	defer cancel()
	resp, err := w.adm.CreateTopic(sent, 1, w.replicas, all, topic)
	switch {
	case errors.Is(err, kerr.TopicAlreadyExists):
		return "", exists("topic", topic)
	case resp.Err == nil: // created, or the answer was lost: nobody else has this name
		w.made.topics = append(w.made.topics, topic)
	case resp.ErrMessage != "":
		err = fmt.Errorf("%w: %s", err, resp.ErrMessage)
	}
	if err != nil {
		return "", fmt.Errorf("create topic %s: %w", topic, err)
	}
	return topic, everywhere(ctx, w.cl, topic, true)
}

func exists(what, name string) error {
	return stream.NewError("prove", fmt.Errorf("%w: %s %s exists already and was left as it is", stream.ErrConfig, what, name)).
		Hinted("run again, or choose another --prefix")
}

// group is the name of a group of this run, which must not be there. A list has the groups of every
// protocol, of which a description of one has those of the classic one.
func (w *world) group(ctx context.Context, end string) (string, error) {
	group := w.name(end)
	known, err := listGroups(ctx, w.adm)
	if err != nil {
		return "", err
	}
	if _, there := known[group]; there {
		return "", exists("group", group)
	}
	w.made.groups = append(w.made.groups, group)
	return group, nil
}

// listGroups waits for the coordinators: a cluster that never had a group begins to make them when it is
// asked first.
func listGroups(ctx context.Context, adm *kadm.Client) (kadm.ListedGroups, error) {
	var known kadm.ListedGroups
	err := patiently(ctx, func() (err error) {
		known, err = adm.ListGroups(ctx)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("list groups: %w", err)
	}
	return known, nil
}

// patiently calls do until it answers anything but an error that passes by itself, or ctx ends.
func patiently(ctx context.Context, do func() error) error {
	for {
		err := do()
		k, ok := errors.AsType[*kerr.Error](err)
		if !ok || !k.Retriable {
			return err
		}
		if cause := pause(ctx); cause != nil {
			return errors.Join(cause, err)
		}
	}
}

// initialised notes that a transactional id is used, so that no transaction of it is left open.
func (w *world) initialised(id string) {
	if !slices.Contains(w.made.ids, id) {
		w.made.ids = append(w.made.ids, id)
	}
}

func (w *world) log(topic string) wire.Log { return wire.Log{Client: w.cl, Topic: topic} }

// read returns the records of a topic's one partition up to its high watermark. Under read_committed it
// waits for open transactions.
func (w *world) read(ctx context.Context, topic string, committed bool) (found []*kgo.Record, err error) {
	_, end, _, err := w.log(topic).Ends(ctx)
	if err != nil {
		return nil, err
	}
	_, err = w.log(topic).Read(ctx, wire.ReadOptions{To: end, Committed: committed}, func(r *kgo.Record) error {
		found = append(found, r)
		return nil
	})
	return found, err
}

// stable returns the committed offset once no open transaction can change it.
func (w *world) stable(ctx context.Context, group string, p stream.Partition, topicID [16]byte) (int64, error) {
	for {
		o, err := wire.FetchOffset(ctx, w.cl, group, wire.Member{}, p, topicID)
		if !errors.Is(err, kerr.UnstableOffsetCommit) {
			return o.Next, err
		}
		if err := pause(ctx); err != nil {
			return -1, err
		}
	}
}

// pause waits between two looks.
func pause(ctx context.Context) error {
	select {
	case <-time.After(25 * time.Millisecond):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// transactional makes a client of a transactional id and initialises it.
func (w *world) transactional(ctx context.Context, id string) (*kgo.Client, error) {
	cl, err := w.o.Kafka.Client(
		kgo.TransactionalID(id), kgo.TransactionTimeout(transactionTimeout),
		kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerLinger(0))
	if err != nil {
		return nil, err
	}
	if _, _, err := cl.ProducerID(ctx); err != nil {
		cl.Close()
		return nil, fmt.Errorf("initialise transactional id %s: %w", id, err)
	}
	w.initialised(id)
	return cl, nil
}

// write produces records and waits for each promise. A wait that ends with ctx leaves the client to be
// closed, which answers what is left. It returns when the client has noted the partitions: before that it would call a
// transaction ended that it has not.
func write(ctx context.Context, cl *kgo.Client, rs ...*kgo.Record) error {
	promises := make(chan error, len(rs))
	for _, r := range rs {
		cl.Produce(context.WithoutCancel(ctx), r, func(_ *kgo.Record, err error) { promises <- err })
	}
	var all error
	for range rs {
		select {
		case err := <-promises:
			all = errors.Join(all, err)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	if all != nil {
		return all
	}
	for _, r := range rs {
		if err := wire.AwaitNoted(ctx, cl, stream.Partition{Topic: r.Topic, Partition: r.Partition}); err != nil {
			return err
		}
	}
	return nil
}

// code returns the name and number of the broker's error in err: "" if there is none.
func code(err error) (name string, number int16) {
	if k, ok := errors.AsType[*kerr.Error](err); ok {
		return k.Message, k.Code
	}
	return "", 0
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return strconv.Itoa(n) + " " + what + "s"
}
