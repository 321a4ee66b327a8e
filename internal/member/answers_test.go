package member

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/stream"
)

// The table by hand: what stays ends the member by its name, at once or when no dead process can be meant any
// more, and what may pass never does. internal/virtual has the group answer each.
func TestAnswersThatStay(t *testing.T) {
	t.Parallel()
	want := map[*kerr.Error]error{
		kerr.GroupAuthorizationFailed: stream.ErrNotAuthorized, kerr.TopicAuthorizationFailed: stream.ErrNotAuthorized,
		kerr.ClusterAuthorizationFailed: stream.ErrNotAuthorized, kerr.FencedInstanceID: stream.ErrInstanceTaken,
		kerr.UnreleasedInstanceID: stream.ErrInstanceTaken, kerr.GroupMaxSizeReached: stream.ErrGroupFull,
		kerr.InconsistentGroupProtocol: stream.ErrOtherProtocol, kerr.UnsupportedAssignor: stream.ErrOtherProtocol,
		kerr.InvalidSessionTimeout: stream.ErrConfig, kerr.InvalidGroupID: stream.ErrConfig, kerr.InvalidRequest: stream.ErrConfig,
		kerr.InvalidRegularExpression: stream.ErrConfig, kerr.UnsupportedVersion: stream.ErrBrokerTooOld,
	}
	s := fence.Session{Group: "g", InstanceID: "one", Protocol: fence.Cooperative}.WithDefaults()
	seen := map[int16]bool{}
	for _, a := range Answers {
		seen[a.Code.Code] = true
		answered := &kgo.ErrGroupSession{Err: fmt.Errorf("join: %w", a.Code)}
		rs, at := refusals{}, time.Now()
		first := rs.lasting(at, s, answered)
		var last error
		for after := time.Second; after < 30*time.Second; after += time.Second {
			last = rs.lasting(at.Add(after), s, answered)
		}
		if a.Lasts == PastASession && first != nil {
			t.Errorf("%s ends the member at once, and may be about a process that died: %v", a.Code.Message, first)
		}
		if a.Lasts == Stays && first == nil {
			t.Errorf("I6: %s is tried again", a.Code.Message)
		}
		e := (*stream.Error)(nil)
		switch {
		case want[a.Code] == nil && last != nil:
			t.Errorf("%s ends the member, and may pass: %v", a.Code.Message, last)
		case want[a.Code] != nil && (!errors.Is(last, want[a.Code]) || !errors.Is(last, a.Code) || !errors.As(last, &e) || e.Hint == "" || e.Group != "g"):
			t.Errorf("I6: %s, answered for 30 s, is %v, want %v with group and hint", a.Code.Message, last, want[a.Code])
		}
	}
	for code := range want {
		if !seen[code.Code] {
			t.Errorf("%s is not in the table", code.Message)
		}
	}
}

// The hint of a full group names the setting of the group's own kind.
func TestFullGroupNamesItsSetting(t *testing.T) {
	t.Parallel()
	for protocol, setting := range map[fence.Protocol]string{fence.Eager: " group.max.size ", fence.ServerSide: " group.consumer.max.size "} {
		rs, s := refusals{}, fence.Session{Group: "g", Protocol: protocol}.WithDefaults()
		var err error
		for after := time.Duration(0); after < 2*time.Minute && err == nil; after += time.Second {
			err = rs.lasting(time.Now().Add(after), s, kerr.GroupMaxSizeReached)
		}
		if err == nil || !strings.Contains(err.Error(), setting) {
			t.Errorf("%v: got %v, want%sin it", protocol, err, setting)
		}
	}
}

// Takeovers that fail one after the other add up over ownerships; those of another time do not.
func TestTakeoversThatFailAddUp(t *testing.T) {
	t.Parallel()
	m, p, at := &Member{untaken: map[stream.Partition]untaken{}}, stream.Partition{Topic: "t"}, time.Now()
	failed := func(began, ended time.Duration) time.Duration {
		return m.takeoverFailed(p, at.Add(began), at.Add(ended))
	}
	failed(0, 2*time.Minute)
	if got := failed(2*time.Minute+5*time.Second, 4*time.Minute); got != 4*time.Minute {
		t.Errorf("I6: failed for %v, want 4m", got)
	}
	if got := failed(time.Hour, time.Hour+time.Minute); got != time.Minute {
		t.Errorf("an hour later: failed for %v, want 1m", got)
	}
	m.tookOver(p)
	if got := failed(time.Hour+time.Minute, time.Hour+2*time.Minute); got != time.Minute {
		t.Errorf("after a success: failed for %v, want 1m", got)
	}
}
