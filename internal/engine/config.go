package engine

import (
	"context"
	"math"
	"time"

	"github.com/holdfast-go/holdfast/stream"
)

// Config is what an Engine is made of. The engine has no defaults: the caller resolves them.
type Config[S any] struct {
	Settings
	// Fold is the user's function. It may fail and panic. The Call is valid until it returns.
	Fold func(ctx context.Context, c *Call[S], r stream.Record) error
	// Route names the key of a record; !ok filters the record, and its offset counts as consumed.
	// It may panic. Nil: the record's own key.
	Route func(stream.Record) (key []byte, ok bool)
	// Encode appends the encoded state to dst and returns the extended slice, sharing nothing with
	// s. Decode reads it back without keeping src. Both are the user's and may fail and panic.
	Encode func(dst []byte, s S) ([]byte, error)
	Decode func(src []byte) (S, error)
	// Clone returns a copy that shares nothing with s that a fold may change. It may be nil.
	Clone func(s S) S
	// Plain tells that S holds no references (HoldsReferences): an assignment is a copy.
	Plain bool
}

// Settings are what does not depend on the type of the states.
type Settings struct {
	// Partition is the input, for errors.
	Partition stream.Partition
	// Outputs are the topics that Emit may name, each with the size of the largest record it takes
	// (stream.Message.BatchBytes). 0: no bound.
	Outputs map[string]int
	// Whole makes a batch carry everything that was done since the one before it: outputs in the order
	// of their steps, every dirty key, tombstones at once, and the next offset to fold. It is closed by
	// CommitInterval, MaxWrites or MaxBytes, is split by Bound alone, if there is no state in it, and no key
	// waits for PersistInterval.
	Whole bool

	// PersistInterval is how long after its first unpersisted step a key is due.
	PersistInterval time.Duration
	// PersistCooldown is how long after an accepted Call.Persist further ones of that key are
	// dropped.
	PersistCooldown time.Duration
	// CommitInterval is how long after a batch was closed the next one is closed if there is no
	// due key, but the offset to commit has moved or a tombstone waits.
	CommitInterval time.Duration
	// MaxWrites and MaxBytes bound one batch, which has at least one write whatever its size.
	// 0: no bound.
	// With Whole they close a batch as soon as one of them is reached, and one step more may be in it.
	// Bound lowers MaxBytes.
	MaxWrites int
	MaxBytes  int64
	// MaxRecordBytes bounds one snapshot record: key, value and RecordOverheadBytes. 0: no bound.
	MaxRecordBytes int
	// KeepDirty: a key whose snapshot cannot be written (too large, not encodable, refused by the
	// broker) stays dirty, holds back the offset and is tried again with a back-off. Otherwise it
	// is an error that stops the partition.
	KeepDirty bool

	// Rules that tests and the demo switch off to show what each prevents.
	NoAppliedSkip    bool // a replay folds again what a key has applied
	NoHolds          bool // the offset runs ahead of the snapshots
	NoTwoWriteDelete bool // a delete writes its tombstone at once
}

// RecordOverheadBytes is allowed for what a snapshot record has besides key and value when its size
// is checked: 61 bytes of batch header, up to 31 of varints and attributes, the header name of 8
// and a header value that is below 60 bytes without timers.
const RecordOverheadBytes = 160

// The pause before a key that could not be written is tried again. It doubles with each failure.
const (
	backoffMin = time.Second
	backoffMax = time.Minute
)

// Engine is one partition. Make it with New.
type Engine[S any] struct {
	cfg  Config[S]
	keys map[string]*entry[S]

	started     bool
	retained    bool      // between Retain and Start
	tainted     bool      // no step is possible any more: memory has to be dropped
	spoiled     bool      // with Whole: nor is a batch, since memory is ahead of what can be committed
	copies      bool      // states are copied by the codec before a step
	base        time.Time // times are kept as nanoseconds since Start
	next        int64     // next offset to fold
	first       int64     // next as it was at Start
	epoch       int32     // leader epoch of the record before next, -1 if unknown
	committed   int64     // known committed offset, -1 none
	closedAt    int64     // when the last batch was closed
	skip        map[int64]bool
	failedAt    int64 // offset of the record that failed last
	attempts    int   // how often it failed
	incarnation uint32
	dropped     []string // keys that the log has from before a rebuild, and that are to get a tombstone

	holds holds
	// A key is in one queue at most. due: dirty keys, by the time they are due. graves: keys whose
	// deletion is committed, by the offset of the deletion. ready: those of them that the committed
	// offset has passed, by the time their tombstone is due.
	due, graves, ready queue[S]

	// With Whole: what the steps since the last batch have emitted, its bytes and those of the dirty
	// keys as last encoded, and whether a step asked for the batch to be closed.
	outputs    []Output
	wholeBytes int64
	wholeSteps int   // steps that have left something
	meanWrite  int64 // bytes of a write of the last batch that had any
	hurried    bool
	// With Whole: keys each of whose steps up to an offset closes the batch, and whether one has.
	single map[string]int64
	alone  bool

	bound int64 // below MaxBytes, what a batch may have; 0: as MaxBytes says

	batch  *Batch // in flight
	flying []flown[S]
	arena  []byte // spare room that snapshots are encoded into
	spare  []byte // and copies of states (CopyByCodec)

	kept  []error // of keys that could not be written and stay dirty, until Kept is called
	step  step[S]
	dead  int   // keys that are deleted and not yet forgotten
	bytes int64 // keys and their states as last encoded
}

// entry is one key.
type entry[S any] struct {
	key       string
	state     S
	has       bool // the key has a state
	deleted   bool // D(applied): deleted at the applied offset, and to be remembered
	tainted   bool // a failed step may have changed state in place; never written again
	refused   uint8
	inc       uint32 // incarnation it was restored from
	applied   int64
	persisted int64 // applied offset of the newest committed snapshot, -1 none
	steps     uint64
	asked     int64 // when Persist was last accepted
	size      int   // share of Engine.bytes

	fresh  *hold // the oldest offset folded since the last batch that has this key
	flight *hold // what the batch in flight clears
	flying bool  // the batch in flight has a write of this key

	in        *queue[S]
	pos       int
	rank, tie int64
}

const never = math.MinInt64 / 2

// New returns an Engine that is ready for Load.
func New[S any](c Config[S]) *Engine[S] {
	return &Engine[S]{cfg: c, keys: map[string]*entry[S]{}, next: -1, epoch: -1, committed: -1, failedAt: -1}
}

func (e *Engine[S]) create(key string) *entry[S] {
	x := &entry[S]{key: key, applied: -1, persisted: -1, asked: never, inc: e.incarnation}
	e.keys[key] = x
	e.resize(x, len(key))
	return x
}

func (e *Engine[S]) forget(x *entry[S]) {
	if x.in != nil {
		x.in.remove(x)
	}
	e.bury(x, false)
	e.resize(x, 0)
	delete(e.keys, x.key)
}

func (e *Engine[S]) resize(x *entry[S], size int) {
	e.bytes += int64(size - x.size)
	x.size = size
}

// bury sets whether x is deleted and keeps count.
func (e *Engine[S]) bury(x *entry[S], deleted bool) {
	if x.deleted != deleted {
		x.deleted = deleted
		if deleted {
			e.dead++
		} else {
			e.dead--
		}
	}
}

func (e *Engine[S]) at(now time.Time) int64 { return int64(now.Sub(e.base)) }
