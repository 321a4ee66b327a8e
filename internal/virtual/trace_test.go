//go:build synctests

package virtual

import (
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/holdfasttest"
)

// trace returns all that the members have told, in the order of the virtual clock.
func (w *world) trace() []string {
	var told []logLine
	for _, m := range w.members {
		for _, e := range m.rec.Member().Events {
			told = append(told, logLine{e.At, fmt.Sprintf("%-4s %s", m.name, textOf(e))})
		}
		m.marks.mu.Lock()
		for _, l := range m.marks.lines {
			told = append(told, logLine{l.at, fmt.Sprintf("%-4s %s", m.name, l.text)})
		}
		m.marks.mu.Unlock()
	}
	slices.SortStableFunc(told, func(a, b logLine) int { return a.at.Compare(b.at) })
	var lines []string
	for _, l := range told {
		lines = append(lines, fmt.Sprintf("%10v %s", l.at.Sub(w.began).Round(time.Millisecond), l.text))
	}
	return lines
}

func textOf(e holdfasttest.Event) string {
	line := fmt.Sprintf("%-13s", e.Kind)
	if e.Partition.Topic != "" {
		line += fmt.Sprintf(" %s-%d at %d", e.Partition.Topic, e.Partition.Partition, e.Offset)
	}
	if e.Ownership > 0 {
		line += fmt.Sprintf(" ownership %d generation %d", e.Ownership, e.Generation)
	}
	if e.Key != nil {
		line += fmt.Sprintf(" %q on %s", e.Key, e.State)
	}
	if e.Cause != "" {
		line += " cause: " + e.Cause
	}
	if e.Final {
		line += " (final)"
	}
	return line
}

// groupText says what the group's coordinator knows.
func (w *world) groupText() string {
	info := w.cluster.GroupInfo(group)
	if info == nil {
		return "there is no group"
	}
	text := fmt.Sprintf("the group is %s in epoch %d", info.State, info.Epoch)
	for _, m := range info.Members {
		text += fmt.Sprintf("; %s has %v", m.MemberID, m.Assignment)
	}
	return text
}
