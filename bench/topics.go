package main

import (
	"context"
	"crypto/rand"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

func unique(prefix string) string { return prefix + "-" + strings.ToLower(rand.Text()[:8]) }

func (e *env) client(opts ...kgo.Opt) (*kgo.Client, error) {
	return kgo.NewClient(append([]kgo.Opt{
		kgo.SeedBrokers(e.addrs...), kgo.MetadataMinAge(100 * time.Millisecond), kgo.AlwaysRetryEOF(),
	}, opts...)...)
}

func (e *env) topic(ctx context.Context, name string, partitions int32, compact bool) (kadm.TopicDetail, error) {
	cl, err := e.client()
	if err != nil {
		return kadm.TopicDetail{}, err
	}
	defer cl.Close()
	admin := kadm.NewClient(cl)
	configs := map[string]*string{}
	if compact {
		configs["cleanup.policy"] = kadm.StringPtr("compact")
	}
	if _, err := admin.CreateTopic(ctx, partitions, -1, configs, name); err != nil {
		return kadm.TopicDetail{}, err
	}
	for { // until every partition has a leader
		ts, err := admin.ListTopics(ctx, name)
		if err != nil {
			return kadm.TopicDetail{}, err
		}
		d, led := ts[name], 0
		for _, p := range d.Partitions {
			if p.Err == nil && p.Leader >= 0 {
				led++
			}
		}
		if led == int(partitions) {
			return d, nil
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			return kadm.TopicDetail{}, ctx.Err()
		}
	}
}

// fill writes n small records over keys keys to one partition.
func (e *env) fill(ctx context.Context, topic string, partition int32, keys, n, valueBytes int) error {
	cl, err := e.client(kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerBatchCompression(kgo.NoCompression()))
	if err != nil {
		return err
	}
	defer cl.Close()
	pad := strings.Repeat("x", valueBytes)
	failed := make(chan error, 1)
	for i := range n {
		r := &kgo.Record{Topic: topic, Partition: partition, Key: []byte("k" + strconv.Itoa(i%keys)), Value: []byte(strconv.Itoa(i) + pad)}
		cl.Produce(ctx, r, func(_ *kgo.Record, err error) {
			if err != nil {
				select {
				case failed <- err:
				default:
				}
			}
		})
	}
	if err := cl.Flush(ctx); err != nil {
		return err
	}
	select {
	case err := <-failed:
		return fmt.Errorf("fill %s: %w", topic, err)
	default:
		return nil
	}
}
