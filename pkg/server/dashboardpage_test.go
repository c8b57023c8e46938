package server

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/pkg/catalog"
	"github.com/rayhistory/historyserver/pkg/dashboard/bars"
	"github.com/rayhistory/historyserver/pkg/findings"
	"github.com/rayhistory/historyserver/pkg/moment"
)

func TestDashboardFiles(t *testing.T) {
	f := start(t, nil)
	for _, prefix := range []string{"/", lab + "latest/", lab + "latest/at/1795220001000/"} {
		for _, tc := range []struct {
			path, want, cache string
			status            int
		}{
			{path: "static/js/main.2.60.0.js", status: 200, want: "js of 2.60.0", cache: "immutable"},
			{path: "static/js/main.2.55.1.js", status: 200, want: "js of 2.55.1", cache: "immutable"},
			{path: "static/js/main.1.0.0.js", status: 404, want: "Nothing is at", cache: "no-store"},
			{path: "favicon.ico", status: 200, want: "icon", cache: "max-age=3600"},
			{path: "speedscope/", status: 200, want: "speedscope", cache: "max-age=3600"},
			{path: "static/..%2f..%2fv2.55.1%2findex.html", status: 404, want: "Nothing is at", cache: "no-store"},
		} {
			got := f.ask(t, http.MethodGet, prefix+tc.path)
			says.True(t, got.status == tc.status && strings.Contains(got.body, tc.want) &&
				strings.Contains(got.header.Get("Cache-Control"), tc.cache), "%s%s: %d %s %s", prefix, tc.path,
				got.status, got.header.Get("Cache-Control"), got.body)
		}
	}
}

func TestDashboardPage(t *testing.T) {
	f := start(t, nil)
	f.waitDescribed(t)
	f.waitLoaded(t, name)
	for _, tc := range []struct{ path, cookie, want string }{
		{path: lab + name + "/", want: "dashboard 2.60.0"},
		{path: lab + name + "/?dashboard=2.55.1", want: "dashboard 2.55.1"},
		{path: lab + name + "/at/1795220001000/", want: "dashboard 2.60.0"},
		{path: lab + name + "/", cookie: "Cookie: dashboard_version=2.55.1", want: "dashboard 2.60.0"}, // another tab's
		{path: lab + name + "/", cookie: "Cookie: dashboard_version=gone", want: "dashboard 2.60.0"},
	} {
		headers := []string{asBrowser}
		if tc.cookie != "" {
			headers = append(headers, tc.cookie)
		}
		if got := f.ask(t, http.MethodGet, tc.path, headers...); got.status != 200 ||
			!strings.Contains(got.body, tc.want) || got.header.Get("Cache-Control") != "no-store" ||
			!strings.HasPrefix(got.header.Get("Content-Security-Policy"), "script-src 'self'; ") {
			t.Errorf("%s %s: %d %s %s", tc.path, tc.cookie, got.status, got.header, got.body)
		}
	}
	for path, location := range map[string]string{
		lab + "latest":                         "./latest/",
		lab + "latest?dashboard=2.55.1":        "./latest/?dashboard=2.55.1",
		lab + name + "/?dashboard=":            "./", // a form's way of saying nothing
		lab + "latest/at/1795220001000":        "./1795220001000/",
		lab + "latest/at/2026-11-20T23:20:00Z": "./2026-11-20T23:20:00Z/",
	} {
		if got := f.ask(t, http.MethodGet, path); got.status != 302 || got.header.Get("Location") != location {
			t.Errorf("%s: %d to %s", path, got.status, got.header.Get("Location"))
		}
	}
}

// TestNumberSigns: browsers send no "#". What follows one in a program's request need not be a fragment of an address.
func TestNumberSigns(t *testing.T) {
	f := start(t, nil)
	w := httptest.NewRecorder()
	f.Config.Handler.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, lab+"latest?a#%zz", nil))
	got := w.Header().Get("Location")
	says.True(t, w.Code == http.StatusFound && got == "./latest/?a%23%zz", "%d to %q: %s", w.Code, got, w.Body)
}

func TestMissingBuilds(t *testing.T) {
	for _, dir := range []string{"", t.TempDir()} {
		f := start(t, func(o *Options, _ *gatedStore) { o.DashboardDir = dir })
		f.waitDescribed(t)
		f.waitLoaded(t, name)
		// 404 lets Ray's proxying dashboard show its own pages.
		f.ask(t, http.MethodGet, lab+name+"/", asBrowser).wants(t, 404, "make dashboard RAY_VERSION=2.60.0")
		f.ask(t, http.MethodGet, "/homepage", asBrowser).wants(t, 200, "make dashboard", "Enter Cluster Dashboard")
	}
}

func TestProblemsAreShownAsPages(t *testing.T) {
	f := start(t, nil)
	for path, want := range map[string]string{
		"/":                   `href="./homepage"`,
		lab + "session_gone/": `href="../../../../../../homepage"`,
		"/nowhere/at/all":     `href="../../homepage"`,
	} {
		got := f.ask(t, http.MethodGet, path, asBrowser, cookies("default", "lab", "session_gone"))
		says.True(t, strings.Contains(got.header.Get("Content-Type"), "text/html") &&
			strings.Contains(got.body, want) && got.header.Get("Content-Security-Policy") != "", "%s: %s %s", path,
			got.header.Get("Content-Type"), got.body)
	}
	got := f.ask(t, http.MethodGet, "/%3Cscript%3Ealert(1)%3C/script%3E", asBrowser)
	got.wants(t, 404).lacks(t, "<script>alert")
}

// TestTimeline: the drawing has the form that the page asks for, and wrong questions are refused.
func TestTimeline(t *testing.T) {
	f := start(t, func(o *Options, _ *gatedStore) { o.Routes = o.Dashboard.Routes() })
	f.waitDescribed(t)
	for query, want := range map[string]int{
		"": 200, "?pixels=300&colour=outcome": 200, "?from=2026-11-20T23:20:00Z&to=2026-11-20T23:21:00Z": 200,
		"?node_id=" + strings.Repeat("f", 56): 200, "?from=10m+ago": 200,
		"?colour=blue": 400, "?pixels=-1": 400, "?pixels=x": 400, "?from=lunch": 400,
		"?from=200&to=100": 400, "?width=3": 400,
	} {
		got := f.ask(t, http.MethodGet, lab+name+"/api/history/timeline"+query, asProgram)
		var answer struct {
			Data struct {
				From, To float64
				Pixels   int
				Nodes    []any
			}
		}
		err := json.Unmarshal([]byte(got.body), &answer)
		if got.status != want || want == 200 && (err != nil || answer.Data.To <= answer.Data.From ||
			answer.Data.Pixels == 0 || answer.Data.Nodes == nil) {
			t.Errorf("%s: %d %s", query, got.status, got.body)
		}
	}
	page := f.ask(t, http.MethodGet, lab+name+"/timeline", asBrowser).body
	for _, colour := range bars.Colours { // the drawing takes each that the page offers
		says.True(t, strings.Contains(page, `<option value="`+colour+`">`), "the page does not offer %s", colour)
		f.ask(t, http.MethodGet, lab+name+"/api/history/timeline?colour="+colour, asProgram).wants(t, 200)
	}
}

// TestOverview: the page says how the session ended and why, with links to the pages that show the time of it, and
// lists its jobs, each with its own cause; as text.
func TestOverview(t *testing.T) {
	f := start(t, func(o *Options, _ *gatedStore) {
		o.Findings = func(_ context.Context, r *moment.Moment) (*findings.Report, error) {
			return &findings.Report{
				Session: r.Session.Ref.Name, Outcome: catalog.Failed, Summary: "It failed.",
				Findings: []*findings.Finding{
					{ID: "aa", Severity: findings.Warning, Title: "one task failed"},
					{ID: "bb", Severity: findings.Error, Title: "<b>boom</b>", First: "2026-11-20T23:22:00Z"},
				},
				Jobs: []findings.Job{
					{JobID: "01000000", SubmissionID: "a b", Outcome: catalog.Failed, Entrypoint: "python <x>.py",
						Findings: []string{"bb"}},
					{JobID: "02000000", Outcome: catalog.Succeeded},
				},
			}, nil
		}
	})
	f.waitDescribed(t)
	got := f.ask(t, http.MethodGet, lab+name+"/overview", asBrowser)
	got.wants(t, http.StatusOK, `<a href="findings#bb">&lt;b&gt;boom&lt;/b&gt;</a>`, "python &lt;x&gt;.py",
		`findings?job_id=a&#43;b`, "2 findings", `sessions/`+name+`/at/1795216852500/">The cluster before it`,
		`overview" aria-current="page"`, `timeline?from=`, `default-dashboard?from=`, `datetime="2026-11-20T23:19:45Z"`,
		`href="logs?submission_id=a&#43;b"`)
	got.lacks(t, "logs?job_id=") // of a driver without a submission none may be stored
	f.ask(t, http.MethodGet, lab+name+"/at/2026-11-20T23:21:00Z/overview", asBrowser).wants(t, 200,
		"at/2026-11-20T23:21:00Z/overview")
}

// The bar is put into the page, not into the frontend's files, and names the way back and to the session relative to
// the page.
func TestBar(t *testing.T) {
	f := start(t, nil)
	f.waitDescribed(t)
	f.waitLoaded(t, name)
	for path, back := range map[string]string{
		lab + name + "/":                  `data-base="../../../../../../"`,
		lab + name + "/at/1795216800000/": `data-base="../../../../../../../../"`,
		"/":                               `data-base="./"`,
	} {
		headers := []string{asBrowser}
		if path == "/" {
			headers = append(headers, "Cookie: cluster_name=lab; cluster_namespace=default; session_name="+name,
				"Content-Type: application/json")
		}
		got := f.ask(t, http.MethodGet, path, headers...)
		got.has(t, back, `data-path="namespaces/default/clusters/lab/sessions/`+name+`/"`, `data-cluster="lab"`,
			`homepage/assets/bar.js?`, "dashboard 2.60.0", `data-end="1795217100000"`)
		clock := strings.Index(got.body, `homepage/assets/dashboardclock.js?`)
		says.True(t, clock >= 0 && clock <= strings.Index(got.body, "dashboard 2.60.0"),
			"%s: the clock is not the page's first script: %.300s", path, got.body)
	}
}

func TestActivity(t *testing.T) {
	f := start(t, nil)
	got := f.ask(t, http.MethodGet, lab+name+"/session_activity")
	var a struct {
		From, To        int64
		Running, Failed []int
	}
	err := json.Unmarshal([]byte(got.body), &a)
	must.True(t, err == nil && got.status == http.StatusOK, "%d %s: %v", got.status, got.body, err)
	says.True(t, a.To >= a.From && len(a.Running) == len(a.Failed), "%+v", a)
	f.ask(t, http.MethodGet, lab+"session_gone/session_activity").wants(t, http.StatusGone)
}

func TestHeadStart(t *testing.T) {
	for page, want := range map[string]string{
		`<html lang="en"><head><meta/>`: "<head>", `<HEAD class="a">`: `<HEAD class="a">`, "<header></header>": "",
		"no HTML": "",
	} {
		says.Equal(t, string(headTag.Find([]byte(page))), want, page)
	}
}

// A moment before the session is said to be one: the answer would look like that of an empty cluster.
func TestMomentBeforeStart(t *testing.T) {
	f := start(t, nil)
	f.waitDescribed(t)
	f.waitLoaded(t, name)
	for path, status := range map[string]int{
		lab + name + "/at/2026-11-20T23:19:44Z/": 400, lab + name + "/at/2026-11-20T23:19:44Z/api/jobs/a": 400,
		lab + name + "/api/jobs/a?at=1000":       400,
		lab + name + "/at/2026-11-20T23:19:45Z/": 200, lab + name + "/at/2027-01-01T00:00:00Z/api/jobs/a": 200,
		lab + name + "/api/jobs/a": 200,
	} {
		got := f.ask(t, http.MethodGet, path, asBrowser)
		says.True(t, got.status == status &&
			(status != 400 || strings.Contains(got.body, "from 2026-11-20T23:19:45Z to 2026-11-20T23:25:00Z")),
			"%s: %d %.600s", path, got.status, got.body)
	}
}
