package spool

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

type metrics struct {
	failed      *prometheus.CounterVec
	syncSeconds prometheus.Histogram

	damaged, torn, foreign, rebased, syncErrors, diskErrors prometheus.Counter
}

// newMetrics registers the spool's metrics. What it holds now is read at each scrape, under s.mu.
func newMetrics(s *Spool) *metrics {
	const prefix = "rayhistory_collector_spool_"
	factory := promauto.With(s.opts.Registerer)
	counter := func(name, help string) prometheus.Counter {
		return factory.NewCounter(prometheus.CounterOpts{Name: prefix + name, Help: help})
	}
	gauge := func(name, help string, read func() float64) {
		factory.NewGaugeFunc(prometheus.GaugeOpts{Name: prefix + name, Help: help}, func() float64 {
			s.mu.Lock()
			defer s.mu.Unlock()
			return read()
		})
	}
	gauge("bytes", "Bytes of all segments.", func() float64 { return float64(s.used) })
	gauge("max_bytes", "Limit of the bytes of all segments.", func() float64 { return float64(s.opts.MaxBytes) })
	gauge("segments", "Segment files.", func() float64 { return float64(len(s.segments)) })
	gauge("streams", "Streams that the spool holds or lately held lines of.",
		func() float64 { return float64(len(s.streams)) })
	return &metrics{
		failed: factory.NewCounterVec(prometheus.CounterOpts{Name: prefix + "append_errors_total",
			Help: "Batches that could not be kept, by reason: full (the limit or the disk), large (more than the " +
				"limit) or disk."}, []string{"reason"}),
		syncSeconds: factory.NewHistogram(prometheus.HistogramOpts{Name: prefix + "sync_seconds",
			Help: "How long it took to make batches durable.", Buckets: prometheus.ExponentialBuckets(0.0005, 2, 14)}),
		damaged: counter("damaged_total",
			"Segments found damaged or deleted, and blocks of lines found damaged when they were shipped."),
		torn: counter("torn_total", "Segments that ended within a batch, which was cut off: the process was killed."),
		foreign: counter("foreign_total",
			"Blocks of lines found on disk whose stream no collector of this cluster writes: another user wrote "+
				"to the spool's folder. They are set aside."),
		rebased: counter("rebased_total",
			"Times the store did not hold what was expected, so that a stream went on at its end."),
		syncErrors: counter("sync_errors_total", "Times the disk failed to make batches durable."),
		diskErrors: counter("disk_errors_total",
			"Other errors of the spool's disk, such as when deleting what was shipped."),
	}
}

// appendFailed counts an append that failed, by its reason.
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
