package webhooks

import "github.com/prometheus/client_golang/prometheus"

type metrics struct {
	requests *prometheus.CounterVec
	seconds  prometheus.Histogram
	givenUp  *prometheus.CounterVec
	errors   prometheus.Counter
}

func newMetrics(registerer prometheus.Registerer, s *Sender) metrics {
	m := metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "historyserver_webhooks_requests_total", Help: "Events sent to receivers of webhooks, by result.",
		}, []string{"receiver", "result"}),
		seconds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "historyserver_webhooks_request_seconds", Help: "Time that a receiver of webhooks takes.",
			Buckets: prometheus.ExponentialBuckets(.01, 3, 8),
		}),
		givenUp: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "historyserver_webhooks_given_up_total", Help: "Events that a receiver did not take for a day.",
		}, []string{"receiver"}),
		errors: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "historyserver_webhooks_errors_total",
			Help: "What webhooks could not read from the store or note in it.",
		}),
	}
	registerer.MustRegister(m.requests, m.seconds, m.givenUp, m.errors, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "historyserver_webhooks_sessions",
		Help: "Ended sessions, and failed jobs of running ones, that receivers of webhooks are still to be told of.",
	}, func() float64 {
		s.mu.Lock()
		defer s.mu.Unlock()
		return float64(len(s.work))
	}))
	return m
}
