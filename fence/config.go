package fence

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/kafka"
	"github.com/holdfast-go/holdfast/stream"
)

// Defaults of Config.
const (
	// DefaultMaxWrites bounds the records of one transaction.
	DefaultMaxWrites = 256
	// DefaultMaxBytes bounds the bytes of one transaction. A transaction costs some 4 ms whatever is
	// in it, in which a broker takes in about 400 KiB; at ten times that the fixed cost is small and
	// the transaction still lasts well below 100 ms.
	DefaultMaxBytes = 4 << 20
	// DefaultMaxRecordBytes is the client's own limit for a batch, just below the brokers' default
	// max.message.bytes of 1 MiB + 12.
	DefaultMaxRecordBytes = 1_000_012
	// MaxTransactionTimeout is also the default. Until it has passed, readers of the topic wait for a
	// transaction whose owner died and that nobody took over.
	MaxTransactionTimeout = 30 * time.Second
)

// Config says what a Writer writes, and as whom.
type Config struct {
	Kafka kafka.Config
	Group string // required: consumer group that commits the input offset
	// Input is the owned input partition, Progress the partition of the compacted topic that holds
	// the snapshots or the progress records. Both are required.
	Input, Progress stream.Partition
	// InputTopicID is checked by brokers that know topics by id. Zero: Open looks it up by name.
	InputTopicID [16]byte
	// InputPartitions is written into the progress record, so that a later owner can see that the
	// topic was resized.
	InputPartitions int32
	Ownership       *Ownership // required: every transaction is written under it
	// MaxWrites and MaxBytes bound the records of one transaction; one call's records always go into
	// one transaction, whole. Zero: DefaultMaxWrites, DefaultMaxBytes.
	MaxWrites int
	MaxBytes  int64
	// MaxRecordBytes is the max.message.bytes of the progress topic, or less. Zero:
	// DefaultMaxRecordBytes.
	MaxRecordBytes int
	// Outputs describes other topics that messages may name. One that is not in it is written to by
	// key, with DefaultMaxRecordBytes as the limit.
	Outputs map[string]Output
	// TransactionTimeout is how long the broker keeps a transaction open that does not end. Zero:
	// MaxTransactionTimeout, and more is refused.
	TransactionTimeout time.Duration
	// FoldVersion and Incarnation are written into the progress records.
	FoldVersion string
	Incarnation uint32
	// Features of the cluster, from LookupFeatures, for who opens many writers. Zero: Open looks them
	// up, which asks every broker.
	Features Features
	// Unknown, if not nil, is called when the outcome of a transaction became unknown, before it is
	// read back, once a transaction. The caller must not fold until the call that waits for that
	// transaction returns: what it would fold on may turn out not to be committed.
	Unknown func(error)
	// Kind names what writes: "" for a flow, or another kind of component. It is kept with the committed
	// offsets, so that one kind does not go on from another's.
	Kind   string
	Hooks  []stream.Hooks // Committed and Refused are called
	Logger *slog.Logger   // nil: discard
}

// Output says how a topic besides the progress topic is written to.
type Output struct {
	// Partition is where all of its records go. nil: Kafka's default partitioner decides, murmur2 over
	// the key as Java's clients have it.
	Partition *int32
	// MaxRecordBytes is the topic's max.message.bytes, or less. Zero: DefaultMaxRecordBytes.
	MaxRecordBytes int
}

// limit is the largest record that goes to a topic; "" is the progress topic.
func (c Config) limit(topic string) int {
	if topic == "" || topic == c.Progress.Topic {
		return c.MaxRecordBytes
	}
	return orDefault(c.Outputs[topic].MaxRecordBytes, DefaultMaxRecordBytes)
}

// Features are the facts about a cluster that decide how a transaction is spoken.
type Features struct {
	// TransactionVersion is the finalized feature transaction.version; 0: the cluster has none.
	TransactionVersion int16
	// TxnOffsetCommit is the least of the newest versions of TxnOffsetCommit that the brokers speak.
	TxnOffsetCommit int16
	// Brokers is the number of brokers that answered; 0: nobody was asked.
	Brokers int
}

// LookupFeatures asks every broker of the cluster for Config.Features. They change with an upgrade of
// the cluster alone: one look-up is enough for all writers of a process. It fails if no broker answers.
func LookupFeatures(ctx context.Context, k kafka.Config) (Features, error) {
	cl, err := k.Client()
	if err != nil {
		return Features{}, err
	}
	defer cl.Close()
	f, err := wire.LookupFeatures(ctx, cl)
	if err != nil {
		return Features{}, stream.NewError("look features up", kafka.Explain(err))
	}
	return Features(f), nil
}

func (c Config) resolved() (Config, error) {
	var faults []error
	fault := func(format string, args ...any) {
		faults = append(faults, fmt.Errorf(format, args...))
	}
	if c.Group == "" {
		fault("Group is empty")
	}
	if c.Input.Topic == "" || c.Input.Partition < 0 {
		fault("Input is not a partition: %v", c.Input)
	}
	if c.Progress.Topic == "" || c.Progress.Partition < 0 {
		fault("Progress is not a partition: %v", c.Progress)
	}
	switch {
	case c.Ownership == nil:
		fault("Ownership is nil")
	case c.Ownership.Partition().Partition != c.Input.Partition:
		fault("Ownership is of %v, Input is %v", c.Ownership.Partition(), c.Input)
	}
	if c.MaxWrites < 0 || c.MaxBytes < 0 || c.MaxRecordBytes < 0 {
		fault("MaxWrites %d, MaxBytes %d or MaxRecordBytes %d is negative", c.MaxWrites, c.MaxBytes, c.MaxRecordBytes)
	}
	if c.TransactionTimeout < 0 || c.TransactionTimeout > MaxTransactionTimeout {
		fault("TransactionTimeout is %v, not between 0 and %v", c.TransactionTimeout, MaxTransactionTimeout)
	}
	if len(faults) > 0 {
		return c, stream.NewError("open writer", errors.Join(append(faults, stream.ErrConfig)...))
	}
	c.MaxWrites = orDefault(c.MaxWrites, DefaultMaxWrites)
	c.MaxBytes = orDefault(c.MaxBytes, DefaultMaxBytes)
	c.MaxRecordBytes = orDefault(c.MaxRecordBytes, DefaultMaxRecordBytes)
	c.TransactionTimeout = orDefault(c.TransactionTimeout, MaxTransactionTimeout)
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	c.Logger = c.Logger.With("group", c.Group, "partition", c.Input.String(), "ownership", c.Ownership.Number())
	return c, nil
}

func orDefault[T comparable](v, def T) T {
	var zero T
	if v == zero {
		return def
	}
	return v
}

// TransactionalID returns the transactional id that belongs to one partition of one snapshot or
// progress topic under one group. Different arguments never give the same id: a group name may hold
// any character, so its length goes in front of it.
func TransactionalID(group, topic string, partition int32) string {
	var b strings.Builder
	b.WriteString("holdfast-")
	b.WriteString(strconv.Itoa(len(group)))
	b.WriteByte('-')
	b.WriteString(group)
	b.WriteByte('-')
	b.WriteString(topic)
	b.WriteByte('-')
	b.WriteString(strconv.FormatInt(int64(partition), 10))
	return b.String()
}
