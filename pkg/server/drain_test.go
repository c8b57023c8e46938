package server

import (
	"net/http"
	"testing"
)

// A server that is going says so to those who watch it and has its clients leave, but answers.
func TestDrain(t *testing.T) {
	f := start(t, nil)
	f.waitDescribed(t)
	if got := f.ask(t, http.MethodGet, "/readyz"); got.status != http.StatusOK || got.header.Get("Connection") != "" {
		t.Errorf("before: %d %v", got.status, got.header)
	}
	f.Config.Handler.(*Server).Drain()
	for path, want := range map[string]int{"/readyz": http.StatusServiceUnavailable, "/livez": http.StatusOK, lab + name + "/api/jobs/a": http.StatusOK} {
		if got := f.ask(t, http.MethodGet, path); got.status != want || got.header.Get("Connection") != "close" {
			t.Errorf("%s: %d %v, want %d", path, got.status, got.header, want)
		}
	}
}
