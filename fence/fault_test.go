package fence

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/holdfast-go/holdfast/internal/rule"
	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/stream"
)

// initByAnother initialises the partition's id as a second process would.
func initByAnother(t *testing.T, p place) {
	t.Helper()
	cl := testClient(t, p.k, kgo.TransactionalID(p.id(0)))
	if _, _, err := cl.ProducerID(testContext(t)); err != nil {
		t.Fatal(err)
	}
}

// Public case A4.
func TestStaleProcessDoesNotInitialiseAgain(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		off     []rule.Name
		expired bool // the broker has forgotten the id, in place of giving it to another
		inits   int
	}{
		{"the group is asked first", nil, false, 0},
		{"with the rule off it does", []rule.Name{rule.Probe}, false, 1},
		{"the group is asked first when the id has expired", nil, true, 0},
		{"with the rule off it takes an expired id back", []rule.Name{rule.Probe}, true, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			cluster, p := fakeCluster(t)
			network := newTap()
			p.txn = network.config(p.k)
			m := join(t, p, Session{})
			o := m.granted(t)
			var expelled atomic.Bool
			ask := m.session.ask
			m.session.ask = func(ctx context.Context, id string, generation int32, on stream.Partition) error {
				if expelled.Load() {
					return kerr.UnknownMemberID
				}
				return ask(ctx, id, generation, on)
			}
			ctx := rule.Without(testContext(t), c.off...)
			w, _, err := Open(ctx, p.config(t, o))
			if err != nil {
				t.Fatal(err)
			}
			defer closeWriter(t, w)
			if err := w.Commit(ctx, Offset{1, -1}, put("k", "1")); err != nil {
				t.Fatal(err)
			}
			expelled.Store(true)
			if c.expired {
				cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Err: kerr.InvalidProducerIDMapping})
			} else {
				initByAnother(t, p)
			}
			inits := network.count(kmsg.InitProducerID)
			// The gate is asked under the context of the grant, which the rule is switched off in by Open.
			err = w.Write(ctx, put("k", "2"))
			if c.inits == 0 && !errors.Is(err, stream.ErrOwnershipLost) {
				t.Errorf("write: %v", err)
			}
			if n := network.count(kmsg.InitProducerID) - inits; (n > 0) != (c.inits > 0) {
				t.Errorf("%d InitProducerID left the process", n)
			}
		})
	}
}

// With the network cut no promise is ever answered. The end of the ownership ends the write.
func TestNetworkCutEndsWithTheOwnership(t *testing.T) {
	t.Parallel()
	for _, key := range []kmsg.Key{kmsg.Produce, kmsg.TxnOffsetCommit, kmsg.EndTxn} {
		t.Run(kmsg.NameForKey(int16(key)), func(t *testing.T) {
			t.Parallel()
			_, p := fakeCluster(t)
			network := newTap()
			p.txn = network.config(p.k)
			m := join(t, p, Session{})
			o := m.granted(t)
			w, _ := openWriter(t, p.config(t, o))
			if err := w.Commit(testContext(t), Offset{1, -1}, put("k", "1")); err != nil {
				t.Fatal(err)
			}
			reached := make(chan struct{}, 64)
			network.set(func(k kmsg.Key) fate {
				if k == key {
					reached <- struct{}{}
					return swallow
				}
				return pass
			})
			written := make(chan error, 1)
			go func() { written <- w.Write(testContext(t), put("k", "2")) }()
			<-reached
			o.Lose(errors.New("the test ends it"))
			select {
			case err := <-written:
				if !errors.Is(err, stream.ErrOwnershipLost) || errors.Is(err, stream.ErrOutcomeUnknown) != (key == kmsg.EndTxn) {
					t.Errorf("write: %v", err)
				}
			case <-time.After(patience):
				t.Fatal("the write hangs")
			}
			closeWriter(t, w)
			if state, _, _ := p.restoredUncommittedToo(t); state["k"] == "2" && key == kmsg.Produce {
				t.Error("a record left after the ownership was gone")
			}
		})
	}
}

// restoredUncommittedToo returns the newest value of each key, whatever became of its transaction.
func (p place) restoredUncommittedToo(t *testing.T) (map[string]string, int64, error) {
	t.Helper()
	log := wire.Log{Client: testClient(t, p.k), Topic: p.progress}
	start, end, _, err := log.Ends(testContext(t))
	if err != nil {
		t.Fatal(err)
	}
	state := map[string]string{}
	_, err = log.Read(testContext(t), wire.ReadOptions{From: start, To: end}, func(r *kgo.Record) error {
		state[string(r.Key)] = string(r.Value)
		return nil
	})
	return state, end, err
}

func TestCloseCutsWhatDoesNotEnd(t *testing.T) {
	t.Parallel()
	_, p := fakeCluster(t)
	network := newTap()
	p.txn = network.config(p.k)
	m := join(t, p, Session{})
	w, _ := openWriter(t, p.config(t, m.granted(t)))
	reached := make(chan struct{}, 64)
	network.set(func(k kmsg.Key) fate {
		if k == kmsg.Produce {
			reached <- struct{}{}
			return swallow
		}
		return pass
	})
	written := make(chan error, 1)
	go func() { written <- w.Commit(testContext(t), Offset{1, -1}, put("k", "1")) }()
	<-reached
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := w.Close(ctx); err != nil && !errors.Is(err, context.Canceled) {
		t.Errorf("close: %v", err)
	}
	if err := <-written; !errors.Is(err, stream.ErrClosed) && !errors.Is(err, stream.ErrOwnershipLost) {
		t.Errorf("write: %v", err)
	}
	if n := network.count(kmsg.EndTxn); n != 0 {
		t.Errorf("%d EndTxn were sent by a close", n)
	}
}

// The codes as a broker sends them, through the client: each is met once.
// Public case B2.
func TestOutcomeOnTheWire(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		key   kmsg.Key
		err   *kerr.Error
		want  error
		inits bool // a takeover follows
	}{
		{kmsg.Produce, kerr.InvalidProducerEpoch, nil, true},
		{kmsg.Produce, kerr.ProducerFenced, nil, true},
		{kmsg.Produce, kerr.InvalidTxnState, nil, true},
		{kmsg.Produce, kerr.InvalidProducerIDMapping, nil, true},
		{kmsg.Produce, kerr.TransactionAbortable, nil, false},
		{kmsg.Produce, kerr.UnknownProducerID, nil, true}, // the client would initialise by itself
		{kmsg.Produce, kerr.OutOfOrderSequenceNumber, nil, true},
		{kmsg.Produce, kerr.InvalidRecord, nil, false}, // not met again when sent one by one
		{kmsg.Produce, kerr.TopicAuthorizationFailed, stream.ErrNotAuthorized, false},
		{kmsg.TxnOffsetCommit, kerr.TransactionAbortable, nil, false},
		{kmsg.TxnOffsetCommit, kerr.ConcurrentTransactions, nil, false}, // waited out
		{kmsg.TxnOffsetCommit, kerr.CoordinatorNotAvailable, nil, false},
		{kmsg.TxnOffsetCommit, kerr.InvalidProducerEpoch, nil, true},
		{kmsg.TxnOffsetCommit, kerr.UnknownServerError, nil, true},
		{kmsg.TxnOffsetCommit, kerr.UnknownMemberID, stream.ErrOwnershipLost, false},
		{kmsg.TxnOffsetCommit, kerr.StaleMemberEpoch, stream.ErrOwnershipLost, false},
		{kmsg.TxnOffsetCommit, kerr.FencedInstanceID, stream.ErrInstanceTaken, false},
		{kmsg.TxnOffsetCommit, kerr.UnknownTopicID, nil, false}, // by a coordinator that has not heard of the topic yet
		{kmsg.TxnOffsetCommit, kerr.InconsistentTopicID, stream.ErrInputChanged, false},
		{kmsg.TxnOffsetCommit, kerr.GroupAuthorizationFailed, stream.ErrNotAuthorized, false},
		{kmsg.EndTxn, kerr.ProducerFenced, nil, true},
		{kmsg.EndTxn, kerr.InvalidTxnState, nil, true},
		{kmsg.EndTxn, kerr.UnknownServerError, nil, true},
		{kmsg.EndTxn, kerr.CoordinatorNotAvailable, nil, false}, // retried by the client
	} {
		t.Run(kmsg.NameForKey(int16(c.key))+"/"+c.err.Message, func(t *testing.T) {
			t.Parallel()
			cluster, p := fakeCluster(t)
			network := newTap()
			p.txn = network.config(p.k)
			m := join(t, p, Session{})
			w, _ := openWriter(t, p.config(t, m.granted(t)))
			ctx := testContext(t)
			if err := w.Commit(ctx, Offset{1, -1}, put("k", "1")); err != nil {
				t.Fatal(err)
			}
			inits := network.count(kmsg.InitProducerID)
			cluster.Fault(kfake.Fault{Keys: []kmsg.Key{c.key}, Err: c.err})
			err := w.Commit(ctx, Offset{2, -1}, put("k", "2"))
			if !errors.Is(err, c.want) || (err == nil) != (c.want == nil) {
				t.Errorf("the caller got %v, want %v", err, c.want)
			}
			if took := network.count(kmsg.InitProducerID) > inits; took != c.inits {
				t.Errorf("takeover %v, want %v", took, c.inits)
			}
			if c.want != nil {
				return
			}
			if state, progress, _ := p.restored(t, 0); state["k"] != "2" || progress.Sequence != 2 || progress.Inputs[0].Next != 2 {
				t.Errorf("state %v, progress %+v", state, progress)
			}
		})
	}
}

// What the binding prevents: with the rule off, a member that the group has expelled commits.
// Public case A3.
func TestUnboundOffsetIsAccepted(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		off  []rule.Name
		want error
	}{
		{"bound", nil, stream.ErrOwnershipLost},
		{"with the rule off", []rule.Name{rule.FencedBinding}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			_, p := fakeCluster(t)
			network := newTap()
			p.member = network.config(p.k)
			m := join(t, p, Session{})
			o := m.granted(t)
			ctx := rule.Without(testContext(t), c.off...)
			w, _, err := Open(ctx, p.config(t, o))
			if err != nil {
				t.Fatal(err)
			}
			defer closeWriter(t, w)
			network.set(func(kmsg.Key) fate { return swallow }) // the client does not learn it
			defer network.set(nil)
			leave := kmsg.NewPtrLeaveGroupRequest()
			leave.Group, leave.MemberID = p.group, o.MemberID()
			leave.Members = []kmsg.LeaveGroupRequestMember{{MemberID: o.MemberID()}}
			if _, err := leave.RequestWith(ctx, testClient(t, p.k)); err != nil {
				t.Fatal(err)
			}
			if err := w.Commit(ctx, Offset{1, -1}, put("k", "1")); !errors.Is(err, c.want) || (err == nil) != (c.want == nil) {
				t.Errorf("I3: commit of an expelled member: %v, want %v", err, c.want)
			}
		})
	}
}

// The takeover ends the open transaction of the last owner, which a restore would wait for. With the rule
// off it stays open.
func TestTakeoverEndsTheLastOwnersTransaction(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		off  []rule.Name
	}{
		{"the rule", nil},
		{"with the rule off", []rule.Name{rule.Takeover}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			_, p := fakeCluster(t)
			zombie(t, p, "k")
			m := join(t, p, Session{})
			ctx := rule.Without(testContext(t), c.off...)
			w, _, err := Open(ctx, p.config(t, m.granted(t)))
			if err != nil {
				t.Fatal(err)
			}
			defer closeWriter(t, w)
			log := wire.Log{Client: testClient(t, p.k), Topic: p.progress}
			_, high, stable, err := log.Ends(ctx)
			if ended := stable == high; err != nil || ended != (c.off == nil) {
				t.Errorf("I7: high watermark %d, last stable offset %d, %v", high, stable, err)
			}
		})
	}
}
