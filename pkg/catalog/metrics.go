package catalog

import "github.com/prometheus/client_golang/prometheus"

type metrics struct {
	refreshes, looks *prometheus.CounterVec
}

// newMetrics registers the metrics. The label result is "ok" or "error".
func newMetrics(r prometheus.Registerer, c *Catalog) metrics {
	m := metrics{
		refreshes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "historyserver_catalog_refreshes_total", Help: "Listings of the session markers.",
		}, []string{"result"}),
		looks: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "historyserver_catalog_looks_total",
			Help: "Listings of one session's objects, for its size and state.",
		}, []string{"result"}),
	}
	sessions := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "historyserver_catalog_sessions", Help: "Sessions known to be stored.",
	}, func() float64 { return float64(c.Cached().Len()) })
	r.MustRegister(m.refreshes, m.looks, sessions)
	return m
}

func resultLabel(err error) string {
	if err != nil {
		return "error"
	}
	return "ok"
}
