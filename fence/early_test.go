package fence

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/holdfast-go/holdfast/kafka"
)

// The client joins while it is being made:
//
//  1. kgo.NewClient starts the group's goroutine.
//  2. The group answers, and the callback is called.
//  3. NewClient returns, and the session is told of the client.
func TestCallbackBeforeTheClientIsKnown(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		granted := 0
		g := NewGroup(func(context.Context, *Ownership) { granted++ }, func(*Ownership, bool) {})
		go g.onAssigned(t.Context(), nil, map[string][]int32{testInput: {0}})
		synctest.Wait()
		if granted != 0 {
			t.Error("a partition was granted before the client is known")
		}
		offline, err := g.NewClient(t.Context(), kafka.Config{Brokers: []string{"127.0.0.1:1"}}, Session{Group: testGroup}, kgo.ConsumeTopics(testInput))
		if err != nil {
			t.Fatal(err)
		}
		defer offline.Close()
		synctest.Wait()
		if granted != 1 {
			t.Errorf("%d grants, want 1", granted)
		}
	})
}
