package stream

import "time"

// Hooks is a set of functions that a component calls as things happen. Any of them may be nil.
// They are called from the goroutine where the event happens, for several partitions at once: they
// must be safe for concurrent use, quick, and must not call back into the component.
type Hooks struct {
	Assigned  func(Assigned)  // an ownership was granted
	Restoring func(Restoring) // a restore made progress; at most once a second a partition
	Restored  func(Restored)  // a restore reached its target and folding begins
	Committed func(Committed) // a transaction is known to be committed
	Refused   func(Refused)   // the broker refused a transaction
	Failed    func(Failed)    // a step failed and the error policy has decided
	Revoked   func(Released)  // an ownership was drained and torn down: in a revoke, or because the flow stops
	Lost      func(Released)  // an ownership ended by loss: torn down, nothing flushed (see Released)
	Stalled   func(Stalled)   // a restore makes no progress
	// InputStalled: a partition waits for an open transaction of somebody else on its input. It is told when
	// that is found, every 10 s while it lasts, and when the partition goes on (Over).
	InputStalled func(InputStalled)
	OutputAcked  func(OutputAcked) // outputs were acknowledged by the broker
	// DeadLettered: a record was handed to the dead-letter topic. Whether the letter is visible is told
	// by the Committed or OutputAcked that covers it.
	DeadLettered func(DeadLettered)
	// Throttled: a broker has answered that this process is over a quota, and holds back what it sends next.
	Throttled func(Throttled)
	// Stopped: the component stops with an error, which Run returns once it has torn everything down.
	Stopped func(Stopped)
	// Gone: records that were not folded are not in the log any more, and the partition goes on at its
	// start, because the start policy says so.
	Gone func(Gone)
	// Halted: a partition stops because its next batch cannot be read, and the others go on.
	Halted func(Halted)
}

// Halted tells that a partition is not read any further. What was folded is committed, and the member keeps the
// partition. It goes on when a member is granted it anew that can read the batch, or when its records are deleted.
type Halted struct {
	Partition Partition
	Ownership int64
	Err       error // with the offset of the batch
}

// Assigned tells that an ownership was granted.
type Assigned struct {
	Partition  Partition
	Ownership  int64
	Generation int32
	TookOver   bool          // the takeover found another's epoch on the transactional id
	Takeover   time.Duration // how long the takeover and the stable offset fetch took
	Committed  int64         // the stable committed offset, -1 if none
}

// Restoring tells how far a restore has come.
type Restoring struct {
	Partition Partition
	Position  int64 // next offset of the snapshot partition to be read
	Target    int64 // high watermark captured at the start
	Records   int64
	Bytes     int64
	Rate      float64       // bytes per second since the start
	ETA       time.Duration // 0: unknown
}

// Restored tells that a partition is ready.
type Restored struct {
	Partition Partition
	Keys      int
	Records   int64
	Bytes     int64
	Took      time.Duration
	Start     int64 // first input offset to be folded
	// Retained: the states were kept in memory since this member owned the partition last, and nobody has
	// written since. Nothing was read: Records and Bytes are 0, and Took is the time of the check.
	Retained bool
}

// Gone tells that offsets are passed over: the log begins at To, and the partition had come to From. What was
// between, if anything was, is in no state and no output.
type Gone struct {
	Partition Partition
	Ownership int64
	From, To  int64 // input offsets: from the first one that is passed over up to the one that it goes on at
}

// Committed tells what a transaction made visible.
type Committed struct {
	Partition Partition
	Next      int64 // committed input offset
	Writes    int   // snapshots and tombstones
	Outputs   int   // outputs and dead letters that were in the transaction
	Bytes     int64 // of keys, values and headers of the writes, with their overhead
	// OutputBytes is the same of the outputs.
	OutputBytes int64
	Took        time.Duration
	ReadBack    bool // the outcome was unknown at first and read back
}

// Refused tells that the broker refused a transaction, or that a key cannot be written and is kept in
// memory for it (cause "record", not final).
type Refused struct {
	Partition Partition
	Cause     string // "generation", "producer-epoch", "member", "instance", "record", "input", "abortable", "transient", "slow", "unknown" or "fatal"
	Code      int16  // Kafka error code, 0 if there was none
	Final     bool   // the ownership ends by it
	Err       error
}

// Failed tells that the step of a record failed.
type Failed struct {
	Partition Partition
	Offset    int64
	Attempt   int    // as RecordError has it
	Action    Action // what the error policy decided; Stop without one
	Err       error
}

// DeadLettered tells that a record goes to the dead-letter topic.
type DeadLettered struct {
	Partition Partition // of the input
	Offset    int64
	Topic     string // the dead-letter topic
	Attempt   int    // how often the record had failed
	Err       error
}

// Released tells how an ownership ended. It is lost when the group or the broker took it away, when a
// transaction's outcome stayed unknown, and when the memory of a partition has to be dropped: a step
// failed that may have changed a state in place, and there is no Config.Clone. It is not lost when a
// policy stops the flow at a record: what was folded before the record is committed, and Revoked is
// called with the cause.
type Released struct {
	Partition Partition
	Ownership int64
	Took      time.Duration // from the callback to the return
	Flushed   bool          // everything folded was committed
	Cause     error         // why it was lost or why the flow stops; nil for a plain revoke
}

// Stalled tells that a restore makes no progress.
type Stalled struct {
	Partition Partition
	Position  int64
	Target    int64
	For       time.Duration
	Final     bool // the stall timeout has passed and the restore failed with Diagnosis
	Diagnosis string
}

// InputStalled tells that the input of a partition has records that cannot be read before an open transaction
// on it ends: readers with read_committed stop at its first record. What is not known is zero.
type InputStalled struct {
	Partition       Partition
	Offset          int64 // where the open transaction begins: the last stable offset, which is read up to
	HighWatermark   int64 // where the log ends
	For             time.Duration
	Over            bool // the partition goes on; what follows is as it was told last
	TransactionalID string
	ProducerID      int64         // -1: the leader did not tell
	Since           time.Time     // when the transaction was begun, as its coordinator has it
	Timeout         time.Duration // after it the coordinator aborts the transaction
	Diagnosis       string        // all that is known of it, in words
}

// OutputAcked tells that outputs were acknowledged.
type OutputAcked struct {
	Partition Partition // the input partition
	Count     int
	Bytes     int64
}

// Throttled tells that a broker holds a client of the component back, because its user or client id is over a
// quota for producing, fetching or requests. It is told with each answer that says so.
type Throttled struct {
	Broker int32 // node id
	Host   string
	For    time.Duration
}

// Stopped tells that a component stops with an error: one partition's, which stops all of them.
type Stopped struct {
	Group string // the consumer group
	Cause string // one of Causes, for labels
	Err   error
}
