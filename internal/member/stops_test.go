package member_test

import (
	"sync/atomic"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/stream"
)

// stop is one stop, and how it comes about after a component has taken five records.
type stop struct {
	name  string
	pipes bool // of a pipe as well
	alone bool // and of a pipe alone
	spoil func(*walk)
	is    error
	// keeps is the least number of the five keys that one of the ways out must keep.
	keeps int
	// costs is what the hint has to say of Rebuild.
	costs string
	// silent: Check cannot see it, or tells it by another look.
	silent bool
}

// lose deletes records that nobody has folded.
func lose(w *walk) {
	w.produce("new", 2)
	w.trim(6)
}

func forget(w *walk) {
	s := kadm.TopicsSet{}
	s.Add(input, 0)
	rs, err := kadm.NewClient(w.cl).DeleteOffsets(w.t.Context(), "flow", s)
	w.must(err)
	w.must(rs.Error())
}

func both(first, second func(*walk)) func(*walk) { return func(w *walk) { first(w); second(w) } }
func to(next int64) func(*walk)                  { return func(w *walk) { w.commitAsAnother(next) } }
func emptied(w *walk)                            { w.remake(states) }

var stops = []stop{
	{
		name: "records are gone", pipes: true, spoil: lose, is: stream.ErrTruncated, keeps: 5,
		costs: "Rebuild drops the 5 states of this partition: the input begins at offset 6, and what they have from before that does not come back",
	},
	{
		name: "records are gone under a member", pipes: true, spoil: goneWhileRunning, is: stream.ErrTruncated, keeps: 5, silent: true,
		costs: "Rebuild drops the 5 states of this partition: the input begins at offset 6",
	},
	{name: "no offset", pipes: true, spoil: forget, is: stream.ErrOffsetMismatch, keeps: 5},
	{name: "no offset and records are gone", pipes: true, spoil: both(forget, lose), is: stream.ErrOffsetMismatch, keeps: 5},
	{name: "no snapshots", pipes: true, spoil: emptied, is: stream.ErrOffsetMismatch},
	{name: "no snapshots and records are gone", pipes: true, spoil: both(emptied, lose), is: stream.ErrOffsetMismatch},
	{name: "neither offset nor progress", spoil: both(forget, noProgress), is: stream.ErrOffsetMismatch},
	{
		name: "reset back", spoil: to(2), is: stream.ErrOffsetMismatch, keeps: 5,
		costs: "Rebuild drops the 5 states of this partition: the input still begins at offset 0",
	},
	{name: "reset back below the log", spoil: both(func(w *walk) { w.trim(4) }, to(2)), is: stream.ErrOffsetMismatch, keeps: 5},
	{name: "reset forward", spoil: both(func(w *walk) { w.produce("new", 2) }, to(6)), is: stream.ErrOffsetMismatch, keeps: 5},
	{name: "reset forward to the start of the log", spoil: both(lose, to(6)), is: stream.ErrOffsetMismatch, keeps: 5},
	{name: "reset forward past the start of the log", spoil: both(lose, to(7)), is: stream.ErrOffsetMismatch, keeps: 5},
	{name: "progress lost", pipes: true, spoil: truncated, is: stream.ErrOffsetMismatch, keeps: 3},
	{name: "progress lost and records are gone", pipes: true, spoil: both(truncated, func(w *walk) { w.trim(4) }), is: stream.ErrOffsetMismatch, keeps: 3},
	{name: "another commit", spoil: anotherCommit, is: stream.ErrOffsetMismatch, keeps: 5},
	{name: "another fold version", spoil: func(w *walk) { w.version = "2" }, is: stream.ErrFoldVersion, keeps: 5, silent: true},
	{name: "another codec", spoil: func(w *walk) { w.codec = tenfold{} }, is: stream.ErrCorruptSnapshot, keeps: 5, silent: true, costs: "Rebuild drops all states of the partition"},
	{name: "an offset of somebody else's", spoil: both(emptied, to(4)), is: stream.ErrOffsetMismatch},
	{name: "an offset of another component's", spoil: ofAPipe, is: stream.ErrOtherComponent, silent: true},
	{name: "another group's snapshots", spoil: func(w *walk) { w.group = "second" }, is: stream.ErrOtherGroup, silent: true},
	{name: "reset past the end", pipes: true, alone: true, spoil: to(50), is: stream.ErrTruncated},
	{name: "the input was made again", pipes: true, spoil: func(w *walk) { w.again(2); w.putBack(5) }, is: stream.ErrInputChanged, costs: "Rebuild drops "},
	{name: "the input was made again, without its offset", pipes: true, spoil: func(w *walk) { w.again(2) }, is: stream.ErrInputChanged, costs: "Rebuild drops "},
	{name: "another input's states", pipes: true, spoil: both(forget, ofAnotherInput), is: stream.ErrInputChanged},
}

// noProgress leaves the states and takes the progress record away, as somebody with tombstones does.
func noProgress(w *walk) {
	w.must(w.cl.ProduceSync(w.t.Context(), &kgo.Record{Topic: states, Key: []byte("\x00progress")}).FirstErr())
}

// truncated takes the topic back to where it was after three records.
func truncated(w *walk) {
	w.t.Helper()
	var kept []*kgo.Record
	log := wire.Log{Client: w.cl, Topic: states}
	_, err := log.Read(w.t.Context(), wire.ReadOptions{To: w.end(states), Committed: true}, func(r *kgo.Record) error {
		kept = append(kept, &kgo.Record{Topic: states, Key: r.Key, Value: r.Value, Headers: r.Headers})
		return nil
	})
	w.must(err)
	n := 0
	for i, r := range kept {
		if p, err := fence.DecodeProgress(r.Value); fence.IsProgressKey(r.Key) && err == nil && p.Inputs[0].Next <= 3 {
			n = i + 1
		}
	}
	w.remake(states)
	w.must(w.cl.ProduceSync(w.t.Context(), kept[:n]...).FirstErr())
}

// ofAnotherInput has the topic as a component of this group has written it that reads another input.
func ofAnotherInput(w *walk) {
	w.t.Helper()
	var kept []*kgo.Record
	log := wire.Log{Client: w.cl, Topic: states}
	_, err := log.Read(w.t.Context(), wire.ReadOptions{To: w.end(states), Committed: true}, func(r *kgo.Record) error {
		kept = append(kept, &kgo.Record{Topic: states, Key: r.Key, Value: r.Value, Headers: r.Headers})
		return nil
	})
	w.must(err)
	for _, r := range kept {
		p, err := fence.DecodeProgress(r.Value)
		if !fence.IsProgressKey(r.Key) || err != nil {
			continue
		}
		p.Inputs[0].Topic, p.Inputs[0].TopicID[0] = "payments", p.Inputs[0].TopicID[0]+1
		_, r.Value, err = p.Encode()
		w.must(err)
		for i := range r.Headers {
			if string(r.Headers[i].Value) == input+"/0" {
				r.Headers[i].Value = []byte("payments/0")
			}
		}
	}
	w.remake(states)
	w.must(w.cl.ProduceSync(w.t.Context(), kept...).FirstErr())
}

func anotherCommit(w *walk) { w.commitWith(wire.Witness{Nonce: 7, Sequence: 7}) }
func ofAPipe(w *walk)       { w.commitWith(wire.Witness{Nonce: 7, Sequence: 7, Kind: "pipe"}) }

func (w *walk) commitWith(named wire.Witness) {
	w.t.Helper()
	os := kadm.Offsets{}
	os.Add(kadm.Offset{Topic: input, At: 5, LeaderEpoch: -1, Metadata: named.Metadata()})
	rs, err := kadm.NewClient(w.cl).CommitOffsets(w.t.Context(), "flow", os)
	w.must(err)
	w.must(rs.Error())
}

// goneWhileRunning deletes records that a running member has not been given.
func goneWhileRunning(w *walk) {
	var held atomic.Bool
	id := w.topicID(input)
	held.Store(true)
	w.cluster.ControlKey(int16(kmsg.Fetch), func(kreq kmsg.Request) (kmsg.Response, error, bool) {
		w.cluster.KeepControl()
		req := kreq.(*kmsg.FetchRequest)
		for i := range req.Topics {
			if req.Topics[i].TopicID == id && held.Load() {
				return req.ResponseKind(), nil, true // nothing
			}
		}
		return nil, nil, false
	})
	w.restored = func() {
		lose(w)
		held.Store(false)
	}
}
