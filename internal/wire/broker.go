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
		asking.Go(func() {
			limits[i] = timeOf(ctx, cl.Broker(int(b.NodeID)), brokerResource(b.NodeID), maxTransactionTimeout)
		})
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

func brokerResource(node int32) kmsg.DescribeConfigsRequestResource {
	r := kmsg.NewDescribeConfigsRequestResource()
	r.ResourceType, r.ResourceName = kmsg.ConfigResourceTypeBroker, strconv.Itoa(int(node))
	return r
}

// timeOf asks a broker for one configuration in milliseconds. 0: it has not told.
func timeOf(ctx context.Context, broker *kgo.Broker, of kmsg.DescribeConfigsRequestResource, name string) time.Duration {
	ctx, cancel := context.WithTimeout(ctx, brokerPatience)
	defer cancel()
	req := kmsg.NewPtrDescribeConfigsRequest()
	of.ConfigNames = []string{name}
	req.Resources = append(req.Resources, of)
	kresp, err := broker.RetriableRequest(ctx, req)
	if err != nil {
		return 0
	}
	for _, r := range kresp.(*kmsg.DescribeConfigsResponse).Resources {
		if kerr.ErrorForCode(r.ErrorCode) != nil {
			return 0
		}
		for _, c := range r.Configs {
			if c.Name != name || c.Value == nil {
				continue
			}
			if ms, err := strconv.ParseInt(*c.Value, 10, 64); err == nil {
				return time.Duration(ms) * time.Millisecond
			}
		}
	}
	return 0
}
