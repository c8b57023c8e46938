package ship

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// metrics of a shipper, by group.
type metrics struct {
	chunks, raw, sent, lists, conflicts *prometheus.CounterVec
	errors                              *prometheus.CounterVec // by kind too
	puts                                *prometheus.CounterVec
	seconds                             prometheus.Histogram
	unnoted                             prometheus.Counter
}

// newMetrics registers the shipper's metrics. Counters of a group are there, as 0, before anything happens. Gauges are
// measured at each scrape, even while the shipper hangs.
func newMetrics(s *Shipper) *metrics {
	const prefix = "rayhistory_collector_ship_"
	factory, o := promauto.With(s.opts.Registerer), s.opts
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		v := factory.NewCounterVec(prometheus.CounterOpts{Name: prefix + name, Help: help},
			append([]string{"group"}, labels...))
		for _, g := range o.Groups {
			if len(labels) == 0 {
				v.WithLabelValues(g.Name) // so that it is 0 from the start
			}
		}
		return v
	}
	gauge := func(name, help string, labels prometheus.Labels, read func() float64) {
		factory.NewGaugeFunc(prometheus.GaugeOpts{Name: prefix + name, Help: help, ConstLabels: labels}, read)
	}
	gauge("circuit_open", "1 while the store failed so often that uploads are only probed.", nil, func() float64 {
		if s.breaker.isOpen() {
			return 1
		}
		return 0
	})
	for _, g := range o.Groups {
		group := prometheus.Labels{"group": g.Name}
		gauge("refused", "Files and event streams that the store keeps refusing though it may take others: the log names "+
			"them.", group, func() float64 { return float64(s.countRefused(g.Name)) })
		if g.Waiting == nil {
			continue
		}
		gauge("pending_bytes", "Bytes that are not stored yet.", group, func() float64 {
			bytes, _ := g.Waiting()
			return float64(bytes)
		})
		gauge("behind_seconds", "Age of the oldest byte that is not stored yet.", group, func() float64 {
			if _, oldest := g.Waiting(); !oldest.IsZero() {
				return time.Since(oldest).Seconds()
			}
			return 0
		})
	}
	return &metrics{
		chunks: counter("chunks_total", "Chunks stored."),
		raw:    counter("bytes_total", "Bytes of events and logs stored, before compression."),
		sent:   counter("sent_bytes_total", "Bytes of the chunks stored, as stored."),
		puts:   counter("puts_total", "Puts tried, whatever became of them."),
		lists:  counter("lookups_total", "Times the store was listed to find where a stream ends."),
		conflicts: counter("conflicts_total",
			"Puts whose key was taken: an answer had been lost, or another collector writes the same."),
		errors: counter("errors_total",
			"Errors of shipping a chunk, by kind: permission, throttled, too_large, refused (the key), timeout, "+
				"source (reading what is to be shipped) or backend.", "kind"),
		seconds: factory.NewHistogram(prometheus.HistogramOpts{Name: prefix + "put_seconds",
			Help:    "How long puts took.",
			Buckets: prometheus.ExponentialBuckets(0.005, 2, 14)}),
		unnoted: factory.NewCounter(prometheus.CounterOpts{Name: prefix + "unnoted_total",
			Help: "Compressed chunks that could not be noted on disk, such as when it is full. They are stored all the " +
				"same; after a crash bytes of the last may be stored twice."}),
	}
}

// countPut counts a try to store a chunk: raw are its bytes, sent those of its object. err is nil if it was stored.
func (m *metrics) countPut(group string, raw, sent int64, took time.Duration, err error) {
	m.puts.WithLabelValues(group).Inc()
	m.seconds.Observe(took.Seconds())
	if err == nil {
		m.chunks.WithLabelValues(group).Inc()
		m.raw.WithLabelValues(group).Add(float64(raw))
		m.sent.WithLabelValues(group).Add(float64(sent))
	}
}

// countRefused counts the streams of a group that the store keeps refusing.
func (s *Shipper) countRefused(group string) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, st := range s.states {
		if st.group == group && st.refused.Load() && time.Since(st.used) < 2*idleWait { // otherwise its source is gone
			n++
		}
	}
	return n
}
