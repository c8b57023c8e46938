package logs

import "github.com/prometheus/client_golang/prometheus"

type metrics struct {
	generations, lost, unreadable prometheus.Counter
	watches                       prometheus.Gauge
	scan                          prometheus.Histogram
}

func newMetrics(r prometheus.Registerer, t *Tailer) *metrics {
	const prefix = "rayhistory_collector_logs_"
	m := &metrics{
		generations: prometheus.NewCounter(prometheus.CounterOpts{Name: prefix + "generations_total", Help: "Times a log was continued in another file: rotations."}),
		lost:        prometheus.NewCounter(prometheus.CounterOpts{Name: prefix + "lost_bytes_total", Help: "Bytes of logs that were removed before they were stored."}),
		unreadable:  prometheus.NewCounter(prometheus.CounterOpts{Name: prefix + "unreadable_total", Help: "Log files and folders that could not be read at first."}),
		watches:     prometheus.NewGauge(prometheus.GaugeOpts{Name: prefix + "watches", Help: "Folders the kernel tells of changes in (inotify watches)."}),
		scan: prometheus.NewHistogram(prometheus.HistogramOpts{Name: prefix + "scan_seconds", Help: "How long looking at all log files took.",
			Buckets: prometheus.ExponentialBuckets(0.0005, 4, 8)}),
	}
	files := prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: prefix + "files", Help: "Log files below Ray's temporary folder."}, func() float64 {
		n := 0
		for _, tree := range t.all() {
			tree.lock.Lock()
			n += len(tree.files) + len(tree.resting.files) + tree.left
			tree.lock.Unlock()
		}
		return float64(n)
	})
	r.MustRegister(m.generations, m.lost, m.unreadable, m.watches, m.scan, files)
	return m
}
