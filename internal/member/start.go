package member

import (
	"errors"
	"fmt"

	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/stream"
)

// witnesses are the two records of how far a partition has come: the group's committed offset and
// the progress record in the snapshot partition.
type witnesses struct {
	committed     fence.Committed // Next -1: none
	progress      *fence.Progress // nil: none
	snapshotEmpty bool            // the snapshot partition holds no record of any kind
	head          head            // of the snapshot partition's log
	stateless     bool            // a pipe: there are no snapshots that an offset could disagree with

	log extent // of the input

	group string           // for the commands in hints
	input stream.Partition // likewise
}

// reset is the command that sets the group's offset.
func (w witnesses) reset(to int64) string {
	return fmt.Sprintf("kafka-consumer-groups.sh --bootstrap-server HOST:PORT --group %s --topic %s:%d --reset-offsets --to-offset %d --execute, with all members stopped",
		w.group, w.input.Topic, w.input.Partition, to)
}

// foreign reports whether something that is no component of ours has committed the offset: a person, or
// another program. Under Unfenced no commit says whose it is.
func (w witnesses) foreign(fenced bool) bool { return fenced && w.committed.Nonce == 0 }

// Witnesses are what a start decides by, as Check finds them.
type Witnesses struct {
	Group         string
	Input         stream.Partition
	Committed     fence.Committed
	Progress      *fence.Progress // nil: none
	SnapshotEmpty bool
	Stateless     bool // a pipe
	LogStart      int64
	RecordedStart int64 // by Progress; -1: it does not say
	StartMoves    bool  // the brokers' compaction moves it
	// InputStart and InputEnd are the first offset and the end of the input; InputStart -1: they are not known.
	InputStart, InputEnd int64
	// InputID is the input's as it is, and Inputs are all of the component.
	InputID [16]byte
	Inputs  []string
	// Named is the input partition that the header of Progress names, and ProgressAt the partition it is in.
	Named      string
	ProgressAt stream.Partition
}

// otherLog returns why the progress is none of the input as it is (R21, R31); nil if it is, or if a rebuild is asked for
// that would begin anew. rebuilt says that.
func (w Witnesses) otherLog(policy Start) (err *stream.Error, rebuilt bool) {
	if w.Progress == nil || len(w.Progress.Inputs) != 1 {
		return nil, false
	}
	if of := movedFrom(w.Progress, w.Named, w.Input); of != "" {
		err = layoutMoved(of, w.ProgressAt, w.Inputs, w.Stateless)
	} else if then := w.Progress.Inputs[0].TopicID; then != w.InputID {
		err = madeAgain(then, w.InputID, w.Stateless)
	}
	if err != nil && policy.Rebuild && rebuildCures(err) {
		return nil, true
	}
	return err, false
}

// Refused returns why a start at these witnesses would be refused, an error that is ErrInputChanged, ErrOffsetMismatch,
// ErrTruncated or ErrSnapshotsLost; nil if it would not be. tornCommits says that the brokers are below
// transaction.version 2.
func Refused(w Witnesses, policy Start, fenced, tornCommits bool) error {
	if other, rebuilt := w.otherLog(policy); rebuilt {
		return nil
	} else if other != nil {
		other.At(w.Input, -1).Group = w.Group
		return priced(other, -1, w.InputStart, w.Stateless)
	}
	own := witnesses{
		committed: w.Committed, progress: w.Progress, snapshotEmpty: w.SnapshotEmpty, stateless: w.Stateless, group: w.Group, input: w.Input,
		head: head{start: w.LogStart, recorded: w.RecordedStart, moves: w.StartMoves},
		log:  extent{w.InputStart, w.InputEnd},
	}
	j := within(own, policy, fenced, tornCommits)
	if j.err == nil && j.verdict == lookAgain && !policy.Rebuild {
		j.err = disagreement(own)
	}
	if e := (*stream.Error)(nil); errors.As(j.err, &e) {
		e.At(w.Input, -1).Group = w.Group
	}
	return priced(j.err, -1, w.InputStart, w.Stateless)
}

// verdict is what to do with them.
type verdict int

const (
	begin     verdict = iota // fold from start
	beginNew                 // resolve the start policy, commit it, then fold
	lookAgain                // somebody commits beside us: read both again
	rebuild                  // fold the input again from its beginning, under the next incarnation
)

// decide is the table of committed offset c against progress p (both next offsets) of
// docs/concepts.md. tornCommits says that the broker may commit an offset without the snapshots of
// the same transaction (transaction.version < 2).
func decide(w witnesses, policy Start, fenced, tornCommits bool) (v verdict, start int64, err error) {
	c, p := w.committed.Next, int64(-1)
	if w.progress != nil {
		p = w.progress.Inputs[0].Next
	}
	switch {
	case c < 0 && p < 0 && w.snapshotEmpty:
		return beginNew, 0, nil
	case w.stateless && c >= 0 && w.committed.Nonce == 0:
		// A person, or another client that is a member of the group, has set it. There is no state that
		// it could contradict, and everything before it was written with it.
		return begin, c, nil
	case policy.Rebuild && (c < 0 || p < 0 || c > p):
		return rebuild, 0, nil
	case w.stateless && p < 0 && c >= 0:
		return 0, 0, mismatch(fmt.Sprintf("the group has committed offset %d, and the progress topic has no progress record: another pipe uses the group, or the topic was emptied or made again", c),
			"where another pipe uses the group, give this one a group of its own. Else, to go on there, reset the group's offset to where it is ("+w.reset(c)+"); to process the input once more, choose Rebuild (Start.Disagreement)")
	case w.stateless && c > p && p >= 0:
		return 0, 0, mismatch(fmt.Sprintf("the committed offset %d is ahead of the progress records' %d (they were lost by a truncation)", c, p),
			fmt.Sprintf("reset the group's offset to %d, so that no output is missing (%s), or choose Rebuild (Start.Disagreement) to process the input once more", p, w.reset(p)))
	case c < 0 && p < 0:
		return 0, 0, mismatch("there are snapshots, but neither a committed offset nor a progress record",
			"the topic belongs to another application or format: use an empty snapshot topic, or choose Rebuild (Start.Disagreement)")
	case c < 0 && (policy.Resume || firstTorn(w, fenced)):
		return begin, p, nil
	case c < 0 && w.stateless:
		return 0, 0, mismatch(fmt.Sprintf("the progress records go up to offset %d, but the group has no committed offset (it expired, or the group was deleted)", p),
			"choose ResumeAtProgress (Start.Disagreement) to go on there, or Rebuild to process the input once more")
	case c < 0:
		return 0, 0, mismatch(fmt.Sprintf("the snapshots were written up to offset %d, but the group has no committed offset (it expired, or the group was deleted)", p),
			"choose ResumeAtProgress (Start.Disagreement) to go on at the snapshots' offset, or Rebuild to fold the input once more")
	case p < 0 && policy.AdoptEmpty:
		return begin, c, nil
	case p < 0 && w.foreign(fenced):
		return 0, 0, mismatch(fmt.Sprintf("the group has committed offset %d, which no flow has, and the snapshot topic has no progress record: another program uses the group, or has used it", c),
			"give the flow a group of its own; or, to take the group over, choose AdoptEmpty (Start.Disagreement), which begins at the committed offset with no state of what is before it, or Rebuild, which folds the input from its first record on")
	case p < 0:
		return 0, 0, mismatch(fmt.Sprintf("the group has committed offset %d, and the snapshot topic has no progress record: another flow uses the group, or the topic was emptied or made again", c),
			"where another flow uses the group, give this one a group of its own. Else choose AdoptEmpty (Start.Disagreement), which begins at the committed offset with no state of what is before it, or Rebuild, which folds the input from its first record on")
	case c > p && w.foreign(fenced):
		return 0, 0, mismatch(fmt.Sprintf("the committed offset %d is ahead of the snapshots' %d, and no flow has committed it: another program is or was a member of the group, or somebody reset the offset forward", c, p),
			fmt.Sprintf("let nothing else commit in the group %s; then reset its offset to the snapshots' (%s), or choose Rebuild (Start.Disagreement)", w.group, w.reset(p)))
	case c > p:
		return 0, 0, mismatch(fmt.Sprintf("the committed offset %d is ahead of the snapshots' %d (snapshots were lost by a truncation)", c, p),
			fmt.Sprintf("reset the group's offset to the snapshots' (%s), or choose Rebuild (Start.Disagreement)", w.reset(p)))
	case !fenced:
		return begin, c, nil // c < p: what is folded again is skipped by the applied offset
	case c < p && tornCommits:
		return begin, p, nil
	case c < p || !sameCommit(w):
		return lookAgain, 0, nil
	}
	return begin, c, nil
}

// firstTorn reports whether all there is is the progress record of a first commit without a
// transaction: the process ended before the offset followed it.
func firstTorn(w witnesses, fenced bool) bool {
	return !fenced && w.progress.Nonce == 0 && w.progress.Sequence == 1
}

// sameCommit reports whether equal offsets are those of one commit. An offset that carries no nonce
// was committed outside the fence: by the Unfenced guarantee, or by a person who reset the group to
// where the snapshots are. It says what the snapshots say, and nobody's transaction is behind it.
func sameCommit(w witnesses) bool {
	return w.committed.Nonce == 0 || w.committed.Nonce == w.progress.Nonce && w.committed.Sequence == w.progress.Sequence
}

func mismatch(what, hint string) error {
	return stream.NewError("start", fmt.Errorf("%s: %w", what, stream.ErrOffsetMismatch)).Hinted("%s", hint)
}

// disagreement is the error after looking again did not help: the offset is behind the
// snapshots, or it is the same and of another commit.
func disagreement(w witnesses) error {
	c, p := w.committed, w.progress
	next := p.Inputs[0].Next
	if c.Next < next {
		return mismatch(fmt.Sprintf("the committed offset %d is behind the snapshots' %d, and stays so", c.Next, next),
			fmt.Sprintf("somebody reset the group's offset back: reset it to the snapshots' (%s), or choose Rebuild (Start.Disagreement)", w.reset(next)))
	}
	return mismatch(fmt.Sprintf("the committed offset and the snapshots are both at %d, but were written by two transactions "+
		"(the offset by %s, the snapshots by %s), and stay so", next, witnessName(c.Nonce, c.Sequence), witnessName(p.Nonce, p.Sequence)),
		"something else commits offsets of this group or writes to the snapshot topic: find it and stop it. Then reset the group's offset "+
			"to where it is ("+w.reset(next)+") to take the snapshots as they are, or choose Rebuild (Start.Disagreement)")
}

// witnessName names a commit as the committed offset's metadata does.
func witnessName(nonce, sequence uint64) string {
	if nonce == 0 {
		return "no commit of a fenced component"
	}
	return fmt.Sprintf("commit %d of ownership %x", sequence, nonce)
}
