package server

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/internal/testkit/storetest"
	"github.com/rayhistory/historyserver/pkg/findings"
	"github.com/rayhistory/historyserver/pkg/moment"
)

func TestChoosingASession(t *testing.T) {
	f := start(t, nil)
	chosen := cookies("default", "lab", name)
	for _, tc := range []struct {
		path, cookies string
		page          string // whose script asks
		status        int
		body          string // that the answer holds
	}{
		{path: "/api/jobs/02000000", cookies: chosen, status: 200, body: "default/lab/" + name + " 02000000 0"},
		{path: "/api/jobs/a", page: lab + old + "/", status: 200, body: "default/lab/" + old + " a 0"},
		{path: "/api/jobs/a", page: "/behind/a/proxy" + lab + old + "/at/1795220002000/", cookies: chosen, status: 200,
			body: "default/lab/" + old + " a 1795220002000000000"},
		{path: lab + "latest/api/jobs/a", page: lab + old + "/at/1795220002000/", status: 200,
			body: "default/lab/" + name + " a 0"},
		{path: "/api/jobs/a", page: "/namespaces/default/clusters/lab/", cookies: chosen, status: 200,
			body: "default/lab/" + name},
		{path: "/api/jobs/a", page: "/namespaces/..%2f..%2fetc/clusters/lab/sessions/latest/", status: 400,
			body: "none is chosen"},
		{path: "/api/jobs/a", page: lab + "x/", status: 400, body: "session name"},
		{path: "/api/jobs/02000000/", cookies: chosen, status: 200, body: "02000000"},
		{path: "/api/jobs/raysubmit%20x?at=1795220001000", cookies: chosen, status: 200,
			body: "raysubmit x 1795220001000000000"},
		{path: lab + name + "/api/jobs/a", status: 200, body: "default/lab/" + name + " a 0"},
		{path: lab + "latest/api/jobs/a", status: 200, body: "default/lab/" + name},
		{path: lab + old + "/api/jobs/a", cookies: chosen, status: 200, body: "default/lab/" + old},
		{path: lab + "latest/at/2026-11-20T23:20:00Z/api/jobs/a", status: 200, body: " a 1795216800000000000"},
		{path: lab + "latest/at/1795220001000/api/jobs/a?at=1795220002000", status: 200,
			body: " a 1795220002000000000"},
		{path: lab + "latest/at/noon/api/jobs/a", status: 400, body: "noon"},
		{path: "/api/jobs/a", status: 400, body: "none is chosen"},
		{path: "/api/jobs/a", cookies: "Cookie: cluster_name=lab", status: 400, body: "none is chosen"},
		{path: "/api/jobs/a", cookies: cookies("default", "lab", "session_2020-01-01_00-00-00_000000_1"), status: 410,
			body: "Choose another one on /homepage"},
		{path: "/api/jobs/a", cookies: cookies("default", "../../etc", name), status: 400, body: "cluster name"},
		{path: "/api/jobs/a", cookies: cookies("default", "lab", "session_/../../x"), status: 400,
			body: "session name"},
		{path: "/api/jobs/a", cookies: cookies("default", "lab", strings.Repeat("x", 3000)), status: 400,
			body: "session name"},
		{path: lab + "session_2020-01-01_00-00-00_000000_1/api/jobs/a", status: 410,
			body: "cluster lab in namespace default has no session session_2020"},
		{path: "/namespaces/default/clusters/other/sessions/latest/api/jobs/a", status: 410,
			body: "Nothing of a cluster other in namespace default"},
		{path: "/namespaces/..%2f..%2fetc/clusters/lab/sessions/latest/api/jobs/a", status: 404, body: "Nothing is at"},
		{path: lab + "..%2f" + name + "/api/jobs/a", status: 404, body: "Nothing is at"},
		{path: lab + "latest/api/unknown", status: 404, body: "Nothing is at"},
		{path: "/api/unknown", cookies: chosen, status: 404, body: "Nothing is at"},
	} {
		headers := []string{asProgram}
		if tc.cookies != "" {
			headers = append(headers, tc.cookies)
		}
		if tc.page != "" {
			headers = append(headers, "Referer: https://history.example"+tc.page)
		}
		got := f.ask(t, http.MethodGet, tc.path, headers...)
		got.wants(t, tc.status, tc.body)
		if got.status >= 400 {
			var envelope struct {
				Result *bool
				Msg    string
			}
			if err := json.Unmarshal([]byte(got.body), &envelope); err != nil || envelope.Result == nil ||
				*envelope.Result || envelope.Msg == "" {
				t.Errorf("%s: not Ray's envelope: %s", tc.path, got.body)
			}
		}
	}
}

// What a person opens is what it is wherever they come from, and another site's pages choose nothing.
func TestPagesThatChooseNothing(t *testing.T) {
	f := start(t, nil)
	page := "Referer: https://history.example" + lab + old + "/"
	for _, headers := range [][]string{{page, "Accept: text/html"}, {page, asProgram, "Sec-Fetch-Site: cross-site"}} {
		f.ask(t, http.MethodGet, "/api/jobs/a", headers...).wants(t, 400, "none is chosen")
	}
}

func TestMethods(t *testing.T) {
	f := start(t, nil)
	chosen := cookies("default", "lab", name)
	for _, tc := range []struct {
		method, path string
		status       int
	}{
		{http.MethodHead, "/api/jobs/a", 200},
		{http.MethodHead, lab + "latest/api/jobs/a", 200},
		{http.MethodHead, "/homepage", 200},
		{http.MethodHead, "/api/nothing", 404},
		{http.MethodPost, "/api/jobs/a", 405},
		{http.MethodDelete, lab + "latest/api/jobs/a", 405},
		{"BREW", "/api/jobs/a", 405},
	} {
		got := f.ask(t, tc.method, tc.path, chosen)
		got.wants(t, tc.status)
		if tc.status == 405 && (!strings.Contains(got.header.Get("Allow"), http.MethodHead) ||
			!strings.Contains(got.body, "cannot be changed")) {
			t.Errorf("%s %s: Allow %q, %s", tc.method, tc.path, got.header.Get("Allow"), got.body)
		}
	}
}

func TestEnterCluster(t *testing.T) {
	f := start(t, nil)
	f.waitDescribed(t) // owners are known by then
	for _, tc := range []struct {
		path, session string
		status        int
	}{
		{path: "/enter_cluster/default/lab/" + name, session: name, status: 200},
		{path: "/enter_cluster/default/lab/" + old, session: old, status: 200},
		{path: "/enter_cluster/default/lab/live", session: name, status: 200},
		{path: "/enter_cluster/default/lab", session: name, status: 200},
		{path: "/enter_cluster/default/raycluster/lab", session: name, status: 200},
		{path: "/enter_cluster/default/rayjob/nightly", session: name, status: 200},
		{path: "/enter_cluster/default/raycluster/lab/" + old, session: old, status: 200},
		{path: "/enter_cluster/default/lab/session_gone", status: 410},
		{path: "/enter_cluster/default/lab/..", status: 400},
		{path: "/enter_cluster/default/lab/" + name + "?dashboard=9.9.9", status: 404},
	} {
		got := f.ask(t, http.MethodGet, tc.path)
		if got.status != tc.status {
			t.Errorf("%s: %d %s", tc.path, got.status, got.body)
			continue
		}
		if tc.status != 200 {
			says.True(t, len(got.header.Values("Set-Cookie")) == 0, "%s set cookies", tc.path)
			continue
		}
		var body map[string]string
		if err := json.Unmarshal([]byte(got.body), &body); err != nil || body["result"] != "success" ||
			body["name"] != "lab" || body["namespace"] != "default" || body["session"] != tc.session {
			t.Errorf("%s: %s, %v", tc.path, got.body, err)
		}
	}
}

func TestEnterThenDashboard(t *testing.T) {
	f := start(t, nil)
	jar := must.Get(cookiejar.New(nil))(t)
	client := &http.Client{Jar: jar}
	read := func(path string, headers ...string) string {
		t.Helper()
		r := must.Get(http.NewRequestWithContext(t.Context(), http.MethodGet, f.URL+path, nil))(t)
		for _, h := range headers {
			k, v, _ := strings.Cut(h, ": ")
			r.Header.Set(k, v)
		}
		resp := must.Get(client.Do(r))(t)
		defer func() { _ = resp.Body.Close() }()
		body := must.Get(io.ReadAll(resp.Body))(t)
		return string(body)
	}
	says.All(t, read("/"), "Enter Cluster Dashboard")
	read("/enter_cluster/default/lab/" + name)
	for _, path := range []string{"/", "/homepage"} {
		says.All(t, read(path), "Enter Cluster Dashboard")
	}
	says.All(t, read("/api/jobs/a"), "default/lab/"+name)

	f.waitLoaded(t, name, old)
	// Ray's proxying dashboard asks for what its user's browser does, and its page has no prefix.
	proxied := func() string { return read("/", "Content-Type: application/json") }
	says.All(t, proxied(), "<html>dashboard 2.60.0<")
	read("/enter_cluster/default/lab/" + name + "?dashboard=2.55.1&open=dashboard")
	says.All(t, proxied(), "<html>dashboard 2.55.1<")
	read("/enter_cluster/default/lab/" + old)
	says.All(t, proxied(), "<html>dashboard 2.60.0<")
}

// slowly has loads wait for the gate, and requests not wait for loads.
func slowly(gate chan struct{}) func(*Options, *gatedStore) {
	return func(o *Options, store *gatedStore) { o.LoadWait, store.gate = time.Second, gate }
}

// waitBegun waits until a load has begun that waits for the gate.
func (f *fixture) waitBegun(t *testing.T) {
	t.Helper()
	f.waitUntil(t, lab+name+"/session_status",
		func(a answer) bool { return strings.Contains(a.body, `"bytes_total":4096`) })
}

func TestSlowLoad(t *testing.T) {
	gate := make(chan struct{})
	f := start(t, slowly(gate))
	chosen := cookies("default", "lab", name)
	f.waitBegun(t)

	got := f.ask(t, http.MethodGet, "/api/jobs/a", chosen)
	says.True(t, got.status == 503 && got.header.Get("Retry-After") != "" &&
		strings.Contains(got.body, `"bytes_total":4096`), "while loading: %d %v %s", got.status, got.header, got.body)
	if got := f.ask(t, http.MethodGet, "/enter_cluster/default/lab/"+name); got.status != 200 ||
		!strings.Contains(got.body, `"state":"loading"`) || len(got.header.Values("Set-Cookie")) != 4 {
		t.Errorf("entering while loading: %d %s", got.status, got.body)
	}
	f.ask(t, http.MethodGet, "/homepage", asBrowser).has(t, "loading 25 %")
	f.ask(t, http.MethodGet, lab+name+"/session_status").has(t, `"state":"loading"`)
	close(gate)
	f.waitUntil(t, "/api/jobs/a", func(a answer) bool { return a.status == 200 }, chosen)
	f.ask(t, http.MethodGet, "/session_status", chosen).has(t, `"state":"ready"`)
}

// TestPagesWhileLoading: each page about a session that is still being loaded shows the progress instead, to a browser.
func TestPagesWhileLoading(t *testing.T) {
	gate := make(chan struct{})
	defer close(gate)
	f := start(t, func(o *Options, store *gatedStore) {
		slowly(gate)(o, store)
		o.PageWait = time.Millisecond
	})
	f.waitBegun(t)
	for _, page := range []string{"", "findings", "timeline", "overview", "search", "search?q=x&plain=1",
		"log?node_id=a&file=b", "logs?log=a/b", "compare", "compare?with=" + old, "at/2026-11-20T23:20:00Z/findings"} {
		f.ask(t, http.MethodGet, lab+name+"/"+page, asBrowser).wants(t, 200,
			lab[1:]+name+`/session_status" data-target=""`, "1.00 KiB of 4.00 KiB")
		if page == "" || page == "findings" {
			f.ask(t, http.MethodGet, lab+name+"/"+page).wants(t, 503)
		}
	}
	root := "../../../"
	f.ask(t, http.MethodGet, "/enter_cluster/default/lab/"+name+"?open=dashboard", asBrowser).wants(t, 200,
		`data-status="`+root+lab[1:]+name+`/session_status" data-target="`+root+lab[1:]+name+`/"`, "1.00 KiB of 4.00 KiB")
}

// TestPagesWhileLogsAreRead: a page whose findings take long says so, and is not taken for the answer later.
func TestPagesWhileLogsAreRead(t *testing.T) {
	gate := make(chan struct{})
	f := start(t, func(o *Options, _ *gatedStore) {
		o.LoadWait, o.PageWait = time.Second, 50*time.Millisecond
		whole := o.Findings
		o.Findings = func(ctx context.Context, m *moment.Moment) (*findings.Report, error) {
			select {
			case <-gate:
				return whole(ctx, m)
			case <-ctx.Done():
				return nil, context.Cause(ctx)
			}
		}
	})
	f.waitLoaded(t, name)
	for _, page := range []string{"findings", "timeline", "overview", "at/2026-11-20T23:24:00Z/findings"} {
		status := lab[1:] + name + "/api/history/findings"
		if strings.HasPrefix(page, "at/") {
			status = lab[1:] + name + "/at/2026-11-20T23:24:00Z/api/history/findings"
		}
		got := f.ask(t, http.MethodGet, lab+name+"/"+page, asBrowser)
		got.wants(t, 200, status+`" data-target=""`, "Reading the session’s logs")
		says.Equal(t, got.header.Get("ETag"), "", "%s: ETag", page)
	}
	program := f.ask(t, http.MethodGet, lab+name+"/findings").wants(t, 503, "logs are being read")
	says.True(t, program.header.Get("Retry-After") != "", "a program is not told when to ask again")
	close(gate)
	f.waitUntil(t, lab+name+"/findings",
		func(a answer) bool { return !strings.Contains(a.body, "Reading the session’s logs") }, asBrowser)
}

func TestClusters(t *testing.T) {
	f := start(t, nil)
	// Metadata is read in the background.
	f.waitDescribed(t)
	got := f.ask(t, http.MethodGet, "/clusters")
	var rows []map[string]any
	err := json.Unmarshal([]byte(got.body), &rows)
	must.True(t, err == nil && len(rows) == 2, "%v: %s", err, got.body)
	for field, want := range map[string]any{
		"name": "lab", "namespace": "default", "sessionName": name, "createTime": "2026-11-20T23:19:45Z",
		"createTimeStamp": 1795216785.0,
		"state":           "ended", "ownerKind": "RayJob", "ownerName": "nightly", "rayVersion": "2.60.0",
		"endTime": "2026-11-20T23:25:00Z", "durationSeconds": 315.0,
		"path": lab[1:] + name + "/",
	} {
		says.Equal(t, rows[0][field], want, field)
	}
	says.True(t, rows[1]["sessionName"] == "live" && rows[1]["session"] == old && rows[1]["state"] == "running",
		"the session that was just written: %v", rows[1])
}

func TestUnreachableStore(t *testing.T) {
	f := start(t, func(_ *Options, store *gatedStore) {
		store.ListFault = func(string) error { return errors.New("dial tcp: connection refused") }
	})
	for _, path := range []string{"/", "/homepage"} {
		f.ask(t, http.MethodGet, path, asBrowser).wants(t, 502, "log has the details", "credentials")
	}
	for path, status := range map[string]int{"/clusters": 502, "/enter_cluster/default/lab/" + name: 502,
		lab + "latest/api/jobs/a": 502, "/readyz": 503, "/healthz": 200, "/livez": 200} {
		got := f.ask(t, http.MethodGet, path)
		says.True(t, got.status == status && (path != "/readyz" || !strings.Contains(got.body, "connection refused")),
			"%s: %d %s", path, got.status, got.body)
	}
}

func TestEmptyBucket(t *testing.T) {
	f := start(t, func(_ *Options, store *gatedStore) {
		empty := storetest.New()
		store.Store = empty
	})
	f.ask(t, http.MethodGet, "/", asBrowser).wants(t, 200, "No sessions are stored yet")
	got := f.ask(t, http.MethodGet, "/clusters")
	says.True(t, got.status == 200 && got.body == "[]", "%d %s", got.status, got.body)
	f.ask(t, http.MethodGet, "/readyz").wants(t, 200)
}

func TestPanics(t *testing.T) {
	f := start(t, nil)
	chosen := cookies("default", "lab", name)
	for _, encoding := range []string{"identity", "gzip"} {
		f.ask(t, http.MethodGet, "/api/panics", chosen, "Accept-Encoding: "+encoding).wants(t, 500,
			"server's log").lacks(t, "oh no")
	}
	says.All(t, f.log.String(), "oh no")
	r := must.Get(http.NewRequestWithContext(t.Context(), http.MethodGet, f.URL+"/api/panics_late", nil))(t)
	r.Header.Set("Cookie", strings.TrimPrefix(chosen, "Cookie: "))
	resp := must.Get(http.DefaultTransport.RoundTrip(r))(t)
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	says.True(t, err != nil, "an answer that was cut looks whole: %q", body)
}

func TestCompressionAndHeaders(t *testing.T) {
	f := start(t, nil)
	chosen := cookies("default", "lab", name)
	for _, tc := range []struct{ accept, contentType, want string }{
		{"gzip, deflate, br, zstd", "", "zstd"},
		{"gzip", "", "gzip"},
		{"identity", "", ""},
		{"gzip, deflate, br, zstd", "application/json", "gzip"}, // Ray's proxying dashboard
	} {
		headers := []string{chosen, "Accept-Encoding: " + tc.accept}
		if tc.contentType != "" {
			headers = append(headers, "Content-Type: "+tc.contentType)
		}
		got := f.ask(t, http.MethodGet, "/api/long", headers...)
		encoding := got.header.Get("Content-Encoding")
		says.True(t, encoding == tc.want && got.header.Get("Vary") == "Accept-Encoding", "%s: %q, Vary %q", tc.accept,
			encoding, got.header.Get("Vary"))
		says.Equal(t, got.header.Get("X-Content-Type-Options"), "nosniff", "no security headers")
		says.Equal(t, got.header.Get("X-Accel-Buffering"), "no", "nginx stores answers")
	}
}

func TestAnyAcceptAndContentTypeIsTaken(t *testing.T) {
	f := start(t, nil)
	for _, header := range []string{"Accept: application/json", "Accept: image/png", "Accept: nonsense",
		"Content-Type: text/x-odd", "Content-Type: application/x-www-form-urlencoded"} {
		f.ask(t, http.MethodGet, lab+"latest/api/jobs/a", header).wants(t, 200)
	}
}

func TestMetricsNameRoutesNotPaths(t *testing.T) {
	f := start(t, nil)
	f.ask(t, http.MethodGet, lab+"latest/api/jobs/a")
	f.ask(t, http.MethodGet, "/api/unknown/"+name)
	body := f.ask(t, http.MethodGet, "/metrics").body
	says.All(t, body,
		`historyserver_http_request_seconds_count{code="200",method="GET",route="/namespaces/{session_namespace}/clusters/{session_cluster}/sessions/{session_name}/api/jobs/{job}"} 1`)
	says.True(t, !strings.Contains(body, "unknown/"+name), "a path became a label")
}

// A server that is going says so to those who watch it and has its clients leave, but answers.
func TestDrain(t *testing.T) {
	f := start(t, nil)
	f.waitDescribed(t)
	server := f.Config.Handler.(*Server)
	ask := func(path string) (status int, connection string) {
		w := httptest.NewRecorder()
		server.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		return w.Code, w.Header().Get("Connection")
	}
	if status, connection := ask("/readyz"); status != http.StatusOK || connection != "" {
		t.Errorf("before: %d %q", status, connection)
	}
	server.Drain()
	for path, want := range map[string]int{"/readyz": http.StatusServiceUnavailable, "/livez": http.StatusOK,
		lab + name + "/api/jobs/a": http.StatusOK} {
		if status, connection := ask(path); status != want || connection != "close" {
			t.Errorf("%s: %d %q, want %d and close", path, status, connection, want)
		}
	}
}
