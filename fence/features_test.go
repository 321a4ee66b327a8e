package fence_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/devbroker"
	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/kafka"
	"github.com/holdfast-go/holdfast/stream"
)

func TestLookupFeatures(t *testing.T) {
	t.Parallel()
	for name, old := range map[string]bool{"transaction.version 1": true, "transaction.version 2": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, err := devbroker.Start(devbroker.Config{Listen: "127.0.0.1:0", OldTransactions: old})
			if err != nil {
				t.Fatal(err)
			}
			defer b.Close()
			f, err := fence.LookupFeatures(t.Context(), b.Kafka())
			if err != nil || f.Brokers < 1 || (f.TransactionVersion < 2) != old {
				t.Errorf("features %+v, %v", f, err)
			}
		})
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if _, err := fence.LookupFeatures(ctx, kafka.Config{Brokers: []string{"127.0.0.1:1"}}); !errors.Is(err, stream.ErrUnreachable) {
		t.Errorf("without a broker: %v, want %v", err, stream.ErrUnreachable)
	}
}
