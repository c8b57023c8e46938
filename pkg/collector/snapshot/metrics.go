package snapshot

import "github.com/prometheus/client_golang/prometheus"

type metrics struct {
	stored, bytes, errors prometheus.Counter
}

func newMetrics(r prometheus.Registerer) *metrics {
	const prefix = "rayhistory_collector_snapshot_"
	m := &metrics{
		stored: prometheus.NewCounter(prometheus.CounterOpts{Name: prefix + "stored_total", Help: "Dashboard answers stored."}),
		bytes:  prometheus.NewCounter(prometheus.CounterOpts{Name: prefix + "stored_bytes_total", Help: "Bytes of dashboard answers stored."}),
		errors: prometheus.NewCounter(prometheus.CounterOpts{Name: prefix + "errors_total", Help: "Dashboard questions that failed, and answers that could not be stored."}),
	}
	r.MustRegister(m.stored, m.bytes, m.errors)
	return m
}
