package kube

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/silent"
)

// The way through the API server, which speaks HTTP/2 and HTTP/1.1 over TLS, knows its caller and takes
// Impersonate-User for a command.
func TestForwardThroughTheAPIServer(t *testing.T) {
	var seen *http.Request
	api := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen = r.Clone(t.Context())
		fmt.Fprint(w, "from the head")
	}))
	api.EnableHTTP2 = true
	api.StartTLS()
	t.Cleanup(api.Close)

	rc := &rest.Config{Host: api.URL, BearerToken: "of-the-server",
		TLSClientConfig: rest.TLSClientConfig{Insecure: true}}
	transport := must.Get(newTransport(rc, true))(t)
	c := rayCluster("a", "lab")
	clusters := New(Config{Live: Proxy}, apiServerWith(t, c, headService(c)), transport, silent.Logger())
	clusters.sites[0].apiServer = apiServer(rc, true)
	clusters.Start()
	t.Cleanup(clusters.Close)
	clusters.List(t.Context())
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		clusters.Forward(w, r, c.Namespace, c.Name, r.URL.EscapedPath(),
			func(err error) { http.Error(w, err.Error(), http.StatusBadGateway) })
	}))
	t.Cleanup(front.Close)

	req := must.Get(http.NewRequestWithContext(t.Context(), http.MethodGet, front.URL+"/api/jobs/a%2Fb?x=1", nil))(t)
	req.Header.Set("Authorization", "Bearer user")
	req.Header.Set("Impersonate-User", "admin")
	if resp, body := send(t, req); resp.StatusCode != http.StatusOK || body != "from the head" {
		t.Fatalf("%d %q", resp.StatusCode, body)
	}
	if want := "/api/v1/namespaces/a/services/lab-head-svc:dashboard/proxy/api/jobs/a%2Fb?x=1"; seen.URL.String() != want {
		t.Errorf("asked %s, want %s", seen.URL, want)
	}
	if seen.Header.Get("Authorization") != "Bearer of-the-server" || seen.Header.Get("Impersonate-User") != "" {
		t.Errorf("headers %v", seen.Header)
	}
}
