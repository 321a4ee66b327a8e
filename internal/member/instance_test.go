package member

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/stream"
)

// The instance id of a dead process is refused for its session, and that is waited for; that of a living one
// is refused for ever, and stops the member. A refusal long after the others begins the wait afresh.
func TestInstanceIDIsWaitedForOneSession(t *testing.T) {
	t.Parallel()
	rs := refusals{}
	s := fence.Session{Group: "g", InstanceID: "one", SessionTimeout: 45 * time.Second, HeartbeatInterval: 5 * time.Second}
	at := time.Now()
	refused := func(after time.Duration) error { return rs.lasting(at.Add(after), s, kerr.UnreleasedInstanceID) }
	for _, after := range []time.Duration{0, 2 * time.Second, 40 * time.Second, 64 * time.Second} {
		if err := refused(after); err != nil {
			t.Errorf("stopped after %v: %v", after, err)
		}
	}
	if err := refused(65 * time.Second); !errors.Is(err, stream.ErrInstanceTaken) || !strings.Contains(err.Error(), `instance id "one"`) {
		t.Errorf("not stopped after 65 s: %v", err)
	}
	if err := refused(10 * time.Minute); err != nil {
		t.Errorf("a refusal of another time stops at once: %v", err)
	}
}
