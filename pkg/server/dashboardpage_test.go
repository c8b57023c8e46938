package server

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
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
			if got.status != tc.status || !strings.Contains(got.body, tc.want) ||
				!strings.Contains(got.header.Get("Cache-Control"), tc.cache) {
				t.Errorf("%s%s: %d %s %s", prefix, tc.path, got.status, got.header.Get("Cache-Control"), got.body)
			}
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
	if got := w.Header().Get("Location"); w.Code != http.StatusFound || got != "./latest/?a%23%zz" {
		t.Errorf("%d to %q: %s", w.Code, got, w.Body)
	}
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
		if !strings.Contains(got.header.Get("Content-Type"), "text/html") || !strings.Contains(got.body, want) ||
			got.header.Get("Content-Security-Policy") == "" {
			t.Errorf("%s: %s %s", path, got.header.Get("Content-Type"), got.body)
		}
	}
	got := f.ask(t, http.MethodGet, "/%3Cscript%3Ealert(1)%3C/script%3E", asBrowser)
	got.wants(t, 404).lacks(t, "<script>alert")
}
