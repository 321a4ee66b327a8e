package wire

import (
	"context"
	"fmt"
	"slices"
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
	brokers, err := BrokerConfigs(ctx, cl, maxTransactionTimeout)
	if err != nil {
		return 0, err
	}
	var least time.Duration
	for _, ms := range brokers.Numbers(maxTransactionTimeout) {
		if limit := time.Duration(ms) * time.Millisecond; limit > 0 && (least == 0 || limit < least) {
			least = limit
		}
	}
	return least, nil
}

// Configs are some configurations of those brokers that have told them.
type Configs []map[string]string

// Numbers returns what the brokers have for a configuration that is a whole number.
func (c Configs) Numbers(name string) (out []int64) {
	for _, of := range c {
		if n, err := strconv.ParseInt(of[name], 10, 64); err == nil {
			out = append(out, n)
		}
	}
	return out
}

// BrokerConfigs asks every broker for configurations. Those that do not answer, or do not let the
// principal describe their configuration, are left out. It fails if the brokers cannot be listed.
func BrokerConfigs(ctx context.Context, cl *kgo.Client, names ...string) (Configs, error) {
	meta := kmsg.NewPtrMetadataRequest()
	meta.Topics = []kmsg.MetadataRequestTopic{}
	brokers, err := meta.RequestWith(ctx, cl)
	if err != nil {
		return nil, fmt.Errorf("list brokers: %w", err)
	}
	answers := make(Configs, len(brokers.Brokers))
	var asking sync.WaitGroup
	for i, b := range brokers.Brokers {
		asking.Go(func() { answers[i] = configsOf(ctx, cl, b.NodeID, names) })
	}
	asking.Wait()
	return slices.DeleteFunc(answers, func(m map[string]string) bool { return m == nil }), nil
}

// configsOf asks one broker. nil: it has not told.
func configsOf(ctx context.Context, cl *kgo.Client, node int32, names []string) map[string]string {
	ctx, cancel := context.WithTimeout(ctx, brokerPatience)
	defer cancel()
	req := kmsg.NewPtrDescribeConfigsRequest()
	r := brokerResource(node)
	r.ConfigNames = names
	req.Resources = append(req.Resources, r)
	kresp, err := cl.Broker(int(node)).RetriableRequest(ctx, req)
	if err != nil {
		return nil
	}
	out := map[string]string{}
	for _, r := range kresp.(*kmsg.DescribeConfigsResponse).Resources {
		if kerr.ErrorForCode(r.ErrorCode) != nil {
			return nil
		}
		for _, c := range r.Configs {
			if c.Value != nil {
				out[c.Name] = *c.Value
			}
		}
	}
	return out
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
