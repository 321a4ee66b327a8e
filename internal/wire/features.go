package wire

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"
)

// Features are the facts about a cluster that decide how a transaction is spoken.
type Features struct {
	// TransactionVersion is the finalized feature transaction.version. From 2 on, each end of a
	// transaction raises the producer epoch, so that a delayed request cannot act on the next one.
	TransactionVersion int16
	// TxnOffsetCommit is the least of the newest versions of TxnOffsetCommit that the brokers speak.
	// Below 5 the group must be added to the transaction by AddOffsetsToTxn.
	TxnOffsetCommit int16
	// Brokers is the number of brokers that answered; 0: nobody was asked.
	Brokers int
}

// Versions is what the brokers that answered speak.
type Versions struct {
	// Least has, of the requests that a component may send, the least of the newest versions; -1: a broker
	// does not know the request.
	Least map[kmsg.Key]int16
	// Oldest is what the versions of the oldest broker look like, as "v3.9".
	Oldest string
	// ServerSide is what they can do of KIP-848.
	ServerSide ServerSide
}

// Fenced reports whether a delayed request of one transaction is refused in the next one.
func (f Features) Fenced() bool { return f.TransactionVersion >= 2 }

// addOffsetsBelow is the version of TxnOffsetCommit from which it adds the group by itself.
const addOffsetsBelow = 5

// AddOffsets reports whether the group must be added to a transaction by its own request.
func (f Features) AddOffsets() bool { return f.TxnOffsetCommit < addOffsetsBelow }

// brokerPatience bounds the wait for one broker's versions.
const brokerPatience = 3 * time.Second

// LookupFeatures asks every broker of the cluster, because a coordinator can move to any of them.
// A broker that does not answer is taken for an old one, which costs each transaction a request that
// does no harm: a broker that is down must not hinder a takeover. It fails if none answers.
func LookupFeatures(ctx context.Context, cl *kgo.Client) (Features, error) {
	f, _, err := LookupVersions(ctx, cl)
	return f, err
}

// LookupVersions is LookupFeatures, and says what the brokers speak beside.
func LookupVersions(ctx context.Context, cl *kgo.Client) (Features, Versions, error) {
	answers, faults, err := untilTold(ctx, func(ctx context.Context) ([]*kmsg.ApiVersionsResponse, []error, error) { return askVersions(ctx, cl) })
	if err != nil {
		return Features{}, Versions{}, err
	}
	f, v := Features{TxnOffsetCommit: math.MaxInt16}, Versions{Least: map[kmsg.Key]int16{}}
	oldest := math.MaxInt
	var told []*kmsg.ApiVersionsResponse
	for i, a := range answers {
		if faults[i] != nil {
			f.TxnOffsetCommit = min(f.TxnOffsetCommit, addOffsetsBelow-1)
			continue
		}
		told = append(told, a)
		f.TxnOffsetCommit = min(f.TxnOffsetCommit, maxVersion(a, kmsg.TxnOffsetCommit))
		v.add(a)
		if sum := versionSum(a); sum < oldest {
			oldest, v.Oldest = sum, kversion.FromApiVersionsResponse(a).VersionGuess()
		}
	}
	f.Brokers = len(told)
	if f.Brokers == 0 {
		return Features{}, Versions{}, errors.Join(append(faults, errors.New("no broker told its versions"))...)
	}
	f.TransactionVersion = finalized(told, "transaction.version")
	v.ServerSide = serverSideOf(told)
	return f, v, nil
}

// finalized is the level of a feature as the broker has it that knows the newest; 0: it is not finalized.
func finalized(answers []*kmsg.ApiVersionsResponse, feature string) (level int16) {
	epoch := int64(-2) // below the -1 of a broker that has no finalized features
	for _, a := range answers {
		if a.FinalizedFeaturesEpoch <= epoch {
			continue
		}
		epoch, level = a.FinalizedFeaturesEpoch, 0
		for _, f := range a.FinalizedFeatures {
			if f.Name == feature {
				level = f.MaxVersionLevel
			}
		}
	}
	return level
}

// silentRounds is how often brokers are asked that are all silent.
const silentRounds = 10

// untilTold asks again as long as no broker says anything at all. One that is slow is left out where others
// have answered; where it is the only one, a start would fail by it.
func untilTold(ctx context.Context, ask func(context.Context) ([]*kmsg.ApiVersionsResponse, []error, error)) (answers []*kmsg.ApiVersionsResponse, faults []error, err error) {
	for range silentRounds {
		answers, faults, err = ask(ctx)
		if err != nil || len(faults) == 0 || ctx.Err() != nil {
			break
		}
		if slices.ContainsFunc(faults, func(err error) bool { return !errors.Is(err, context.DeadlineExceeded) }) {
			break // an answer, or an error that is one
		}
	}
	return answers, faults, err
}

// askVersions asks every broker what it speaks: an answer or a fault for each.
func askVersions(ctx context.Context, cl *kgo.Client) (answers []*kmsg.ApiVersionsResponse, faults []error, err error) {
	meta := kmsg.NewPtrMetadataRequest()
	meta.Topics = []kmsg.MetadataRequestTopic{}
	brokers, err := meta.RequestWith(ctx, cl)
	if err != nil {
		return nil, nil, fmt.Errorf("list brokers: %w", err)
	}
	answers = make([]*kmsg.ApiVersionsResponse, len(brokers.Brokers))
	faults = make([]error, len(brokers.Brokers))
	var asking sync.WaitGroup
	for i, b := range brokers.Brokers {
		asking.Go(func() { answers[i], faults[i] = versionsOf(ctx, cl, b.NodeID) })
	}
	asking.Wait()
	return answers, faults, nil
}

// spoken are the requests whose versions decide whether a component can run.
var spoken = []kmsg.Key{
	kmsg.InitProducerID, kmsg.TxnOffsetCommit, kmsg.OffsetFetch, kmsg.JoinGroup, kmsg.OffsetForLeaderEpoch,
	kmsg.ConsumerGroupHeartbeat, kmsg.DescribeProducers, kmsg.ListTransactions,
}

func (v Versions) add(a *kmsg.ApiVersionsResponse) {
	for _, key := range spoken {
		newest := maxVersion(a, key)
		if least, ok := v.Least[key]; !ok || newest < least {
			v.Least[key] = newest
		}
	}
}

// versionSum grows with each release, so that the least one is the oldest broker's.
func versionSum(a *kmsg.ApiVersionsResponse) (sum int) {
	for _, k := range a.ApiKeys {
		sum += int(k.MaxVersion) + 1
	}
	return sum
}

func versionsOf(ctx context.Context, cl *kgo.Client, node int32) (*kmsg.ApiVersionsResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, brokerPatience)
	defer cancel()
	req := kmsg.NewPtrApiVersionsRequest()
	req.ClientSoftwareName, req.ClientSoftwareVersion = "holdfast", "devel"
	kresp, err := cl.Broker(int(node)).Request(ctx, req)
	if err != nil {
		return nil, fmt.Errorf("ask broker %d for its versions: %w", node, err)
	}
	resp := kresp.(*kmsg.ApiVersionsResponse)
	if err := kerr.ErrorForCode(resp.ErrorCode); err != nil {
		return nil, fmt.Errorf("ask broker %d for its versions: %w", node, err)
	}
	return resp, nil
}

func maxVersion(resp *kmsg.ApiVersionsResponse, key kmsg.Key) int16 {
	for _, k := range resp.ApiKeys {
		if k.ApiKey == int16(key) {
			return k.MaxVersion
		}
	}
	return -1
}
