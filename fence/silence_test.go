package fence

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// A JoinGroup waits for the other members for up to the rebalance timeout. That is not counted: not
// before the first answer, not when the wait fails, and once for all that were sent since an answer.
func TestSilenceWhileAJoinGroupWaits(t *testing.T) {
	t.Parallel()
	join := func(s *fakeSession) { s.OnBrokerWrite(kgo.BrokerMetadata{}, int16(kmsg.JoinGroup), 0, 0, 0, nil) }
	cut := func(s *fakeSession) {
		s.OnBrokerE2E(kgo.BrokerMetadata{}, int16(kmsg.JoinGroup), kgo.BrokerE2E{ReadErr: errors.New("connection reset")})
	}
	for name, c := range map[string]struct {
		do   func(*fakeSession)
		want time.Duration
	}{
		"the first join of a member": {func(s *fakeSession) { join(s); time.Sleep(50 * time.Second) }, 0},
		"a join that is cut":         {func(s *fakeSession) { join(s); time.Sleep(50 * time.Second); cut(s) }, 0},
		"a join past its time":       {func(s *fakeSession) { join(s); time.Sleep(65 * time.Second) }, 5 * time.Second},
		"nothing was sent":           {func(*fakeSession) { time.Sleep(50 * time.Second) }, 50 * time.Second},
		"joins that are never answered": {func(s *fakeSession) {
			for range 10 {
				join(s)
				time.Sleep(59 * time.Second)
				cut(s)
			}
		}, 530 * time.Second},
		"an answer": {func(s *fakeSession) {
			join(s)
			time.Sleep(50 * time.Second)
			e2e(s.session, kmsg.JoinGroup, 0)
			time.Sleep(time.Second)
		}, time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := newFakeSession()
				s.silence() // the count begins with the first look
				c.do(s)
				if got := s.silence(); got != c.want {
					t.Errorf("silent for %v, want %v", got, c.want)
				}
			})
		})
	}
}
