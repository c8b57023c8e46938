package panels

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"html"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
	"github.com/sirupsen/logrus"

	"github.com/rayhistory/historyserver/internal/budget"
	"github.com/rayhistory/historyserver/internal/testkit/metricsgen"
	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/recording"
	"github.com/rayhistory/historyserver/internal/testkit/response"
	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/internal/testkit/storetest"
	"github.com/rayhistory/historyserver/pkg/blob"
	"github.com/rayhistory/historyserver/pkg/catalog/lifetime"
	"github.com/rayhistory/historyserver/pkg/collector/samples"
	dash "github.com/rayhistory/historyserver/pkg/dashboard"
	"github.com/rayhistory/historyserver/pkg/findings"
	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/metrics"
	"github.com/rayhistory/historyserver/pkg/metrics/promapi"
	"github.com/rayhistory/historyserver/pkg/moment"
	"github.com/rayhistory/historyserver/pkg/ray/rayid"
	"github.com/rayhistory/historyserver/pkg/session"
	"github.com/rayhistory/historyserver/pkg/session/snapshots"
)

const root = "log"

var (
	ref   = layout.Session{Namespace: "default", Cluster: "lab", Name: "session_2026-11-20_23-00-00_000000_1"}
	begin = time.Date(2026, 11, 20, 23, 0, 0, 0, time.UTC)
)

func newPanels(store blob.Reader) *Panels {
	return New(store, root, metrics.NewDatabases(store, root, 64<<20, nil))
}

// putMetrics makes a session one that has metrics.
func putMetrics(t testing.TB, store blob.Creator) {
	t.Helper()
	must.OK(t, store.Create(t.Context(), layout.MetricsKey(root, ref, rayid.Node{1}, begin), strings.NewReader("")))
}

// put stores a dashboard as a collector does.
func put(t testing.TB, store blob.Creator, file string, data []byte) {
	t.Helper()
	w := must.Get(zstd.NewWriter(nil))(t)
	must.OK(t, store.Create(t.Context(), layout.GrafanaDashboardKey(root, ref, file),
		bytes.NewReader(w.EncodeAll(data, nil))))
}

// recorded stores the dashboards that a recorded Ray made, and gives Ray's names for them.
func recorded(t testing.TB, store blob.Creator, name string) (names []string) {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(recording.OpenNamed(t, name).TmpRay("head"), "session_2*", "metrics",
		"grafana", "dashboards", "*.json"))
	must.True(t, err == nil && len(found) >= 7, "%d dashboards were recorded: %v", len(found), err)
	for _, file := range found {
		data := must.Get(os.ReadFile(file))(t)
		put(t, store, filepath.Base(file), data)
		names = append(names, strings.TrimSuffix(filepath.Base(file), "_grafana_dashboard.json"))
	}
	return names
}

// ask gives a page of a session that ran for half an hour.
func ask(t testing.TB, p *Panels, address, name string, onePanel bool,
	change ...func(*dash.Request)) *httptest.ResponseRecorder {
	t.Helper()
	r := requestOf(t, address, nil)
	for _, c := range change {
		c(r)
	}
	w := httptest.NewRecorder()
	must.OK(t, p.Page(w, r, name, onePanel))
	return w
}

// noSnapshots are those of a session of which none is stored.
var noSnapshots = snapshots.New(storetest.New(), snapshots.Options{})

func requestOf(t testing.TB, address string, memory *budget.Budget) *dash.Request {
	return &dash.Request{
		Request: httptest.NewRequestWithContext(t.Context(), http.MethodGet, address, nil),
		Moment: moment.Moment{Session: &session.Session{Ref: ref, Snapshots: noSnapshots,
			Life: lifetime.Life{Start: begin, End: begin.Add(30 * time.Minute)}},
			Env: moment.NewEnv(logrus.New(), memory)},
	}
}

var (
	drawn    = regexp.MustCompile(`data-panel="([^"]*)"`)
	rangeAsk = regexp.MustCompile(`data-from="(\d+)" data-to="(\d+)" data-step="(\d+)" data-refresh="(\d+)"`)
)

func drawings(t testing.TB, page string) (list []drawing) {
	t.Helper()
	for _, found := range drawn.FindAllStringSubmatch(page, -1) {
		var d drawing
		must.OK(t, json.Unmarshal([]byte(html.UnescapeString(found[1])), &d))
		list = append(list, d)
	}
	return list
}

// TestEveryQueryIsAnswered: each query of each panel of Ray's dashboards, as pages send it, is answered from what a
// real node exported.
func TestEveryQueryIsAnswered(t *testing.T) {
	for version, panels := range map[string]int{"ray-2.55": 200, "ray-2.57": 250, "ray-2.60": 280} {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			store := storetest.New()
			names := recorded(t, store, version)
			g := metricsgen.Session{Ref: ref, Begin: begin, Nodes: 1, Series: 1041, Hours: 1, Interval: 5 * time.Minute,
				ChunkReads: 12}
			must.Get(g.Store(t.Context(), store, root))(t)
			database := metrics.NewDatabases(store, root, 64<<20, nil).Of(ref, false)
			api := promapi.New(promapi.Options{MaxSamples: 1_000_000, Timeout: time.Minute, Concurrent: 1,
				Wait: time.Minute})
			scope := promapi.Scope{
				Sessions: []promapi.Session{{Name: ref.Name, Open: func() *metrics.Database { return database }}},
				Until:    begin.Add(time.Hour),
			}
			all, queries, lines := 0, 0, 0
			for _, name := range names {
				page := ask(t, newPanels(store), "/grafana/d/x?from=now-5m&to=now", name, false).Body.String()
				for _, d := range drawings(t, page) {
					all++
					for _, q := range d.Queries {
						queries++
						form := url.Values{"query": {q.Expr}, "start": {fmt.Sprint(begin.Unix())},
							"end": {fmt.Sprint(begin.Unix() + 1800)}, "step": {"300"}}
						w := httptest.NewRecorder()
						api.Answer(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/?"+form.Encode(),
							nil), "query_range", scope)
						response.Is(t, w, http.StatusOK, "", "%s: %s", name, q.Expr)
						if strings.Contains(w.Body.String(), `"values":[[`) {
							lines++
						}
					}
				}
			}
			says.True(t, all >= panels && queries >= all && lines >= 40,
				"%d panels have %d queries, of which %d find something", all, queries, lines)
		})
	}
}

func TestRange(t *testing.T) {
	store := storetest.New()
	putMetrics(t, store)
	put(t, store, "default_grafana_dashboard.json",
		[]byte(`{"title":"D","panels":[{"id":7,"type":"graph","title":"Panel","targets":[{"expr":"up[$__rate_interval] $__range"}]}]}`))
	at := func(m int) string { return fmt.Sprint(begin.Add(time.Duration(m) * time.Minute).UnixMilli()) }
	moment := func(r *dash.Request) { r.At = begin.Add(10 * time.Minute).UnixNano() }
	long := func(r *dash.Request) { r.Session.Life.End = begin.Add(10 * 24 * time.Hour) }
	events := func(r *dash.Request) {
		r.Session.Start, r.Session.End = begin.Add(-time.Minute).UnixNano(), begin.Add(31*time.Minute).UnixNano()
	}
	none := func(*dash.Request) {}
	for _, tt := range []struct {
		what, query       string
		onePanel          bool
		change            func(*dash.Request)
		from, to, seconds string
	}{
		{"one panel's last minutes", "from=now-5m&to=now", true, none, at(25), at(30), "15"},
		{"no longer than the session", "from=now-1h&to=now", true, none, at(0), at(30), "15"},
		{"a job's time", "from=" + at(3) + "&to=" + at(4), true, none, at(3), at(4), "15"},
		{"beyond the session", "from=" + at(-9) + "&to=" + at(99), true, none, at(0), at(30), "15"},
		{"up to the moment", "from=now-5m&to=now", true, moment, at(5), at(10), "15"},
		{"nothing after the moment", "from=" + at(0) + "&to=" + at(30), true, moment, at(0), at(10), "15"},
		{"no time", "", true, none, at(0), at(30), "15"},
		{"a dashboard's whole session", "from=now-5m&to=now&refresh=5s", false, none, at(0), at(30), "15"},
		{"what its form asks for", "from=now-5m&to=now&last=5m", false, none, at(25), at(30), "15"},
		{"no span", "from=now-5m&to=now&last=0", false, none, at(0), at(30), "15"},
		{"longer than there are times", "last=20000w", false, none, at(0), at(30), "15"},
		{"what its address asks for", "from=" + at(3) + "&to=" + at(4), false, none, at(3), at(4), "15"},
		{"a day", "from=" + begin.Format(time.DateOnly) + "&to=" + begin.Format(time.DateOnly), false, none, at(0), at(30),
			"15"},
		{"events outside", "", false, events, at(-1), at(31), "15"},
		{"ten days", "", false, long, at(0), at(14400), "2895"},
		{"no such times", "from=x&to=now-99999999w", true, none, at(0), at(30), "15"},
	} {
		got := rangeAsk.FindStringSubmatch(ask(t, newPanels(store), "/grafana/d/x?panelId=7&"+tt.query, "default",
			tt.onePanel, tt.change).Body.String())
		says.True(t, got != nil && got[1] == tt.from && got[2] == tt.to && got[3] == tt.seconds+"000" && got[4] == "0",
			"%s: %v, want %s to %s every %s s", tt.what, got, tt.from, tt.to, tt.seconds)
	}
}

// A page of a session that runs asks again as often as it was told to.
func TestRunning(t *testing.T) {
	store := storetest.New()
	putMetrics(t, store)
	put(t, store, "default_grafana_dashboard.json", []byte(`{"panels":[]}`))
	runs := func(r *dash.Request) {
		r.Running, r.Session.Life.End = func(context.Context) bool { return true }, time.Time{}
	}
	for query, want := range map[string]string{"refresh=1m": "60000", "refresh=5s": "15000", "refresh=0": "0", "refresh": "0"} {
		got := rangeAsk.FindStringSubmatch(ask(t, newPanels(store), "/grafana/d/x?"+query, "default", false,
			runs).Body.String())
		says.True(t, got != nil && got[4] == want, "%s: %v, want %s", query, got, want)
	}
}

func TestVariables(t *testing.T) {
	store := storetest.New()
	putMetrics(t, store)
	put(t, store, "default_grafana_dashboard.json", []byte(`{"title":"D","templating":{"list":[
		{"name":"SessionName","type":"query","includeAll":true,"allValue":".+","query":{"query":"label_values(up{}, SessionName)"}},
		{"name":"Instance","type":"query","multi":true,"includeAll":true,"allValue":".+","current":{"value":["$__all"]},
			"query":{"query":"label_values(up{SessionName=~\"$SessionName\"}, instance)"}},
		{"name":"NodeType","type":"custom","multi":true,"includeAll":true,"query":"head, worker","current":{"value":["$__all"]}},
		{"name":"window","type":"interval","query":"30s,1m","current":{"value":"1m"}},
		{"name":"Dataset","type":"query","includeAll":true,"allValue":".+","regex":"{dataset=\"(?<value>.*)\".*",
			"query":{"query":"query_result(count by (dataset)(last_over_time(x{}[$__range])))"}}]},
		"panels":[{"type":"graph","targets":[{"expr":"a{i=~\"$Instance\",n=~\"${NodeType:regex}\",s=~\"[[SessionName]]\",d=~\"$Dataset\"}[$window] $__rate_interval $__interval $__range $1 $Instances"}]}]}`))
	for query, want := range map[string]string{
		"": `a{i=~".+",n=~"(head|worker)",s=~"` + ref.Name + `",d=~".+"}[1m] 60s 15s 1800s $1 $Instances`,
		"var-SessionName=other&var-window=5m": `a{i=~".+",n=~"(head|worker)",s=~"` + ref.Name +
			`",d=~".+"}[5m] 60s 15s 1800s $1 $Instances`,
		"var-Instance=10.0.0.1:80&var-NodeType=head&var-Dataset=d_1": `a{i=~"10\\.0\\.0\\.1:80",n=~"head",s=~"` +
			ref.Name +
			`",d=~"d_1"}[1m] 60s 15s 1800s $1 $Instances`,
		`var-Instance=a&var-Instance=b"&var-Dataset=$__all`: `a{i=~"(a|b\")",n=~"(head|worker)",s=~"` + ref.Name +
			`",d=~".+"}[1m] 60s 15s 1800s $1 $Instances`,
	} {
		page := ask(t, newPanels(store), "/grafana/d/x?"+strings.ReplaceAll(query, `"`, "%22"), "default",
			false).Body.String()
		got := drawings(t, page)
		says.True(t, len(got) == 1 && got[0].Queries[0].Expr == want, "%s: %+v\nwant %s", query, got, want)
		says.None(t, page, `name="var-SessionName"`)
		says.All(t, page,
			`name="var-Instance" data-label="instance" data-match="up{SessionName=~&#34;`+ref.Name+`&#34;}" data-expr=""`, `name="var-Dataset" data-label="dataset" data-match="" data-expr="count by (dataset)(last_over_time(x{}[1800s]))"`)
	}
}

// TestRateInterval: a rate covers four reads, however far apart they are.
func TestRateInterval(t *testing.T) {
	for interval, want := range map[time.Duration]string{5 * time.Second: "60s", time.Minute: "240s"} {
		store := storetest.New()
		var e samples.Encoder
		e.Start([][]samples.Label{{{Name: "job", Value: "ray"}}})
		for i := range 20 {
			e.Begin(0, begin.Add(time.Duration(i)*interval))
			e.End()
		}
		must.OK(t, store.Create(t.Context(), layout.MetricsKey(root, ref, rayid.Node{1}, begin),
			bytes.NewReader(e.Lines())))
		put(t, store, "default_grafana_dashboard.json",
			[]byte(`{"title":"D","panels":[{"type":"graph","targets":[{"expr":"up[$__rate_interval]"}]}]}`))
		page := ask(t, newPanels(store), "/grafana/d/x", "default", false).Body.String()
		if got := drawings(t, page); len(got) != 1 || got[0].Queries[0].Expr != "up["+want+"]" {
			t.Errorf("read every %s: %+v, want %s", interval, got, want)
		}
	}
}

// What is not there is said in a sentence; what is stored is not trusted.
func TestOddDashboards(t *testing.T) {
	store := storetest.New()
	sentence := func(want string) {
		t.Helper()
		if w := ask(t, newPanels(store), "/grafana/d-solo/x?panelId=1", "default", true); w.Code != http.StatusOK ||
			!strings.Contains(w.Body.String(), want) {
			t.Errorf("%d %s, want %s", w.Code, w.Body, want)
		}
	}
	sentence(noMetrics)
	put(t, store, "data_llm_grafana_dashboard.json", []byte(`{}`))
	sentence(noMetrics) // there are dashboards, but nothing that they could draw
	store = storetest.New()
	putMetrics(t, store)
	put(t, store, "default_grafana_dashboard.json",
		[]byte(`{"title":7,"panels":[null,{"type":"row","title":"<b>Row</b>","collapsed":true,"panels":[null,
		{"id":1,"type":"graph","title":"\"><script>alert(1)</script>","fill":"x","targets":[{"expr":"</section>"},{"expr":""},5],"yaxes":[{"format":"bytes","min":"0"}]}]},
		{"id":"2"}],"templating":{"list":[null,{"name":"a","query":5},{"name":"__x"}]}}`))
	put(t, store, "serve_grafana_dashboard.json", []byte(`{`))
	must.OK(t, store.Create(t.Context(), layout.GrafanaDashboardKey(root, ref, "data_grafana_dashboard.json"),
		strings.NewReader("not compressed")))
	put(t, store, "train_grafana_dashboard.json", bytes.Repeat([]byte(" "), maxDashboard+1))
	p := newPanels(store)
	for name, want := range map[string]string{"": noDashboard, "serve_llm": noDashboard} {
		response.Is(t, ask(t, p, "/grafana/d/x", name, false), http.StatusNotFound, want, "%q", name)
	}
	// Those that are damaged are drawn as Ray makes them.
	for name, title := range map[string]string{"serve": "Serve Dashboard", "data": "Data Dashboard",
		"train": "Train Dashboard"} {
		response.Is(t, ask(t, p, "/grafana/d/x", name, false), http.StatusOK, title, "%q", name)
	}
	for _, id := range []string{"3", "x", ""} {
		response.Is(t, ask(t, p, "/grafana/d-solo/x?panelId="+id, "default", true), http.StatusNotFound, noPanel, "%q",
			id)
	}
	for _, onePanel := range []bool{true, false} {
		w := ask(t, p, "/grafana/d-solo/x/y?panelId=panel-1&theme=%22x&timezone=%22%3E", "default", onePanel)
		body := w.Body.String()
		if got := drawings(t, body); w.Code != http.StatusOK || len(got) == 0 || got[0].Unit != "bytes" ||
			len(got[0].Queries) != 1 || got[0].Queries[0].Expr != "</section>" {
			t.Errorf("%d %+v", w.Code, got)
		}
		says.None(t, body, "<script>alert", "<b>Row", `data-theme`, `">"`)
	}
}

// TestHardwareOnly: of a session that has only hardware figures Ray's panels show these, all of which are found; others
// say that there are none.
func TestHardwareOnly(t *testing.T) {
	store := storetest.New()
	node := rayid.Node{0xaa}
	nodes := fmt.Sprintf(`{"data":{"summary":[{"cpus":[4,4],"raylet":{"nodeId":"%s","nodeManagerAddress":"10.0.0.1"}}]}}`, node)
	figures := fmt.Sprintf(`{"t":%d,"node":"%s","cpu":5,"mem":[1,2],"disk":[1,2],"store":[1,2],"gpus":[{"util":70,"used":3,"total":10}],"workers":1}`, begin.UnixMilli(), node)
	for key, text := range map[string]string{layout.SnapshotKey(root, ref, "/nodes?view=summary"): nodes,
		layout.SeriesKey(root, ref, begin): figures} {
		must.OK(t, store.Create(t.Context(), key, strings.NewReader(text+"\n")))
	}
	p := newPanels(store)
	database := p.metrics.Of(ref, false)
	api := promapi.New(promapi.Options{MaxSamples: 1_000_000, Timeout: time.Minute, Concurrent: 1, Wait: time.Minute})
	scope := promapi.Scope{
		Sessions: []promapi.Session{{Name: ref.Name, Open: func() *metrics.Database { return database }}},
		Until:    begin.Add(time.Hour),
	}
	shown := drawings(t, ask(t, p, "/grafana/d/x", "default", false).Body.String())
	must.True(t, len(shown) == len(hardwareOnly().Panels), "%d panels", len(shown))
	for _, d := range shown {
		for _, q := range d.Queries {
			w := httptest.NewRecorder()
			form := url.Values{"query": {q.Expr}, "time": {fmt.Sprint(begin.Unix() + 1)}}
			api.Answer(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/?"+form.Encode(), nil), "query",
				scope)
			response.Is(t, w, http.StatusOK, `"value":[`, "%s", q.Expr)
		}
	}
	got := drawings(t, ask(t, p, "/grafana/d-solo/x?panelId=54", "default", true).Body.String())
	says.True(t, len(got) == 1 && got[0].Unit == "%", "one panel: %+v", got)
	for name, id := range map[string]string{"default": "24", "serve": "1"} {
		response.Is(t, ask(t, p, "/grafana/d-solo/x?panelId="+id, name, true), http.StatusOK, noFigures, "%s", name)
	}
	// The IDs and titles are Ray's.
	for _, version := range []string{"ray-2.55", "ray-2.57", "ray-2.60"} {
		theirs := storetest.New()
		putMetrics(t, theirs)
		recorded(t, theirs, version)
		board := must.Get(newPanels(theirs).dashboards.stored(t.Context(), ref, "default"))(t)
		for _, ours := range hardwareOnly().Panels {
			if p := board.panel(ours.ID); p == nil || p.Title != ours.Title {
				t.Errorf("%s has no panel %d %q", version, ours.ID, ours.Title)
			}
		}
	}
}

// Addresses of data and files hold below any prefix.
func TestAddresses(t *testing.T) {
	store := storetest.New()
	putMetrics(t, store)
	put(t, store, "default_grafana_dashboard.json", []byte(`{"panels":[]}`))
	for _, path := range []string{
		"/grafana/d/x", "/grafana/d/x/", "/grafana/d-solo/x/slug",
		"/namespaces/grafana/clusters/grafana/sessions/latest/grafana/d/x/",
		"/namespaces/a/clusters/b/sessions/c/at/2026-11-20T23:20:00Z/grafana/d-solo/x",
	} {
		page := ask(t, newPanels(store), path, "default", false).Body.String()
		prefix, _, _ := strings.Cut(path, "/grafana/d")
		at := &url.URL{Path: path}
		for found, want := range map[string]string{`data-api="([^"]*)"`: prefix + "/api/v1/",
			`href="([^"?]*/panels.css)`: "/homepage/assets/panels.css"} {
			address := regexp.MustCompile(found).FindStringSubmatch(page)
			if address == nil {
				t.Errorf("%s: no %s", path, found)
			} else if got, err := at.Parse(address[1]); err != nil || got.Path != want {
				t.Errorf("%s: %s leads to %v, want %s (%v)", path, address[1], got, want, err)
			}
		}
	}
}

// TestTypedRange: a page with all panels shows the range that somebody typed, in the cluster's zone, which it
// names, and says what it cannot read; the dashboard's own range, which is relative to now, stays the whole session.
func TestTypedRange(t *testing.T) {
	store := storetest.New()
	putMetrics(t, store)
	put(t, store, "usual_grafana_dashboard.json", []byte(`{"panels":[{"id":1,"title":"mine"}]}`))
	p := newPanels(store)
	for query, want := range map[string]struct {
		from, to time.Duration
		holds    string
	}{
		"from=now-5m&to=now": {0, 30 * time.Minute, `name="from" value=""`},
		"from=10m+ago":       {20 * time.Minute, 30 * time.Minute, "Whole session</a>"},
		fmt.Sprintf("from=%d&to=%d", begin.Add(time.Minute).UnixMilli(), begin.Add(2*time.Minute).UnixMilli()): {
			time.Minute, 2 * time.Minute, `value="` + begin.Add(time.Minute).UTC().Format(time.DateTime) + `"`},
		"from=lunch": {0, 30 * time.Minute, "it should be a date or a time such as"},
		"from=" + url.QueryEscape(begin.Add(-time.Hour).Format(time.RFC3339)): {0, 30 * time.Minute,
			"Whole session</a>"},
		"with=default/other/session_2026-11-19_00-00-00_000000_1": {0, 30 * time.Minute,
			`data-other="../../../../../../../../../namespaces/default/clusters/other/sessions/session_2026-11-19_00-00-00_000000_1/"`},
		"with=../../x": {0, 30 * time.Minute, `data-other=""`},
	} {
		body := ask(t, p, "/namespaces/default/clusters/lab/sessions/x/grafana/d/u/s?"+query, "usual",
			false).Body.String()
		wanted := fmt.Sprintf(`data-from="%d" data-to="%d"`, begin.Add(want.from).UnixMilli(),
			begin.Add(want.to).UnixMilli())
		says.All(t, body, wanted, want.holds, "From (UTC)", "To (UTC)")
	}
	for offset, want := range map[int]string{0: "UTC", 2 * 3600: "UTC+02:00", -12600: "UTC-03:30"} {
		says.Equal(t, zoneOf(begin.In(time.FixedZone("X", offset))), want)
	}
}

// TestMarks: the page's header says how the session ended, also if the page has no panels, and failures within the
// range are marked, with a link to them.
func TestMarks(t *testing.T) {
	store := storetest.New()
	putMetrics(t, store)
	put(t, store, "usual_grafana_dashboard.json", []byte(`{"panels":[{"id":1,"title":"mine"}]}`))
	p := newPanels(store)
	p.Findings = func(context.Context, *moment.Moment) (*findings.Report, error) {
		return &findings.Report{Outcome: "failed", Findings: []*findings.Finding{
			{ID: "aa", Severity: findings.Error, Title: "<b>boom</b>",
				First: begin.Add(time.Minute).Format(time.RFC3339)},
			{ID: "bb", Severity: findings.Error, Title: "before", First: begin.Add(-time.Minute).Format(time.RFC3339)},
		}}, nil
	}
	const outcome = `<span class="chip outcome failed">failed</span>`
	says.All(t, ask(t, p, "/grafana/d/u/s", "none", false).Body.String(), outcome)
	body := ask(t, p, "/grafana/d/u/s", "usual", false).Body.String()
	says.All(t, body, outcome, `class="error" data-at="`+strconv.FormatInt(begin.Add(time.Minute).UnixMilli(), 10),
		`href="../../../findings#aa" target="_top">&lt;b&gt;boom`)
	says.None(t, body, "before</a>")
}
