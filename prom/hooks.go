package prom

import (
	"strconv"

	"github.com/holdfast-go/holdfast/stream"
)

func (m *metrics) hooks() stream.Hooks {
	return stream.Hooks{
		Assigned: m.onAssigned, Restoring: m.onRestoring, Restored: m.onRestored, Committed: m.onCommitted,
		Refused: m.onRefused, Failed: m.onFailed, Revoked: m.onRevoked, Lost: m.onLost, Stalled: m.onStalled, OutputAcked: m.onOutputAcked,
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
	for _, g := range m.gauges {
		g.DeleteLabelValues(labels(e.Partition)...)
	}
}

func (m *metrics) onAssigned(e stream.Assigned) {
	at := labels(e.Partition)
	m.granted.WithLabelValues(at...).Inc()
	takeovers := m.takeovers.WithLabelValues(at...) // made here so that it is there, as 0, before the first one
	if e.TookOver {
		takeovers.Inc()
	}
	m.takeoverTime.WithLabelValues(e.Partition.Topic).Observe(e.Takeover.Seconds())
	m.mu.Lock()
	defer m.mu.Unlock()
	m.owned[e.Partition] = e.Ownership
	m.generation.WithLabelValues(at...).Set(float64(e.Generation))
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
	m.restores.WithLabelValues(at...).Inc()
	m.restoreRecords.WithLabelValues(at...).Add(float64(e.Records))
	m.restoreBytes.WithLabelValues(at...).Add(float64(e.Bytes))
	m.restoreTime.WithLabelValues(e.Partition.Topic).Observe(e.Took.Seconds())
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

func (m *metrics) onCommitted(e stream.Committed) {
	at := labels(e.Partition)
	m.transactions.WithLabelValues(at...).Inc()
	m.writes.WithLabelValues(at...).Add(float64(e.Writes))
	m.bytes.WithLabelValues(at...).Add(float64(e.Bytes))
	m.transactionTime.WithLabelValues(e.Partition.Topic).Observe(e.Took.Seconds())
	readBacks := m.readBacks.WithLabelValues(at...)
	if e.ReadBack {
		readBacks.Inc()
	}
	m.whileOwned(e.Partition, func(at []string) {
		m.committed.WithLabelValues(at...).Set(float64(e.Next))
	})
}

func (m *metrics) onRefused(e stream.Refused) {
	m.refused.WithLabelValues(labels(e.Partition, e.Cause, strconv.FormatBool(e.Final))...).Inc()
}

func (m *metrics) onFailed(e stream.Failed) {
	m.failures.WithLabelValues(labels(e.Partition, e.Action.String())...).Inc()
}

func (m *metrics) onRevoked(e stream.Released) {
	m.revoked.WithLabelValues(labels(e.Partition, strconv.FormatBool(e.Flushed))...).Inc()
	m.revokeTime.WithLabelValues(e.Partition.Topic).Observe(e.Took.Seconds())
	m.released(e)
}

func (m *metrics) onLost(e stream.Released) {
	m.lost.WithLabelValues(labels(e.Partition)...).Inc()
	m.released(e)
}

func (m *metrics) onOutputAcked(e stream.OutputAcked) {
	at := labels(e.Partition)
	m.outputs.WithLabelValues(at...).Add(float64(e.Count))
	m.outputBytes.WithLabelValues(at...).Add(float64(e.Bytes))
}
