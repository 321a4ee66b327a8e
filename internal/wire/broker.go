package wire

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// maxTransactionTimeout is the broker's name for the longest timeout that a producer may ask for.
const maxTransactionTimeout = "transaction.max.timeout.ms"

// MaxTransactionTimeout returns the longest transaction timeout that every broker allows: a coordinator
// can be any of them. Brokers that do not answer, or do not let the principal describe their
// configuration, are left out; 0: none has told. It fails if the brokers cannot be listed.
func MaxTransactionTimeout(ctx context.Context, cl *kgo.Client) (time.Duration, error) {
	meta := kmsg.NewPtrMetadataRequest()
	meta.Topics = []kmsg.MetadataRequestTopic{}
	brokers, err := meta.RequestWith(ctx, cl)
	if err != nil {
		return 0, fmt.Errorf("list brokers: %w", err)
	}
	limits := make([]time.Duration, len(brokers.Brokers))
	var asking sync.WaitGroup
	for i, b := range brokers.Brokers {
		asking.Go(func() { limits[i] = timeoutLimit(ctx, cl, b.NodeID) })
	}
	asking.Wait()
	var least time.Duration
	for _, limit := range limits {
		if limit > 0 && (least == 0 || limit < least) {
			least = limit
		}
	}
	return least, nil
}

// timeoutLimit asks one broker. 0: it has not told.
func timeoutLimit(ctx context.Context, cl *kgo.Client, node int32) time.Duration {
	ctx, cancel := context.WithTimeout(ctx, brokerPatience)
	defer cancel()
	req := kmsg.NewPtrDescribeConfigsRequest()
	r := kmsg.NewDescribeConfigsRequestResource()
	r.ResourceType, r.ResourceName = kmsg.ConfigResourceTypeBroker, strconv.Itoa(int(node))
	r.ConfigNames = []string{maxTransactionTimeout}
	req.Resources = append(req.Resources, r)
	kresp, err := cl.Broker(int(node)).RetriableRequest(ctx, req)
	if err != nil {
		return 0
	}
	for _, r := range kresp.(*kmsg.DescribeConfigsResponse).Resources {
		if kerr.ErrorForCode(r.ErrorCode) != nil {
			return 0
		}
		for _, c := range r.Configs {
			if c.Name != maxTransactionTimeout || c.Value == nil {
				continue
			}
			if ms, err := strconv.ParseInt(*c.Value, 10, 64); err == nil {
				return time.Duration(ms) * time.Millisecond
			}
		}
	}
	return 0
}
