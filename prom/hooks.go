package prom

import (
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/holdfast-go/holdfast/stream"
)

func (m *metrics) hooks() stream.Hooks {
	return stream.Hooks{
		Assigned: m.onAssigned, Restoring: m.onRestoring, Restored: m.onRestored, Committed: m.onCommitted,
		Refused: m.onRefused, Failed: m.onFailed, Revoked: m.onRevoked, Lost: m.onLost, Stalled: m.onStalled, InputStalled: m.onInputStalled, OutputAcked: m.onOutputAcked,
		DeadLettered: m.onDeadLettered, Gone: m.onGone, Throttled: m.onThrottled, Stopped: m.onStopped,
	}
}

// whileOwned runs set if the partition is owned. An event of an ownership that has ended may come after
// the end, from a worker that is being torn down; its gauges would then never be removed.
func (m *metrics) whileOwned(p stream.Partition, set func(at []string)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, ok := m.owned[p]; ok {
		set(labels(p))
	}
}

// released removes the gauges of a partition, unless it was granted again before the end of the
// ownership before was told.
func (m *metrics) released(e stream.Released) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if number, ok := m.owned[e.Partition]; !ok || number != e.Ownership {
		return
	}
	delete(m.owned, e.Partition)
	delete(m.inputWaits, e.Partition)
	for _, g := range m.gauges {
		g.DeleteLabelValues(labels(e.Partition)...)
	}
	m.countOwnedLocked(e.Partition.Topic)
}

// countOwnedLocked keeps a series for a topic of which nothing is owned any more: 0 can be alerted on,
// and a series that is gone cannot.
func (m *metrics) countOwnedLocked(topic string) {
	n := 0
	for p := range m.owned {
		if p.Topic == topic {
			n++
		}
	}
	m.partitionsOwned.WithLabelValues(topic).Set(float64(n))
}

// begun makes the counters that alert rules watch, as 0. A counter that appears as 1 has not increased
// for Prometheus, so that a rule would miss the first fence, which may be the only one.
func (m *metrics) begun(p stream.Partition) {
	at := labels(p)
	for _, c := range []*prometheus.CounterVec{m.takeovers, m.transactions, m.readBacks, m.deadLetters, m.gone, m.inputStalls} {
		c.WithLabelValues(at...)
	}
	for _, refusal := range [][]string{
		{"generation", "false"}, {"producer-epoch", "false"}, {"producer-epoch", "true"},
		{"member", "true"}, {"instance", "true"}, {"unknown", "false"},
	} {
		m.refused.WithLabelValues(labels(p, refusal...)...)
	}
	for _, final := range []string{"false", "true"} {
		m.stalls.WithLabelValues(labels(p, final)...)
	}
	for _, why := range []error{stream.ErrOwnershipLost, stream.ErrOutcomeUnknown} {
		m.lost.WithLabelValues(labels(p, stream.Cause(why))...)
	}
}

func (m *metrics) onAssigned(e stream.Assigned) {
	at := labels(e.Partition)
	m.begun(e.Partition)
	m.granted.WithLabelValues(at...).Inc()
	if e.TookOver {
		m.takeovers.WithLabelValues(at...).Inc()
	}
	m.takeoverTime.WithLabelValues(e.Partition.Topic).Observe(e.Takeover.Seconds())
	m.mu.Lock()
	defer m.mu.Unlock()
	m.owned[e.Partition] = e.Ownership
	m.countOwnedLocked(e.Partition.Topic)
	m.lastCommit.WithLabelValues(at...).Set(unixSeconds(time.Now()))
	m.generation.WithLabelValues(at...).Set(float64(e.Generation))
	m.inputStallFor.WithLabelValues(at...).Set(0)
	if e.Committed >= 0 {
		m.committed.WithLabelValues(at...).Set(float64(e.Committed))
	}
}

func (m *metrics) onRestoring(e stream.Restoring) {
	m.whileOwned(e.Partition, func(at []string) {
		m.restorePosition.WithLabelValues(at...).Set(float64(e.Position))
		m.restoreTarget.WithLabelValues(at...).Set(float64(e.Target))
		m.stallFor.WithLabelValues(at...).Set(0)
	})
}

func (m *metrics) onRestored(e stream.Restored) {
	at := labels(e.Partition)
	if e.Retained {
		m.retained.WithLabelValues(at...).Inc()
	} else {
		m.restores.WithLabelValues(at...).Inc()
		m.restoreRecords.WithLabelValues(at...).Add(float64(e.Records))
		m.restoreBytes.WithLabelValues(at...).Add(float64(e.Bytes))
		m.restoreTime.WithLabelValues(e.Partition.Topic).Observe(e.Took.Seconds())
	}
	m.whileOwned(e.Partition, func(at []string) {
		m.restoredKeys.WithLabelValues(at...).Set(float64(e.Keys))
		m.stallFor.WithLabelValues(at...).Set(0)
	})
}

func (m *metrics) onStalled(e stream.Stalled) {
	m.stalls.WithLabelValues(labels(e.Partition, strconv.FormatBool(e.Final))...).Inc()
	m.whileOwned(e.Partition, func(at []string) {
		m.restorePosition.WithLabelValues(at...).Set(float64(e.Position))
		m.restoreTarget.WithLabelValues(at...).Set(float64(e.Target))
		m.stallFor.WithLabelValues(at...).Set(e.For.Seconds())
	})
}

// onInputStalled counts a stall once, however often it is told.
func (m *metrics) onInputStalled(e stream.InputStalled) {
	m.mu.Lock()
	told := m.inputWaits[e.Partition]
	if e.Over {
		delete(m.inputWaits, e.Partition)
	} else {
		m.inputWaits[e.Partition] = e.Offset + 1
	}
	m.mu.Unlock()
	if !e.Over && told != e.Offset+1 {
		m.inputStalls.WithLabelValues(labels(e.Partition)...).Inc()
	}
	m.whileOwned(e.Partition, func(at []string) {
		waits := e.For.Seconds()
		if e.Over {
			waits = 0
		}
		m.inputStallFor.WithLabelValues(at...).Set(waits)
	})
}

func (m *metrics) onCommitted(e stream.Committed) {
	at := labels(e.Partition)
	m.transactions.WithLabelValues(at...).Inc()
	m.writes.WithLabelValues(at...).Add(float64(e.Writes))
	m.bytes.WithLabelValues(at...).Add(float64(e.Bytes))
	m.transactionOutputs.WithLabelValues(at...).Add(float64(e.Outputs))
	m.transactionOutputBytes.WithLabelValues(at...).Add(float64(e.OutputBytes))
	m.transactionTime.WithLabelValues(e.Partition.Topic).Observe(e.Took.Seconds())
	if e.ReadBack {
		m.readBacks.WithLabelValues(at...).Inc()
	}
	m.whileOwned(e.Partition, func(at []string) {
		m.committed.WithLabelValues(at...).Set(float64(e.Next))
		m.lastCommit.WithLabelValues(at...).Set(unixSeconds(time.Now()))
	})
}

func unixSeconds(t time.Time) float64 { return float64(t.UnixMilli()) / 1000 }

func (m *metrics) onRefused(e stream.Refused) {
	m.refused.WithLabelValues(labels(e.Partition, e.Cause, strconv.FormatBool(e.Final))...).Inc()
}

func (m *metrics) onFailed(e stream.Failed) {
	action := stream.Stop // what a policy does that answers something else
	if e.Action >= stream.Stop && e.Action <= stream.RetryThenDeadLetter {
		action = e.Action
	}
	m.failures.WithLabelValues(labels(e.Partition, action.String())...).Inc()
}

func (m *metrics) onDeadLettered(e stream.DeadLettered) {
	m.deadLetters.WithLabelValues(labels(e.Partition)...).Inc()
}

func (m *metrics) onGone(e stream.Gone) {
	m.gone.WithLabelValues(labels(e.Partition)...).Add(float64(max(e.To-e.From, 0)))
}

func (m *metrics) onThrottled(e stream.Throttled) {
	m.throttled.WithLabelValues(strconv.Itoa(int(e.Broker))).Add(e.For.Seconds())
}

func (m *metrics) onStopped(e stream.Stopped) { m.stops.WithLabelValues(e.Cause).Inc() }

func (m *metrics) onRevoked(e stream.Released) {
	m.revoked.WithLabelValues(labels(e.Partition, strconv.FormatBool(e.Flushed))...).Inc()
	m.revokeTime.WithLabelValues(e.Partition.Topic).Observe(e.Took.Seconds())
	m.released(e)
}

func (m *metrics) onLost(e stream.Released) {
	cause := stream.Cause(stream.ErrOwnershipLost)
	if e.Cause != nil {
		cause = stream.Cause(e.Cause)
	}
	m.lost.WithLabelValues(labels(e.Partition, cause)...).Inc()
	m.released(e)
}

func (m *metrics) onOutputAcked(e stream.OutputAcked) {
	at := labels(e.Partition)
	m.outputs.WithLabelValues(at...).Add(float64(e.Count))
	m.outputBytes.WithLabelValues(at...).Add(float64(e.Bytes))
}
