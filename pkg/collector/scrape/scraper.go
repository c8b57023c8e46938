// Package scrape reads the Prometheus endpoints of a node while Ray runs: that of its exporter and, on a head, those of
// the autoscaler and the dashboard. Values that changed since the last read become lines in the form of package
// samples.
package scrape

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"github.com/sirupsen/logrus"

	"github.com/rayhistory/historyserver/internal/background"
	"github.com/rayhistory/historyserver/internal/cache"
	"github.com/rayhistory/historyserver/pkg/collector/redact"
	"github.com/rayhistory/historyserver/pkg/collector/samples"
	"github.com/rayhistory/historyserver/pkg/ray/rayid"
)

// Options of a scraper. All except Allowed, Labels and Redact must be set.
type Options struct {
	// Dir is Ray's temporary folder.
	Dir  string
	Head bool
	// Host is the node's address in the targets' label instance.
	Host string
	// Labels are the labels of all targets besides instance and job.
	Labels []samples.Label
	// Running returns the session whose Ray runs; "" if there is none.
	Running func() (session string, err error)
	// Node is the ID of a session's node.
	Node func(ctx context.Context, session string) (rayid.Node, error)
	// Allowed returns an error if a session's metrics may not be read, or not yet. If Allowed is nil, they may always
	// be read.
	Allowed func(ctx context.Context, session string) error
	// Append adds lines to the stream of an hour.
	Append func(ctx context.Context, session string, node rayid.Node, hour time.Time, lines []byte) error
	// Redact overwrites what must not be stored; nil: nothing.
	Redact *redact.Redactor
	// Interval is the time from one read to the next.
	Interval time.Duration
	// MaxSeries is the maximum number of series of one table; others are left out.
	MaxSeries int
	// MaxBytes is how many bytes the definitions of a table's series and metrics may take, as they are stored; others
	// are left out. Half as many are kept of the last answers, compressed. 0 means 16 MiB.
	MaxBytes   int64
	Log        logrus.FieldLogger
	Registerer prometheus.Registerer
}

// Scraper reads the endpoints. Call New, then Start, then Close; or only New, and ScrapeOnce by hand.
type Scraper struct {
	opts    Options
	client  *client
	metrics *metrics
	encoder samples.Encoder
	latest  *latest

	stream  stream                         // what the encoder's table belongs to
	taken   []int                          // series of each endpoint in the table
	defined int64                          // bytes of the definitions in the table
	last    time.Time                      // of the last read
	logged  *cache.Cache[string, struct{}] // messages of the last logGap
	now     func() time.Time               // set by tests
	limit   time.Duration                  // of reading one endpoint; set by tests

	work background.Worker
}

// stream identifies the stream and the ports of one table of the encoder.
type stream struct {
	session string
	node    rayid.Node
	hour    time.Time
	ports   []int
}

func New(o Options) *Scraper {
	o.MaxBytes = cmp.Or(o.MaxBytes, defaultMaxBytes)
	return &Scraper{opts: o, client: newClient(o), metrics: newMetrics(o.Registerer), latest: newLatest(o.MaxBytes / 2),
		logged: cache.New[string, struct{}](maxLogged, logGap, nil), now: time.Now, limit: maxRead}
}

const defaultMaxBytes = 16 << 20

// Start reads all endpoints at once and then at every interval, in the background, until Close.
func (s *Scraper) Start() {
	s.work.Start(func(ctx context.Context) {
		ticker := time.NewTicker(s.opts.Interval)
		defer ticker.Stop()
		for {
			s.ScrapeOnce(ctx)
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
			}
		}
	})
}

// Latest serves the last read, in the text that Ray's endpoints sent.
func (s *Scraper) Latest() http.Handler { return s.latest }

func (s *Scraper) Close() { s.work.Close() }

// ScrapeOnce reads all endpoints once. An error is logged, and affects only this read.
func (s *Scraper) ScrapeOnce(ctx context.Context) {
	err := s.scrapeOnce(ctx)
	if err == nil {
		return
	}
	s.stream = stream{} // lines that were not appended are missing, so a new table must begin
	if ctx.Err() == nil {
		s.metrics.errors.Inc()
		s.warn(err)
	}
}

// scrapeOnce reads all endpoints of the node once and appends what changed to the spool.
func (s *Scraper) scrapeOnce(ctx context.Context) error {
	session, node, ports, err := s.findPorts(ctx)
	s.latest.setPorts(ports)
	if err != nil || len(ports) == 0 {
		return err
	}
	now := s.now().Round(0) // without its monotonic part: what counts is what the clock says
	if !now.After(s.last) {
		s.stream = stream{} // begins a new table, since the reads of one table have rising times
		s.warn(errClockSetBack)
	}
	s.last = now
	s.beginTable(stream{session, node, now.UTC().Truncate(time.Hour), ports})
	dropped := 0
	for i, port := range ports {
		dropped += s.readTarget(ctx, i, port, now)
	}
	// Ray may be restarted while a slow endpoint is read, and the next session's endpoints have the same ports.
	switch after, err := s.opts.Running(); {
	case err != nil:
		return err
	case after != "" && after != session:
		return fmt.Errorf("metrics of session %s are left out, because another session began while they were read",
			session)
	}
	for lines := s.encoder.Lines(); len(lines) > 0; {
		part := lines
		if len(lines) > partBytes { // up to the end of a line
			part = lines[:partBytes+bytes.IndexByte(lines[partBytes-1:], '\n')]
		}
		if err := s.opts.Append(ctx, session, node, s.stream.hour, part); err != nil {
			return fmt.Errorf("keep metrics: %w", err)
		}
		lines = lines[len(part):]
	}
	all, present := s.encoder.Series()
	s.metrics.series.Set(float64(present))
	if (dropped > 0 || all >= s.opts.MaxSeries) && present < all/2 {
		s.stream = stream{} // most series of the table are gone: begin a table without them
	}
	return nil
}

// partBytes is about how many bytes are appended at a time: what appends them copies them.
const partBytes = 1 << 20

// findPorts returns the running session, this node's ID, and the ports that serve the node's metrics. There are no
// ports, and no error, if no Ray runs, if it serves no metrics, or if its metrics may not be read, or not yet: then the
// reason, Allowed's error, is logged once.
func (s *Scraper) findPorts(ctx context.Context) (session string, node rayid.Node, ports []int, err error) {
	session, err = s.opts.Running()
	if err != nil || session == "" {
		return "", node, nil, err
	}
	if s.opts.Allowed != nil {
		if err := s.opts.Allowed(ctx, session); err != nil {
			s.logOnce(s.opts.Log.Info, err)
			return "", node, nil, nil
		}
	}
	if node, err = s.opts.Node(ctx, session); err == nil {
		ports, err = metricsPorts(s.opts.Dir, session, node, s.opts.Head, s.opts.Host)
	}
	switch {
	case errors.Is(err, errNoTargets):
		return "", node, nil, nil // a cluster without metrics, or one that starts
	case err != nil:
		return "", node, nil, fmt.Errorf("read metrics: %w", err)
	}
	return session, node, ports, nil
}

// errClockSetBack says that reads will be skipped.
var errClockSetBack = errors.New(
	"the node's clock was set back: newly read metrics of Ray are not shown until the clock has passed the time of " +
		"the last earlier read")

// beginTable begins a new table of series, unless the present one belongs to the stream now.
func (s *Scraper) beginTable(now stream) {
	if at := s.stream; at.session == now.session && at.node == now.node && at.hour.Equal(now.hour) &&
		slices.Equal(at.ports, now.ports) {
		return
	}
	s.stream = now
	s.encoder.Lines() // drops the lines of a read that was not kept
	targets := make([][]samples.Label, len(now.ports))
	for i, port := range now.ports {
		targets[i] = append([]samples.Label{
			{Name: "instance", Value: net.JoinHostPort(s.opts.Host, strconv.Itoa(port))},
			{Name: "job", Value: "ray"},
		}, s.opts.Labels...)
	}
	s.encoder.Start(targets)
	s.taken, s.defined = make([]int, len(targets)), 0
}

// readTarget reads one endpoint into the encoder's table, of which it is the number-th target, and returns how many of
// its series are left out because there are too many. An error is counted and logged.
func (s *Scraper) readTarget(ctx context.Context, number, port int, at time.Time) (dropped int) {
	ctx, cancel := context.WithTimeout(ctx, min(s.opts.Interval/2, s.limit))
	defer cancel()
	began := time.Now()
	s.encoder.Begin(number, at)
	body, err := s.client.getMetrics(ctx, port)
	if err != nil {
		s.encoder.Fail()
		s.latest.dropAnswer(port)
		s.recordFailure(port, err)
		return 0
	}
	defer func() { _ = body.Close() }()
	tee, done := s.latest.recordAnswer(s.opts.Redact.Exposition(body), port)
	// Each of the other targets keeps a part of the series free, whatever this one has.
	part := s.opts.MaxSeries / reserved
	ofOthers := (len(s.taken) - 1) * part
	t := &table{encoder: &s.encoder, max: s.opts.MaxSeries, share: max(s.opts.MaxSeries-ofOthers, part),
		taken: s.taken[number], defined: s.defined, maxDefined: s.opts.MaxBytes}
	lines, bad, err := readExposition(tee, t)
	if errors.As(err, new(*http.MaxBytesError)) {
		err = errTooLong
	}
	if err != nil && lines == 0 {
		s.encoder.Fail()
	} else {
		s.encoder.End()
	}
	s.taken[number], s.defined = t.taken, t.defined
	if err != nil {
		s.latest.dropAnswer(port)
		s.recordFailure(port, err) // the lines before are kept, so only some series have a gap
	} else {
		done()
	}
	s.metrics.lines.Add(float64(lines))
	s.metrics.bad.Add(float64(bad))
	s.metrics.dropped.Add(float64(t.dropped))
	s.metrics.seconds.Observe(time.Since(began).Seconds())
	switch {
	case t.dropped > 0 && t.defined >= t.maxDefined:
		s.warn(fmt.Errorf("series of port %d are left out: names and labels of the node's series take more than %d "+
			"MiB: give the collector more memory, or the series fewer and shorter labels", port, t.maxDefined>>20))
	case t.dropped > 0:
		s.warn(fmt.Errorf("series of port %d are left out: the node has more than --metrics-max-series=%d, or labels "+
			"of more than %d bytes", port, s.opts.MaxSeries, maxSeries))
	}
	return t.dropped
}

func (s *Scraper) recordFailure(port int, err error) {
	s.metrics.errors.Inc()
	s.warn(fmt.Errorf("read metrics of port %d: %w", port, err))
}

// logGap is the shortest time between two equal messages, of which maxLogged are remembered.
const logGap, maxLogged = time.Hour, 100

func (s *Scraper) warn(err error) { s.logOnce(s.opts.Log.Warn, err) }

// source is in the text of a connection's error: the collector's own address, whose port is another each time.
var source = regexp.MustCompile(`\S+->`)

// logOnce logs an error unless it was logged less than logGap ago.
func (s *Scraper) logOnce(log func(...any), err error) {
	text := source.ReplaceAllString(err.Error(), "")
	if _, logged := s.logged.Get(text); !logged {
		s.logged.Put(text, struct{}{})
		log(text)
	}
}

type metrics struct {
	lines, bad, dropped, errors prometheus.Counter
	series                      prometheus.Gauge
	seconds                     prometheus.Histogram
}

// newMetrics registers the scraper's metrics about itself, which are not those that it reads.
func newMetrics(r prometheus.Registerer) *metrics {
	const prefix = "rayhistory_collector_metrics_"
	factory := promauto.With(r)
	counter := func(name, help string) prometheus.Counter {
		return factory.NewCounter(prometheus.CounterOpts{Name: prefix + name, Help: help})
	}
	return &metrics{
		lines: counter("samples_total", "Samples read from Ray's metrics."),
		bad:   counter("bad_lines_total", "Lines of Ray's metrics that could not be read."),
		dropped: counter("dropped_samples_total",
			"Samples left out because the node has more series than --metrics-max-series."),
		errors: counter("errors_total", "Reads of Ray's metrics that failed, or could not be kept."),
		series: factory.NewGauge(prometheus.GaugeOpts{Name: prefix + "series",
			Help: "Series of Ray's metrics in the last read."}),
		seconds: factory.NewHistogram(prometheus.HistogramOpts{Name: prefix + "read_seconds",
			Help: "How long reading one endpoint took.", Buckets: prometheus.ExponentialBuckets(0.001, 4, 8)}),
	}
}
