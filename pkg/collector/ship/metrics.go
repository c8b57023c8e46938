package ship

import (
	"context"
	"errors"
	"os"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/sirupsen/logrus"

	"github.com/rayhistory/historyserver/pkg/blob"
)

// metrics of a shipper, by group.
type metrics struct {
	chunks, raw, sent, lists, conflicts *prometheus.CounterVec
	errors                              *prometheus.CounterVec // by kind too
	puts                                *prometheus.CounterVec
	seconds                             prometheus.Histogram
	open                                prometheus.Gauge
}

func newMetrics(o Options) *metrics {
	const prefix = "rayhistory_collector_ship_"
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		v := prometheus.NewCounterVec(prometheus.CounterOpts{Name: prefix + name, Help: help}, append([]string{"group"}, labels...))
		o.Registerer.MustRegister(v)
		for _, g := range o.Groups {
			if len(labels) == 0 {
				v.WithLabelValues(g.Name)
			}
		}
		return v
	}
	m := &metrics{
		chunks:    counter("chunks_total", "Chunks stored."),
		raw:       counter("bytes_total", "Bytes of events and logs stored, before compression."),
		sent:      counter("sent_bytes_total", "Bytes of the chunks stored, as stored."),
		puts:      counter("puts_total", "Puts tried, whatever became of them."),
		lists:     counter("lookups_total", "Times the store's listing was asked where a whole ends."),
		conflicts: counter("conflicts_total", "Puts whose key was taken: an answer had been lost, or another collector writes the same."),
		errors:    counter("errors_total", "Errors of shipping a chunk, by kind: permission, throttled, timeout, source (reading what is to be shipped) or backend.", "kind"),
		seconds: prometheus.NewHistogram(prometheus.HistogramOpts{Name: prefix + "put_seconds", Help: "How long puts took.",
			Buckets: prometheus.ExponentialBuckets(0.005, 2, 14)}),
		open: prometheus.NewGauge(prometheus.GaugeOpts{Name: prefix + "circuit_open", Help: "1 while the backend failed so often that uploads are only probed."}),
	}
	o.Registerer.MustRegister(m.seconds, m.open, behindCollector(o.Groups))
	return m
}

func (m *metrics) put(group string, raw, sent int64, took time.Duration, err error) {
	m.puts.WithLabelValues(group).Inc()
	m.seconds.Observe(took.Seconds())
	if err == nil {
		m.chunks.WithLabelValues(group).Inc()
		m.raw.WithLabelValues(group).Add(float64(raw))
		m.sent.WithLabelValues(group).Add(float64(sent))
	}
}

func (m *metrics) list(group string)  { m.lists.WithLabelValues(group).Inc() }
func (m *metrics) taken(group string) { m.conflicts.WithLabelValues(group).Inc() }

func (m *metrics) breaker(until time.Time) {
	if until.IsZero() {
		m.open.Set(0)
	} else {
		m.open.Set(1)
	}
}

func (m *metrics) error(group string, err error) {
	kind := "backend"
	var timeout interface{ Timeout() bool }
	switch source := (sourceError{}); {
	case errors.As(err, &source):
		kind = "source"
	case errors.Is(err, blob.ErrPermission):
		kind = "permission"
	case errors.Is(err, blob.ErrThrottled):
		kind = "throttled"
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout(), errors.Is(err, os.ErrDeadlineExceeded):
		kind = "timeout"
	}
	m.errors.WithLabelValues(group, kind).Inc()
}

// behindCollector tells at every scrape what is not stored yet, also while the shipper hangs.
type behindCollector []Group

var (
	pendingBytes = prometheus.NewDesc("rayhistory_collector_ship_pending_bytes", "Bytes that are not stored yet.", []string{"group"}, nil)
	behindTime   = prometheus.NewDesc("rayhistory_collector_ship_behind_seconds", "Age of the oldest byte that is not stored yet.", []string{"group"}, nil)
)

func (c behindCollector) Describe(ch chan<- *prometheus.Desc) { ch <- pendingBytes; ch <- behindTime }

func (c behindCollector) Collect(ch chan<- prometheus.Metric) {
	for _, g := range c {
		if g.Waiting == nil {
			continue
		}
		bytes, oldest := g.Waiting()
		seconds := 0.0
		if !oldest.IsZero() {
			seconds = time.Since(oldest).Seconds()
		}
		ch <- prometheus.MustNewConstMetric(pendingBytes, prometheus.GaugeValue, float64(bytes), g.Name)
		ch <- prometheus.MustNewConstMetric(behindTime, prometheus.GaugeValue, seconds, g.Name)
	}
}

// errorLog keeps a backend that fails for hours from filling the log.
type errorLog struct {
	log logrus.FieldLogger

	mu     sync.Mutex
	last   time.Time
	silent int
}

const errorLogGap = 30 * time.Second

func (e *errorLog) report(now time.Time, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.last.IsZero() && now.Sub(e.last) < errorLogGap {
		e.silent++
		return
	}
	log := e.log
	if e.silent > 0 {
		log = log.WithField("errors since the last line", e.silent)
	}
	log.WithError(err).Warn("could not ship; it is tried again")
	e.last, e.silent = now, 0
}

func (e *errorLog) recovered(errors int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.log.Infof("shipping recovered after %d errors", errors)
	e.last, e.silent = time.Time{}, 0
}
