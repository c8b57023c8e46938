package server

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/rayhistory/historyserver/internal/budget"
	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/internal/testkit/silent"
	"github.com/rayhistory/historyserver/pkg/dashboard"
	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/metrics"
	"github.com/rayhistory/historyserver/pkg/ray/rayid"
	"github.com/rayhistory/historyserver/pkg/server/panels"
)

// What an ended session answers is asked for once; errors, logs and what still runs every time.
func TestRevalidate(t *testing.T) {
	answers := map[string]int{"/api/things": http.StatusOK, "/api/broken": http.StatusInternalServerError,
		"/api/v0/logs/file": http.StatusOK}
	f := start(t, func(o *Options, _ *gatedStore) {
		for path, status := range answers {
			o.Routes = append(o.Routes, dashboard.Route{Method: http.MethodGet, Path: path,
				Serve: func(w http.ResponseWriter, _ *dashboard.Request) {
					w.WriteHeader(status)
					_, _ = w.Write([]byte("answer"))
				}})
		}
	})
	first := f.ask(t, http.MethodGet, lab+name+"/api/things?limit=1")
	tag := first.header.Get("ETag")
	must.True(t, first.status == http.StatusOK && tag != "" && first.body == "answer" &&
		first.header.Get("Cache-Control") == "no-cache", "%d %v %s", first.status, first.header, first.body)
	for _, tc := range []struct {
		path, have string
		status     int
	}{
		{lab + name + "/api/things?limit=1", tag, http.StatusNotModified},
		{lab + name + "/api/things?limit=1", `"other", ` + tag, http.StatusNotModified},
		{lab + name + "/api/things?limit=2", tag, http.StatusOK},
		{lab + name + "/at/1795220001000/api/things?limit=1", tag, http.StatusOK},
		{lab + name + "/api/things?limit=1", "", http.StatusOK},
	} {
		got := f.ask(t, http.MethodGet, tc.path, "If-None-Match: "+tc.have)
		says.True(t, got.status == tc.status && (got.body != "") == (tc.status == http.StatusOK), "%s with %s: %d %s",
			tc.path, tc.have, got.status, got.body)
	}
	for path, cache := range map[string]string{lab + name + "/api/broken": "no-cache",
		lab + name + "/api/v0/logs/file": "no-store", lab + old + "/api/things": "no-store", "/homepage": "no-store",
		"/clusters": "no-store"} {
		if got := f.ask(t, http.MethodGet, path); got.header.Get("ETag") != "" ||
			got.header.Get("Cache-Control") != cache {
			t.Errorf("%s: %d may be kept: %v", path, got.status, got.header)
		}
	}
}

// TestRevalidateByWhatItDependsOn: an answer that is another for the moment of the page, for a browser, with other
// settings or with more of a log or of metrics stored is not taken for the one that the client has.
func TestRevalidateByWhatItDependsOn(t *testing.T) {
	things := func(settings string) func(o *Options, _ *gatedStore) {
		return func(o *Options, _ *gatedStore) {
			o.Settings = settings
			o.Routes = append(o.Routes, dashboard.Route{Method: http.MethodGet, Path: "/api/things",
				Serve: func(w http.ResponseWriter, _ *dashboard.Request) { _, _ = w.Write([]byte("answer")) }})
		}
	}
	f := start(t, things("a"))
	here := cookies("default", "lab", name)
	tags := map[string]string{}
	for what, headers := range map[string][]string{
		"the end": {here}, "of a page": {"Referer: http://x" + lab + name + "/"},
		"of a page at a moment": {"Referer: http://x" + lab + name + "/at/2026-11-20T23:20:00Z/"},
		"for a browser":         {here, "User-Agent: Mozilla/5.0"},
	} {
		got := f.ask(t, http.MethodGet, "/api/things", headers...)
		if tags[what] = got.header.Get("ETag"); got.status != http.StatusOK || tags[what] == "" {
			t.Fatalf("%s: %d %s %v", what, got.status, got.body, got.header)
		}
	}
	ref := layout.Session{Namespace: "default", Cluster: "lab", Name: name}
	for _, other := range []struct{ what, settings, key string }{
		{"other settings", "b", ""},
		{"more of a log", "a", layout.LogChunkKey(layout.LogKey(root, ref, rayid.Node{1}, "raylet.out"), 0,
			layout.Plain)},
		{"more metrics, too", "a", layout.MetricsKey(root, ref, rayid.Node{1},
			time.Date(2026, 11, 20, 23, 0, 0, 0, time.UTC))},
	} {
		g := start(t, func(o *Options, store *gatedStore) {
			things(other.settings)(o, store)
			store.Store = f.store.Store
			if other.key != "" {
				put(t, store, other.key, "x")
			}
		})
		tags[other.what] = g.ask(t, http.MethodGet, "/api/things", here).header.Get("ETag")
	}
	byTag := map[string]string{}
	for what, tag := range tags {
		if other, taken := byTag[tag]; taken && what != "for a browser" && what != "of a page" &&
			other != "for a browser" && other != "of a page" {
			t.Errorf("%s and %s are taken for the same", what, other)
		}
		byTag[tag] = what
	}
	says.True(t, tags["for a browser"] != tags["the end"],
		"what a browser is shown and what a tool is are taken for the same")
}

// TestPagesAreNotTagged: pages, which also show what changes after the session's end, such as notes, are asked for
// every time.
func TestPagesAreNotTagged(t *testing.T) {
	f := start(t, func(o *Options, store *gatedStore) {
		o.Metrics = metrics.NewDatabases(store, root, 1<<20, o.Registerer)
		o.Routes = dashboard.New(dashboard.Options{Log: silent.Logger(),
			Services: dashboard.Services{Panels: panels.New(store, root, o.Metrics)}}).Routes()
	})
	for _, page := range []string{"/findings", "/findings?format=markdown", "/timeline", "/overview",
		"/grafana/d/rayDefaultDashboard"} {
		got := f.ask(t, http.MethodGet, lab+name+page)
		tag := got.header.Get("ETag")
		says.True(t, got.status == http.StatusOK && tag == "", "%s: %d, ETag %s", page, got.status, tag)
	}
}

// TestBusy: an answer that finds no memory says when to ask again.
func TestBusy(t *testing.T) {
	memory := budget.New(budget.Options{Bytes: 1 << 20, Wait: time.Millisecond})
	f := start(t, func(o *Options, _ *gatedStore) { o.Memory = memory })
	if got := f.ask(t, http.MethodGet, lab+name+"/api/jobs/a"); got.status != http.StatusOK {
		t.Fatalf("%d %s", got.status, got.body)
	}
	release := must.Get(memory.Reserve(t.Context(), budget.Answer, memory.Size(budget.Answer)))(t)
	got := f.ask(t, http.MethodGet, lab+name+"/api/jobs/a")
	says.True(t, got.status == http.StatusServiceUnavailable && got.header.Get("Retry-After") != "" &&
		got.header.Get("ETag") == "" && strings.Contains(got.body, "busy with other answers"), "%d %v %s", got.status,
		got.header, got.body)
	if page := f.ask(t, http.MethodGet, lab+name+"/findings",
		asBrowser); page.header.Get("Refresh") != page.header.Get("Retry-After") {
		t.Errorf("a page does not ask again: %d %v", page.status, page.header)
	}
	release()
	for range 20 { // each gives back what it took
		if got := f.ask(t, http.MethodGet, lab+name+"/api/jobs/a"); got.status != http.StatusOK {
			t.Fatalf("%d %s", got.status, got.body)
		}
	}
}
