package sink

import (
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

type metrics struct {
	accepted, bytes, unknown, withoutTime, slow prometheus.Counter
	refused, misplaced, batches                 *prometheus.CounterVec
	seconds                                     prometheus.Histogram
}

const metricPrefix = "rayhistory_collector_events_"

func newMetrics(r prometheus.Registerer, m *bodies) *metrics {
	counter := func(name, help string) prometheus.Counter {
		c := prometheus.NewCounter(prometheus.CounterOpts{Name: metricPrefix + name, Help: help})
		r.MustRegister(c)
		return c
	}
	vector := func(name, help, label string) *prometheus.CounterVec {
		v := prometheus.NewCounterVec(prometheus.CounterOpts{Name: metricPrefix + name, Help: help}, []string{label})
		r.MustRegister(v)
		return v
	}
	s := &metrics{
		accepted:    counter("accepted_total", "Events that are kept."),
		bytes:       counter("accepted_bytes_total", "Bytes of the batches that are kept, uncompressed."),
		unknown:     counter("unknown_type_total", "Events kept whose type this version does not know."),
		withoutTime: counter("without_time_total", "Events kept whose time is missing or absurd; they are stored by the time they came."),
		refused: vector("refused_total", "Events that were refused, as far as they could be counted, by reason: session (its folder was not seen yet, or its node's "+
			"ID is not known), full, disk, busy, slow, method, content_type, too_large, unreadable or malformed. Ray sends refused events again.", "reason"),
		misplaced: vector("misplaced_total", "Events kept that are not stored by what they say of themselves, by reason: session (they name none, or one that this node has "+
			"no folder of: under the running session), id (their nodeId or jobId is no ID: among the session's events), crowded (of more jobs and hours "+
			"than one batch has: likewise).", "reason"),
		slow:    counter("slow_total", "Requests that were cut off because their body came too slowly."),
		batches: NewBatches(r),
		seconds: prometheus.NewHistogram(prometheus.HistogramOpts{Name: metricPrefix + "batch_seconds",
			Help: "How long it took to answer a batch.", Buckets: prometheus.ExponentialBuckets(0.001, 2, 13)}),
	}
	r.MustRegister(s.seconds, prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: metricPrefix + "body_bytes",
		Help: "Memory taken by batches that are being read or kept."}, func() float64 { return float64(m.taken.Load()) }))
	return s
}

// NewBatches makes the counter of batches, which a server that refuses all of them has too.
func NewBatches(r prometheus.Registerer) *prometheus.CounterVec {
	v := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: metricPrefix + "batches_total", Help: "Batches, by the status they were answered with.",
	}, []string{"code"})
	r.MustRegister(v)
	return v
}

func (m *metrics) batch(took time.Duration, p *refusal) {
	m.seconds.Observe(took.Seconds())
	status := 200
	if p != nil {
		status = p.status
		m.refused.WithLabelValues(p.reason).Add(float64(p.events))
		if p.reason == "slow" {
			m.slow.Inc()
		}
	}
	m.batches.WithLabelValues(strconv.Itoa(status)).Inc()
}

func (m *metrics) accept(b *batch, bytes int) {
	m.accepted.Add(float64(len(b.events)))
	m.bytes.Add(float64(bytes))
	m.unknown.Add(float64(b.unknown))
	m.withoutTime.Add(float64(b.withoutAt))
	for reason, n := range map[string]int{"session": b.misplaced.session, "id": b.misplaced.id, "crowded": b.misplaced.crowded} {
		m.misplaced.WithLabelValues(reason).Add(float64(n))
	}
}
