package spool

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics is the spool's Prometheus collector.
type metrics struct {
	spool       *Spool
	failed      *prometheus.CounterVec
	syncSeconds prometheus.Histogram
	counters
	gauges []gauge
}

type counters struct {
	damaged, torn, foreign, rebased, syncErrors, diskErrors prometheus.Counter
}

// gauge is a value read from the spool at a scrape.
type gauge struct {
	desc *prometheus.Desc
	read func(*Spool) float64 // with mu held
}

const metricPrefix = "rayhistory_collector_spool_"

func newMetrics(s *Spool) *metrics {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: metricPrefix + name, Help: help})
	}
	newGauge := func(name, help string, read func(*Spool) float64) gauge {
		return gauge{prometheus.NewDesc(metricPrefix+name, help, nil, nil), read}
	}
	return &metrics{
		spool: s,
		failed: prometheus.NewCounterVec(prometheus.CounterOpts{Name: metricPrefix + "append_errors_total",
			Help: "Batches that could not be kept, by reason: full (the limit or the disk), large (more than the " +
				"limit) or disk."}, []string{"reason"}),
		syncSeconds: prometheus.NewHistogram(prometheus.HistogramOpts{Name: metricPrefix + "sync_seconds",
			Help: "How long it took to make batches durable.", Buckets: prometheus.ExponentialBuckets(0.0005, 2, 14)}),
		counters: counters{
			damaged: counter("damaged_total",
				"Segments found damaged or deleted, and blocks of lines found damaged when they were shipped."),
			torn: counter("torn_total",
				"Segments that ended within a batch, which was cut off: the process was killed."),
			foreign: counter("foreign_total",
				"Blocks of lines found on disk whose stream no collector of this cluster writes: another user wrote "+
					"to the spool's folder. They are set aside."),
			rebased: counter("rebased_total",
				"Times the store did not hold what was expected, so that a stream went on at its end."),
			syncErrors: counter("sync_errors_total", "Times the disk failed to make batches durable."),
			diskErrors: counter("disk_errors_total",
				"Other errors of the spool's disk, such as when deleting what was shipped."),
		},
		gauges: []gauge{
			newGauge("bytes", "Bytes of all segments.", func(s *Spool) float64 { return float64(s.used) }),
			newGauge("max_bytes", "Limit of the bytes of all segments.",
				func(s *Spool) float64 { return float64(s.opts.MaxBytes) }),
			newGauge("segments", "Segment files.", func(s *Spool) float64 { return float64(len(s.segments)) }),
			newGauge("streams", "Streams that the spool holds or lately held lines of.",
				func(s *Spool) float64 { return float64(len(s.streams)) }),
		},
	}
}

func (m *metrics) appendFailed(err error) {
	reason := "disk"
	switch {
	case errors.Is(err, ErrFull):
		reason = "full"
	case errors.Is(err, ErrTooLarge):
		reason = "large"
	}
	m.failed.WithLabelValues(reason).Inc()
}

func (m *metrics) collectors() []prometheus.Collector {
	return []prometheus.Collector{m.failed, m.syncSeconds, m.damaged, m.torn, m.foreign, m.rebased, m.syncErrors,
		m.diskErrors}
}

// Describe implements prometheus.Collector.
func (m *metrics) Describe(ch chan<- *prometheus.Desc) {
	for _, c := range m.collectors() {
		c.Describe(ch)
	}
	for _, g := range m.gauges {
		ch <- g.desc
	}
}

// Collect implements prometheus.Collector.
func (m *metrics) Collect(ch chan<- prometheus.Metric) {
	for _, c := range m.collectors() {
		c.Collect(ch)
	}
	m.spool.mu.Lock()
	defer m.spool.mu.Unlock()
	for _, g := range m.gauges {
		ch <- prometheus.MustNewConstMetric(g.desc, prometheus.GaugeValue, g.read(m.spool))
	}
}
