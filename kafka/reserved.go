package kafka

import (
	"context"
	"fmt"
	"reflect"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"

	"github.com/holdfast-go/holdfast/stream"
)

// reservedOption is a kgo option that may not be in Config.Opts.
type reservedOption struct {
	name string
	use  string // what to do instead
}

const (
	useOwner   = "remove it; the component owns the group's callbacks and calls them in the one safe order"
	useCommit  = "remove it; offsets are committed in the transaction, never by the client on its own"
	useMember  = "remove it; set the field of Member instead"
	useInputs  = "remove it; name the topics in Inputs"
	useStart   = "remove it; set Start, which resolves the first offset once and commits it"
	useNothing = "remove it; a guarantee rests on its default"
	useBudget  = "remove it; set FetchBudget: a quarter of it bounds what one batch takes in memory"
	useShare   = "remove it; a share group has no owner of a partition, so nothing could be fenced"
)

// reservedOptions lists the kgo options that a guarantee rests on. The test of this table fails when
// kgo has an option that is neither here nor on its list of allowed ones.
var reservedOptions = [...]reservedOption{
	{"SeedBrokers", "remove it; set Brokers"},
	{"WithContext", "remove it; give the context to Run: ending the client's own context would cut a drain short"},
	{"AllowAutoTopicCreation", "remove it; a mistyped topic must be an error, and a snapshot topic must be compacted"},

	{"TransactionalID", "remove it; the id is made of group, snapshot topic and partition, so that only one owner can hold it"},
	{"TransactionTimeout", "remove it; set Member's transaction timeout"},
	{"RequiredAcks", useNothing},
	{"DisableIdempotentWrite", useNothing},
	{"AllowIdempotentProduceCancellation", useNothing},
	{"MaxProduceRequestsInflightPerBroker", useNothing},
	{"StopProducerOnDataLossDetected", useNothing},
	{"RecordPartitioner", "remove it; a snapshot goes to the partition number of its input"},
	{"DefaultProduceTopic", "remove it; every message names its topic"},
	{"DefaultProduceTopicAlways", "remove it; it would send snapshots to another topic"},
	{"ManualFlushing", "remove it; the writer flushes before it commits"},
	{"ProducerLinger", "remove it; the commit batch decides when records are sent: set Commit.Interval"},
	{"UnknownTopicRetries", "remove it; a missing topic has to fail the transaction within a bound"},

	{"ConsumerGroup", "remove it; set Group"},
	{"InstanceID", useMember},
	{"Balancers", useMember},
	{"BalanceRacks", "remove it; partition n of all inputs must have one owner, and placing by rack may part them"},
	{"ServerSideBalancer", useMember},
	{"GroupProtocol", useMember},
	{"SessionTimeout", useMember},
	{"RebalanceTimeout", useMember},
	{"HeartbeatInterval", useMember},
	{"BlockRebalanceOnPoll", useOwner},
	{"OnPartitionsAssigned", useOwner},
	{"OnPartitionsRevoked", useOwner},
	{"OnPartitionsLost", useOwner},
	{"OnPartitionsCallbackBlocked", useOwner},
	{"OnOffsetsFetched", useOwner},
	{"AdjustFetchOffsetsFn", useOwner},
	{"RequireStableFetchOffsets", "remove it; it is always on"},
	{"DisableAutoCommit", useCommit},
	{"GreedyAutoCommit", useCommit},
	{"AutoCommitInterval", useCommit},
	{"AutoCommitMarks", useCommit},
	{"AutoCommitCallback", useCommit},

	{"ConsumeTopics", useInputs},
	{"ConsumePartitions", useInputs},
	{"ConsumeRegex", useInputs},
	{"ConsumeExcludeTopics", useInputs},
	{"ConsumeStartOffset", useStart},
	{"ConsumeResetOffset", "remove it; an offset that is out of range stops the partition, and Start says what then"},
	{"FetchIsolationLevel", "remove it; aborted records must never be read"},
	{"KeepControlRecords", useNothing},
	{"KeepRetryableFetchErrors", "remove it; the client retries them"},
	{"DisableFetchCRCValidation", "remove it; a corrupted record must not reach the state"},
	{"MaxDecompressBatchBytes", useBudget},
	{"BrokerMaxReadBytes", useBudget},

	{"ShareGroup", useShare},
	{"ShareMaxRecords", useShare},
	{"ShareMaxRecordsStrict", useShare},
	{"ShareAckCallback", useShare},
}

// Reserved returns the names of the kgo options that Config.Opts may not contain.
func Reserved() []string {
	names := make([]string, len(reservedOptions))
	for i, r := range reservedOptions {
		names[i] = r.name
	}
	return names
}

// neededVersions are the lowest request versions that the fenced guarantees need. MaxVersions is
// allowed, because it is how to talk to a broker that announces a version it does not implement
// well, but not below these.
var neededVersions = [...]struct {
	key kmsg.Key
	min int16
	why string
}{
	{kmsg.Produce, 3, "transactional record batches"},
	{kmsg.Fetch, 4, "read_committed"},
	{kmsg.OffsetFetch, 7, "stable offsets"},
	{kmsg.JoinGroup, 5, "a member id that is known before it joins"},
	{kmsg.InitProducerID, 3, "an epoch that can be raised"},
	{kmsg.AddPartitionsToTxn, 0, "transactions"},
	{kmsg.AddOffsetsToTxn, 0, "offsets in a transaction"},
	{kmsg.EndTxn, 0, "transactions"},
	{kmsg.TxnOffsetCommit, 3, "offsets bound to member and generation"},
}

// snapshot holds the values of options of a client that was never started.
type snapshot map[string][]any

func (s snapshot) one(name string) any {
	if v := s[name]; len(v) > 0 {
		return v[0]
	}
	return nil
}

// connectionOptions are the allowed options whose values ClientOpts needs to know.
var connectionOptions = [...]string{"Dialer", "DialTimeout", "DialTLSConfig", "SASL", "MaxVersions", "ClientID", "WithHooks"}

// taker is a kgo hook that reads the options of a client being made and then stops the making.
type taker struct{ snap snapshot }

// stopHere is what taker panics with.
type stopHere struct{}

// OnNewClient is called by kgo once it has checked the options and before it starts any goroutine or
// calls any hook of the user, for taker is the first hook. The panic keeps it from going on: a client
// of the user's options would start to consume, and nothing may be sent just to read options.
func (t *taker) OnNewClient(cl *kgo.Client) {
	t.snap = snapshot{}
	for _, r := range reservedOptions {
		t.snap[r.name] = cl.OptValues(r.name)
	}
	for _, name := range connectionOptions {
		t.snap[name] = cl.OptValues(name)
	}
	panic(stopHere{})
}

// values returns the values that kgo makes of opts, or kgo's refusal.
func values(opts ...kgo.Opt) (snap snapshot, err error) {
	t := &taker{}
	defer func() {
		switch p := recover().(type) {
		case nil:
		case stopHere:
			snap, err = t.snap, nil
		default:
			panic(p)
		}
	}()
	_, err = kgo.NewClient(append([]kgo.Opt{kgo.WithHooks(t)}, opts...)...)
	return nil, err
}

// bases returns the options that are put before the ones to be looked at. kgo refuses some options
// unless another is there; each base makes up for one such case. What is common to them has two
// reasons: an option that is set to kgo's default is found too, and kgo makes its partitioner and
// balancers afresh for each client, so that two defaults would never compare equal.
func bases() [][]kgo.Opt {
	common := []kgo.Opt{
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.Balancers(kgo.CooperativeStickyBalancer()),
		kgo.SeedBrokers("base"),
		kgo.WithContext(context.Background()),
		kgo.TransactionTimeout(time.Second),
		kgo.UnknownTopicRetries(9),
		kgo.ProducerLinger(time.Nanosecond),
		kgo.GroupProtocol("base"),
		kgo.SessionTimeout(time.Hour),
		kgo.RebalanceTimeout(time.Hour),
		kgo.HeartbeatInterval(time.Nanosecond),
		kgo.AutoCommitInterval(time.Hour),
		kgo.ConsumeStartOffset(kgo.NewOffset().At(9)),
		kgo.ConsumeResetOffset(kgo.NewOffset().At(9)),
	}
	with := func(o ...kgo.Opt) []kgo.Opt { return append(append([]kgo.Opt{}, common...), o...) }
	return [][]kgo.Opt{
		common,
		with(kgo.ConsumerGroup("base")),
		with(kgo.DisableIdempotentWrite()),
		with(kgo.ConsumerGroup("base"), kgo.DisableIdempotentWrite()),
		with(kgo.ConsumeRegex()),
		with(kgo.ShareGroup("base")),
		with(kgo.DefaultProduceTopic("base")),
	}
}

// inspect finds the reserved options among opts, and the values of the connection's options. The
// snapshot is nil if kgo refuses opts whatever else is set.
func inspect(opts []kgo.Opt) (snapshot, []error) {
	for i, o := range opts {
		if o == nil {
			return nil, []error{fault(fmt.Sprintf("Opts[%d] is nil", i), "remove it")}
		}
	}
	snap, found, err := against(opts)
	if err == nil {
		return snap, append(refusals(found), versionFaults(snap)...)
	}
	// kgo refuses the options together, most often because of one that is reserved anyway. Each is
	// looked at alone, so that the names come out.
	seen := map[string]bool{}
	for _, o := range opts {
		if _, names, oerr := against([]kgo.Opt{o}); oerr == nil {
			for n := range names {
				seen[n] = true
			}
		}
	}
	return nil, append(refusals(seen), fault(fmt.Sprintf("kgo refuses Opts: %v", err), "correct the options"))
}

// against compares opts with the first base under which kgo accepts them, and returns the reserved
// options that they set. The error is the one of the first base.
func against(opts []kgo.Opt) (snapshot, map[string]bool, error) {
	var first error
	for _, base := range bases() {
		with, err := values(append(append([]kgo.Opt{}, base...), opts...)...)
		if err != nil {
			if first == nil {
				first = err
			}
			continue
		}
		without, err := values(base...)
		if err != nil {
			return nil, nil, err
		}
		found := map[string]bool{}
		for _, r := range reservedOptions {
			if !reflect.DeepEqual(with[r.name], without[r.name]) {
				found[r.name] = true
			}
		}
		return with, found, nil
	}
	return nil, nil, first
}

// refusals returns one error for each reserved option in found, in the order of the table.
func refusals(found map[string]bool) []error {
	var errs []error
	for _, r := range reservedOptions {
		if found[r.name] {
			errs = append(errs, stream.NewError("kafka configuration",
				fmt.Errorf("%w: kgo.%s", stream.ErrReservedOption, r.name)).Hinted("%s", r.use))
		}
	}
	return errs
}

// versionFaults checks MaxVersions against what the guarantees need.
func versionFaults(snap snapshot) []error {
	v, ok := snap.one("MaxVersions").(*kversion.Versions)
	if !ok || v == nil {
		return nil
	}
	var errs []error
	for _, n := range neededVersions {
		if max, known := v.LookupMaxKeyVersion(n.key.Int16()); !known || max < n.min {
			errs = append(errs, stream.NewError("kafka configuration",
				fmt.Errorf("%w: kgo.MaxVersions allows %s only below version %d, which is needed for %s",
					stream.ErrReservedOption, n.key.Name(), n.min, n.why)).
				Hinted("raise it to version %d or more, or remove kgo.MaxVersions", n.min))
		}
	}
	return errs
}
