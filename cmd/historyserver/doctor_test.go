package main

import (
	"net/http"
	"strings"
	"testing"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/says"
)

// TestDoctor: each check has a line, of the store's requests and of the server that runs.
func TestDoctor(t *testing.T) {
	dir := t.TempDir()
	address := strings.TrimSuffix(strings.TrimPrefix(serving(t, dir), "http://"), "/")
	must.Happen(t, "that the first listing has finished", func() bool {
		resp, err := http.Get("http://" + address + "/readyz")
		if err != nil {
			return false
		}
		must.OK(t, resp.Body.Close())
		return resp.StatusCode == http.StatusOK
	})
	out, _, err := run(t, "doctor", "--local-dir="+dir, "--listen="+address, "--dashboard-dir="+dir)
	for _, want := range []string{"ok       settings ", "ok       store: list ", "ok       store: write ",
		"ok       store: read ", "ok       clock ", "ok       store: delete ", " space: indexes ",
		"ok       dashboard ",
		"ok       server "} {
		says.True(t, err == nil && strings.Contains(out, want), "%v, no %q in\n%s", err, want, out)
	}
	if out, _, err := run(t, "doctor", "--local-dir="+dir+"/none", "--listen=127.0.0.1:1"); err == nil ||
		err.Error() != "1 check failed" || !strings.Contains(out, "failed   store ") {
		t.Errorf("a folder that is not there: %v\n%s", err, out)
	}
	if out, _, err := run(t, "doctor", "--query-timeout=0s", "--listen=127.0.0.1:1"); err == nil ||
		!strings.Contains(out, "failed   settings         --query-timeout") {
		t.Errorf("a mistake: %v\n%s", err, out)
	}
}
