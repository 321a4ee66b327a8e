package protocols

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/codec"
	"github.com/holdfast-go/holdfast/internal/kafkatest"
	"github.com/holdfast-go/holdfast/kafka"
	"github.com/holdfast-go/holdfast/stream"
)

// counting is a flow that counts the records of each key, under a group and a snapshot topic.
func counting(t *testing.T, k *kafkatest.Cluster, protocol holdfast.Protocol, group, input, snapshots string, begun func()) *holdfast.Flow[int] {
	t.Helper()
	f, err := holdfast.New(holdfast.Config[int]{
		Kafka: kafka.Config{Brokers: k.Addrs}, Group: group, Inputs: []string{input}, Codec: codec.JSON[int](),
		Snapshots: holdfast.Snapshots{Topic: snapshots}, Member: holdfast.Member{Protocol: protocol},
		Fold: func(_ context.Context, key *holdfast.Key[int], _ stream.Record) error {
			n, _ := key.State()
			key.Set(n + 1)
			return nil
		},
		Hooks: []holdfast.Hooks{{Restored: func(stream.Restored) { begun() }}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// Two flows of one input, with one group and two snapshot topics, are started at once, in a group that is new. On
// no protocol does each begin a part of the input: the one that comes second is refused at the join, by name.
func TestKafkaTwoApplicationsInOneGroup(t *testing.T) {
	for _, protocol := range []holdfast.Protocol{holdfast.Cooperative, holdfast.Eager, holdfast.ServerSide} {
		t.Run(fmt.Sprint(protocol), func(t *testing.T) {
			if protocol == holdfast.ServerSide {
				serves(t, serverSide)
			}
			t.Parallel()
			k := kafkatest.Start(t)
			input := k.CreateTopic(t, kafkatest.UniqueName("shared"), 4, nil)
			cl := k.Client(t)
			for p := range 40 {
				r := &kgo.Record{Topic: input, Key: fmt.Append(nil, "k", p), Value: []byte("1")}
				if err := cl.ProduceSync(t.Context(), r).FirstErr(); err != nil {
					t.Fatal(err)
				}
			}
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
			defer cancel()
			var mu sync.Mutex
			begun, errs := map[string]bool{}, make([]error, 2)
			var runs sync.WaitGroup
			for i, name := range []string{"one", "two"} {
				snapshots := k.CreateTopic(t, input+"-"+name, 4, map[string]string{"cleanup.policy": "compact"})
				f := counting(t, k, protocol, input+"-group", input, snapshots, func() {
					mu.Lock()
					defer mu.Unlock()
					begun[name] = true
					if len(begun) == 2 {
						cancel()
					}
				})
				runs.Go(func() {
					errs[i] = f.Run(ctx)
					cancel()
				})
			}
			runs.Wait()
			err := errors.Join(errs...)
			if !errors.Is(err, holdfast.ErrOtherApplication) || len(begun) == 2 {
				t.Fatalf("I2: begun %v, ended with %v", begun, errs)
			}
			for _, want := range []string{input + "-one", input + "-two", "a group of its own"} {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("the error does not say %q: %v", want, err)
				}
			}
			if strings.Contains(err.Error(), "Rebuild") {
				t.Errorf("it advises Rebuild: %v", err)
			}
		})
	}
}
