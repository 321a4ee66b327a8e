package dlq

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/holdfast-go/holdfast/stream"
)

var errBad = errors.New("bad payload")

func TestClassesFirstMatchWins(t *testing.T) {
	t.Parallel()
	onError := Classes(
		OnPanic(stream.Stop),
		On(errBad, stream.DeadLetter),
		OnMatch(func(e *stream.RecordError) bool { return e.Record.Topic == "optional" }, stream.Skip),
		On(io.EOF, stream.Retry),
		Otherwise(stream.RetryThenDeadLetter),
	)
	for _, c := range []struct {
		name string
		e    stream.RecordError
		want stream.Action
	}{
		{"panic before target", stream.RecordError{Err: errBad, Panicked: true}, stream.Stop},
		{"wrapped target", stream.RecordError{Err: fmt.Errorf("decode: %w", errBad)}, stream.DeadLetter},
		{"target before match", stream.RecordError{Err: errBad, Record: stream.Record{Topic: "optional"}}, stream.DeadLetter},
		{"match", stream.RecordError{Err: io.EOF, Record: stream.Record{Topic: "optional"}}, stream.Skip},
		{"later target", stream.RecordError{Err: io.EOF}, stream.Retry},
		{"otherwise", stream.RecordError{Err: io.ErrShortWrite}, stream.RetryThenDeadLetter},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if got := onError(t.Context(), &c.e); got != c.want {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}
	if got := Classes(On(io.EOF, stream.Skip))(t.Context(), &stream.RecordError{Err: errBad}); got != stream.Stop {
		t.Errorf("without Otherwise: %v, want stop", got)
	}
}

func TestInfrastructureIsNeverDeadLettered(t *testing.T) {
	t.Parallel()
	const never, passes = stream.Stop, stream.Retry
	for _, c := range []struct {
		err   error
		retry stream.Action // what RetryThenDeadLetter becomes; DeadLetter means that err is the record's
	}{
		{stream.ErrUnreachable, passes},
		{context.DeadlineExceeded, passes},
		{kerr.NotEnoughReplicas, passes},
		{kerr.NotLeaderForPartition, passes},
		{stream.ErrNotAuthorized, never},
		{stream.ErrOwnershipLost, never},
		{stream.ErrOutcomeUnknown, never},
		{stream.ErrConfig, never},
		{stream.ErrTopic, never},
		{stream.ErrFlood, never},
		{stream.ErrUndeclaredOutput, never},
		{stream.ErrCorruptSnapshot, never},
		{context.Canceled, never},
		{kgo.ErrClientClosed, never},
		{kerr.TopicAuthorizationFailed, never},
		{fmt.Errorf("%w: %w", stream.ErrOutput, stream.ErrNotAuthorized), never},
		{stream.NewError("commit", fmt.Errorf("%w: %w", stream.ErrNotAuthorized, kerr.TopicAuthorizationFailed)), never},
		{stream.ErrNoKey, stream.DeadLetter},
		{stream.ErrEncode, stream.DeadLetter},
		{fmt.Errorf("%w: %w", stream.ErrTooLarge, kerr.MessageTooLarge), stream.DeadLetter},
		{kerr.InvalidRecord, stream.DeadLetter},
		{io.ErrUnexpectedEOF, stream.DeadLetter},
	} {
		t.Run(c.err.Error(), func(t *testing.T) {
			t.Parallel()
			e := &stream.RecordError{Err: fmt.Errorf("fold: %w", c.err)}
			record := c.retry == stream.DeadLetter
			for want, got := range map[stream.Action]stream.Action{
				stream.DeadLetter: Classes(On(c.err, stream.DeadLetter))(t.Context(), e),
				stream.Skip:       Decide(stream.Skip, e),
			} {
				if record && got != want || !record && got != stream.Stop {
					t.Errorf("%v became %v", want, got)
				}
			}
			got := Classes(Otherwise(stream.RetryThenDeadLetter))(t.Context(), e)
			if record && got != stream.RetryThenDeadLetter || !record && got != c.retry {
				t.Errorf("retry-then-dead-letter became %v", got)
			}
			for _, a := range []stream.Action{stream.Stop, stream.Retry} {
				if got := Decide(a, e); got != a {
					t.Errorf("%v became %v", a, got)
				}
			}
		})
	}
}

func TestClassesRefusesRulesThatCannotMean(t *testing.T) {
	t.Parallel()
	for name, f := range map[string]func(){
		"no target":        func() { On(nil, stream.Skip) },
		"no match":         func() { OnMatch(nil, stream.Skip) },
		"no action":        func() { OnPanic(stream.Action(17)) },
		"zero rule":        func() { Classes(Rule{}) },
		"behind otherwise": func() { Classes(Otherwise(stream.Skip), OnPanic(stream.Stop)) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			defer func() {
				if recover() == nil {
					t.Error("was taken")
				}
			}()
			f()
		})
	}
}
