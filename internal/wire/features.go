package wire

import (
	"context"
	"fmt"
	"math"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Features are the facts about a cluster that decide how a transaction is spoken.
type Features struct {
	// TransactionVersion is the finalized feature transaction.version. From 2 on, each end of a
	// transaction raises the producer epoch, so that a delayed request cannot act on the next one.
	TransactionVersion int16
	// TxnOffsetCommit is the least of the newest versions of TxnOffsetCommit that the brokers speak.
	// Below 5 the group must be added to the transaction by AddOffsetsToTxn.
	TxnOffsetCommit int16
	// Brokers is the number of brokers that were asked.
	Brokers int
}

// Fenced reports whether a delayed request of one transaction is refused in the next one.
func (f Features) Fenced() bool { return f.TransactionVersion >= 2 }

// LookupFeatures asks every broker of the cluster. A coordinator can move to any of them, so one
// that does not answer fails the look-up.
func LookupFeatures(ctx context.Context, cl *kgo.Client) (Features, error) {
	meta := kmsg.NewPtrMetadataRequest()
	meta.Topics = []kmsg.MetadataRequestTopic{}
	brokers, err := meta.RequestWith(ctx, cl)
	if err != nil {
		return Features{}, fmt.Errorf("list brokers: %w", err)
	}
	f := Features{TxnOffsetCommit: math.MaxInt16, Brokers: len(brokers.Brokers)}
	epoch := int64(-2) // below the -1 of a broker that has no finalized features
	for _, b := range brokers.Brokers {
		req := kmsg.NewPtrApiVersionsRequest()
		req.ClientSoftwareName, req.ClientSoftwareVersion = "holdfast", "devel"
		kresp, err := cl.Broker(int(b.NodeID)).RetriableRequest(ctx, req)
		if err != nil {
			return Features{}, fmt.Errorf("ask broker %d for its versions: %w", b.NodeID, err)
		}
		resp := kresp.(*kmsg.ApiVersionsResponse)
		if err := kerr.ErrorForCode(resp.ErrorCode); err != nil {
			return Features{}, fmt.Errorf("ask broker %d for its versions: %w", b.NodeID, err)
		}
		f.TxnOffsetCommit = min(f.TxnOffsetCommit, maxVersion(resp, kmsg.TxnOffsetCommit))
		if resp.FinalizedFeaturesEpoch <= epoch {
			continue
		}
		epoch = resp.FinalizedFeaturesEpoch
		for _, feature := range resp.FinalizedFeatures {
			if feature.Name == "transaction.version" {
				f.TransactionVersion = feature.MaxVersionLevel
			}
		}
	}
	return f, nil
}

func maxVersion(resp *kmsg.ApiVersionsResponse, key kmsg.Key) int16 {
	for _, k := range resp.ApiKeys {
		if k.ApiKey == int16(key) {
			return k.MaxVersion
		}
	}
	return -1
}
