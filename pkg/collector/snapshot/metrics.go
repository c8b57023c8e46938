package snapshot

import "github.com/prometheus/client_golang/prometheus"

type metrics struct {
	stored, bytes, errors prometheus.Counter
	refused               *prometheus.CounterVec
}

func newMetrics(r prometheus.Registerer) *metrics {
	const prefix = "rayhistory_collector_snapshot_"
	m := &metrics{
		stored: prometheus.NewCounter(prometheus.CounterOpts{Name: prefix + "stored_total", Help: "Dashboard answers stored."}),
		bytes:  prometheus.NewCounter(prometheus.CounterOpts{Name: prefix + "stored_bytes_total", Help: "Bytes of dashboard answers stored."}),
		errors: prometheus.NewCounter(prometheus.CounterOpts{Name: prefix + "errors_total", Help: "Dashboard requests that failed, and answers that could not be stored."}),
	}
	m.refused = prometheus.NewCounterVec(prometheus.CounterOpts{Name: prefix + "refused_total", Help: "Dashboard answers beyond what Ray answers, which are not stored, by reason: " +
		"bytes, depth, tokens (names and values), row (bytes in one row or string), nodes, jobs, urls (of the nodes and jobs of one session)."}, []string{"reason"})
	r.MustRegister(m.refused, m.stored, m.bytes, m.errors)
	return m
}
