package fieldcases

import (
	"errors"
	"os"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/rule"
	"github.com/holdfast-go/holdfast/stream"
)

// phases are the requests of a member's life, in their order.
var phases = []kmsg.Key{
	kmsg.FindCoordinator, kmsg.JoinGroup, kmsg.SyncGroup, kmsg.InitProducerID, kmsg.OffsetFetch, kmsg.ListOffsets, kmsg.Fetch,
	kmsg.Produce, kmsg.TxnOffsetCommit, kmsg.EndTxn, kmsg.Heartbeat,
}

// codes are what a broker may answer in any of them.
var codes = []*kerr.Error{
	kerr.UnknownServerError, kerr.NotCoordinator, kerr.CoordinatorNotAvailable, kerr.CoordinatorLoadInProgress, kerr.NotLeaderForPartition,
	kerr.LeaderNotAvailable, kerr.RequestTimedOut, kerr.NetworkException, kerr.KafkaStorageError, kerr.NotEnoughReplicas, kerr.ConcurrentTransactions,
	kerr.InvalidTxnState, kerr.InvalidProducerEpoch, kerr.ProducerFenced, kerr.InvalidProducerIDMapping, kerr.UnknownProducerID,
	kerr.OutOfOrderSequenceNumber, kerr.TransactionAbortable, kerr.UnknownMemberID, kerr.IllegalGeneration, kerr.RebalanceInProgress,
	kerr.FencedInstanceID, kerr.UnstableOffsetCommit, kerr.UnknownTopicOrPartition, kerr.UnknownTopicID, kerr.FencedLeaderEpoch,
	kerr.UnknownLeaderEpoch, kerr.OffsetNotAvailable, kerr.MessageTooLarge, kerr.InvalidRecord, kerr.PolicyViolation, kerr.InvalidRequest,
	kerr.TopicAuthorizationFailed, kerr.GroupAuthorizationFailed, kerr.TransactionalIDAuthorizationFailed, kerr.ClusterAuthorizationFailed,
}

// Public case J4: each error is answered once in each phase of a member's life. The member recovers by
// itself, or ends with an error that says what to do and the next one recovers; nothing hangs, panics, is
// lost or repeated. A commit of this repository is tested with every twelfth pair, a night with all.
func TestCaseJ4EveryErrorInEveryPhase(t *testing.T) {
	t.Parallel()
	every := 12
	if os.Getenv("HOLDFAST_NIGHTLY") == "1" {
		every = 1
	}
	for i, key := range phases {
		t.Run(key.Name(), func(t *testing.T) {
			t.Parallel()
			l := newLab(t, 1)
			l.guarantee = []holdfast.Guarantee{holdfast.FencedState, holdfast.FencedOutputs}[i%2]
			l.before(2)
			for j, code := range codes {
				if (i+j)%every == 0 {
					l.meet(key, code)
				}
			}
			l.verify()
		})
	}
}

// meet has one member meet an error once, and sees to it that everything is committed afterwards.
func (l *lab) meet(key kmsg.Key, code *kerr.Error) {
	l.t.Helper()
	ours := func(req kmsg.Request) bool { p, ok := req.(*kmsg.ProduceRequest); return !ok || p.TransactionID != nil }
	fault := l.cluster.Fault(
		kfake.Fault{Keys: []kmsg.Key{key}, Err: code, When: ours},
		kfake.Fault{Keys: []kmsg.Key{key}, Err: code, When: ours, TopLevel: true},
	)
	l.write(0, 2)
	c := l.config()
	c.Logger = nil
	c.Member.HeartbeatInterval = 20 * time.Millisecond
	r := l.startUnder(rule.Without(l.t.Context(), rule.FenceProbe), key.Name()+" "+code.Message, c)
	l.await(r.name+" is met and everything is committed, or the member ends", func() bool {
		select {
		case <-r.done:
			return true
		default:
			return fault.Hits() > 0 && l.committed(0) >= int64(l.written[0])
		}
	})
	if fault.Hits() == 0 {
		l.t.Errorf("%s was not met", r.name)
	}
	fault.Remove()
	if err := r.end(); err != nil {
		var e *stream.Error
		if !errors.As(err, &e) || e.Hint == "" {
			l.t.Errorf("%s: the member ended without a next step: %v", r.name, err)
		}
		next := l.start(r.name+" again", c)
		l.reach()
		l.must(next.end())
	}
}
