package prom

import (
	"errors"
	"fmt"
	"strconv"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/holdfast-go/holdfast/stream"
)

// Options describe the metrics. The zero value is good for one flow or pipe in a process.
type Options struct {
	// Namespace is the first part of every name. "": "holdfast".
	Namespace string
	// ConstLabels are added to every metric. Several flows and pipes that register with one registerer
	// need labels that tell them apart, of the same names for all, as {"group": "orders"}.
	ConstLabels prometheus.Labels
}

// New registers the metrics with reg and returns the hooks that keep them, for Config.Hooks of a flow or
// a pipe. prometheus.DefaultRegisterer is the one that promhttp.Handler serves.
//
// It returns stream.ErrConfig if reg is nil, and around the error of reg. Two with the same names and
// ConstLabels cannot share a registerer, which is a prometheus.AlreadyRegisteredError: give each flow and
// pipe ConstLabels of its own. The hooks are safe for concurrent use; give them to one flow or pipe only.
func New(reg prometheus.Registerer, o Options) (stream.Hooks, error) {
	if reg == nil {
		return stream.Hooks{}, refused(errors.New("the registerer is nil")).
			Hinted("prometheus.DefaultRegisterer is the one that promhttp.Handler serves")
	}
	m := newMetrics(o)
	err := reg.Register(m)
	if _, twice := errors.AsType[prometheus.AlreadyRegisteredError](err); twice {
		return stream.Hooks{}, refused(err).
			Hinted(`tell the flows and pipes of one registerer apart by Options.ConstLabels, as {"group": "orders"}`)
	}
	if err != nil {
		return stream.Hooks{}, refused(err).
			Hinted("look at Options.Namespace and Options.ConstLabels: the names of the labels have to be the same for all of one registerer")
	}
	return m.hooks(), nil
}

func refused(err error) *stream.Error {
	return stream.NewError("register metrics", fmt.Errorf("%w: %w", stream.ErrConfig, err))
}

// metrics is registered as one collector: all of it or nothing.
type metrics struct {
	granted, takeovers, revoked, lost             *prometheus.CounterVec
	restores, restoreRecords, restoreBytes        *prometheus.CounterVec
	retained                                      *prometheus.CounterVec
	stalls, inputStalls                           *prometheus.CounterVec
	transactions, readBacks, refused              *prometheus.CounterVec
	failures, deadLetters, gone, stops, throttled *prometheus.CounterVec
	writes, bytes, outputs, outputBytes           *prometheus.CounterVec
	transactionOutputs                            *prometheus.CounterVec
	transactionOutputBytes                        *prometheus.CounterVec
	takeoverTime, revokeTime, restoreTime         *prometheus.HistogramVec
	transactionTime                               *prometheus.HistogramVec
	generation, committed, restoredKeys           *prometheus.GaugeVec
	restorePosition, restoreTarget, stallFor      *prometheus.GaugeVec
	lastCommit, partitionsOwned                   *prometheus.GaugeVec
	inputStallFor                                 *prometheus.GaugeVec

	gauges []*prometheus.GaugeVec // of owned partitions only
	all    []prometheus.Collector

	mu    sync.Mutex
	owned map[stream.Partition]int64 // number of the ownership
	// inputWaits has where the transaction begins that a partition waits for, plus 1.
	inputWaits map[stream.Partition]int64
}

// The buckets, in seconds: of requests to brokers, and of whole restores.
var (
	requestBuckets = []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30}
	restoreBuckets = []float64{.05, .1, .5, 1, 5, 10, 30, 60, 180, 600, 1800, 3600}
)

func newMetrics(o Options) *metrics {
	if o.Namespace == "" {
		o.Namespace = "holdfast"
	}
	m := &metrics{owned: map[stream.Partition]int64{}, inputWaits: map[stream.Partition]int64{}}
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		v := prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: o.Namespace, Name: name, Help: help, ConstLabels: o.ConstLabels,
		}, append([]string{"topic", "partition"}, labels...))
		m.all = append(m.all, v)
		return v
	}
	gauge := func(name, help string) *prometheus.GaugeVec {
		v := prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Namespace: o.Namespace, Name: name, Help: help, ConstLabels: o.ConstLabels,
		}, []string{"topic", "partition"})
		m.all, m.gauges = append(m.all, v), append(m.gauges, v)
		return v
	}
	histogram := func(name, help string, buckets []float64) *prometheus.HistogramVec {
		v := prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Namespace: o.Namespace, Name: name, Help: help, ConstLabels: o.ConstLabels, Buckets: buckets,
		}, []string{"topic"})
		m.all = append(m.all, v)
		return v
	}
	m.ownership(counter, gauge, histogram)
	m.restore(counter, gauge, histogram)
	m.transaction(counter, gauge, histogram)
	m.component(o)
	return m
}

// component makes what has other labels than topic and partition.
func (m *metrics) component(o Options) {
	m.stops = prometheus.NewCounterVec(prometheus.CounterOpts{
		Namespace: o.Namespace, Name: "stops_total", Help: "Stops with an error, by its cause.", ConstLabels: o.ConstLabels,
	}, []string{"cause"})
	for _, cause := range stream.Causes() {
		m.stops.WithLabelValues(cause)
	}
	m.partitionsOwned = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Namespace: o.Namespace, Name: "partitions_owned", Help: "Partitions of the topic that this process owns.", ConstLabels: o.ConstLabels,
	}, []string{"topic"})
	m.throttled = prometheus.NewCounterVec(prometheus.CounterOpts{
		Namespace: o.Namespace, Name: "throttled_seconds_total", Help: "Time for which a broker has held this process back, as it is over a quota.", ConstLabels: o.ConstLabels,
	}, []string{"broker"})
	m.all = append(m.all, m.stops, m.throttled, m.partitionsOwned)
}

type (
	newCounter   func(name, help string, labels ...string) *prometheus.CounterVec
	newGauge     func(name, help string) *prometheus.GaugeVec
	newHistogram func(name, help string, buckets []float64) *prometheus.HistogramVec
)

func (m *metrics) ownership(counter newCounter, gauge newGauge, histogram newHistogram) {
	m.granted = counter("ownerships_granted_total", "Partitions granted to this process.")
	m.takeovers = counter("takeovers_total", "Grants that found another's epoch on the partition's transactional id.")
	m.takeoverTime = histogram("takeover_duration_seconds", "Time of the takeover and of the fetch of the stable committed offset.", requestBuckets)
	m.revoked = counter("ownerships_revoked_total", "Partitions given up in a revoke or as the flow or pipe stopped, by whether everything folded was committed.", "flushed")
	m.lost = counter("ownerships_lost_total", "Partitions lost, with nothing flushed, by why.", "cause")
	m.revokeTime = histogram("revoke_duration_seconds", "Time from the revoke callback to its return.", requestBuckets)
	m.generation = gauge("generation", "Generation of the consumer group at the grant.")
}

func (m *metrics) restore(counter newCounter, gauge newGauge, histogram newHistogram) {
	m.restores = counter("restores_total", "Restores that reached their target.")
	m.retained = counter("retained_total", "Partitions that came back with their states kept in memory: no restore was needed.")
	m.restoreRecords = counter("restore_records_total", "Snapshot records read by restores that reached their target.")
	m.restoreBytes = counter("restore_bytes_total", "Bytes read by restores that reached their target.")
	m.restoreTime = histogram("restore_duration_seconds", "Time of a restore.", restoreBuckets)
	m.inputStalls = counter("input_stalls_total", "Waits of the input for an open transaction of another producer.")
	m.stalls = counter("restore_stalls_total", "Reports of a restore without progress, by whether it failed.", "final")
	m.restoredKeys = gauge("restored_keys", "Keys that the last restore of the partition brought back.")
	m.restorePosition = gauge("restore_position", "Next offset of the snapshot partition to be read by the restore.")
	m.restoreTarget = gauge("restore_target", "Offset of the snapshot partition at which the restore ends.")
	m.inputStallFor = gauge("input_stalled_seconds", "How long the input has been waiting for an open transaction of another producer, 0 if it does not.")
	m.stallFor = gauge("restore_stalled_seconds", "Time since the last progress of a stalled restore, 0 if it makes progress.")
}

func (m *metrics) transaction(counter newCounter, gauge newGauge, histogram newHistogram) {
	m.transactions = counter("transactions_committed_total", "Transactions known to be committed.")
	m.readBacks = counter("transaction_read_backs_total", "Committed transactions whose outcome was unknown at first and read back.")
	m.transactionTime = histogram("transaction_duration_seconds", "Time of a committed transaction.", requestBuckets)
	m.refused = counter("transactions_refused_total", "Attempts at a transaction that did not commit, by cause and by whether the ownership ended.", "cause", "final")
	m.writes = counter("snapshot_writes_total", "Snapshots and tombstones committed.")
	m.bytes = counter("snapshot_bytes_total", "Bytes of snapshots and tombstones committed.")
	m.failures = counter("step_failures_total", "Steps that failed, by what the error policy decided.", "action")
	m.committed = gauge("committed_offset", "Next input offset as committed.")
	m.lastCommit = gauge("last_commit_timestamp_seconds", "Unix time of the partition's last commit, or of its grant before the first one.")
	m.gone = counter("gone_offsets_total", "Offsets of the input that were passed over, since what was there is gone.")
	m.deadLetters = counter("dead_letters_total", "Records handed to the dead-letter topic.")
	m.transactionOutputs = counter("transaction_outputs_total", "Outputs and dead letters committed in transactions.")
	m.transactionOutputBytes = counter("transaction_output_bytes_total", "Bytes of outputs and dead letters committed in transactions.")
	m.outputs = counter("outputs_acknowledged_total", "Output records acknowledged by the broker.")
	m.outputBytes = counter("output_bytes_total", "Bytes of output records acknowledged by the broker.")
}

// Describe implements prometheus.Collector.
func (m *metrics) Describe(ch chan<- *prometheus.Desc) {
	for _, c := range m.all {
		c.Describe(ch)
	}
}

// Collect implements prometheus.Collector.
func (m *metrics) Collect(ch chan<- prometheus.Metric) {
	for _, c := range m.all {
		c.Collect(ch)
	}
}

// labels are the values of topic and partition, followed by more.
func labels(p stream.Partition, more ...string) []string {
	return append([]string{p.Topic, strconv.Itoa(int(p.Partition))}, more...)
}
