package promapi

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/internal/testkit/storetest"
	"github.com/rayhistory/historyserver/pkg/blob"
	"github.com/rayhistory/historyserver/pkg/chunks"
	"github.com/rayhistory/historyserver/pkg/collector/samples"
	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/metrics"
	"github.com/rayhistory/historyserver/pkg/ray/rayid"
)

// begin is when the stored sessions' first hour begins.
var begin = time.Date(2026, 11, 20, 20, 0, 0, 0, time.UTC)

// TestOneReading: metrics that do not fit in memory are read once for all that a query selects.
func TestOneReading(t *testing.T) {
	api := newAPI(Options{})
	var gets atomic.Int64
	counted := &storetest.Hooked{Store: storeMetrics(t, oneSession),
		Before: storetest.On(storetest.Get, func(context.Context, string) error {
			gets.Add(1)
			return nil
		})}
	scope := Scope{Sessions: []Session{sessionIn(counted, oneSession, 16<<10)}, Now: begin.Add(time.Hour)}
	reads := func(query string) int64 {
		before := gets.Load()
		code, answer := api.ask(t, scope, http.MethodGet, "query",
			url.Values{"query": {query}, "time": {fmt.Sprint(begin.Add(time.Minute).Unix())}})
		must.True(t, code == http.StatusOK && strings.Contains(answer, `"value"`), "%v %v %v", query, code, answer)
		return gets.Load() - before
	}
	first, again := reads("sum(ray_tasks)"), reads("sum(ray_tasks)")
	four := reads("sum(ray_tasks) + sum(ray_bytes_total) + sum(rate(ray_seconds_bucket[1m])) + sum(ray_tasks offset 1m)")
	says.True(t, first == 2 && again == 2 && four == 2, "%d and %d reads of two chunks for one selection, %d for four",
		first, again, four)
}

// TestStoreFails: the store's own words are not answered, and the query may be sent again.
func TestStoreFails(t *testing.T) {
	failing := &storetest.Hooked{Store: storeMetrics(t, oneSession),
		Before: func(context.Context, storetest.Op, string) error { return errors.New("X-Amz-Signature=secret") }}
	scope := Scope{Sessions: []Session{sessionIn(failing, oneSession, 64<<20)}, Now: begin.Add(time.Minute)}
	for _, path := range []string{"query?query=ray_tasks", "series?match[]=ray_tasks", "labels", "metadata"} {
		path, query, _ := strings.Cut(path, "?")
		form := must.Get(url.ParseQuery(query))(t)
		code, answer := newAPI(Options{}).ask(t, scope, http.MethodGet, path, form)
		says.True(t, code == http.StatusServiceUnavailable && !strings.Contains(answer, "secret") &&
			strings.Contains(answer, `"unavailable"`), "%s: %d %s", path, code, answer)
	}
}

// stored stores a session's metrics: two nodes, read every 15 s for ten minutes, with a counter, a gauge that ends
// after five, a histogram and odd values.
func stored(t testing.TB, name string) Session {
	t.Helper()
	return sessionIn(storeMetrics(t, name), name, 64<<20)
}

// sessionIn is a session whose metrics may take memory.
func sessionIn(store metricsStore, name string, memory int64) Session {
	ref := layout.Session{Namespace: "default", Cluster: "lab", Name: name}
	database := metrics.NewDatabase(store, func(ctx context.Context) ([]metrics.Hour, error) {
		return metrics.List(ctx, store, "log", ref)
	}, 0, memory)
	return Session{Name: name, Start: begin, End: begin.Add(10 * time.Minute),
		Open: func() *metrics.Database { return database }}
}

type metricsStore interface {
	chunks.Store
	blob.Lister
}

// storeMetrics stores them.
func storeMetrics(t testing.TB, name string) *storetest.Store {
	t.Helper()
	store := storetest.New()
	ref := layout.Session{Namespace: "default", Cluster: "lab", Name: name}
	for _, node := range []rayid.Node{{0xaa}, {0xbb}} {
		var e samples.Encoder
		e.Start([][]samples.Label{{{Name: "instance", Value: node.String()[:2]}, {Name: "job", Value: "ray"}}})
		for i := range 41 {
			e.Begin(0, begin.Add(time.Duration(i)*15*time.Second))
			e.Metric(samples.Metric{Name: "ray_tasks", Type: "gauge", Help: "Tasks"})
			add := func(value float64, name string, labels ...samples.Label) {
				labels = append(labels, samples.Label{Name: "SessionName", Value: ref.Name})
				if spelling := fmt.Append(nil, name, labels); !e.Sample(spelling, value) {
					e.Add(spelling, name, labels, value)
				}
			}
			if i < 20 {
				add(float64(i%5), "ray_tasks", samples.Label{Name: "State", Value: "RUNNING"})
			}
			add(float64(i*30), "ray_bytes_total")
			for j, le := range []string{"0.1", "1", "+Inf"} {
				add(float64(i*j), "ray_seconds_bucket", samples.Label{Name: "le", Value: le})
			}
			add(math.NaN(), "ray_odd", samples.Label{Name: "kind", Value: `a"b\`})
			e.End()
		}
		key := layout.ChunkKey(layout.MetricsKey("log", ref, node, begin), 0, layout.Plain)
		must.OK(t, store.Create(t.Context(), key, bytes.NewReader(e.Lines())))
	}
	return store
}

func newAPI(opts Options) *API {
	opts.MaxSamples = cmp.Or(opts.MaxSamples, 1_000_000)
	opts.Timeout = cmp.Or(opts.Timeout, time.Minute)
	if opts.Concurrent == 0 {
		opts.Concurrent, opts.Wait = 2, time.Second
	}
	return New(opts)
}

func (a *API) ask(t testing.TB, scope Scope, method, path string, form url.Values) (int, string) {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), method, "/?"+form.Encode(), nil)
	if method == http.MethodPost {
		r = httptest.NewRequestWithContext(t.Context(), method, "/", strings.NewReader(form.Encode()))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	w := httptest.NewRecorder()
	a.Answer(w, r, path, scope)
	return w.Code, w.Body.String()
}

const oneSession, otherSession = "session_2026-11-20_20-00-00_000000_1", "session_2026-11-20_20-00-00_000000_2"

func TestAnswers(t *testing.T) {
	one := Scope{Sessions: []Session{stored(t, oneSession)}, Now: begin.Add(time.Hour)}
	at := func(d time.Duration) string { return fmt.Sprint(begin.Add(d).Unix()) }
	api := newAPI(Options{})
	for _, test := range []struct {
		path, query, want string
	}{
		{"query", "query=sum(ray_tasks)&time=" + at(75*time.Second),
			`{"resultType":"vector","result":[{"metric":{},"value":[` + at(75*time.Second) + `,"0"]}]}`},
		{"query", "query=sum(ray_tasks)&time=" + at(60*time.Second),
			`{"resultType":"vector","result":[{"metric":{},"value":[` + at(60*time.Second) + `,"8"]}]}`},
		// It ended between 285 and 300 s.
		{"query", "query=sum(ray_tasks)&time=" + at(299*time.Second),
			`{"resultType":"vector","result":[{"metric":{},"value":[` + at(299*time.Second) + `,"8"]}]}`},
		{"query", "query=sum(ray_tasks)&time=" + at(300*time.Second), `{"resultType":"vector","result":[]}`},
		// What was read last counts for five minutes.
		{"query", "query=count(up)&time=" + at(899*time.Second),
			`{"resultType":"vector","result":[{"metric":{},"value":[` + at(899*time.Second) + `,"2"]}]}`},
		{"query", "query=count(up)&time=" + at(901*time.Second), `{"resultType":"vector","result":[]}`},
		{"query", `query=rate(ray_bytes_total{instance="aa"}[1m])&time=` + at(120*time.Second),
			// as Prometheus computes it
			`{"resultType":"vector","result":[{"metric":{"SessionName":"` + oneSession +
				`","instance":"aa","job":"ray"},"value":[` + at(120*time.Second) + `,"1.9999999999999998"]}]}`},
		{"query", `query=ray_odd{instance="aa"}&time=` + at(60500 * time.Millisecond)[:10] + ".5",
			`{"resultType":"vector","result":[{"metric":{"SessionName":"` + oneSession +
				`","__name__":"ray_odd","instance":"aa","job":"ray","kind":"a\"b\\"},"value":[` + at(60*time.Second) +
				`.500,"NaN"]}]}`},
		{"query", "query=histogram_quantile(0.5,sum by (le) (rate(ray_seconds_bucket[2m])))&time=" +
			at(300*time.Second),
			`{"resultType":"vector","result":[{"metric":{},"value":[` + at(300*time.Second) + `,"1"]}]}`},
		{"query", "query=1e-9", `{"resultType":"scalar","result":[` + at(time.Hour) + `,"1e-09"]}`},
		{"query", `query="a\"b"`, `{"resultType":"string","result":[` + at(time.Hour) + `,"a\"b"]}`},
		{"query_range", "query=sum(ray_tasks)&step=60&start=" + at(240*time.Second) + "&end=" + at(360*time.Second),
			`{"resultType":"matrix","result":[{"metric":{},"values":[[` + at(240*time.Second) + `,"2"]]}]}`},
		{"query_range", "query=vector(1)&step=1m&start=" + begin.Format(time.RFC3339) + "&end=" + at(time.Minute),
			`{"resultType":"matrix","result":[{"metric":{},"values":[[` + at(0) + `,"1"],[` + at(time.Minute) +
				`,"1"]]}]}`},
		{"labels", "", `["SessionName","State","__name__","instance","job","kind","le"]`},
		{"labels", "match[]=up", `["__name__","instance","job"]`},
		{"labels", "limit=1", `["SessionName"]`},
		{"label/instance/values", "", `["aa","bb"]`},
		{"label/__name__/values", "match[]={le!=\"\"}&match[]=up", `["ray_seconds_bucket","up"]`},
		{"label/State/values", "start=" + at(30*time.Minute), `[]`},
		{"series", "match[]=up&match[]={instance=\"aa\",__name__=~\"u.\"}",
			`[{"__name__":"up","instance":"aa","job":"ray"},{"__name__":"up","instance":"bb","job":"ray"}]`},
		{"metadata", "metric=ray_tasks", `{"ray_tasks":[{"type":"gauge","help":"Tasks","unit":""}]}`},
		{"metadata", "limit=1&limit_per_metric=1", `{"ray_tasks":[{"type":"gauge","help":"Tasks","unit":""}]}`},
		{"metadata", "limit=0", `{}`}, // as Prometheus answers
	} {
		form := must.Get(url.ParseQuery(strings.ReplaceAll(test.query, "+", "%2B")))(t)
		for _, method := range []string{http.MethodGet, http.MethodPost} {
			status, body := api.ask(t, one, method, test.path, form)
			var answer struct {
				Status string
				Data   json.RawMessage
			}
			if err := json.Unmarshal([]byte(body), &answer); err != nil || status != http.StatusOK ||
				answer.Status != "success" || string(answer.Data) != test.want {
				t.Errorf("%s %s?%s: %d %s\nwant %s (%v)", method, test.path, test.query, status, body, test.want, err)
			}
		}
	}
}

func TestRefusals(t *testing.T) {
	one := Scope{Sessions: []Session{stored(t, oneSession)}, Now: begin.Add(time.Hour)}
	at := fmt.Sprint(begin.Unix())
	api := newAPI(Options{MaxSamples: 50})
	for query, want := range map[string]string{
		"query?query=sum(":                              `400 bad_data invalid parameter "query"`,
		"query?":                                        `400 bad_data invalid parameter "query"`,
		"query?query=up&time=x":                         `400 bad_data invalid parameter "time"`,
		"query?query=up&time=NaN":                       `400 bad_data`,
		"query?query=up&timeout=-1":                     `400 bad_data invalid parameter "timeout": want more than 0`,
		"query?query=up&timeout=x":                      `400 bad_data invalid parameter "timeout": "x"`,
		"query_range?query=up&start=0&end=1&step=.0001": `400 bad_data invalid parameter "step": want at least 1 ms`,
		// More than a duration of Go holds.
		"query_range?query=up&start=-4503599627370496&end=4503599627370496&step=9e9": `400 bad_data invalid parameter "step": more than 11000 points`,
		"series?" + strings.Repeat("match[]=up&",
			65): `400 bad_data invalid parameter "match[]": more than 64`,
		"query_range?query=up&start=1&end=2&step=0":                                                `400 bad_data invalid parameter "step"`,
		"query_range?query=up&end=2&step=1":                                                        `400 bad_data invalid parameter "start"`,
		"query_range?query=up&start=3&end=2&step=1":                                                `400 bad_data invalid parameter "end"`,
		"query_range?query=up&start=1&end=20000&step=1":                                            `400 bad_data invalid parameter "step": more than 11000 points`,
		"query?query=ray_seconds_bucket[10m]&time=" + fmt.Sprint(begin.Add(10*time.Minute).Unix()): `422 execution`,
		"query?query=up%2Bon()ray_tasks&time=" + at:                                                `422 execution`,
		"series?":                     `400 bad_data invalid parameter "match[]"`,
		"series?match[]={":            `400 bad_data invalid parameter "match[]"`,
		"labels?limit=x":              `400 bad_data invalid parameter "limit"`,
		"metadata?limit=x":            `400 bad_data invalid parameter "limit"`,
		"metadata?limit_per_metric=x": `400 bad_data invalid parameter "limit_per_metric"`,
		"label/%FF/values?":           `400 bad_data`,
		"admin/tsdb/snapshot?":        `404 not_found`,
		"query?query=" + strings.Repeat("(", 300_000): `400 bad_data`,
		"query?query=" + strings.Repeat("(", 60_000):  `400 bad_data`,
		// Parsing these takes time by the square of their depth.
		"query?query=1" + strings.Repeat("%2B1",
			60_000): `400 bad_data invalid parameter "query": it has more than 10000`,
		"query_range?start=1&end=2&step=1&query=1" + strings.Repeat("%2B1",
			60_000): `400 bad_data invalid parameter "query": it has more than 10000`,
		"series?match[]=up&match[]=up{" + strings.Repeat(`a="b",`, 5_000) +
			"}": `400 bad_data invalid parameter "match[]": it has more than 10000`,
	} {
		path, form, _ := strings.Cut(query, "?")
		path = must.Get(url.PathUnescape(path))(t)
		values := must.Get(url.ParseQuery(form))(t)
		status, body := api.ask(t, one, http.MethodPost, path, values)
		var answer struct{ Status, ErrorType, Error string }
		_ = json.Unmarshal([]byte(body), &answer)
		got := fmt.Sprint(status, " ", answer.ErrorType, " ", answer.Error)
		says.True(t, answer.Status == "error" && strings.HasPrefix(got, want), "%.80s: %.200s, want %s", query, got,
			want)
	}
}

// TestMetadataOfManySessions: of a cluster with more sessions than a query reads, the newest are read, and the answer
// says so.
func TestMetadataOfManySessions(t *testing.T) {
	opened := 0
	last := stored(t, oneSession)
	scope := Scope{Now: begin.Add(time.Hour)}
	for i := range 3 * maxSessions {
		scope.Sessions = append(scope.Sessions, Session{Name: fmt.Sprintf("session_2026-11-%03d", i),
			Open: func() *metrics.Database {
				opened++
				return last.Open()
			}})
	}
	status, body := newAPI(Options{}).ask(t, scope, http.MethodGet, "metadata", nil)
	says.True(t, status == http.StatusOK && opened == maxSessions && strings.Contains(body, `"help":"Tasks"`) &&
		strings.Contains(body, `"warnings":["`), "%d, %d sessions read: %s", status, opened, body)
}

// TestMetadataTooLarge: what the sessions of a cluster say about their metrics together is limited.
func TestMetadataTooLarge(t *testing.T) {
	scope := Scope{Now: begin.Add(time.Hour)}
	for i := range 5 {
		name := fmt.Sprintf("session_2026-11-20_20-00-00_000000_%d", i)
		store := storetest.New()
		var e samples.Encoder
		e.Start([][]samples.Label{{{Name: "instance", Value: "aa"}}})
		e.Begin(0, begin)
		for j := range 400 {
			e.Metric(samples.Metric{Name: fmt.Sprintf("m%d", j), Type: "gauge",
				Help: strings.Repeat(fmt.Sprint(i), 10_000)})
		}
		e.End()
		key := layout.ChunkKey(layout.MetricsKey("log",
			layout.Session{Namespace: "default", Cluster: "lab", Name: name}, rayid.Node{0xaa}, begin), 0, layout.Plain)
		must.OK(t, store.Create(t.Context(), key, bytes.NewReader(e.Lines())))
		scope.Sessions = append(scope.Sessions, sessionIn(store, name, 64<<20))
	}
	api := newAPI(Options{})
	status, body := api.ask(t, scope, http.MethodGet, "metadata", nil)
	says.True(t, status == http.StatusUnprocessableEntity, "%d %.200s", status, body)
	scope.Sessions = scope.Sessions[:1]
	status, body = api.ask(t, scope, http.MethodGet, "metadata", nil)
	says.True(t, status == http.StatusOK && strings.Contains(body, `"m399"`), "one session: %d %.200s", status, body)
}

// TestSessionsOfACluster: all sessions are asked together, and told apart by SessionName.
func TestSessionsOfACluster(t *testing.T) {
	both := Scope{Sessions: []Session{stored(t, oneSession), stored(t, otherSession)}, Now: begin.Add(time.Hour)}
	at := fmt.Sprint(begin.Add(time.Minute).Unix())
	api := newAPI(Options{})
	for query, want := range map[string]string{
		"count by (SessionName) (up)": `[{"metric":{"SessionName":"` + oneSession +
			`"},"value":[` + at + `,"2"]},{"metric":{"SessionName":"` + otherSession + `"},"value":[` + at + `,"2"]}]`,
		`sum(ray_tasks{SessionName="` + oneSession + `"})`:           `[{"metric":{},"value":[` + at + `,"8"]}]`,
		`count({SessionName="` + otherSession + `",__name__="up"})`:  `[{"metric":{},"value":[` + at + `,"2"]}]`,
		`count({SessionName!="` + otherSession + `",__name__="up"})`: `[{"metric":{},"value":[` + at + `,"2"]}]`,
	} {
		status, body := api.ask(t, both, http.MethodGet, "query", url.Values{"query": {query}, "time": {at}})
		says.True(t, status == http.StatusOK && strings.Contains(body, `"result":`+want+"}"), "%s: %d %s\nwant %s",
			query, status, body, want)
	}
}

// TestNextSession: when a cluster's next session has begun, the last values of the one before do not count beside its
// own.
func TestNextSession(t *testing.T) {
	first, second := stored(t, oneSession), stored(t, otherSession)
	second.Start = begin.Add(time.Minute)
	api := newAPI(Options{})
	at := fmt.Sprint(begin.Add(11 * time.Minute).Unix()) // a minute after the last reads of both
	for name, sessions := range map[string][]Session{oneSession: {first}, otherSession: {first, second}} {
		status, body := api.ask(t, Scope{Sessions: sessions, Now: begin.Add(time.Hour)}, http.MethodGet, "query",
			url.Values{"query": {"count by (SessionName) (ray_bytes_total)"}, "time": {at}})
		want := `"result":[{"metric":{"SessionName":"` + name + `"},"value":[` + at + `,"2"]}]`
		says.True(t, status == http.StatusOK && strings.Contains(body, want), "%d sessions: %d %s, want %s",
			len(sessions), status, body, want)
	}
}

// TestSessionsTooLarge: what a query finds in all of its sessions is limited, whether their metrics are kept in memory
// or not.
func TestSessionsTooLarge(t *testing.T) {
	at := begin.Add(time.Minute)
	form := url.Values{"query": {`count({__name__=~".+"})`}, "match[]": {`{__name__=~".+"}`},
		"time": {fmt.Sprint(at.Unix())}}
	for _, c := range []struct {
		name          string
		memory        int64
		fit, tooLarge int // sessions
	}{
		{"kept", 256 << 10, 8, 60},
		{"not kept", 40 << 10, 2, 10},
	} {
		t.Run(c.name, func(t *testing.T) {
			all := Scope{Now: begin.Add(time.Hour)}
			for i := range c.tooLarge {
				name := fmt.Sprintf("session_2026-11-20_20-00-00_000000_%d", i)
				all.Sessions = append(all.Sessions, sessionIn(storeMetrics(t, name), name, c.memory))
			}
			few := Scope{Sessions: all.Sessions[:c.fit], Now: all.Now}
			api := newAPI(Options{})
			for range 2 { // again, with what is in memory then
				status, body := api.ask(t, few, http.MethodGet, "query", form)
				want := fmt.Sprintf(`"value":[%d,"%d"]`, at.Unix(), 14*c.fit)
				says.True(t, status == http.StatusOK && strings.Contains(body, want), "%d sessions: %d %.300s, want %s",
					c.fit, status, body, want)
				for _, path := range []string{"query", "series"} {
					status, body := api.ask(t, all, http.MethodGet, path, form)
					if status != http.StatusUnprocessableEntity || !strings.Contains(body, metrics.ErrTooMuch.Error()) {
						t.Errorf("%s of %d sessions: %d %.300s", path, c.tooLarge, status, body)
					}
				}
				status, body = api.ask(t, all, http.MethodGet, "label/SessionName/values", form)
				says.True(t, status == http.StatusOK && strings.Count(body, "session_") == c.tooLarge,
					"names of %d sessions: %d %.300s", c.tooLarge, status, body)
			}
		})
	}
}

// TestMoment: nothing that came after a moment is seen from it, however one asks.
func TestMoment(t *testing.T) {
	moment := begin.Add(100 * time.Second)
	scope := Scope{Sessions: []Session{stored(t, oneSession)}, Now: moment, Until: moment}
	api := newAPI(Options{})
	later := fmt.Sprint(begin.Add(20 * time.Minute).Unix())
	for query, want := range map[string]string{
		"query=max_over_time(ray_bytes_total[1h])":                 `"180"`,
		"query=max_over_time(ray_bytes_total[1h])&time=" + later:   `"180"`,
		"query=max_over_time(ray_bytes_total[1h] @ " + later + ")": `"180"`,
		"query=max_over_time(ray_bytes_total[1h] offset -30m)":     `"180"`,
	} {
		form := must.Get(url.ParseQuery(query))(t)
		status, body := api.ask(t, scope, http.MethodGet, "query", form)
		says.True(t, status == http.StatusOK && strings.Contains(body, want), "%s: %d %s, want %s", query, status, body,
			want)
	}
}

// TestBusy: a query that finds no slot in time is refused, and asked to come back.
func TestBusy(t *testing.T) {
	api := newAPI(Options{Concurrent: 1, Wait: 50 * time.Millisecond})
	_, done, err := api.takeSlot(t.Context(), "another", time.Minute)
	must.OK(t, err)
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/?query=1", nil)
	w := httptest.NewRecorder()
	api.Answer(w, r, "query", Scope{Now: begin})
	says.True(t, w.Code == http.StatusServiceUnavailable && w.Header().Get("Retry-After") != "", "%d %s", w.Code,
		w.Body)
	done()
	if status, body := api.ask(t, Scope{Now: begin}, http.MethodGet, "query",
		url.Values{"query": {"1"}}); status != http.StatusOK {
		t.Errorf("%d %s", status, body)
	}
}

// TestTurns: however many queries of one namespace or caller wait, that of another is answered next, and one that runs
// long is ended for it.
func TestTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := newAPI(Options{Concurrent: 2, Wait: time.Minute, Timeout: 30 * time.Second})
		var ended atomic.Int64
		for range 6 { // of a namespace whose metrics take long
			go func() {
				ctx, done, err := api.takeSlot(t.Context(), "a", 30*time.Second)
				if err != nil {
					t.Error(err)
					return
				}
				<-ctx.Done()
				if errors.Is(causeOf(ctx, ctx.Err()), errEnded) {
					ended.Add(1)
				}
				done()
			}()
		}
		synctest.Wait()
		began := time.Now()
		_, done, err := api.takeSlot(t.Context(), "b", time.Second)
		says.True(t, err == nil && time.Since(began) <= 15*time.Second && ended.Load() != 0, "after %s, %d ended: %v",
			time.Since(began), ended.Load(), err)
		done()
		time.Sleep(5 * time.Minute)
	})
}

// TestSlowReader: a client that does not read its answer does not keep a slot.
func TestSlowReader(t *testing.T) {
	t.Parallel() // it mostly waits
	api := newAPI(Options{Concurrent: 1, Timeout: 5 * time.Second, Wait: time.Minute})
	scope := Scope{Sessions: []Session{sessionIn(labeled(t, 400, 3000, 1), oneSession, 128<<20)},
		Now: begin.Add(time.Hour)}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		api.Answer(w, r, "query", scope)
	}))
	// The kernel keeps little of an answer, so that one which is made soon is not taken by it.
	const kept = 4 << 10
	server.Config.ConnContext = func(ctx context.Context, c net.Conn) context.Context {
		must.OK(t, c.(*net.TCPConn).SetWriteBuffer(kept))
		return ctx
	}
	server.Start()
	defer server.Close()
	conn := must.Get((&net.Dialer{}).DialContext(t.Context(), "tcp", server.Listener.Addr().String()))(t)
	defer func() { _ = conn.Close() }()
	must.OK(t, conn.(*net.TCPConn).SetReadBuffer(kept))
	fmt.Fprintf(conn, "GET /?query=%s&time=%d HTTP/1.1\r\nHost: x\r\n\r\n",
		url.QueryEscape(`label_replace(m,"a","1","","") or m`), begin.Unix())
	if _, err := conn.Read(make([]byte, 1)); err != nil { // the answer has begun
		t.Fatal(err)
	}
	status, body := api.ask(t, scope, http.MethodGet, "query", url.Values{"query": {"1"}})
	says.True(t, status == http.StatusOK, "%d %s", status, body)
}

// TestLargeExpressions: what a query's regular expressions take is bounded before they are compiled.
func TestLargeExpressions(t *testing.T) {
	one := Scope{Sessions: []Session{stored(t, oneSession)}, Now: begin.Add(time.Hour)}
	api := newAPI(Options{})
	many := strings.Repeat("0123456789abcdef|", 5_000)
	letters := strings.Repeat("a.b", 700)
	repeated := "(" + strings.Repeat("ab", 1500) + "){1000}"
	for _, c := range []struct {
		name, path, query string
		refused           bool
	}{
		{"a long list", "query", `ray_tasks{x=~"` + many + `"}`, false},
		{"letters that are no expression", "query", `label_replace(ray_tasks, "x", "(", "y", "a{3}\\pL")`, false},
		{"repetitions", "query", `ray_tasks{x=~"` + repeated + `"}`, true},
		{"nested repetitions", "query", `ray_tasks{x!~"((((` + letters + `){10}){10}){10})"}`, true},
		{"many repetitions", "query", `ray_tasks{x=~"` + strings.Repeat("(abcdefghi){999}", 100) + `"}`, true},
		{"in several matchers", "query", "ray_tasks{" + strings.Repeat(`x=~"(`+letters+`){99}",`, 10) + "}", true},
		{"replaced", "query", `label_replace(ray_tasks, "x", "", "y", "` + repeated + `")`, true},
		{"open repetitions", "query", `ray_tasks{x=~"(` + letters + `){500,}"}`, true},
		{"classes", "query", `ray_tasks{x=~"` + strings.Repeat(`\\pL`, 1000) + `"}`, true},
		{"in a range", "query_range", `ray_tasks{x=~"` + repeated + `"}`, true},
		{"a selector", "series", `ray_tasks{x=~"` + repeated + `"}`, true},
		{"a label's selector", "label/job/values", `ray_tasks{x=~'` + repeated + `'}`, true},
	} {
		form := url.Values{"query": {c.query}, "match[]": {c.query}, "start": {"0"}, "end": {"1"}, "step": {"1"}}
		status, answer := api.ask(t, one, http.MethodPost, c.path, form)
		if refused := status == http.StatusBadRequest &&
			strings.Contains(answer, "regular expressions are too large"); refused != c.refused || !refused &&
			status != http.StatusOK {
			t.Errorf("%s: %d %.300s", c.name, status, answer)
		}
	}
}

// TestSubqueries: the engine makes room for each step of a subquery before it evaluates the first, so they are counted
// before.
func TestSubqueries(t *testing.T) {
	one := Scope{Sessions: []Session{stored(t, oneSession)}, Now: begin.Add(time.Hour)}
	api := newAPI(Options{MaxSamples: 10_000})
	const many = "the subqueries have more than 10000 steps"
	for _, c := range []struct{ query, refused, refusedInRange string }{
		{"max_over_time(ray_tasks[1h:15s])", "", ""},
		{"max_over_time(ray_tasks[6d:])", "", ""},
		{"max_over_time(ray_tasks[7d:])", many, many},
		{"vector(1)[100y:1ms]", many, many},
		{"vector(1)[292y:1ms] offset 100y", many, many},
		{"-(sum(max_over_time((vector(1))[100y:1ms])))", many, many},
		{"absent_over_time(none[1h:1ms])", many, many},
		{"absent_over_time(none[1h:1s])", "", many}, // an hour of a range query counts as well
		{"absent_over_time(none[1h:1s] @ 100)", "", many},
		{"max_over_time(max_over_time(ray_tasks[1h:1s])[1h:1s])", many, many}, // the inner one has those of two hours
		{"max_over_time(max_over_time(none[1h:2s])[1h:1s])", "", many},
		{"ray_tasks + on() max_over_time(ray_tasks[2h:1s]) + on() max_over_time(ray_tasks[2h:1s])", many, many},
		{strings.Repeat("max_over_time(", 1000) + "ray_tasks" + strings.Repeat("[292y:1ms])", 1000), many, many},
		{"max_over_time(ray_tasks[1m:0.0001])", "the step of a subquery has to be at least 1 ms",
			"the step of a subquery has to be at least 1 ms"},
	} {
		for path, form := range map[string]url.Values{"query": {},
			"query_range": {"start": {"0"}, "end": {"7200"}, "step": {"60"}}} {
			want := c.refused
			if path == "query_range" {
				want = c.refusedInRange
				if strings.HasPrefix(c.query, "vector(1)[") {
					continue // no value of a range query
				}
			}
			form.Set("query", c.query)
			status, answer := api.ask(t, one, http.MethodPost, path, form)
			if refused := status == http.StatusBadRequest && strings.Contains(answer, want); want != "" && !refused ||
				want == "" && status != http.StatusOK {
				t.Errorf("%.80s, %s: %d %.300s, want %q", c.query, path, status, answer, want)
			}
		}
	}
}
