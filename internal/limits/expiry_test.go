package limits

import (
	"context"
	"errors"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/kafkatest"
	"github.com/holdfast-go/holdfast/internal/trial"
	"github.com/holdfast-go/holdfast/internal/wiretap"
)

// Public case B7: a flow has nothing to do for so long that the broker forgets its transactional id. The next commit is
// refused as under an id that nobody has, the same process initialises it once more for each refusal, and
// nothing is lost or repeated. A commit is tested with one guarantee, a night with all.
func TestKafkaIDExpiresUnderAnIdleFlow(t *testing.T) {
	t.Parallel()
	c := kafkatest.New(t, kafkatest.Options{Properties: map[string]string{
		"transactional.id.expiration.ms":                             "2000",
		"transaction.remove.expired.transaction.cleanup.interval.ms": "200",
	}})
	for _, kind := range kinds {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			if kind != fencedOutputs && os.Getenv("HOLDFAST_NIGHTLY") != "1" {
				t.Skip("one guarantee runs always: set HOLDFAST_NIGHTLY=1 for all")
			}
			app := trial.App{Kind: trial.Flow, Session: time.Minute, Rebalance: 2 * time.Minute}
			switch kind {
			case isPipe:
				app.Kind = trial.Pipe
			case fencedOutputs:
				app.Guarantee = holdfast.FencedOutputs
			}
			f := trial.New(t, c, app, 1)
			m := f.Member("one")
			m.Start()
			m.Owns()
			f.Send(50)
			f.CaughtUp()
			for range 2 {
				awaitForgotten(f)
				seen := watchID(f, m)
				f.Send(50)
				f.CaughtUp()
				// A machine that stands still for long has the id expire between two commits as well.
				if s := seen(); s.refused == 0 || s.inits != s.refused || s.unasked > 0 {
					t.Errorf("%d transactions were answered INVALID_PRODUCER_ID_MAPPING, and %d requests initialised the id, %d of them unasked; want one for each", s.refused, s.inits, s.unasked)
				}
			}
			if m.Exits() > 0 {
				t.Errorf("%d processes have ended", m.Exits())
			}
			f.Verify()
		})
	}
}

// answered is what a member was answered about its id. A transaction may be refused by the answers to several requests,
// which were on their way side by side.
type answered struct {
	refused int // transactions for which there is no such id
	inits   int
	unasked int // of inits: none was refused since the one before
	open    bool
}

// watchID counts what the member is answered about its id from here on.
func watchID(f *trial.Field, m *trial.Member) (stop func() answered) {
	var mu sync.Mutex
	var a answered
	remove := m.Tap.OnResponse(func(r wiretap.Request, resp kmsg.Response) {
		code := wiretap.FirstCode(resp)
		req, err := r.Decoded()
		if err != nil || wiretap.TransactionalID(req) != f.TransactionalID(0) {
			return // the proxy reports what it cannot decode
		}
		mu.Lock()
		defer mu.Unlock()
		if kmsg.Key(r.Key) == kmsg.InitProducerID && code == 0 {
			a.inits++
			if !a.open {
				a.unasked++
			}
			a.open = false
		}
		if code == kerr.InvalidProducerIDMapping.Code && !a.open {
			a.open = true
			a.refused++
		}
	}, kmsg.Produce, kmsg.AddPartitionsToTxn, kmsg.AddOffsetsToTxn, kmsg.TxnOffsetCommit, kmsg.EndTxn, kmsg.InitProducerID)
	return func() answered {
		remove()
		mu.Lock()
		defer mu.Unlock()
		return a
	}
}

// awaitForgotten waits until the broker does not know the field's transactional id any more.
func awaitForgotten(f *trial.Field) {
	f.TB.Helper()
	ctx, cancel := context.WithTimeout(f.TB.Context(), patience)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for id := f.TransactionalID(0); ; {
		ts, err := f.Admin.DescribeTransactions(ctx, id)
		if err == nil && errors.Is(ts[id].Err, kerr.TransactionalIDNotFound) {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			f.TB.Fatalf("the broker has not forgotten %s: %v, %v", id, ts[id], err)
		}
	}
}
