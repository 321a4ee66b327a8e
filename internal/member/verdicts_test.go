package member

import (
	"testing"

	"github.com/holdfast-go/holdfast/stream"
)

// What each answer comes to, written down once more: tests that are generated from the table would pass with any verdict
// in it. It is Kafka's meaning of the codes, and what a person has to do, that decides.
func TestVerdictOfEachAnswer(t *testing.T) {
	t.Parallel()
	lasting := map[string]struct {
		lasts Lasts
		is    error
	}{
		"GROUP_AUTHORIZATION_FAILED":   {Stays, stream.ErrNotAuthorized},
		"TOPIC_AUTHORIZATION_FAILED":   {Stays, stream.ErrNotAuthorized},
		"CLUSTER_AUTHORIZATION_FAILED": {Stays, stream.ErrNotAuthorized},
		"FENCED_INSTANCE_ID":           {Stays, stream.ErrInstanceTaken},
		"UNRELEASED_INSTANCE_ID":       {PastASession, stream.ErrInstanceTaken},
		"GROUP_MAX_SIZE_REACHED":       {PastASession, stream.ErrGroupFull},
		"INCONSISTENT_GROUP_PROTOCOL":  {Stays, stream.ErrOtherProtocol},
		"UNSUPPORTED_ASSIGNOR":         {Stays, stream.ErrOtherProtocol},
		"INVALID_SESSION_TIMEOUT":      {Stays, stream.ErrConfig},
		"INVALID_GROUP_ID":             {Stays, stream.ErrConfig},
		"INVALID_REQUEST":              {Stays, stream.ErrConfig},
		"INVALID_REGULAR_EXPRESSION":   {Stays, stream.ErrConfig},
		"UNSUPPORTED_VERSION":          {Stays, stream.ErrBrokerTooOld},
	}
	seen := map[string]bool{}
	for _, a := range Answers {
		name := a.Code.Message
		if seen[name] {
			t.Errorf("%s is there twice", name)
		}
		seen[name] = true
		want := lasting[name] // a code that is not among them passes, and is no error of its own
		if a.Lasts != want.lasts || a.Is != want.is {
			t.Errorf("I6: %s: lasts %d, is %v; want %d and %v", name, a.Lasts, a.Is, want.lasts, want.is)
		}
	}
	for name := range lasting {
		if !seen[name] {
			t.Errorf("I6: %s is not in the table", name)
		}
	}
}
