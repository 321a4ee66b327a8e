package outputs

import (
	"slices"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/dlq"
	"github.com/holdfast-go/holdfast/stream"
)

// One output among thousands is refused: it is found within the time of a transaction, and the rest is
// there once, in order.
func TestKafkaOneOfManyIsRefused(t *testing.T) {
	each(t, func(t *testing.T, l *lab) {
		dead := l.k.CreateTopic(t, l.conf.Input+"-dead", 1, nil)
		p := &policy{decide: func(*stream.RecordError) stream.Action { return stream.DeadLetter }}
		l.conf.Payload = large("25")
		s := l.conf
		s.OnError = p.onError
		s.Commit.Interval = time.Second
		s.Member.TransactionTimeout = 5 * time.Second
		s.DeadLetters = &dlq.Policy{Topic: dead}
		m := l.start(t.Context(), "only", s)
		l.produce(0, 0, 20)
		m.committedTo(0, 20)
		l.alter(l.conf.Output, "max.message.bytes", "10000")
		l.produce(0, 20, 3020)
		m.committedTo(0, 3020)
		m.stop()
		if want := []ask{{25, 1}}; !slices.Equal(p.asked, want) {
			t.Errorf("the policy was asked about %v, want %v", p.asked, want)
		}
		l.skipped[25] = true
		l.verify()
		l.letters(dead, 1)
	})
}
