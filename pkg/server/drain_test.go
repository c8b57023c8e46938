package server

import (
	"net/http"
	"net/http/httptest"
	"testing"
)

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
