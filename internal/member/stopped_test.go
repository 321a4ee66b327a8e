package member

import (
	"errors"
	"log/slog"
	"testing"

	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/stream"
)

// Several partitions can stop at once; the hook tells of the one whose error Run returns.
func TestStopIsToldOnce(t *testing.T) {
	t.Parallel()
	var told []stream.Stopped
	m := New(Config{
		Session: fence.Session{Group: "g"}, Logger: slog.New(slog.DiscardHandler),
		Hooks: []stream.Hooks{{Stopped: func(e stream.Stopped) { told = append(told, e) }}, {}},
	})
	first := stream.NewError("commit", stream.ErrIDTaken)
	m.fail(first)
	m.fail(errors.New("another partition"))
	if len(told) != 1 || told[0] != (stream.Stopped{Group: "g", Cause: "id-taken", Err: first}) {
		t.Errorf("told %v, want the first failure once", told)
	}
	if err := m.failed(); !errors.Is(err, stream.ErrIDTaken) {
		t.Errorf("the member fails with %v", err)
	}
}
