package wire

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Status is what became of an entry of a log.
type Status string

// The statuses of records and of control records.
const (
	StatusPlain     Status = "plain"     // not written in a transaction
	StatusCommitted Status = "committed" // its transaction was committed
	StatusAborted   Status = "aborted"   // its transaction was aborted
	StatusOpen      Status = "open"      // its transaction had not ended when the log was looked at

	StatusCommitMarker Status = "commit-marker"  // ends a transaction of its producer id
	StatusAbortMarker  Status = "abort-marker"   // ends a transaction of its producer id
	StatusControl      Status = "control-record" // a control record that ends no transaction
)

// Control reports whether it is the status of a control record, which no consumer gets to see.
func (s Status) Control() bool {
	return s == StatusCommitMarker || s == StatusAbortMarker || s == StatusControl
}

// Entry is one record or control record of a log, with what became of it.
type Entry struct {
	// Record is as it is in the log. Its ProducerID and ProducerEpoch are -1 when no idempotent
	// producer wrote it. A control record's key and value are Kafka's own.
	Record *kgo.Record
	Status Status

	// Stable tells that the entry was below the last stable offset, so that readers under
	// read_committed got as far as that.
	Stable bool

	// CoordinatorEpoch is the epoch of the transaction coordinator that wrote the marker; -1 for
	// everything that is no marker.
	CoordinatorEpoch int32
}

// ReadCommitted reports whether a reader under read_committed is given the entry.
func (e Entry) ReadCommitted() bool {
	return e.Stable && (e.Status == StatusPlain || e.Status == StatusCommitted)
}

// ReadUncommitted reports whether a reader under read_uncommitted is given the entry.
func (e Entry) ReadUncommitted() bool { return !e.Status.Control() }

// verdicts tell what became of transactions. They are asked in the order of offsets and told each
// marker on the way.
type verdicts interface {
	status(producerID, offset int64) Status
	ended(producerID, offset int64, by Status)
}

// classify returns the entry of a record; of two records the one with the lower offset comes first.
func classify(r *kgo.Record, v verdicts, stable bool) Entry {
	e := Entry{Record: r, Status: StatusPlain, Stable: stable, CoordinatorEpoch: -1}
	switch {
	case r.Attrs.IsControl():
		e.Status, e.CoordinatorEpoch = control(r)
		v.ended(r.ProducerID, r.Offset, e.Status)
	case r.Attrs.IsTransactional():
		e.Status = v.status(r.ProducerID, r.Offset)
	}
	return e
}

// control decodes a control record.
func control(r *kgo.Record) (Status, int32) {
	var key kmsg.ControlRecordKey
	var marker kmsg.EndTxnMarker
	if key.ReadFrom(r.Key) != nil || marker.ReadFrom(r.Value) != nil {
		return StatusControl, -1
	}
	switch key.Type {
	case kmsg.ControlRecordKeyTypeAbort:
		return StatusAbortMarker, marker.CoordinatorEpoch
	case kmsg.ControlRecordKeyTypeCommit:
		return StatusCommitMarker, marker.CoordinatorEpoch
	}
	return StatusControl, -1
}

// abortedList are the verdicts for one fetch under read_committed: the first offsets, by producer id
// and rising, of the aborted transactions that touch it. Below the last stable offset every
// transaction has ended, so what is not in the list was committed. That holds also where compaction
// has removed a marker, and for a transaction that began before the fetch or whose marker is after it.
type abortedList map[int64][]int64

func newAbortedList(list []kmsg.FetchResponseTopicPartitionAbortedTransaction) abortedList {
	a := make(abortedList, len(list))
	for i := range list {
		a[list[i].ProducerID] = append(a[list[i].ProducerID], list[i].FirstOffset)
	}
	for _, firsts := range a { // not every broker sends them in order
		slices.Sort(firsts)
	}
	return a
}

func (a abortedList) status(producerID, offset int64) Status {
	if firsts := a[producerID]; len(firsts) > 0 && firsts[0] <= offset {
		return StatusAborted
	}
	return StatusCommitted
}

func (a abortedList) ended(producerID, offset int64, by Status) {
	firsts := a[producerID]
	if by == StatusAbortMarker && len(firsts) > 0 && firsts[0] < offset {
		a[producerID] = firsts[1:]
	}
}

// markers are the verdicts for records at and past the last stable offset, where the broker's list
// says nothing: the next marker of a producer id ends its transaction. Compaction does not come here.
// The epoch is not compared: the marker of a takeover has a higher one than the records it ends.
type markers struct {
	by    map[int64][]marker
	count int
	limit int

	// complete is the offset below which every marker is known. Past it only the first one of a
	// producer id is, as many ids as there may be: that is what bounds the memory.
	complete int64
}

type marker struct {
	offset int64
	status Status // of the records before it
}

func newMarkers(limit int) *markers {
	return &markers{by: map[int64][]marker{}, limit: limit, complete: -1}
}

// gather notes a record's marker if it is one. Records come in the order of offsets.
func (m *markers) gather(r *kgo.Record) {
	if !r.Attrs.IsControl() {
		return
	}
	became := StatusCommitted
	switch status, _ := control(r); status {
	case StatusAbortMarker:
		became = StatusAborted
	case StatusCommitMarker:
	default:
		return
	}
	known := m.by[r.ProducerID]
	if m.complete >= 0 && len(known) > 0 && known[len(known)-1].offset >= m.complete {
		return
	}
	m.by[r.ProducerID] = append(known, marker{r.Offset, became})
	m.count++
	if m.count == m.limit {
		m.complete = r.Offset + 1
	}
}

// end returns the offset up to which records can be told by what was gathered before hw.
func (m *markers) end(hw int64) int64 {
	if m.complete >= 0 {
		return m.complete
	}
	return hw
}

func (m *markers) status(producerID, offset int64) Status {
	left := m.by[producerID]
	for len(left) > 0 && left[0].offset < offset {
		left = left[1:]
	}
	m.by[producerID] = left
	if len(left) == 0 {
		return StatusOpen
	}
	return left[0].status
}

func (m *markers) ended(int64, int64, Status) {} // status leaves markers behind by their offsets
