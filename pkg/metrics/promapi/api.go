// Package promapi answers Prometheus's HTTP API from the stored metrics of sessions, with Prometheus's own engine.
//
// The routes, parameters and answers are those of https://prometheus.io/docs/prometheus/latest/querying/api/: query,
// query_range, series, labels, label/{name}/values, metadata and status/buildinfo, by GET and by POST with a form. So
// Grafana can use the address above them as a data source.
//
// A query is limited: in samples in memory, in time, and in how many queries are answered at once.
package promapi

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/util/annotations"
	"github.com/sirupsen/logrus"

	"github.com/rayhistory/historyserver/internal/turns"
	"github.com/rayhistory/historyserver/pkg/metrics"
)

// Options of an API. Each limit is needed because different kinds of queries reach different ones.
type Options struct {
	// MaxSamples is how many samples one query may have in memory, at about 16 bytes each.
	MaxSamples int
	// Timeout is how long one query may take.
	Timeout time.Duration
	// Concurrent is how many queries are answered at once; others wait for at most Wait, then they are refused. While
	// they wait, a query has only half of Timeout.
	Concurrent int
	Wait       time.Duration
	// Version is what status/buildinfo says of the server.
	Version string
	Log     logrus.FieldLogger // of the store's errors; nil: none
}

// Session is a session whose metrics are queried.
type Session struct {
	Name string
	// Start and End are when it ran, by the store's clock; zero: not known.
	Start, End time.Time
	// Open returns its metrics.
	Open func() *metrics.Database
}

// mayHaveSamples says whether a session may have samples between mint and maxt (Unix milliseconds).
func (s Session) mayHaveSamples(mint, maxt int64) bool {
	return (s.Start.IsZero() || s.Start.Add(-slack).UnixMilli() <= maxt) &&
		(s.End.IsZero() || s.End.Add(slack).UnixMilli() >= mint)
}

// Scope says which sessions a request queries.
type Scope struct {
	Sessions []Session // the newest last
	Now      time.Time // the default time of a query
	// Until, if set, is the moment that is shown: there are no samples after it. The end of a session is no such
	// moment, because samples have the times of their nodes' clocks.
	Until time.Time
	// For names whom and what the request is for: requests with different names take turns.
	For string
}

// API answers the routes. Safe for concurrent use.
type API struct {
	opts   Options
	engine func() *promql.Engine
	parser parser.Parser
	slots  *turns.Slots
}

const (
	// lookback is how long a sample counts if there is no newer one; Prometheus's default.
	lookback = 5 * time.Minute
	// slack is how far outside of a session's time its samples may be: clocks of nodes differ from the store's.
	slack = time.Hour
	// maxPoints bounds the steps of a range query, as Prometheus does.
	maxPoints = 11_000
	// maxForm bounds a request's form. Queries are parsed into trees, which functions that call themselves walk.
	maxForm = 256 << 10
	// maxSelectors bounds the selectors of a request for series or labels. What each finds is kept until the last is
	// done.
	maxSelectors = 64
	// maxMetadata bounds what sessions say about their metrics together, in bytes. Ray says some 100 KB.
	maxMetadata = 16 << 20
)

// New makes an API. A query may take half of the timeout if others wait for its slot. The engine, which takes memory,
// is made by the first query.
func New(opts Options) *API {
	p := parser.NewParser(parser.Options{})
	return &API{
		opts: opts, parser: p, slots: turns.New(opts.Concurrent, opts.Timeout/2),
		engine: sync.OnceValue(func() *promql.Engine { // the statistics that it keeps take 290 KB
			return promql.NewEngine(promql.EngineOpts{
				MaxSamples: opts.MaxSamples, Timeout: opts.Timeout, LookbackDelta: lookback, Parser: p,
				EnableAtModifier: true, EnableNegativeOffset: true,
				NoStepSubqueryIntervalFn: func(int64) int64 { return noStep.Milliseconds() },
			})
		}),
	}
}

// Answer answers a request for a path below /api/v1/, such as query or label/job/values, in its turn and within the
// time for a query, or the shorter one that the request asks for. scope says which sessions are queried. An error of
// the store is logged, because the client is told only that there is one.
func (a *API) Answer(w http.ResponseWriter, r *http.Request, path string, scope Scope) {
	answer := answererOf(path)
	if answer == nil {
		writeError(w, &apiError{http.StatusNotFound, "not_found",
			fmt.Errorf("/api/v1/%s does not exist here; there are query, query_range, series, labels, "+
				"label/{name}/values, metadata and status/buildinfo", path)})
		return
	}
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	if err := r.ParseForm(); err != nil {
		writeError(w, asAPIError(badData("form", err)))
		return
	}
	timeout := a.opts.Timeout
	if text := r.Form.Get("timeout"); text != "" {
		d, err := parseDuration(text)
		if err == nil && d <= 0 {
			err = errors.New("want more than 0")
		}
		if err != nil {
			writeError(w, asAPIError(badData("timeout", err)))
			return
		}
		timeout = min(timeout, d)
	}
	ctx, done, err := a.takeSlot(r.Context(), scope.For, timeout)
	if err != nil {
		writeError(w, asAPIError(err))
		return
	}
	defer done()
	q := &request{api: a, form: r.Form, scope: scope,
		queryable: queryable{sessions: scope.Sessions, until: math.MaxInt64}}
	if !scope.Until.IsZero() {
		q.queryable.until = scope.Until.UnixMilli()
	}
	result, err := answer(ctx, q)
	if err != nil {
		if errors.As(err, new(storeError)) && a.opts.Log != nil {
			a.opts.Log.WithError(err).WithField("path", r.URL.Path).Warn("cannot answer a query")
		}
		writeError(w, asAPIError(causeOf(ctx, err)))
		return
	}
	// The client reads the answer in the query's time, too. A test's recorder has no deadlines.
	defer context.AfterFunc(ctx, func() { _ = http.NewResponseController(w).SetWriteDeadline(time.Now()) })()
	writeResult(ctx, w, result)
	if result.close != nil {
		result.close() // the engine's values are not needed any more
	}
}

var (
	errBusy = &apiError{http.StatusServiceUnavailable, "unavailable",
		errors.New("too many queries are running: try again in some seconds")}
	errEnded = &apiError{http.StatusServiceUnavailable, "timeout",
		errors.New("the query took long while others waited: ask for less, or try again later")}
)

// takeSlot waits for a slot and bounds the time.
func (a *API) takeSlot(ctx context.Context, name string, timeout time.Duration) (context.Context, func(), error) {
	working, done, err := a.slots.Take(ctx, name, a.opts.Wait)
	if errors.Is(err, turns.ErrBusy) {
		return nil, nil, errBusy
	}
	if err != nil {
		return nil, nil, err
	}
	ctx, cancel := context.WithTimeout(working, timeout)
	return ctx, func() { cancel(); done() }, nil
}

// causeOf returns why a query has an error: the engine does not say why its context ended.
func causeOf(ctx context.Context, err error) error {
	if errors.Is(context.Cause(ctx), turns.ErrEnded) {
		return errEnded
	}
	return err
}

type answerer func(context.Context, *request) (*result, error)

// answererOf returns the handler of a path below api/v1; nil if there is none.
func answererOf(path string) answerer {
	switch path {
	case "query":
		return instant
	case "query_range":
		return queryRange
	case "series":
		return seriesOf
	case "labels":
		return labelNames
	case "metadata":
		return metadata
	case "status/buildinfo":
		return buildInfo
	}
	if name, isLabel := strings.CutPrefix(path, "label/"); isLabel {
		if name, isLabel = strings.CutSuffix(name, "/values"); isLabel {
			return func(ctx context.Context, q *request) (*result, error) { return labelValues(ctx, q, name) }
		}
	}
	return nil
}

// request is a request in progress.
type request struct {
	api       *API
	form      url.Values
	scope     Scope
	queryable queryable
}

// result is an answer: a value of the engine, or one that is encoded as JSON. close is called when it is written.
type result struct {
	value    parser.Value
	data     any
	query    string
	warnings annotations.Annotations
	close    func()
}

// readTime returns the time in a parameter, otherwise if there is none.
func (q *request) readTime(name string, otherwise time.Time) (time.Time, error) {
	text := q.form.Get(name)
	if text == "" {
		return otherwise, nil
	}
	t, err := parseTime(text)
	if err != nil {
		return t, badData(name, err)
	}
	return t, nil
}

// instant answers /query: a query at one time.
func instant(ctx context.Context, q *request) (*result, error) {
	at, err := q.readTime("time", q.scope.Now)
	if err != nil {
		return nil, err
	}
	if q.queryable.plan, err = q.api.newPlan(q.form.Get("query"), at, at, 0); err != nil {
		return nil, badData("query", err)
	}
	query, err := q.api.engine().NewInstantQuery(ctx, q.queryable, nil, q.form.Get("query"), at)
	return q.execute(ctx, query, err)
}

// queryRange answers query_range: the values of an expression at each step from start to end. Ranges that make no
// sense, or have too many steps, are refused.
func queryRange(ctx context.Context, q *request) (*result, error) {
	start, startErr := q.readTime("start", time.Time{})
	end, endErr := q.readTime("end", time.Time{})
	if err := errors.Join(startErr, endErr); err != nil {
		return nil, err
	}
	step, err := parseDuration(q.form.Get("step"))
	switch {
	case err != nil:
		return nil, badData("step", err)
	case step < time.Millisecond:
		return nil, badData("step", errors.New("want at least 1 ms"))
	case q.form.Get("start") == "" || q.form.Get("end") == "":
		return nil, badData("start", errors.New("a range needs start and end"))
	case end.Before(start):
		return nil, badData("end", errors.New("it is before start"))
	case (end.UnixMilli()-start.UnixMilli())/step.Milliseconds() > maxPoints:
		return nil, badData("step", fmt.Errorf("more than %d points of a series: make the step longer", maxPoints))
	}
	if q.queryable.plan, err = q.api.newPlan(q.form.Get("query"), start, end, step); err != nil {
		return nil, badData("query", err)
	}
	query, err := q.api.engine().NewRangeQuery(ctx, q.queryable, nil, q.form.Get("query"), start, end, step)
	return q.execute(ctx, query, err)
}

// execute executes a query. err is what making the query returned.
func (q *request) execute(ctx context.Context, query promql.Query, err error) (*result, error) {
	if err != nil {
		return nil, badData("query", err)
	}
	got := query.Exec(ctx)
	if got.Err != nil {
		query.Close()
		return nil, got.Err
	}
	return &result{value: got.Value, query: q.form.Get("query"), warnings: got.Warnings, close: query.Close}, nil
}

// readCount reads a number that is not negative.
func (q *request) readCount(name string, otherwise int) (int, error) {
	text := q.form.Get(name)
	if text == "" {
		return otherwise, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 {
		return 0, badData(name, errors.New("want a number, 0 or more"))
	}
	return n, nil
}

// buildInfo answers /status/buildinfo.
func buildInfo(_ context.Context, q *request) (*result, error) {
	// Grafana requests the version to know what the API can do; the version of the engine decides this.
	return &result{data: map[string]string{
		"version": engineVersion, "revision": q.api.opts.Version, "branch": "", "buildUser": "", "buildDate": "",
		"goVersion":   "",
		"application": "Ray History Server",
	}}, nil
}

// engineVersion is the release of Prometheus that has this version of its engine: module 0.314 is Prometheus 3.14.
const engineVersion = "3.14.0"
