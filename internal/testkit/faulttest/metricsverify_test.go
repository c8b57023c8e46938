package faulttest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/tsdb/chunkenc"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/pkg/blob"
	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/metrics"
	"github.com/rayhistory/historyserver/pkg/metrics/promapi"
)

// storedMetrics are a session's metrics as the history server reads them.
type storedMetrics struct {
	t        *testing.T
	session  layout.Session
	database *metrics.Database
	reads    []storedRead // whole ones, in order of time
	gaveUp   int          // reads that are stored as failed, or only in part: a loaded machine is slow
}

type storedRead struct {
	number int   // of the request
	at     int64 // Unix ms
	whole  bool
}

// verifyMetrics compares what is stored with what the exporter told: every value, by time. Lines that cannot be read
// are errors.
func (r *rig) verifyMetrics(e *exporter) *storedMetrics {
	r.t.Helper()
	store := r.subject.Store(r.t, r.dir)
	hours := func(ctx context.Context) ([]metrics.Hour, error) { return metrics.List(ctx, store, "log", r.session) }
	s := &storedMetrics{t: r.t, session: r.session, database: metrics.NewDatabase(store, hours, 0, 256<<20)}
	times := make(map[int64]map[string]float64)
	for _, series := range s.find(labels.MustNewMatcher(labels.MatchRegexp, model.MetricNameLabel, "ray_test_.+")) {
		name := series.Labels().Get(model.MetricNameLabel)
		if i := series.Labels().Get("i"); i != "" {
			name += fmt.Sprintf("{i=%q}", i)
		}
		for in := series.Iterator(math.MinInt64+1, math.MaxInt64); in.Next() != chunkenc.ValNone; {
			at, v := in.At()
			if times[at] == nil {
				times[at] = make(map[string]float64)
			}
			if _, twice := times[at][name]; twice {
				r.t.Errorf("%s has two samples at %d", name, at)
			}
			if !value.IsStaleNaN(v) {
				times[at][name] = v
			}
		}
	}
	for at, got := range times {
		if len(got) > 0 {
			s.compare(e, at, got)
		}
	}
	slices.SortFunc(s.reads, func(a, b storedRead) int { return int(a.at - b.at) })
	for i := 1; i < len(s.reads); i++ {
		before, read := s.reads[i-1], s.reads[i]
		says.True(r.t, read.number > before.number, "request %d is stored after %d", read.number, before.number)
		// A collector that was killed may have left a request that is answered later.
		says.True(r.t, !before.whole || read.at >= e.asked[before.number].at,
			"request %d has the time %d: the one before was answered at %d", read.number, read.at,
			e.asked[before.number].at)
	}
	s.compareExport(store)
	inPart := func(r storedRead) bool { return !r.whole }
	says.True(r.t, !slices.ContainsFunc(s.reads, inPart) || strings.Contains(r.logged(), "read metrics of port"),
		"requests are stored in part, and nobody is told")
	stored := len(s.reads)
	s.reads = slices.DeleteFunc(s.reads, inPart)
	s.gaveUp = s.failed() + stored - len(s.reads)
	return s
}

// find gives series; what cannot be read is an error.
func (s *storedMetrics) find(matchers ...*labels.Matcher) []*metrics.Series {
	s.t.Helper()
	found, damaged, err := s.database.Select(s.t.Context(), &metrics.QueryMemory{},
		metrics.Selection{Mint: math.MinInt64 / 2, Maxt: math.MaxInt64 / 2, Matchers: matchers})
	must.OK(s.t, err)
	for _, err := range damaged {
		s.t.Error(err)
	}
	return found[0]
}

// compare compares what is stored of one time.
func (s *storedMetrics) compare(e *exporter, at int64, got map[string]float64) {
	s.t.Helper()
	n, ok := got[requestsName]
	number := int(n)
	if !ok || number < 0 || number >= len(e.asked) {
		s.t.Errorf("%d values at %d are of no request: %v", len(got), at, n)
		return
	}
	asked := e.asked[number]
	says.True(s.t, at <= asked.at,
		"request %d has the time %d, but was answered at %d: the time is taken before it is sent", number, at, asked.at)
	want := asked.series(number)
	whole := true
	for i, w := range want {
		v, ok := got[w.name]
		if !ok {
			for _, later := range want[i:] {
				if _, ok := got[later.name]; ok {
					s.t.Errorf("request %d has %s but not %s", number, later.name, w.name)
					return
				}
			}
			whole = false // the collector gave up reading it
			want = want[:i]
			break
		}
		says.True(s.t, v == w.value || math.IsNaN(v) && math.IsNaN(w.value),
			"request %d: %s is stored as %v, told was %v", number, w.name, v, w.value)
	}
	says.True(s.t, len(got) <= len(want), "request %d: %d series are stored, told were %d", number, len(got), len(want))
	s.reads = append(s.reads, storedRead{number, at, whole})
}

// compareExport looks whether what `historyserver export-metrics` writes has each sample once, and in order.
func (s *storedMetrics) compareExport(store blob.Store) {
	s.t.Helper()
	hours := must.Get(metrics.List(s.t.Context(), store, "log", s.session))(s.t)
	var text bytes.Buffer
	must.OK(s.t, metrics.WriteOpenMetrics(s.t.Context(), &text, store, hours,
		func(err error) { s.t.Error(err) }, func(metrics.Hour) {}))
	last, requests := make(map[string]float64), 0
	for line := range strings.Lines(text.String()) {
		words := strings.Fields(line)
		if len(words) != 3 {
			continue // # EOF
		}
		at, err := strconv.ParseFloat(words[2], 64)
		if before, known := last[words[0]]; err != nil || known && at <= before {
			s.t.Errorf("exported after %f: %s", before, line)
			return
		}
		last[words[0]] = at
		if strings.HasPrefix(words[0], requestsName) {
			requests++
		}
	}
	says.True(s.t, requests >= len(s.reads), "%d requests are exported, %d are stored", requests, len(s.reads))
}

// missing are the requests that are not stored, among the first `of`.
func (s *storedMetrics) missing(of int) (numbers []int) {
	next := 0
	for _, r := range append(slices.Clone(s.reads), storedRead{number: of}) {
		for ; next < r.number && next < of; next++ {
			numbers = append(numbers, next)
		}
		next = r.number + 1
	}
	return numbers
}

// failed is how many reads are stored as failed.
func (s *storedMetrics) failed() (n int) {
	for _, series := range s.find(labels.MustNewMatcher(labels.MatchEqual, model.MetricNameLabel, "up")) {
		for in := series.Iterator(math.MinInt64+1, math.MaxInt64); in.Next() != chunkenc.ValNone; {
			if _, v := in.At(); v == 0 {
				n++
			}
		}
	}
	return n
}

// ask answers a PromQL query of one value, at the time of a read.
func (s *storedMetrics) ask(query string, at int64) float64 {
	s.t.Helper()
	api := promapi.New(promapi.Options{MaxSamples: 10_000_000, Timeout: time.Minute, Concurrent: 1, Wait: time.Minute})
	scope := promapi.Scope{
		Sessions: []promapi.Session{{Name: s.session.Name, Open: func() *metrics.Database { return s.database }}},
		Until:    time.UnixMilli(at),
	}
	form := url.Values{"query": {query}, "time": {strconv.FormatFloat(float64(at)/1000, 'f', 3, 64)}}
	w := httptest.NewRecorder()
	api.Answer(w, httptest.NewRequest(http.MethodGet, "/?"+form.Encode(), nil), "query", scope)
	var answer struct {
		Data struct {
			Result []struct {
				Value [2]any `json:"value"`
			} `json:"result"`
		} `json:"data"`
	}
	if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil || len(answer.Data.Result) != 1 {
		s.t.Errorf("%s: status %d, %v: %s", query, w.Code, err, w.Body)
		return math.NaN()
	}
	v, err := strconv.ParseFloat(fmt.Sprint(answer.Data.Result[0].Value[1]), 64)
	says.OK(s.t, err, "%s", query)
	return v
}

// answers looks whether PromQL says what the exporter told in its last stored request.
func (s *storedMetrics) answers(e *exporter) {
	s.t.Helper()
	if len(s.reads) == 0 {
		s.t.Error("no metrics are stored")
		return
	}
	last := s.reads[len(s.reads)-1]
	sums := make(map[string]float64)
	for _, w := range e.asked[last.number].series(last.number) {
		name, _, _ := strings.Cut(w.name, "{")
		sums[name] += w.value
	}
	for _, name := range []string{requestsName, counterName, gaugeName, briefName} {
		if got := s.ask("sum("+name+")", last.at); math.Abs(got-sums[name]) > 1e-6 {
			s.t.Errorf("sum(%s) is %v, told was %v", name, got, sums[name])
		}
	}
	if got := s.ask("count("+oddName+")", last.at); got != ofEach {
		s.t.Errorf("%v series of %s", got, oddName)
	}
	if len(s.reads) > 1 {
		if got := s.ask("sum(increase("+counterName+"[1h]))", last.at); got < 0 || math.IsNaN(got) {
			s.t.Errorf("the counters increased by %v", got)
		}
	}
}

// warnings are the lines of the collector's log about its metrics, in one.
func (r *rig) warnings() string {
	var lines strings.Builder
	for line := range strings.Lines(r.logged()) {
		if strings.Contains(line, "level=warning") && strings.Contains(line, "metrics") {
			lines.WriteString(" " + strings.TrimSpace(line))
		}
	}
	return lines.String()
}

// logged is what the collector has logged.
func (r *rig) logged() string {
	r.t.Helper()
	data := must.Get(os.ReadFile(r.log.Name()))(r.t)
	return string(data)
}
