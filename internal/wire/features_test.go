package wire

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// A lone broker that is slow is asked again; one that is slow beside others is left out, and an error that
// is an answer is not asked for twice.
func TestSlowBrokersAreAskedAgain(t *testing.T) {
	t.Parallel()
	slow, refused := fmt.Errorf("versions: %w", context.DeadlineExceeded), errors.New("refused")
	for _, c := range []struct {
		name   string
		rounds [][]error // what each broker answers in each round
		asked  int
	}{
		{"one answers at once", [][]error{{nil}}, 1},
		{"one is slow, then answers", [][]error{{slow}, {slow}, {nil}}, 3},
		{"one of two is slow", [][]error{{slow, nil}}, 1},
		{"both are slow once", [][]error{{slow, slow}, {nil, slow}}, 2},
		{"one refuses", [][]error{{refused}}, 1},
		{"nobody ever answers", [][]error{{slow}}, silentRounds},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			asked := 0
			_, faults, err := untilTold(t.Context(), func(context.Context) ([]*kmsg.ApiVersionsResponse, []error, error) {
				round := c.rounds[min(asked, len(c.rounds)-1)]
				asked++
				return make([]*kmsg.ApiVersionsResponse, len(round)), round, nil
			})
			if err != nil || asked != c.asked || len(faults) != len(c.rounds[0]) {
				t.Errorf("asked %d times, want %d; %v, %v", asked, c.asked, faults, err)
			}
		})
	}
}
