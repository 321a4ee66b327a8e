package wire

import (
	"math"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

func TestOperations(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		bits    int32
		refused bool
	}{
		"not told":    {math.MinInt32, false},
		"zero":        {0, false},
		"no Describe": {1 << kmsg.ACLOperationRead, false},
		"another one": {1<<kmsg.ACLOperationDescribe | 1<<kmsg.ACLOperationRead, true},
		"permitted":   {1<<kmsg.ACLOperationDescribe | 1<<kmsg.ACLOperationWrite, false},
	} {
		if got := operationsOf(c.bits).Refuses(kmsg.ACLOperationWrite); got != c.refused {
			t.Errorf("%s: refused %v, want %v", name, got, c.refused)
		}
	}
	if (Operations{}).Refuses(kmsg.ACLOperationWrite) {
		t.Error("the zero value refuses")
	}
}
