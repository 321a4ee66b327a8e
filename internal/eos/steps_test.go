package eos

import (
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/holdfast-go/holdfast/internal/kafkatest"
	"github.com/holdfast-go/holdfast/internal/wiretap"
)

// A copier is killed at each step of a commit: with the request on its way to the broker, which then
// never gets it, and with the answer on its way back.
func TestKafkaKilledAtEachStepOfTheCommit(t *testing.T) {
	t.Parallel()
	b := newBench(t, kafkatest.Start(t), 1)
	b.conf.Session = 2 * time.Second
	m := b.member("copier")
	b.seed(50)
	b.live.await(50)
	for _, action := range []wiretap.Action{wiretap.HoldRequest, wiretap.HoldResponse} {
		for _, step := range []kmsg.Key{kmsg.Produce, kmsg.TxnOffsetCommit, kmsg.EndTxn, kmsg.InitProducerID} {
			hold := m.tap.Fault(action, wiretap.First(1, wiretap.Keys(step)))
			t.Cleanup(hold.Lift)
			if step == kmsg.InitProducerID { // only a takeover has this step
				m.stop()
				m.launch()
			}
			b.seed(b.seeded + 50)
			caught(t, hold, 1)
			m.kill()
			m.discard(hold)
			m.start()
			b.live.await(b.seeded)
		}
	}
	m.stop()
	if aborted := b.check(); aborted == 0 {
		t.Error("no record was aborted: no kill has met an open transaction")
	}
}
