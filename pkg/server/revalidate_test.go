package server

import (
	"net/http"
	"testing"

	"github.com/rayhistory/historyserver/pkg/dashboard"
)

// What an ended session answers is asked for once; errors, logs and what still runs every time.
func TestRevalidate(t *testing.T) {
	answers := map[string]int{"/api/things": http.StatusOK, "/api/broken": http.StatusInternalServerError, "/api/v0/logs/file": http.StatusOK}
	f := start(t, func(o *Options, _ *gatedStore) {
		for path, status := range answers {
			o.Routes = append(o.Routes, dashboard.Route{Method: http.MethodGet, Path: path, Serve: func(w http.ResponseWriter, _ *dashboard.Request) {
				w.WriteHeader(status)
				_, _ = w.Write([]byte("answer"))
			}})
		}
	})
	first := f.ask(t, http.MethodGet, lab+name+"/api/things?limit=1")
	tag := first.header.Get("ETag")
	if first.status != http.StatusOK || tag == "" || first.body != "answer" {
		t.Fatalf("%d %v %s", first.status, first.header, first.body)
	}
	for _, tc := range []struct {
		path, have string
		status     int
	}{
		{lab + name + "/api/things?limit=1", tag, http.StatusNotModified},
		{lab + name + "/api/things?limit=1", `"other", ` + tag, http.StatusNotModified},
		{lab + name + "/api/things?limit=2", tag, http.StatusOK},
		{lab + name + "/at/1000/api/things?limit=1", tag, http.StatusOK},
		{lab + name + "/api/things?limit=1", "", http.StatusOK},
	} {
		if got := f.ask(t, http.MethodGet, tc.path, "If-None-Match: "+tc.have); got.status != tc.status || (got.body != "") != (tc.status == http.StatusOK) {
			t.Errorf("%s with %s: %d %s", tc.path, tc.have, got.status, got.body)
		}
	}
	for _, path := range []string{lab + name + "/api/broken", lab + name + "/api/v0/logs/file", lab + old + "/api/things"} {
		if got := f.ask(t, http.MethodGet, path); got.header.Get("ETag") != "" {
			t.Errorf("%s: %d may be kept, as %s", path, got.status, got.header.Get("ETag"))
		}
	}
}
