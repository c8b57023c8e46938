// Package sink takes the events that Ray posts. It checks each event's envelope, appends complete batches to the spool,
// and answers after that.
//
// Ray's aggregator agent (ray/dashboard/modules/aggregator) sends a batch again until it is answered with a 2xx. So a
// temporary error (a full disk, a node ID that is not known yet) is a 503 with Retry-After, and loses nothing. Wrong
// fields of one event never stop the others: an event with an invalid session or job is stored where possible, and
// counted. Only a request as such can be refused: with a 4xx, a sentence that names the error, and a line in the log.
package sink

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"mime"
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"github.com/sirupsen/logrus"

	"github.com/rayhistory/historyserver/internal/logthrottle"
	"github.com/rayhistory/historyserver/pkg/collector/redact"
	"github.com/rayhistory/historyserver/pkg/collector/spool"
	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/ray/rayid"
)

// Options of a sink. All except MaxBody, Refused and Redact must be set.
type Options struct {
	Spool Appender
	// Root, Namespace and Cluster say where events are stored; the session comes from each event.
	Root               string
	Namespace, Cluster string
	// Find returns where the events that name a session are stored. session is "" for events that name none, or an
	// invalid one. An error means that this is not known yet.
	Find func(session string) (Destination, error)
	// MaxBody is the maximum size of one batch, uncompressed, in bytes, and of the bodies of all requests together:
	// those that do not fit wait. 0 means 64 MiB.
	MaxBody int64
	// Refused remembers batches that are refused and not accepted later; nil: nobody asks.
	Refused *Refused
	// Redact overwrites what must not be stored; nil: nothing.
	Redact     *redact.Redactor
	Log        logrus.FieldLogger
	Registerer prometheus.Registerer
}

// Destination says where events are stored: the session, and the node.
type Destination struct {
	Session string
	Node    rayid.Node
}

// Appender stores batches: a spool.
type Appender interface {
	Append(ctx context.Context, batch []spool.Lines) error
}

// Sink is the handler of POST /v1/events. Whoever serves it answers other methods.
type Sink struct {
	opts    Options
	session layout.Session // without a name
	bodies  *bodies
	metrics *metrics
	log     logthrottle.Throttle
}

// DefaultMaxBody is the largest body that is accepted by default, in bytes.
const DefaultMaxBody = 64 << 20

// New makes a sink and registers its metrics. The error says which option cannot be used, such as a cluster's name that
// no key can have.
func New(o Options) (*Sink, error) {
	o.MaxBody = cmp.Or(o.MaxBody, DefaultMaxBody)
	o.Refused = cmp.Or(o.Refused, &Refused{})
	if o.MaxBody < 0 || o.MaxBody > math.MaxInt32 {
		return nil, fmt.Errorf("event bodies of %d bytes: want at most 2 GiB", o.MaxBody)
	}
	s := &Sink{opts: o, session: layout.Session{Namespace: o.Namespace, Cluster: o.Cluster},
		log: logthrottle.Throttle{Log: o.Log}}
	example := s.session
	example.Name = "session_example"
	if err := example.Check(); err != nil {
		return nil, err
	}
	s.bodies = newBodies(o.MaxBody)
	s.metrics = newMetrics(o.Registerer, s.bodies)
	return s, nil
}

// refusal is the answer to a batch that is not accepted, and how it is counted.
type refusal struct {
	status     int
	reason     string // label of the metric
	text       string
	retryAfter time.Duration // 0: sending it again does not help
	events     int           // of the batch, as far as they could be counted
	session    string        // that it is refused for; "": for something else
}

// losesEvents says whether Ray's events are lost unless it sends the batch again. Other requests are no batches, or the
// client broke them off.
func (p *refusal) losesEvents() bool {
	return p.status == http.StatusServiceUnavailable || p.reason == "malformed" || p.reason == "too_large"
}

const (
	// retrySoon is for errors that may pass right away, retryLater for those that must be fixed first. Ray itself waits
	// at most 5 s.
	retrySoon  = time.Second
	retryLater = 5 * time.Second
)

// ServeHTTP takes one batch: all of its events, or none. The answer is 200 only if they are on disk.
func (s *Sink) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	start := time.Now()
	// The server reads the rest of a body that the handler leaves unread. If a writer has no deadlines, the server's
	// own applies.
	_ = http.NewResponseController(w).SetReadDeadline(start.Add(slowGrace))
	n, refused := s.takeBatch(w, r)
	s.metrics.countBatch(time.Since(start), refused)
	if refused == nil {
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprintf(w, "{\"accepted\": %d}\n", n) // the events are kept even if the client is gone
		return
	}
	if refused.losesEvents() {
		s.opts.Refused.Add(refused.session, refused.text, time.Now())
	}
	if refused.retryAfter > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(refused.retryAfter/time.Second)))
	}
	s.log.Warn(time.Now(), fmt.Sprintf("events refused (%d): %s", refused.status, refused.text), nil)
	http.Error(w, refused.text, refused.status)
}

// takeBatch returns how many events a batch has that is on disk as a whole now, or why it is refused.
func (s *Sink) takeBatch(w http.ResponseWriter, r *http.Request) (events int, refused *refusal) {
	if refused := checkHead(r); refused != nil {
		return 0, refused
	}
	body, refused := s.bodies.readBody(w, r)
	if refused != nil {
		return 0, refused
	}
	defer s.bodies.releaseBody(body)
	b := newBatch()
	defer b.recycle()
	if refused := b.scanBody(body.bytes, time.Now(), s.opts.Find); refused != nil {
		return 0, refused
	}
	for _, e := range b.events {
		s.opts.Redact.JSON(body.bytes[e.start:e.end])
	}
	if refused := s.appendBatch(r.Context(), b); refused != nil {
		refused.events = len(b.events)
		return 0, refused
	}
	s.metrics.countAccepted(b, len(body.bytes))
	if len(b.events) > 0 {
		s.opts.Refused.forgetAccepted(b.destinationIndex)
	}
	return len(b.events), nil
}

// checkHead refuses a request whose headers say that it has no JSON, or a compression that is not supported.
func checkHead(r *http.Request) *refusal {
	kind := r.Header.Get("Content-Type")
	if media, _, err := mime.ParseMediaType(kind); err != nil || media != "application/json" {
		return &refusal{status: http.StatusUnsupportedMediaType, reason: "content_type",
			text: fmt.Sprintf("Content-Type %.100q: want application/json, a JSON array of Ray's export events", kind)}
	}
	switch encoding := r.Header.Get("Content-Encoding"); encoding {
	case "", "identity", "gzip":
		return nil
	default:
		return &refusal{status: http.StatusUnsupportedMediaType, reason: "content_type",
			text: fmt.Sprintf("Content-Encoding %.100q: want gzip or none", encoding)}
	}
}

// appendBatch appends the batch to the spool, and returns nil or why it is refused.
func (s *Sink) appendBatch(ctx context.Context, b *batch) *refusal {
	err := s.opts.Spool.Append(ctx, b.linesByStream(func(d Destination, st stream) string {
		ref := s.session
		ref.Name = d.Session
		hour := time.Unix(st.hour*3600, 0)
		if st.hasJob {
			return layout.JobEventsKey(s.opts.Root, ref, st.job, d.Node, hour)
		}
		return layout.NodeEventsKey(s.opts.Root, ref, d.Node, hour)
	}))
	switch {
	case err == nil:
		return nil
	case errors.Is(err, spool.ErrTooLarge):
		return &refusal{status: http.StatusRequestEntityTooLarge, reason: "too_large",
			text: err.Error() + "; allow the spool more (--spool-max-bytes), or have Ray send smaller batches " +
				"(RAY_DASHBOARD_AGGREGATOR_AGENT_MAX_EVENT_SEND_BATCH_SIZE)"}
	case errors.Is(err, spool.ErrFull):
		return &refusal{status: http.StatusServiceUnavailable, reason: "full", retryAfter: retryLater,
			text: err.Error() + "; events are accepted again when older ones are shipped: check that the store answers"}
	default:
		return &refusal{status: http.StatusServiceUnavailable, reason: "disk", retryAfter: retryLater,
			text: err.Error()}
	}
}

type metrics struct {
	accepted, bytes, unknown, withoutTime, slow prometheus.Counter
	refused, misplaced, batches                 *prometheus.CounterVec
	seconds                                     prometheus.Histogram
}

const metricPrefix = "rayhistory_collector_events_"

// newMetrics registers the sink's metrics. m tells at each scrape how much memory bodies take.
func newMetrics(r prometheus.Registerer, m *bodies) *metrics {
	factory := promauto.With(r)
	counter := func(name, help string) prometheus.Counter {
		return factory.NewCounter(prometheus.CounterOpts{Name: metricPrefix + name, Help: help})
	}
	vector := func(name, help string) *prometheus.CounterVec {
		return factory.NewCounterVec(prometheus.CounterOpts{Name: metricPrefix + name, Help: help}, []string{"reason"})
	}
	factory.NewGaugeFunc(prometheus.GaugeOpts{Name: metricPrefix + "body_bytes",
		Help: "Memory taken by batches that are being read or kept."},
		func() float64 { return float64(m.taken.Load()) })
	return &metrics{
		accepted: counter("accepted_total", "Events that are kept."),
		bytes:    counter("accepted_bytes_total", "Bytes of the batches that are kept, uncompressed."),
		unknown:  counter("unknown_type_total", "Events kept whose type this version does not know."),
		withoutTime: counter("without_time_total",
			"Events kept whose time is missing or absurd; they are stored by the time they came."),
		refused: vector("refused_total",
			"Events that were refused, as far as they could be counted, by reason: session (its folder was not seen "+
				"yet, or its node's ID is not known), full, disk, busy, slow, content_type, too_large, unreadable "+
				"or malformed. Ray sends refused events again."),
		misplaced: vector("misplaced_total",
			"Events kept that are not stored by what they say of themselves, by reason: session (they name none, or "+
				"one that this node has no folder of: under the running session), id (their nodeId or jobId is no "+
				"ID: among the session's events), crowded (of more jobs and hours than one batch has: likewise)."),
		slow:    counter("slow_total", "Requests that were cut off because their body came too slowly."),
		batches: NewBatches(r),
		seconds: factory.NewHistogram(prometheus.HistogramOpts{Name: metricPrefix + "batch_seconds",
			Help: "How long it took to answer a batch.", Buckets: prometheus.ExponentialBuckets(0.001, 2, 13)}),
	}
}

// NewBatches makes the counter of batches, which a server that refuses all of them has too.
func NewBatches(r prometheus.Registerer) *prometheus.CounterVec {
	return promauto.With(r).NewCounterVec(prometheus.CounterOpts{
		Name: metricPrefix + "batches_total", Help: "Batches, by the status they were answered with.",
	}, []string{"code"})
}

// countBatch counts a batch by its answer, and how long it took. refused is nil if it was accepted.
func (m *metrics) countBatch(took time.Duration, refused *refusal) {
	m.seconds.Observe(took.Seconds())
	status := 200
	if refused != nil {
		status = refused.status
		m.refused.WithLabelValues(refused.reason).Add(float64(refused.events))
		if refused.reason == "slow" {
			m.slow.Inc() // requests; refused cannot count their events, which did not come completely
		}
	}
	m.batches.WithLabelValues(strconv.Itoa(status)).Inc()
}

// countAccepted counts a batch that was accepted. bytes is the size of its body.
func (m *metrics) countAccepted(b *batch, bytes int) {
	m.accepted.Add(float64(len(b.events)))
	m.bytes.Add(float64(bytes))
	m.unknown.Add(float64(b.unknown))
	m.withoutTime.Add(float64(b.withoutAt))
	for reason, n := range map[string]int{"session": b.misplaced.session, "id": b.misplaced.id,
		"crowded": b.misplaced.crowded} {
		m.misplaced.WithLabelValues(reason).Add(float64(n))
	}
}
