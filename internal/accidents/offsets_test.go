package accidents

import (
	"errors"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/kafkatest"
	"github.com/holdfast-go/holdfast/stream"
)

// offsetCase is one accident of the committed offset, and each way out of it. The component has taken
// ten records, and five more wait.
type offsetCase struct {
	name  string
	kinds []kind
	spoil func(*lab)
	stops bool // with an error that says words
	words []string
	ways  []way
}

// way is what the operator does next.
type way struct {
	name   string
	take   func(*lab)
	start  int64 // where it goes on
	losses map[kind][]loss
}

func policy(d holdfast.Disagreement) func(*lab) { return func(l *lab) { l.policy = d } }
func reset(next int64) func(*lab)               { return func(l *lab) { l.reset(next) } }
func nothing(*lab)                              {}

// again is the loss of a rebuild in which the outputs of the first n records are written once more. Those
// of a flow whose outputs are not in its transactions may be.
func again(n int) map[kind][]loss { return map[kind][]loss{outputs: repeated(n), copies: repeated(n)} }

var offsetCases = []offsetCase{
	{name: "missing", kinds: everyKind, spoil: (*lab).forget, stops: true, words: []string{"no committed offset (it expired", "ResumeAtProgress"}, ways: []way{
		{"resume at the progress", policy(holdfast.ResumeAtProgress), 10, nil},
		{"rebuild", policy(holdfast.Rebuild), 0, again(10)},
	}},
	{name: "reset back", kinds: []kind{states, outputs}, spoil: reset(4), stops: true, words: []string{"offset 4 is behind the snapshots' 10", "reset it"}, ways: []way{
		{"reset to the snapshots", reset(10), 10, nil},
		{"rebuild", policy(holdfast.Rebuild), 0, again(10)},
	}},
	{name: "reset back", kinds: []kind{copies}, spoil: reset(4), ways: []way{
		// How often it falls depends on how the transactions cut the records between 4 and 10.
		{"go on", nothing, 4, map[kind][]loss{copies: append(repeated(6), loss{"I3", 1, "had restored up to 4"}, loss{"I3", atWill, "the committed offset falls from 10 to "})}},
	}},
	{name: "reset back", kinds: []kind{plain}, spoil: reset(4), ways: []way{
		// It may have crashed between snapshots and offset. What they have applied is passed over.
		{"go on", nothing, 4, nil},
	}},
	{name: "reset forward", kinds: []kind{states, outputs}, spoil: reset(12), stops: true, words: []string{"offset 12 is ahead of the snapshots' 10"}, ways: []way{
		{"reset to the snapshots", reset(10), 10, nil},
		{"rebuild", policy(holdfast.Rebuild), 0, again(10)},
	}},
	{name: "reset forward", kinds: []kind{copies}, spoil: reset(12), ways: []way{
		{"go on", nothing, 12, map[kind][]loss{copies: {{"I4", 2, "is missing"}}}},
	}},
	{name: "reset past the end", kinds: []kind{states, outputs}, spoil: reset(100), stops: true, words: []string{"offset 100 is ahead of the snapshots' 10"}, ways: []way{
		{"reset to the snapshots", reset(10), 10, nil},
	}},
}

// The committed offset is missing, or an operator has moved it, while the component was down.
func TestKafkaOffsetAccidents(t *testing.T) {
	t.Parallel()
	for _, c := range offsetCases {
		for _, what := range c.kinds {
			for _, w := range c.ways {
				t.Run(string(what)+"/"+c.name+"/"+w.name, func(t *testing.T) {
					if what == outputs && c.name != "missing" { // the start table is one for both kinds of flow
						nightly(t)
					}
					t.Parallel()
					c.run(newShared(t, what, 1), w)
				})
			}
		}
	}
}

func (c offsetCase) run(l *lab, w way) {
	before := l.ten()
	l.produce(0, 10, 15)
	c.spoil(l)
	start := w.start
	if c.name == "reset back" && (l.kind == states || l.kind == outputs) && oldTransactions() {
		// A commit may be torn there: such an offset is taken for one, and folding goes on at the progress.
		l.verdict(nil, before, l.finish(10, 15))
		return
	}
	if c.stops {
		l.refuses(stream.ErrOffsetMismatch, c.words...)
		if got := l.snapshotOf(); got != 10 {
			l.t.Errorf("the refused start has written progress %d", got)
		}
	}
	w.take(l)
	after := l.finish(start, 15)
	l.verdict(w.losses[l.kind], before, after)
	l.policy = holdfast.StopAndAsk
	l.again(15) // what was resolved is not resolved again
}

// The committed offset expires by itself, as the broker keeps it for a minute after the last member left.
func TestKafkaOffsetExpires(t *testing.T) {
	nightly(t)
	k := kafkatest.New(t, kafkatest.Options{Properties: map[string]string{
		"offsets.retention.minutes": "1", "offsets.retention.check.interval.ms": "1000",
	}})
	for _, what := range kinds {
		t.Run(string(what), func(t *testing.T) {
			t.Parallel()
			l := newLab(t, k, what, 1)
			before := l.ten()
			l.produce(0, 10, 15)
			l.until("the offset has expired", func() bool { return l.committed(0) < 0 }) // after a minute, at the broker's next look
			l.refuses(stream.ErrOffsetMismatch, "no committed offset (it expired")
			l.policy = holdfast.ResumeAtProgress
			l.verdict(nil, before, l.finish(10, 15))
			l.policy = holdfast.StopAndAsk
			l.again(15)
		})
	}
}

// A pipe's offset is reset past the end of its input. There is no record at which it could go on.
func TestKafkaOffsetResetPastTheEndOfAPipe(t *testing.T) {
	t.Parallel()
	l := newShared(t, copies, 1)
	before := l.ten()
	l.reset(100)
	l.refuses(stream.ErrTruncated, "the log ends at 10, and the next record to fold is at offset 100")
	l.reset(10)
	l.produce(0, 10, 15)
	l.verdict(nil, before, l.finish(10, 15))
}

// While a member runs, the broker refuses to move or delete its group's offsets, and the member goes on.
func TestKafkaOffsetsOfARunningMember(t *testing.T) {
	each(t, 1, func(t *testing.T, l *lab) {
		l.produce(0, 0, 10)
		r := l.start("running")
		r.committedTo(0, 10)
		if err := l.commitAs(t.Context(), 3); !errors.Is(err, kerr.UnknownMemberID) {
			t.Errorf("the reset was answered %v, want UNKNOWN_MEMBER_ID", err)
		}
		if err := l.deleteOffset(t.Context()); !errors.Is(err, kerr.GroupSubscribedToTopic) {
			t.Errorf("the deletion of the offset was answered %v, want GROUP_SUBSCRIBED_TO_TOPIC", err)
		}
		rs, err := l.admin.DeleteGroups(t.Context(), l.group)
		if err == nil {
			err = rs.Error()
		}
		if !errors.Is(err, kerr.NonEmptyGroup) {
			t.Errorf("the deletion of the group was answered %v, want NON_EMPTY_GROUP", err)
		}
		l.produce(0, 10, 15)
		r.committedTo(0, 15)
		r.end()
		l.verdict(nil, r)
	})
}

// Retention takes records away that were not folded yet. No component passes over them in silence.
func TestKafkaRetentionOvertakes(t *testing.T) {
	each(t, 1, func(t *testing.T, l *lab) {
		l.ten()
		l.produce(0, 10, 15)
		l.trim(l.input, 12)
		words := []string{"at offset 10, and the log begins at 12", "retention", "ResumeAtLogStart", "Rebuild drops no state"}
		if l.kind != copies {
			words[3] = "Rebuild drops the 3 states of this partition: the input begins at offset 12"
		}
		l.refuses(stream.ErrTruncated, words...)
		l.policy = holdfast.Rebuild
		after := l.finish(12, 15)
		lost := map[kind][]loss{ // outputs of records that the input does not have any more
			states: {{"I4", 10, "no step gives this output"}}, outputs: {{"I4", 10, "no step gives this output"}},
			copies: {{"I4", 10, "no step gives this output"}},
		}
		l.verdict(lost[l.kind], after)
	})
}

// The way out of it that keeps the states goes on at the log's start, says which offsets it passes over, and folds
// what is left onto what there is.
func TestKafkaRetentionOvertakesAndStatesAreKept(t *testing.T) {
	each(t, 1, func(t *testing.T, l *lab) {
		l.ten()
		l.produce(0, 10, 15)
		l.trim(l.input, 12)
		l.refuses(stream.ErrTruncated, "not in the log any more")
		l.policy = holdfast.ResumeAtLogStart
		r := l.start("after")
		if e := await(r, 0, any1[stream.Gone]); e.From != 10 || e.To != 12 {
			t.Errorf("I2: offsets %d to %d are told to be gone, want 10 to 12", e.From, e.To)
		}
		if e := await(r, 0, any1[stream.Restored]); e.Start != 12 || l.kind != copies && e.Keys != 3 {
			t.Errorf("I2: it goes on at %d with %d keys, want 12 with 3", e.Start, e.Keys)
		}
		r.committedTo(0, 15)
		r.end()
		l.policy = holdfast.StopAndAsk
		l.again(15)
	})
}
