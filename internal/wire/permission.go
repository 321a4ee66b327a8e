package wire

import (
	"math"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Operations are those that the broker says the principal may do on a resource. The zero value is
// that it has not said.
type Operations struct {
	told bool
	bits int32
}

// operationsOf takes the bit field of an answer. The least number is the protocol's word for an answer
// that leaves them out, as brokers before 2.3 do. One without Describe says nothing either: the
// resource was described, so that a server which answers so has not looked, as one that writes 0 there.
func operationsOf(bits int32) Operations {
	if bits == math.MinInt32 || bits&(1<<kmsg.ACLOperationDescribe) == 0 {
		return Operations{}
	}
	return Operations{told: true, bits: bits}
}

// Refuses reports whether the broker has said what is permitted, and it is not op.
func (o Operations) Refuses(op kmsg.ACLOperation) bool {
	return o.told && o.bits&(1<<op) == 0
}

// Told reports whether the broker has said what is permitted.
func (o Operations) Told() bool { return o.told }
