package holdfasttest

import (
	"testing"

	"github.com/holdfast-go/holdfast/internal/kafkatest"
)

func TestMain(m *testing.M) { kafkatest.Main(m) }
