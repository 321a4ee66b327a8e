package member

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/stream"
)

// errOtherInput marks progress of an input of another name. Whose it is nobody can tell: that of another component of
// this group, which may be running, or that of this one, whose input was renamed.
var errOtherInput = errors.New("it belongs to another input")

// movedFrom is the input partition that a progress record names, if that is another than own; "" if it is not. named is
// what its header says, which those of an earlier version have not.
func movedFrom(p *fence.Progress, named string, own stream.Partition) string {
	switch {
	case p == nil:
		return ""
	case named != "" && named != own.String():
		return named
	case named == "" && len(p.Inputs) == 1 && p.Inputs[0].Topic != "" && p.Inputs[0].Topic != own.Topic:
		return p.Inputs[0].Topic
	}
	return ""
}

// layoutMoved refuses a progress partition that is another input partition's: how far that one has come
// says nothing about this one. It happens where the layout has moved: an input before this one has got
// more partitions, or the inputs are named in another order.
//
// An input that is none of this component's is refused whatever the start policy, before anything else is said of the
// states: another codec, another fold version or another topic id is what follows, and a rebuild would drop the states
// of another component.
//
//  1. A configuration is copied, with its group, and the input changed. The default snapshot topic is the same.
//  2. The second flow finds progress of the first one's input, and is told of Rebuild.
//  3. It folds its own input, and each state of the first one gets a tombstone.
func layoutMoved(of string, at stream.Partition, inputs []string, stateless bool) *stream.Error {
	topic := of
	if cut := strings.LastIndexByte(of, '/'); cut >= 0 {
		topic = of[:cut]
	}
	if slices.Contains(inputs, topic) {
		return stream.NewError("check input", fmt.Errorf("partition %d of the topic %s has the progress of %s: %w", at.Partition, at.Topic, of, stream.ErrInputChanged)).
			Hinted("the partitions of the inputs are laid out one after the other, in the order of Inputs: name them in the order as it was, or, where one has " +
				"got more partitions, give an empty progress topic and reset the group's offsets to where they are with kafka-consumer-groups.sh")
	}
	e := stream.NewError("check input", fmt.Errorf("partition %d of the topic %s has the progress of %s: %w: %w", at.Partition, at.Topic, of, errOtherInput, stream.ErrInputChanged))
	if stateless {
		return e.Hinted("no start policy goes on here. Where another pipe of this group has this progress topic for input %s, give this one a group of its own, and so a progress topic of its own; "+
			"where that input was renamed or taken out of Inputs, give this pipe an empty progress topic and reset the group's offsets to where they are with kafka-consumer-groups.sh", topic)
	}
	return e.Hinted("no start policy goes on here: it would drop the states of %s. Where another flow of this group has this snapshot topic for input %s, give this one a group of its own, "+
		"and so a snapshot topic of its own; or, where the input was renamed, give this flow an empty snapshot topic, and it folds the input as a new one", topic, topic)
}

// madeAgain refuses an input that is another topic of the same name.
func madeAgain(then, now [16]byte, stateless bool) *stream.Error {
	return stream.NewError("check input", fmt.Errorf("the topic was deleted and created again: its id was %x and is %x: %w", then, now, stream.ErrInputChanged)).
		Hinted("%s", changedHint(stateless))
}

func changedHint(stateless bool) string {
	if stateless {
		return "the offsets belong to the input as it was. Choose Rebuild (Start.Disagreement) to begin at its first record, or use another group"
	}
	return "the state belongs to the input as it was. Choose Rebuild (Start.Disagreement) to fold the input as it is, or use another group"
}
