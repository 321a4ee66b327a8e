package main

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/holdfast-go/holdfast/dlq"
	"github.com/holdfast-go/holdfast/kafka"
)

// report shows what a reader finds: the validated events, and why the others were rejected.
func report(ctx context.Context, cluster kafka.Config) error {
	if err := read(ctx, cluster); err != nil {
		return err
	}
	for letter, err := range dlq.All(ctx, cluster, "events-rejected") {
		if err != nil {
			return err
		}
		fmt.Printf("rejected: offset %d of %s: %s\n", letter.Origin.Offset, letter.Origin.Topic, letter.Reason)
	}
	return nil
}

// read follows the validated topic until its group has no lag. The lag is measured against the last
// stable offset, the end that a reader on read_committed can reach: an open transaction would hold that
// back, and a lag against the log's end would then never become 0.
func read(ctx context.Context, cluster kafka.Config) error {
	client, err := cluster.Client(
		kgo.ConsumerGroup("dashboard"), kgo.ConsumeTopics("events-valid"), kgo.DisableAutoCommit(),
		kgo.ConsumeStartOffset(kgo.NewOffset().AtStart()),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()), // the default is read_uncommitted
		// The mark that ends a transaction takes an offset. Kept, it is committed past like a record; left
		// out, the lag of a topic at rest would never be 0.
		kgo.KeepControlRecords(),
	)
	if err != nil {
		return err
	}
	defer client.Close()
	for behind := int64(-1); behind != 0; {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return err
		}
		fetches.EachRecord(func(r *kgo.Record) {
			if !r.Attrs.IsControl() {
				fmt.Printf("valid: %s\n", r.Value)
			}
		})
		if err := client.CommitUncommittedOffsets(ctx); err != nil {
			return err
		}
		if behind, err = lag(ctx, client); err != nil {
			return err
		}
	}
	fmt.Println("the reader has no lag")
	return nil
}

// lag is how many offsets the group is behind the last stable ones.
func lag(ctx context.Context, client *kgo.Client) (records int64, err error) {
	ends, err := kadm.NewClient(client).ListCommittedOffsets(ctx, "events-valid")
	if err != nil {
		return 0, err
	}
	at := client.CommittedOffsets()["events-valid"]
	ends.Each(func(end kadm.ListedOffset) {
		records += end.Offset - at[end.Partition].Offset
	})
	return records, nil
}
