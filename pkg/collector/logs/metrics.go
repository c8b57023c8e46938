package logs

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

type metrics struct {
	generations, lost, gone, unreadable prometheus.Counter
	watches                             prometheus.Gauge
	scan                                prometheus.Histogram
}

// newMetrics registers the tailer's metrics. How many files there are is counted at each scrape of them, which takes
// the trees' locks.
func newMetrics(r prometheus.Registerer, t *Tailer) *metrics {
	const prefix = "rayhistory_collector_logs_"
	factory := promauto.With(r)
	factory.NewGaugeFunc(prometheus.GaugeOpts{Name: prefix + "files",
		Help: "Log files below Ray's temporary folder."}, func() float64 {
		n := 0
		for tree := range t.lockedTrees() {
			n += len(tree.files) + len(tree.idle.files) - tree.idle.gone + tree.waiting.count
		}
		return float64(n)
	})
	counter := func(name, help string) prometheus.Counter {
		return factory.NewCounter(prometheus.CounterOpts{Name: prefix + name, Help: help})
	}
	return &metrics{
		generations: counter("generations_total", "Times a log was continued in another file: rotations."),
		lost:        counter("lost_bytes_total", "Bytes of logs that were removed before they were stored."),
		gone:        counter("lost_total", "Logs that were written and removed before they could be read."),
		unreadable:  counter("unreadable_total", "Log files and folders that could not be read at first."),
		watches: factory.NewGauge(prometheus.GaugeOpts{Name: prefix + "watches",
			Help: "Folders the kernel tells of changes in (inotify watches)."}),
		scan: factory.NewHistogram(prometheus.HistogramOpts{Name: prefix + "scan_seconds",
			Help: "How long looking at all log files took.", Buckets: prometheus.ExponentialBuckets(0.0005, 4, 8)}),
	}
}
