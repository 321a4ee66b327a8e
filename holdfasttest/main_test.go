package holdfasttest

import (
	"flag"
	"testing"

	"github.com/holdfast-go/holdfast/internal/kafkatest"
)

func TestMain(m *testing.M) {
	// The tests wait for sessions and brokers most of the time: more of them than there are cores go side
	// by side. -parallel on the command line still wins.
	if err := flag.Set("test.parallel", "4"); err != nil {
		panic(err)
	}
	kafkatest.Main(m)
}
