// Package sink takes the events that Ray posts: it checks each event's envelope, puts whole batches into the spool and answers when they
// are there.
//
// Ray's aggregator agent (ray/dashboard/modules/aggregator) sends a batch again, for ever, until it is answered with a 2xx. So what may
// pass (a full disk, a node ID that is not known yet) is 503 with Retry-After, and loses nothing; what can not pass is 4xx with a
// sentence that says what is wrong, and is logged, because it holds up the node's later events.
package sink

import (
	"context"
	"errors"
	"fmt"
	"math"
	"mime"
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/sirupsen/logrus"

	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/rayid"
	"github.com/rayhistory/historyserver/pkg/spool"
)

// Options of a sink. All but MaxBody and MaxMemory must be set.
type Options struct {
	Spool Appender
	// Root, Namespace and Cluster say where events are stored; the session is each event's own.
	Root               string
	Namespace, Cluster string
	// NodeID is the node the collector runs on, false while it is not known.
	NodeID func() (rayid.Node, bool)
	// MaxBody is the most bytes of one batch, uncompressed. 0 means 64 MiB.
	MaxBody int64
	// MaxMemory is how many bytes of bodies are held at a time, over all requests; those that don't fit wait. 0 means MaxBody.
	MaxMemory  int64
	Log        logrus.FieldLogger
	Registerer prometheus.Registerer
}

// Appender keeps batches: a spool.
type Appender interface {
	Append(ctx context.Context, pieces []spool.Piece) error
}

// Sink is the handler of POST /v1/events.
type Sink struct {
	opts    Options
	session layout.Session // without a name
	bodies  *bodies
	metrics *metrics
	refused throttled
}

const defaultMaxBody = 64 << 20

// New checks the options.
func New(o Options) (*Sink, error) {
	if o.MaxBody == 0 {
		o.MaxBody = defaultMaxBody
	}
	if o.MaxMemory == 0 {
		o.MaxMemory = o.MaxBody
	}
	if o.MaxBody < 0 || o.MaxBody > math.MaxInt32 || o.MaxMemory < o.MaxBody {
		return nil, fmt.Errorf("event bodies of %d bytes within %d bytes of memory: want at most 2 GiB, and the memory to hold one", o.MaxBody, o.MaxMemory)
	}
	s := &Sink{opts: o, session: layout.Session{Namespace: o.Namespace, Cluster: o.Cluster}, refused: throttled{log: o.Log}}
	any := s.session
	any.Name = "session_any"
	if err := any.Check(); err != nil {
		return nil, err
	}
	s.bodies = newBodies(o.MaxBody, o.MaxMemory)
	s.metrics = newMetrics(o.Registerer, s.bodies)
	return s, nil
}

// problem is a refusal: what the client is told, and under which reason it is counted.
type problem struct {
	status     int
	reason     string
	text       string
	retryAfter time.Duration // 0: not by itself
	events     int           // that were refused, as far as they were counted
}

const (
	// retrySoon is for what may pass at once, retryLater for what needs something else to happen. Ray itself waits at most 5 s.
	retrySoon  = time.Second
	retryLater = 5 * time.Second
)

// ServeHTTP takes one batch: all of its events or none.
func (s *Sink) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	start := time.Now()
	n, p := s.take(w, r)
	s.metrics.batch(time.Since(start), p)
	if p == nil {
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprintf(w, "{\"accepted\": %d}\n", n) // the events are kept, whoever hears of it
		return
	}
	if p.retryAfter > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(p.retryAfter/time.Second)))
	}
	if p.status == http.StatusMethodNotAllowed {
		w.Header().Set("Allow", http.MethodPost)
	}
	s.refused.warn(fmt.Sprintf("events refused (%d): %s", p.status, p.text))
	http.Error(w, p.text, p.status)
}

func (s *Sink) take(w http.ResponseWriter, r *http.Request) (events int, p *problem) {
	if p := checkHead(r); p != nil {
		return 0, p
	}
	node, ok := s.opts.NodeID()
	if !ok {
		return 0, &problem{status: http.StatusServiceUnavailable, reason: "node", retryAfter: retryLater,
			text: "the collector does not know its Ray node's ID yet; send the events again"}
	}
	body, p := s.bodies.read(w, r)
	if p != nil {
		return 0, p
	}
	defer s.bodies.release(body)
	b := newBatch()
	defer b.free()
	if p := b.scan(body.bytes, time.Now()); p != nil {
		return 0, p
	}
	if p := s.append(r.Context(), b, node); p != nil {
		p.events = len(b.places)
		return 0, p
	}
	s.metrics.accept(b, len(body.bytes))
	return len(b.places), nil
}

// checkHead says what can be said without the body.
func checkHead(r *http.Request) *problem {
	if r.Method != http.MethodPost {
		return &problem{status: http.StatusMethodNotAllowed, reason: "method", text: "events are taken by POST"}
	}
	kind := r.Header.Get("Content-Type")
	if media, _, err := mime.ParseMediaType(kind); err != nil || media != "application/json" {
		return &problem{status: http.StatusUnsupportedMediaType, reason: "content_type",
			text: fmt.Sprintf("Content-Type %.100q: want application/json, a JSON array of Ray's export events", kind)}
	}
	switch encoding := r.Header.Get("Content-Encoding"); encoding {
	case "", "identity", "gzip":
		return nil
	default:
		return &problem{status: http.StatusUnsupportedMediaType, reason: "content_type",
			text: fmt.Sprintf("Content-Encoding %.100q: want gzip or none", encoding)}
	}
}

// append puts the batch into the spool.
func (s *Sink) append(ctx context.Context, b *batch, node rayid.Node) *problem {
	err := s.opts.Spool.Append(ctx, b.lines(func(session string, w whole) string {
		ref := s.session
		ref.Name = session
		hour := time.Unix(w.hour*3600, 0)
		if w.hasJob {
			return layout.JobEventsKey(s.opts.Root, ref, w.job, node, hour)
		}
		return layout.NodeEventsKey(s.opts.Root, ref, node, hour)
	}))
	switch {
	case err == nil:
		return nil
	case errors.Is(err, spool.ErrTooLarge):
		return &problem{status: http.StatusRequestEntityTooLarge, reason: "too_large",
			text: err.Error() + "; allow the spool more (--spool-max-bytes), or have Ray send smaller batches (RAY_DASHBOARD_AGGREGATOR_AGENT_MAX_EVENT_SEND_BATCH_SIZE)"}
	case errors.Is(err, spool.ErrFull):
		return &problem{status: http.StatusServiceUnavailable, reason: "full", retryAfter: retryLater,
			text: err.Error() + "; the events are taken once older ones are shipped: see whether the backend answers"}
	default:
		return &problem{status: http.StatusServiceUnavailable, reason: "disk", retryAfter: retryLater, text: err.Error()}
	}
}
