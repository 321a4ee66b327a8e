package kafka

import (
	"context"
	"crypto/tls"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"iter"
	"net"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"
	"github.com/twmb/franz-go/pkg/sasl/plain"

	"github.com/holdfast-go/holdfast/stream"
)

// always marks a reserved option that cannot be seen, because it changes nothing.
const always = "RequireStableFetchOffsets"

func reservedSamples() map[string]kgo.Opt {
	type parts = map[string][]int32
	return map[string]kgo.Opt{
		"SeedBrokers": kgo.SeedBrokers("127.0.0.1"), "WithContext": kgo.WithContext(context.TODO()),
		"AllowAutoTopicCreation": kgo.AllowAutoTopicCreation(), "TransactionalID": kgo.TransactionalID("t"),
		"TransactionTimeout": kgo.TransactionTimeout(40 * time.Second), "RequiredAcks": kgo.RequiredAcks(kgo.LeaderAck()),
		"DisableIdempotentWrite":              kgo.DisableIdempotentWrite(),
		"AllowIdempotentProduceCancellation":  kgo.AllowIdempotentProduceCancellation(),
		"MaxProduceRequestsInflightPerBroker": kgo.MaxProduceRequestsInflightPerBroker(5),
		"StopProducerOnDataLossDetected":      kgo.StopProducerOnDataLossDetected(),
		"RecordPartitioner":                   kgo.RecordPartitioner(kgo.StickyKeyPartitioner(nil)),
		"DefaultProduceTopic":                 kgo.DefaultProduceTopic("t"), "DefaultProduceTopicAlways": kgo.DefaultProduceTopicAlways(),
		"ManualFlushing": kgo.ManualFlushing(), "ProducerLinger": kgo.ProducerLinger(10 * time.Millisecond),
		"UnknownTopicRetries": kgo.UnknownTopicRetries(4), "ConsumerGroup": kgo.ConsumerGroup("g"),
		"InstanceID": kgo.InstanceID("i"), "Balancers": kgo.Balancers(kgo.RangeBalancer()), "BalanceRacks": kgo.BalanceRacks(),
		"ServerSideBalancer": kgo.ServerSideBalancer(), "GroupProtocol": kgo.GroupProtocol("consumer"),
		"SessionTimeout": kgo.SessionTimeout(45 * time.Second), "RebalanceTimeout": kgo.RebalanceTimeout(time.Minute),
		"HeartbeatInterval": kgo.HeartbeatInterval(3 * time.Second), "BlockRebalanceOnPoll": kgo.BlockRebalanceOnPoll(),
		"OnPartitionsAssigned":        kgo.OnPartitionsAssigned(func(context.Context, *kgo.Client, parts) {}),
		"OnPartitionsRevoked":         kgo.OnPartitionsRevoked(func(context.Context, *kgo.Client, parts) {}),
		"OnPartitionsLost":            kgo.OnPartitionsLost(func(context.Context, *kgo.Client, parts) {}),
		"OnPartitionsCallbackBlocked": kgo.OnPartitionsCallbackBlocked(func(context.Context, *kgo.Client) {}),
		"OnOffsetsFetched":            kgo.OnOffsetsFetched(func(context.Context, *kgo.Client, *kmsg.OffsetFetchResponse) error { return nil }),
		"AdjustFetchOffsetsFn": kgo.AdjustFetchOffsetsFn(func(context.Context, map[string]map[int32]kgo.Offset) (map[string]map[int32]kgo.Offset, error) {
			return nil, nil
		}),
		//lint:ignore SA1019 an option is refused for as long as the client has it
		always:              kgo.RequireStableFetchOffsets(),
		"DisableAutoCommit": kgo.DisableAutoCommit(),
		"GreedyAutoCommit":  kgo.GreedyAutoCommit(), "AutoCommitInterval": kgo.AutoCommitInterval(5 * time.Second),
		"AutoCommitMarks":    kgo.AutoCommitMarks(),
		"AutoCommitCallback": kgo.AutoCommitCallback(func(*kgo.Client, *kmsg.OffsetCommitRequest, *kmsg.OffsetCommitResponse, error) {}),
		"ConsumeTopics":      kgo.ConsumeTopics("t"), "ConsumePartitions": kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{"t": {0: kgo.NewOffset()}}),
		"ConsumeRegex": kgo.ConsumeRegex(), "ConsumeExcludeTopics": kgo.ConsumeExcludeTopics("t"),
		"ConsumeStartOffset": kgo.ConsumeStartOffset(kgo.NewOffset().AtStart()), "ConsumeResetOffset": kgo.ConsumeResetOffset(kgo.NoResetOffset()),
		"FetchIsolationLevel": kgo.FetchIsolationLevel(kgo.ReadCommitted()), "KeepControlRecords": kgo.KeepControlRecords(),
		"KeepRetryableFetchErrors": kgo.KeepRetryableFetchErrors(), "DisableFetchCRCValidation": kgo.DisableFetchCRCValidation(),
		"MaxDecompressBatchBytes": kgo.MaxDecompressBatchBytes(1 << 20),
		"BrokerMaxReadBytes":      kgo.BrokerMaxReadBytes(60 << 20),
		"ShareGroup":              kgo.ShareGroup("g"), "ShareMaxRecords": kgo.ShareMaxRecords(5), "ShareMaxRecordsStrict": kgo.ShareMaxRecordsStrict(),
		"ShareAckCallback": kgo.ShareAckCallback(func(*kgo.Client, kgo.ShareAckResults) {}),
	}
}

type pool struct{}

func (pool) GetDecompressBytes([]byte, kgo.CompressionCodecType) []byte { return nil }
func (pool) PutDecompressBytes([]byte)                                  {}

func allowedSamples() map[string]kgo.Opt {
	return map[string]kgo.Opt{
		"ClientID": kgo.ClientID("x"), "SoftwareNameAndVersion": kgo.SoftwareNameAndVersion("x", "1"),
		"WithLogger": kgo.WithLogger(kgo.BasicLogger(nil, kgo.LogLevelNone, nil)), "RequestTimeoutOverhead": kgo.RequestTimeoutOverhead(time.Second),
		"ConnIdleTimeout": kgo.ConnIdleTimeout(time.Second), "Dialer": kgo.Dialer((&net.Dialer{}).DialContext),
		"DialTimeout": kgo.DialTimeout(time.Second), "DialTLSConfig": kgo.DialTLSConfig(&tls.Config{}), "DialTLS": kgo.DialTLS(),
		"MaxVersions": kgo.MaxVersions(kversion.Stable()), "MinVersions": kgo.MinVersions(kversion.V2_5_0()),
		"RetryBackoffFn": kgo.RetryBackoffFn(func(int) time.Duration { return time.Second }), "RequestRetries": kgo.RequestRetries(3),
		"RetryTimeout": kgo.RetryTimeout(time.Second), "RetryTimeoutFn": kgo.RetryTimeoutFn(func(int16) time.Duration { return time.Second }),
		"BrokerMaxWriteBytes": kgo.BrokerMaxWriteBytes(50 << 20),
		"MetadataMaxAge":      kgo.MetadataMaxAge(time.Minute),
		"MetadataMinAge":      kgo.MetadataMinAge(time.Second), "SASL": kgo.SASL(plain.Auth{User: "u", Pass: "p"}.AsMechanism()),
		"WithHooks": kgo.WithHooks(hook(func() {})), "WithPools": kgo.WithPools(pool{}),
		"ConcurrentTransactionsBackoff": kgo.ConcurrentTransactionsBackoff(time.Second), "ConsiderMissingTopicDeletedAfter": kgo.ConsiderMissingTopicDeletedAfter(time.Minute),
		"OnRebootstrapRequired": kgo.OnRebootstrapRequired(func() ([]string, error) { return nil, nil }),
		"DisableClientMetrics":  kgo.DisableClientMetrics(), "UserMetricsFn": kgo.UserMetricsFn(func() iter.Seq[kgo.Metric] { return nil }),
		"AlwaysRetryEOF": kgo.AlwaysRetryEOF(), "ProducerBatchCompression": kgo.ProducerBatchCompression(kgo.ZstdCompression()),
		"WithCompressor": kgo.WithCompressor(nil), "ProducerBatchMaxBytes": kgo.ProducerBatchMaxBytes(1 << 20),
		"ProducerBatchMaxBytesFn": kgo.ProducerBatchMaxBytesFn(func(string) int32 { return 1 << 20 }), "MaxBufferedRecords": kgo.MaxBufferedRecords(5),
		"MaxBufferedBytes": kgo.MaxBufferedBytes(1 << 20), "RackAwarePartitioning": kgo.RackAwarePartitioning(),
		"ProduceRequestTimeout": kgo.ProduceRequestTimeout(time.Second), "RecordRetries": kgo.RecordRetries(5),
		"ProducerOnDataLossDetected": kgo.ProducerOnDataLossDetected(func(string, int32) {}), "StreamingCompression": kgo.StreamingCompression(),
		"RecordDeliveryTimeout": kgo.RecordDeliveryTimeout(time.Second), "FetchMaxWait": kgo.FetchMaxWait(time.Second),
		"FetchMaxBytes": kgo.FetchMaxBytes(1 << 20), "FetchMinBytes": kgo.FetchMinBytes(2), "FetchMaxPartitionBytes": kgo.FetchMaxPartitionBytes(1 << 19),
		"MaxConcurrentFetches": kgo.MaxConcurrentFetches(2), "Rack": kgo.Rack("r"), "DisableFetchSessions": kgo.DisableFetchSessions(),
		"ConsumePreferringLagFn":          kgo.ConsumePreferringLagFn(kgo.PreferLagAt(5)),
		"WithDecompressor":                kgo.WithDecompressor(kgo.DefaultDecompressor()),
		"RecheckPreferredReplicaInterval": kgo.RecheckPreferredReplicaInterval(time.Minute),
	}
}

func TestEveryReservedOptionIsRefused(t *testing.T) {
	t.Parallel()
	samples := reservedSamples()
	if want := slices.Sorted(slices.Values(Reserved())); len(samples) != len(want) {
		t.Fatalf("%d samples for %d reserved options", len(samples), len(want))
	}
	for name, opt := range samples {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if !slices.Contains(Reserved(), name) {
				t.Fatalf("%s has a sample but is not reserved", name)
			}
			err := Config{Brokers: []string{"h:1"}, Opts: []kgo.Opt{opt}}.Validate()
			if name == always {
				if err != nil {
					t.Fatalf("kgo's %s has become visible: %v", name, err)
				}
				return
			}
			if !errors.Is(err, stream.ErrReservedOption) || !strings.Contains(err.Error(), "kgo."+name) {
				t.Fatalf("Validate with kgo.%s: %v, want a refusal that names it", name, err)
			}
			var e *stream.Error
			if !errors.As(err, &e) || e.Hint == "" {
				t.Fatalf("the refusal of %s has no hint", name)
			}
		})
	}
}

func TestEveryAllowedOptionIsAccepted(t *testing.T) {
	t.Parallel()
	for name, opt := range allowedSamples() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := Config{Brokers: []string{"127.0.0.1:1"}, Opts: []kgo.Opt{opt}}
			cl, err := c.Client()
			if err != nil {
				t.Fatalf("kgo.%s: %v", name, err)
			}
			cl.Close()
		})
	}
}

// TestOptionTableIsComplete reads kgo's source: a release of kgo that adds an option fails here until
// somebody has decided whether a guarantee rests on it.
func TestOptionTableIsComplete(t *testing.T) {
	t.Parallel()
	dir, err := exec.CommandContext(t.Context(), "go", "list", "-f", "{{.Dir}}", "github.com/twmb/franz-go/pkg/kgo").Output()
	if err != nil {
		t.Skipf("the go command cannot find kgo's source: %v", err)
	}
	file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(strings.TrimSpace(string(dir)), "config.go"), nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{}
	for name := range reservedSamples() {
		known[name] = true
	}
	for name := range allowedSamples() {
		if known[name] {
			t.Errorf("kgo.%s is both allowed and reserved", name)
		}
		known[name] = true
	}
	found := 0
	for _, d := range file.Decls {
		f, ok := d.(*ast.FuncDecl)
		if !ok || f.Recv != nil || !f.Name.IsExported() || f.Type.Results == nil || len(f.Type.Results.List) != 1 {
			continue
		}
		result, ok := f.Type.Results.List[0].Type.(*ast.Ident)
		if !ok || !strings.HasSuffix(result.Name, "Opt") {
			continue
		}
		found++
		if !known[f.Name.Name] {
			t.Errorf("kgo.%s is neither allowed nor reserved: decide, and add it to a table", f.Name.Name)
		}
		delete(known, f.Name.Name)
	}
	if found < 100 {
		t.Fatalf("found only %d options in kgo's config.go: the test no longer reads it rightly", found)
	}
	for name := range known {
		t.Errorf("kgo.%s is in a table but kgo has no such option", name)
	}
}
