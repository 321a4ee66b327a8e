package prove

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/holdfast-go/holdfast/kafka"
	"github.com/holdfast-go/holdfast/stream"
)

// rights returns the commands that grant what err says is missing: nil if it is about something else.
// Each grants all that a run needs of its kind, so that the next run does not meet the next right.
func rights(o Options, err error) (commands []string) {
	grant := func(operations, resource string) {
		commands = append(commands, fmt.Sprintf("kafka-acls.sh --bootstrap-server %s --add --allow-principal User:NAME %s %s --resource-pattern-type prefixed",
			o.bootstrap(), operations, resource))
	}
	if errors.Is(err, kerr.TopicAuthorizationFailed) {
		grant("--operation Create --operation Describe --operation Read --operation Write --operation Delete", "--topic "+o.Prefix)
	}
	if errors.Is(err, kerr.GroupAuthorizationFailed) {
		grant("--operation Describe --operation Read --operation Delete", "--group "+o.Prefix)
	}
	if errors.Is(err, kerr.TransactionalIDAuthorizationFailed) {
		for _, prefix := range []string{o.Prefix, writerIDs(o.Prefix)} {
			grant("--operation Describe --operation Write", "--transactional-id "+prefix)
		}
	}
	return commands
}

// explain gives err its sentinel and, as its hint, the commands of rights, or what kafka.Explain says.
func explain(o Options, op string, err error) error {
	commands := rights(o, err)
	if len(commands) == 0 {
		return kafka.Explain(err)
	}
	if !errors.Is(err, stream.ErrNotAuthorized) {
		err = fmt.Errorf("%w: %w", stream.ErrNotAuthorized, err)
	}
	return stream.NewError(op, err).Hinted("%s", strings.Join(commands, newCommand))
}

// newCommand is between the commands of one hint: a line each.
const newCommand = "\n  and "

// cause is the text of an error that explain has made, without its operation and hint.
func cause(err error) string {
	if e, ok := errors.AsType[*stream.Error](err); ok {
		return e.Err.Error()
	}
	return err.Error()
}

// denied gathers what the cluster did not permit, so that it is told once and not once an exercise.
type denied struct {
	exercises []string
	left      int
	commands  []string
}

func (d *denied) add(o Options, err error) {
	more := rights(o, err)
	if e, ok := errors.AsType[*stream.Error](err); ok && len(more) == 0 && e.Hint != "" {
		more = []string{e.Hint}
	}
	for _, c := range more {
		if !slices.Contains(d.commands, c) {
			d.commands = append(d.commands, c)
		}
	}
}

// err returns nil if everything was permitted.
func (d *denied) err() error {
	var what []string
	if len(d.exercises) > 0 {
		what = append(what, "to run "+strings.Join(d.exercises, ", "))
	}
	if d.left > 0 {
		what = append(what, fmt.Sprintf("to remove %s of this run", count(d.left, "thing")))
	}
	if len(what) == 0 {
		return nil
	}
	return stream.NewError("prove", fmt.Errorf("%w %s", stream.ErrNotAuthorized, strings.Join(what, " and "))).
		Hinted("%s", strings.Join(d.commands, newCommand))
}
