package member

import (
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/holdfast-go/holdfast/internal/engine"
	"github.com/holdfast-go/holdfast/internal/intake"
	"github.com/holdfast-go/holdfast/stream"
)

// What comes from the brokers is bounded in bytes before the client takes it apart (internal/intake). What was not
// let in comes as a record in its place, and meets the worker when its turn has come:
//
//   - a record is for the error policy, as if the fold had failed;
//   - of a batch that could not be opened nobody knows which record is too large. Its partition stops before it,
//     and the others go on.

// chunkOf copies the bytes of records into one slice of their own. A record that the client has handed over keeps the
// whole answer in memory, with what it has of other partitions and of aborted transactions: one small record that
// waits in a queue could hold megabytes.
func chunkOf(records []*kgo.Record) {
	size := 0
	for _, r := range records {
		size += len(r.Key) + len(r.Value)
		for _, h := range r.Headers {
			size += len(h.Value)
		}
	}
	buf := make([]byte, 0, size)
	own := func(p *[]byte) {
		if len(*p) == 0 {
			if *p != nil {
				*p = []byte{}
			}
			return
		}
		at := len(buf)
		buf = append(buf, *p...)
		*p = buf[at:len(buf):len(buf)]
	}
	for _, r := range records {
		own(&r.Key)
		own(&r.Value)
		for i := range r.Headers {
			own(&r.Headers[i].Value)
		}
	}
}

// share is how many bytes the queue of one partition may hold before it is not fetched any more: half of what may be
// held, divided by the partitions. The other half is for what the client has.
func (m *Member) share() int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.budget.MaxBatch() / 2 / int64(max(len(m.workers), 1))
}

// errNotRead is in the error of a record that was not let in.
var errNotRead = errors.New("the record was not read")

// notRead does what follows from a record that was not let in.
func (w *worker) notRead(r *kgo.Record, refusal intake.Refusal) (folded bool, err error) {
	budget := w.m.budget.Bytes()
	if refusal.Whole {
		w.halt(stream.NewError("fetch", fmt.Errorf("%w: %s", stream.ErrTooLarge, refusal)).At(w.own.Partition(), refusal.First).
			Hinted("raise FetchBudget (%d bytes, of which one batch may take a quarter) if the batch is meant, and find its writer if not; "+
				"look at it with kafka-dump-log.sh --deep-iteration on the leader, or delete the records below offset %d with kafka-delete-records.sh",
				budget, refusal.Offset+1))
		return false, nil
	}
	record := fromKafka(r)
	record.Headers = nil
	return w.failed(record, engine.Result{Outcome: engine.Failed, Failure: &stream.RecordError{
		Record: record, Err: fmt.Errorf("%w: %w: %s; FetchBudget is %d bytes, of which one record may take a quarter", errNotRead, stream.ErrTooLarge, refusal, budget),
	}})
}

// halt stops the partition and nothing else: what was folded is committed, nothing behind it is fetched or folded,
// and the ownership goes on, so that no other member meets the same batch in its turn. It is told once.
func (w *worker) halt(err error) {
	if w.halted.Swap(true) {
		return
	}
	w.haltedBy.Store(&err)
	w.log.Error("partition stops, the others go on", "error", err)
	call(w.m.hooks, func(h stream.Hooks) func(stream.Halted) { return h.Halted },
		stream.Halted{Partition: w.own.Partition(), Ownership: w.own.Number(), Err: err})
	w.m.post(func() { w.m.pause(w) })
}
