package sessioncache

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

type metrics struct {
	gets, refreshes *prometheus.CounterVec
	evictions       prometheus.Counter
	loads           *prometheus.HistogramVec
}

// usage is what the cache holds.
type usage struct {
	sessions, loading   int
	bytes, loadingBytes int64
}

// newMetrics makes and registers the metrics of a cache. now returns what the cache holds; at a scrape each gauge calls
// it once.
func newMetrics(r prometheus.Registerer, now func() usage) metrics {
	factory := promauto.With(r)
	gauge := func(name, help string, value func(usage) int64) {
		factory.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help},
			func() float64 { return float64(value(now())) })
	}
	gauge("historyserver_session_cache_sessions", "Sessions in memory.",
		func(u usage) int64 { return int64(u.sessions) })
	gauge("historyserver_session_cache_bytes", "Measured memory of the sessions in memory.",
		func(u usage) int64 { return u.bytes })
	gauge("historyserver_session_cache_loading", "Sessions being loaded or waiting to be.",
		func(u usage) int64 { return int64(u.loading) })
	gauge("historyserver_session_cache_loading_bytes", "Measured memory that loads under way hold.",
		func(u usage) int64 { return u.loadingBytes })
	return metrics{
		gets: factory.NewCounterVec(prometheus.CounterOpts{
			Name: "historyserver_session_cache_gets_total",
			Help: "Requests for a session: in memory (hit), being loaded (joined) or not loaded (miss).",
		}, []string{"result"}),
		refreshes: factory.NewCounterVec(prometheus.CounterOpts{
			Name: "historyserver_session_cache_refreshes_total",
			Help: "Refreshes of sessions in memory that still grow.",
		}, []string{"result"}),
		evictions: factory.NewCounter(prometheus.CounterOpts{
			Name: "historyserver_session_cache_evictions_total",
			Help: "Sessions dropped because others needed their memory.",
		}),
		loads: factory.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "historyserver_session_cache_load_seconds",
			Help:    "Time to load a session, without the wait for other loads.",
			Buckets: []float64{.01, .03, .1, .3, 1, 3, 10, 30, 100, 300},
		}, []string{"result"}),
	}
}
