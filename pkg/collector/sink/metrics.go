package sink

import (
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/sirupsen/logrus"
)

type metrics struct {
	accepted, bytes, unknown, withoutTime prometheus.Counter
	refused, batches                      *prometheus.CounterVec
	seconds                               prometheus.Histogram
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
		refused: vector("refused_total", "Events that were refused, as far as they could be counted, by reason: node (its ID is not known yet), full, disk, busy, "+
			"method, content_type, too_large, unreadable, malformed, session or id. Ray sends refused events again.", "reason"),
		batches: vector("batches_total", "Batches, by the status they were answered with.", "code"),
		seconds: prometheus.NewHistogram(prometheus.HistogramOpts{Name: metricPrefix + "batch_seconds",
			Help: "How long it took to answer a batch.", Buckets: prometheus.ExponentialBuckets(0.001, 2, 13)}),
	}
	r.MustRegister(s.seconds, prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: metricPrefix + "body_bytes",
		Help: "Memory taken by batches that are being read or kept."}, func() float64 { return float64(m.taken.Load()) }))
	return s
}

func (m *metrics) batch(took time.Duration, p *problem) {
	m.seconds.Observe(took.Seconds())
	status := 200
	if p != nil {
		status = p.status
		m.refused.WithLabelValues(p.reason).Add(float64(p.events))
	}
	m.batches.WithLabelValues(strconv.Itoa(status)).Inc()
}

func (m *metrics) accept(b *batch, bytes int) {
	m.accepted.Add(float64(len(b.places)))
	m.bytes.Add(float64(bytes))
	m.unknown.Add(float64(b.unknown))
	m.withoutTime.Add(float64(b.withoutAt))
}

// throttled keeps a client that repeats itself from filling the log.
type throttled struct {
	log logrus.FieldLogger

	mu     sync.Mutex
	last   time.Time
	silent int
}

const warnGap = 30 * time.Second

func (t *throttled) warn(text string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if now := time.Now(); t.last.IsZero() || now.Sub(t.last) >= warnGap {
		log := t.log
		if t.silent > 0 {
			log = log.WithField("times since the last line", t.silent)
		}
		log.Warn(text)
		t.last, t.silent = now, 0
		return
	}
	t.silent++
}
