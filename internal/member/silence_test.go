package member_test

import (
	"errors"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/stream"
)

// The client tries brokers that are gone for ever and says nothing: the flow ends and says so.
func TestBrokersGoneForGoodEndTheFlow(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.produce("k", 3)
	c := p.config()
	c.Member.SessionTimeout, c.Member.RebalanceTimeout = time.Second, 4*time.Second
	c.Member.UnreachableTimeout = 2 * time.Second
	committed := make(chan struct{})
	c.Hooks = []holdfast.Hooks{{Committed: func(e stream.Committed) {
		if e.Next == 3 {
			close(committed)
		}
	}}}
	f, err := holdfast.New(c)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- f.Run(t.Context()) }()
	<-committed
	p.cluster.Close()
	select {
	case err := <-ended:
		e := (*stream.Error)(nil)
		if !errors.Is(err, stream.ErrUnreachable) || !errors.As(err, &e) || e.Hint == "" {
			t.Errorf("the flow ended with %v, want ErrUnreachable with a hint", err)
		}
	case <-time.After(time.Minute):
		t.Fatal("the flow goes on without brokers")
	}
}
