package accidents

import (
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/wiretap"
	"github.com/holdfast-go/holdfast/stream"
)

// under is one component whose member runs, or restores, when an election loses the end of a log.
type under struct {
	*lab
	moment string
	member *run
	lift   func()       // lets a restore go on when the election is over; nil: there is none
	resume func(*under) // has the member meet the loss, and takes the way out
}

// An unclean election loses the end of the input, or of the snapshot or progress topic, under a running
// member, and while one restores.
func TestKafkaTruncationUnderAMember(t *testing.T) {
	nightly(t)
	u := newUnclean(t)
	var folding, idle, writing, restoring []*under
	for _, what := range kinds {
		folding = append(folding, &under{lab: u.lab(what, true), moment: "folding", resume: func(c *under) { c.inputLost(0) }})
		idle = append(idle, &under{lab: u.lab(what, true), moment: "idle", resume: func(c *under) { c.inputLost(10) }})
		writing = append(writing, &under{lab: u.lab(what, false), moment: "writing", resume: (*under).tailLost})
	}
	writing = append(writing, &under{lab: u.lab(plain, false), moment: "writing", resume: (*under).tailUnnoticed})
	for _, what := range everyKind {
		c := &under{lab: u.lab(what, false), moment: "restoring", resume: (*under).restoreCut}
		c.stall = time.Minute // above what an election takes: the restore is held for as long
		restoring = append(restoring, c)
	}
	for _, group := range [][]*under{idle, writing, restoring} {
		for _, c := range group {
			c.ten()
		}
	}
	u.forgetful()
	for _, c := range folding {
		c.fold(0)
	}
	for _, c := range writing {
		c.fold(10)
	}
	for _, c := range idle { // the member after the next has taken no record
		c.fold(10)
		c.member.end()
		c.member = c.start("idle")
		await(c.member, 0, any1[stream.Restored])
	}
	for _, c := range restoring {
		c.fold(10)
		c.member.end()
	}
	for _, c := range restoring {
		c.restore()
	}
	u.truncate()
	for _, c := range restoring {
		c.lift()
	}
	for _, group := range [][]*under{folding, idle, writing, restoring} {
		for _, c := range group {
			t.Run(fmt.Sprintf("%s, %s", c.moment, c.kind), func(t *testing.T) {
				c.lab.t, c.member.t = t, t
				c.resume(c)
			})
		}
	}
}

// fold has a member take the records up to the one before offset 15.
func (c *under) fold(from int) {
	c.t.Helper()
	c.produce(0, from, 15)
	c.member = c.start("running")
	c.member.committedTo(0, 15)
}

// restore has a member read the end of the snapshots, and holds it before it reads the first one.
func (c *under) restore() {
	c.t.Helper()
	tap := tapOf(c.t, c.k)
	fetch := tap.Fault(wiretap.HoldRequest, wiretap.Keys(kmsg.Fetch))
	c.t.Cleanup(fetch.Lift)
	c.lift = fetch.Lift
	c.member = c.start("restoring", dialer(tap))
	caught(c.t, fetch, 1)
}

// inputLost is a member whose input has kept the first records of fifteen. Others take the offsets of
// the lost ones, and go past them.
func (c *under) inputLost(kept int64) {
	c.t.Helper()
	c.produce(0, 20, 40)
	c.stopped()
	c.refuses(stream.ErrTruncated, fmt.Sprintf("ends at %d,", kept), "folded it up to 15", "Rebuild")
	c.policy = holdfast.Rebuild
	losses := append(again(int(kept))[c.kind], fromTheOther(15-int(kept))...)
	c.verdict(losses, c.finish(0, kept+20))
}

// tailLost is a member that writes to a log which ends below what it has written.
func (c *under) tailLost() {
	c.t.Helper()
	c.produce(0, 15, 16)
	c.stopped("made again or has lost records")
	c.backToTheSnapshots(16)
}

// tailUnnoticed is a member that nothing tells of the loss: such elections are outside of what Unfenced
// claims. The key that is written again is whole, and the other two are without what was lost.
func (c *under) tailUnnoticed() {
	c.t.Helper()
	c.produce(0, 15, 16)
	c.member.committedTo(0, 16)
	c.member.end()
	c.again(16)
	c.verdict([]loss{{"I1", 2, "is in no snapshot"}})
}

// restoreCut is a member that has seen where the log ended, and meets the end that there is.
func (c *under) restoreCut() {
	c.t.Helper()
	c.stopped("the log was truncated")
	c.produce(0, 15, 16)
	c.backToTheSnapshots(16)
}

// stopped checks that the member has stopped, and committed nothing more.
func (c *under) stopped(words ...string) {
	c.t.Helper()
	named(c.t, c.member.failure(), stream.ErrTruncated, words...)
	if got := c.committed(0); got != 15 {
		c.t.Errorf("committed %d after the loss, want 15", got)
	}
}

// backToTheSnapshots resets the offset to the snapshots or progress records that are left, and has what
// was lost with the others taken again.
func (c *under) backToTheSnapshots(next int64) {
	c.t.Helper()
	c.refuses(stream.ErrOffsetMismatch, "offset 15 is ahead of the", "10", "reset the group's offset")
	c.reset(10)
	c.verdict(again(5)[c.kind], c.finish(10, next))
}
