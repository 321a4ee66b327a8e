//go:build synctests

package virtual

import (
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/holdfasttest"
	engine "github.com/holdfast-go/holdfast/internal/member"
	"github.com/holdfast-go/holdfast/stream"
)

// script is what the group answers to one kind of request. It is safe for concurrent use.
type script struct {
	key  kmsg.Key
	code int16

	mu    sync.Mutex
	left  int // how often yet; negative: for ever
	given int
}

// answer has the group answer key with code, n times; n < 0: until it is healed.
func (w *world) answer(key kmsg.Key, code int16, n int) *script {
	s := &script{key: key, code: code, left: n}
	w.cluster.ControlKey(int16(key), func(req kmsg.Request) (kmsg.Response, error, bool) {
		w.cluster.KeepControl()
		s.mu.Lock()
		defer s.mu.Unlock()
		resp := withCode(req, s.code)
		if s.left == 0 || resp == nil {
			return nil, nil, false
		}
		s.left--
		s.given++
		return resp, nil, true
	})
	return s
}

func (s *script) heal() (given int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.left = 0
	return s.given
}

// withCode is the answer to a request with a code in it, nil if the request is about something else.
func withCode(req kmsg.Request, code int16) kmsg.Response {
	resp := req.ResponseKind()
	switch r := resp.(type) {
	case *kmsg.JoinGroupResponse:
		r.ErrorCode = code
		r.MemberID = "given" // of MEMBER_ID_REQUIRED
	case *kmsg.SyncGroupResponse:
		r.ErrorCode = code
	case *kmsg.HeartbeatResponse:
		r.ErrorCode = code
	case *kmsg.ConsumerGroupHeartbeatResponse:
		if req.(*kmsg.ConsumerGroupHeartbeatRequest).MemberEpoch < 0 {
			return nil // it leaves
		}
		r.ErrorCode = code
	case *kmsg.FindCoordinatorResponse:
		find := req.(*kmsg.FindCoordinatorRequest)
		if find.CoordinatorType != 0 {
			return nil
		}
		for _, key := range find.CoordinatorKeys {
			c := kmsg.NewFindCoordinatorResponseCoordinator()
			c.Key, c.ErrorCode = key, code
			r.Coordinators = append(r.Coordinators, c)
		}
	case *kmsg.OffsetFetchResponse:
		for _, one := range req.(*kmsg.OffsetFetchRequest).Groups {
			if one.MemberID == nil {
				return nil // a takeover asks, and no member
			}
			g := kmsg.NewOffsetFetchResponseGroup()
			g.Group, g.ErrorCode = one.Group, code
			r.Groups = append(r.Groups, g)
		}
	}
	resp.SetVersion(req.GetVersion())
	return resp
}

// answered runs a test for each code and request of the table, in bubbles of their own.
func answered(t *testing.T, test func(t *testing.T, w *world, a engine.Answer, key kmsg.Key), fits func(engine.Answer, kmsg.Key) bool) {
	t.Parallel()
	// A code that nobody knows, as one that a later release of Kafka brings.
	all := append(slices.Clone(engine.Answers), engine.Answer{Code: kerr.PolicyViolation, To: []kmsg.Key{
		kmsg.JoinGroup, kmsg.SyncGroup, kmsg.Heartbeat, kmsg.ConsumerGroupHeartbeat, kmsg.FindCoordinator}})
	for _, a := range all {
		for _, key := range a.To {
			if !fits(a, key) {
				continue
			}
			t.Run(a.Code.Message+"/"+key.Name(), func(t *testing.T) {
				t.Parallel()
				s := setting{Guarantee: holdfast.FencedState, Slow: map[kmsg.Key]time.Duration{}}
				for _, k := range []kmsg.Key{kmsg.JoinGroup, kmsg.SyncGroup, kmsg.FindCoordinator} {
					s.Slow[k] = 20 * time.Millisecond // else a client that asks again at once stops the virtual clock
				}
				prompt(&s)
				if key == kmsg.ConsumerGroupHeartbeat || key == kmsg.OffsetFetch { // which has a member in it there alone
					s.Member.Protocol = fence.ServerSide
				}
				if a.Is == stream.ErrInstanceTaken {
					s.Member.InstanceID = "one"
				}
				watch := time.AfterFunc(5*time.Minute, func() { panic(t.Name() + " has not ended: virtual time may stand still") })
				defer watch.Stop()
				synctest.Test(t, func(t *testing.T) {
					w := newWorld(t, s, 1, newStates())
					test(t, w, a, key)
					w.end()
					w.close()
				})
			})
		}
	}
}

// TestLastingAnswersOfTheGroup gives each answer that stays what it is for ever, to a member that joins and to
// one that has joined. Run ends with the answer's name: at once, or when what may be a dead process's is not.
func TestLastingAnswersOfTheGroup(t *testing.T) {
	answered(t, func(t *testing.T, w *world, a engine.Answer, key kmsg.Key) {
		joined := key == kmsg.Heartbeat || key == kmsg.ConsumerGroupHeartbeat
		for _, name := range []string{"joins", "has joined"} {
			if name == "has joined" && !joined {
				continue
			}
			w.send(few(20)...)
			var m *member
			if name == "has joined" {
				m = w.start(name)
				w.committed(2 * time.Minute)
			}
			s := w.answer(key, a.Code.Code, -1)
			began := time.Now()
			if m == nil {
				m = w.start(name)
			}
			least, most := time.Duration(0), 30*time.Second
			if a.Lasts == engine.PastASession {
				session := fence.Session{Protocol: w.s.Member.Protocol}.WithDefaults()
				least, most = session.SessionTimeout, session.SessionTimeout+2*session.HeartbeatInterval+30*time.Second
			}
			w.endsWith(m, a.Is, began, least, most)
			s.heal()
			if w.s.Member.Protocol == fence.ServerSide {
				time.Sleep(time.Minute) // the member that was refused could not leave, or the group's session is over
			}
		}
		w.start("again")
		w.committed(2 * time.Minute)
	}, func(a engine.Answer, _ kmsg.Key) bool { return a.Lasts != engine.Passes })
}

// TestUselessAnswersOfTheGroup gives each answer that may pass for ever, to a member that joins and to one that
// has joined: it ends when nothing that lets it go on has come for as long as is configured.
func TestUselessAnswersOfTheGroup(t *testing.T) {
	answered(t, func(t *testing.T, w *world, a engine.Answer, key kmsg.Key) {
		w.useless(a, key, false)
		if key == kmsg.Heartbeat || key == kmsg.ConsumerGroupHeartbeat {
			w.useless(a, key, true)
		}
		w.start("again")
		w.committed(2 * time.Minute)
	}, func(a engine.Answer, key kmsg.Key) bool {
		// An OffsetFetch of the client's that fails ends the membership, and the next one begins: that the hooks
		// and the log tell each time, and partitions are taken over. A group that rebalances all the time has its
		// members in it.
		return a.Lasts == engine.Passes && key != kmsg.OffsetFetch && (key != kmsg.Heartbeat || a.Code != kerr.RebalanceInProgress)
	})
}

// useless has the group answer with a code for ever.
func (w *world) useless(a engine.Answer, key kmsg.Key, joined bool) {
	w.t.Helper()
	w.send(few(20)...)
	var m *member
	if joined {
		m = w.start("has joined")
		w.committed(2 * time.Minute)
		time.Sleep(time.Minute)
	}
	s, began := w.answer(key, a.Code.Code, -1), time.Now()
	if m == nil {
		m = w.start("joins")
	}
	// Unset it is 5 minutes, from the last heartbeat on that was granted; a JoinGroup may take one more, and
	// brokers are asked for a session before a request is given up.
	most := 8 * time.Minute
	if key == kmsg.SyncGroup {
		most = 12 * time.Minute // the JoinGroups in between are granted, and what these wait is no silence
	}
	w.endsWith(m, stream.ErrUnreachable, began, 4*time.Minute+30*time.Second, most)
	s.heal()
	if w.s.Member.Protocol == fence.ServerSide {
		time.Sleep(time.Minute) // what could not leave has a session
	}
}

// TestPassingAnswersOfTheGroup gives each answer a few times, those that stay only past a session too. The
// member goes on as if nothing had been.
func TestPassingAnswersOfTheGroup(t *testing.T) {
	answered(t, func(t *testing.T, w *world, a engine.Answer, key kmsg.Key) {
		s := w.answer(key, a.Code.Code, 3)
		m := w.start("m")
		w.send(few(20)...)
		w.committed(5 * time.Minute) // what a member left behind that the group was told to have forgotten has a session
		time.Sleep(time.Minute)
		w.send(few(20)...)
		w.committed(2 * time.Minute)
		if given := s.heal(); given != 3 {
			t.Errorf("%s was answered %d times, want 3", a.Code.Message, given)
		}
		select {
		case <-m.done:
			t.Errorf("Run has ended: %v", m.err)
		default:
		}
	}, func(a engine.Answer, _ kmsg.Key) bool { return a.Lasts != engine.Stays })
}

// TestTakeoverWithoutItsCoordinator has the coordinator of the transactional id away, or the group's for offsets
// alone, while the group answers its member. What may pass ends the member as a silent group does, and not after
// thirty attempts of minutes each.
func TestTakeoverWithoutItsCoordinator(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		key         kmsg.Key
		code        *kerr.Error
		want        error
		least, most time.Duration
	}{
		"no coordinator":     {kmsg.FindCoordinator, kerr.CoordinatorNotAvailable, stream.ErrUnreachable, 5 * time.Minute, 12 * time.Minute},
		"no permission":      {kmsg.FindCoordinator, kerr.TransactionalIDAuthorizationFailed, stream.ErrNotAuthorized, 0, 30 * time.Second},
		"offsets are loaded": {kmsg.OffsetFetch, kerr.CoordinatorLoadInProgress, stream.ErrUnreachable, 5 * time.Minute, 12 * time.Minute},
		"no such initialise": {kmsg.InitProducerID, kerr.CoordinatorNotAvailable, stream.ErrUnreachable, 5 * time.Minute, 12 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			watch := time.AfterFunc(5*time.Minute, func() { panic(t.Name() + " has not ended: virtual time may stand still") })
			defer watch.Stop()
			synctest.Test(t, func(t *testing.T) {
				s := setting{Guarantee: holdfast.FencedState}
				prompt(&s)
				w := newWorld(t, s, 1, newStates())
				healed := false
				w.cluster.ControlKey(int16(c.key), func(req kmsg.Request) (kmsg.Response, error, bool) {
					w.cluster.KeepControl()
					if healed {
						return nil, nil, false
					}
					resp := takeoverWithCode(req, c.code.Code)
					return resp, nil, resp != nil
				})
				w.send(few(20)...)
				began := time.Now()
				m := w.start("m")
				w.endsWith(m, c.want, began, c.least, c.most)
				healed = true
				w.start("again")
				w.committed(2 * time.Minute)
				w.end()
				w.close()
			})
		})
	}
}

// takeoverWithCode is the answer to a request of a takeover with a code in it, nil if it is none.
func takeoverWithCode(req kmsg.Request, code int16) kmsg.Response {
	resp := req.ResponseKind()
	switch r := resp.(type) {
	case *kmsg.InitProducerIDResponse:
		if req.(*kmsg.InitProducerIDRequest).TransactionalID == nil {
			return nil
		}
		r.ErrorCode = code
	case *kmsg.FindCoordinatorResponse:
		find := req.(*kmsg.FindCoordinatorRequest)
		if find.CoordinatorType != 1 || slices.ContainsFunc(find.CoordinatorKeys, func(k string) bool { return !strings.Contains(k, group) }) {
			return nil
		}
		for _, key := range find.CoordinatorKeys {
			c := kmsg.NewFindCoordinatorResponseCoordinator()
			c.Key, c.ErrorCode = key, code
			r.Coordinators = append(r.Coordinators, c)
		}
	case *kmsg.OffsetFetchResponse:
		for _, one := range req.(*kmsg.OffsetFetchRequest).Groups {
			if !req.(*kmsg.OffsetFetchRequest).RequireStable {
				return nil
			}
			g := kmsg.NewOffsetFetchResponseGroup()
			g.Group, g.ErrorCode = one.Group, code
			r.Groups = append(r.Groups, g)
		}
	}
	resp.SetVersion(req.GetVersion())
	return resp
}

// endsWith waits for the end of a member.
func (w *world) endsWith(m *member, want error, began time.Time, least, most time.Duration) {
	w.t.Helper()
	select {
	case <-m.done:
	case <-time.After(3 * most):
		w.t.Errorf("I6: Run has not ended %v after the answer: %d grants\n%s", time.Since(began), m.count(holdfasttest.EventAssigned), strings.Join(last(w.trace(), 30), "\n"))
		m.cancel()
		<-m.done
		return
	}
	took := time.Since(began)
	e := (*stream.Error)(nil)
	if !errors.Is(m.err, want) || !errors.As(m.err, &e) || e.Hint == "" || took < least || took > most {
		w.t.Errorf("I6: ended after %v with %v, want %q with a hint after %v to %v", took, m.err, want, least, most)
	}
}

func last(lines []string, n int) []string { return lines[max(0, len(lines)-n):] }
