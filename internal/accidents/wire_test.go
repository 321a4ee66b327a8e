package accidents

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/holdfast-go/holdfast/internal/kafkatest"
	"github.com/holdfast-go/holdfast/internal/wiretap"
)

// tapOf puts proxies before the brokers, for one member.
func tapOf(t *testing.T, k *kafkatest.Cluster) *wiretap.Cluster {
	t.Helper()
	tap, err := wiretap.NewCluster(k.Addrs)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := tap.Err(); err != nil {
			t.Error(err)
		}
		tap.Close()
	})
	return tap
}

// dialer takes a member's connections through its proxies.
func dialer(tap *wiretap.Cluster) kgo.Opt { return kgo.Dialer(tap.Dialer()) }

// caught waits until a fault has applied n times.
func caught(t *testing.T, f *wiretap.Fault, n int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := f.Await(ctx, n); err != nil {
		t.Fatal(err)
	}
}

// answers are the answers that a member got to its requests of some kinds.
type answers struct {
	t    *testing.T
	mu   sync.Mutex
	seen []answer
	wake chan struct{}
}

type answer struct {
	key  kmsg.Key
	id   string // the transactional id of the request
	code int16
}

func watch(t *testing.T, tap *wiretap.Cluster) *answers {
	a := &answers{t: t, wake: make(chan struct{})}
	tap.OnResponse(a.add, kmsg.Produce, kmsg.TxnOffsetCommit, kmsg.EndTxn, kmsg.InitProducerID, kmsg.Heartbeat, kmsg.JoinGroup, kmsg.OffsetFetch)
	return a
}

func (a *answers) add(r wiretap.Request, resp kmsg.Response) {
	req, err := r.Decoded()
	if err != nil {
		return // the proxy reports it
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.seen = append(a.seen, answer{kmsg.Key(r.Key), wiretap.TransactionalID(req), wiretap.FirstCode(resp)})
	close(a.wake)
	a.wake = make(chan struct{})
}

// of returns the answers to requests of one kind under an id, with a code; nil is success.
func (a *answers) of(key kmsg.Key, id string, code *kerr.Error) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	n := 0
	for _, s := range a.seen {
		if s.key == key && s.id == id && (code == nil && s.code == 0 || code != nil && s.code == code.Code) {
			n++
		}
	}
	return n
}

func (a *answers) await(n int, key kmsg.Key, id string, code *kerr.Error) {
	a.t.Helper()
	limit := time.After(patience)
	for {
		a.mu.Lock()
		wake := a.wake
		a.mu.Unlock()
		if a.of(key, id, code) >= n {
			return
		}
		select {
		case <-wake:
		case <-limit:
			a.t.Fatalf("%s with %v was not answered %d times within %v", key.Name(), code, n, patience)
		}
	}
}
