package scrape

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

type metrics struct {
	lines, bad, dropped, errors prometheus.Counter
	series                      prometheus.Gauge
	seconds                     prometheus.Histogram
}

func newMetrics(r prometheus.Registerer) *metrics {
	const prefix = "rayhistory_collector_metrics_"
	m := &metrics{
		lines:   prometheus.NewCounter(prometheus.CounterOpts{Name: prefix + "samples_total", Help: "Samples read from Ray's metrics."}),
		bad:     prometheus.NewCounter(prometheus.CounterOpts{Name: prefix + "bad_lines_total", Help: "Lines of Ray's metrics that could not be read."}),
		dropped: prometheus.NewCounter(prometheus.CounterOpts{Name: prefix + "dropped_samples_total", Help: "Samples left out because the node has more series than --metrics-max-series."}),
		errors:  prometheus.NewCounter(prometheus.CounterOpts{Name: prefix + "errors_total", Help: "Reads of Ray's metrics that failed, or could not be kept."}),
		series:  prometheus.NewGauge(prometheus.GaugeOpts{Name: prefix + "series", Help: "Series of Ray's metrics in the last read."}),
		seconds: prometheus.NewHistogram(prometheus.HistogramOpts{Name: prefix + "read_seconds", Help: "How long reading one endpoint took.", Buckets: prometheus.ExponentialBuckets(0.001, 4, 8)}),
	}
	r.MustRegister(m.lines, m.bad, m.dropped, m.errors, m.series, m.seconds)
	return m
}

func (m *metrics) read(lines, bad, dropped int, took time.Duration) {
	m.lines.Add(float64(lines))
	m.bad.Add(float64(bad))
	m.dropped.Add(float64(dropped))
	m.seconds.Observe(took.Seconds())
}
