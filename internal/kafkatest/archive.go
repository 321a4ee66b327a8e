package kafkatest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// makeArchive writes the class data sharing archive once for each version and JVM: a broker that is
// stopped in order writes the classes it has loaded, and later JVMs map them instead of loading and
// verifying. It halves the start.
func (in install) makeArchive(ctx context.Context) error {
	if exists(in.archive()) {
		return nil
	}
	unlock, err := in.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	if exists(in.archive()) { // another test binary made it while this one waited
		return nil
	}
	tmp := in.archive() + ".part"
	opts, err := Options{Version: in.version}.withDefaults()
	if err != nil {
		return err
	}
	defer os.Remove(tmp)
	if err := in.record(ctx, opts, tmp); err != nil {
		return fmt.Errorf("kafkatest: class data sharing archive of Kafka %s: %w", in.version, err)
	}
	// The rename comes last: an archive that is there is a complete one.
	if err := os.Rename(tmp, in.archive()); err != nil {
		return fmt.Errorf("kafkatest: class data sharing archive of Kafka %s: %w", in.version, err)
	}
	return nil
}

// record runs a broker that writes its archive to path at its end.
func (in install) record(ctx context.Context, opts Options, path string) error {
	c, err := open(ctx, in, opts, false, path)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	return errors.Join(exercise(ctx, c.Addrs), c.Brokers[0].Stop(ctx), c.Close())
}

// exercise makes a broker load the classes that tests need: topics, transactions, groups.
func exercise(ctx context.Context, addrs []string) error {
	const topic = "warm-up"
	cl, err := kgo.NewClient(kgo.SeedBrokers(addrs...), kgo.TransactionalID(topic), kgo.MetadataMinAge(100*time.Millisecond),
		kgo.DefaultProduceTopic(topic), kgo.ConsumerGroup(topic), kgo.ConsumeTopics(topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.DisableAutoCommit())
	if err != nil {
		return err
	}
	defer cl.Close()
	if _, err := kadm.NewClient(cl).CreateTopic(ctx, 1, -1, nil, topic); err != nil {
		return err
	}
	if err := cl.BeginTransaction(); err != nil {
		return err
	}
	if err := cl.ProduceSync(ctx, kgo.StringRecord(topic)).FirstErr(); err != nil {
		return err
	}
	// The client may call this first commit done and not have sent it, and the broker then has loaded a few classes less.
	if err := cl.EndTransaction(ctx, kgo.TryCommit); err != nil {
		return err
	}
	return cl.PollFetches(ctx).Err()
}
