package catalog

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

type metrics struct {
	refreshes, looks *prometheus.CounterVec
}

// newMetrics registers the metrics. The label result is "ok" or "error".
func newMetrics(r prometheus.Registerer, c *Catalog) metrics {
	factory := promauto.With(r)
	factory.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "historyserver_catalog_sessions", Help: "Sessions known to be stored.",
	}, func() float64 { return float64(c.Cached().Len()) })
	return metrics{
		refreshes: factory.NewCounterVec(prometheus.CounterOpts{
			Name: "historyserver_catalog_refreshes_total", Help: "Listings of the session markers.",
		}, []string{"result"}),
		looks: factory.NewCounterVec(prometheus.CounterOpts{
			Name: "historyserver_catalog_looks_total",
			Help: "Listings of one session's objects, for its size and state.",
		}, []string{"result"}),
	}
}

func resultLabel(err error) string {
	if err != nil {
		return "error"
	}
	return "ok"
}
