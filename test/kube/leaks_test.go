package kube_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rayhistory/historyserver/internal/testkit/freeport"
	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/silent"
	"github.com/rayhistory/historyserver/pkg/dashboard"
	"github.com/rayhistory/historyserver/pkg/ray/rayid"
	"github.com/rayhistory/historyserver/pkg/server"
	"github.com/rayhistory/historyserver/test/kube/lab"
)

// everyRoute is what the history server's own router has.
func everyRoute(t *testing.T) []server.Route {
	t.Helper()
	registry := prometheus.NewRegistry()
	s, err := server.New(server.Options{Routes: dashboard.New(dashboard.Options{Log: silent.Logger()}).Routes(),
		Log: silent.Logger(), Registerer: registry, Gatherer: registry})
	must.OK(t, err)
	return s.Routes()
}

var parameter = regexp.MustCompile(`\{([a-z_]+)[^}]*\}`)

// about is a path of a route about a cluster's session.
func about(route server.Route, namespace, cluster, session string) string {
	values := map[string]string{
		"session_namespace": namespace, "session_cluster": cluster, "session_kind": "raycluster",
		"session_name": session,
		"session_at":   "2026-11-20T23:20:00Z", "node_id": rayid.Node{1}.String(), "media_type": "file",
	}
	path := parameter.ReplaceAllStringFunc(route.Path, func(p string) string {
		if value, ok := values[parameter.FindStringSubmatch(p)[1]]; ok {
			return value
		}
		return "x"
	})
	return strings.ReplaceAll(path, "//", "/") + "?filename=raylet.out&node_id=" + rayid.Node{1}.String()
}

// Each route that there is, about stored and running clusters of another namespace, asked by path and by cookies, as
// somebody else, as somebody without any rights, as nobody and with a forged token. The reviews are the API server's
// own.
func TestNoRouteLeaks(t *testing.T) {
	l := lab.Start(t)
	for _, file := range []string{"service_account.yaml", "service_account-access.yaml"} {
		l.Kubectl(t, "", "apply", "-f", filepath.Join(repository, "config/rbac", file))
	}
	l.Kubectl(t, "", "create", "clusterrole", "ray-viewer", "--verb=get", "--resource=rayclusters.ray.io")
	dir := t.TempDir()
	users := map[string]string{"a": "ann", "b": "bob"}
	for namespace, user := range users {
		l.Kubectl(t, "", "create", "namespace", namespace)
		l.Kubectl(t, "", "create", "rolebinding", "-n", namespace, "viewer", "--clusterrole=ray-viewer", "--user="+user)
		store(t, dir, namespace, "hidden-in-"+namespace)
		runHead(t, l, namespace, "hidden-in-"+namespace,
			http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				_,
					_ = io.WriteString(w, "lives hidden-in-"+namespace)
			}))
	}
	port := freeport.Port(t)
	run(t, nil, "historyserver", "--listen="+strings.TrimPrefix(url(port, ""), "http://"), "--storage-backend=local",
		"--local-dir="+dir,
		"--auth=kubernetes", "--live=proxy", "--live-writes",
		"--kubeconfigs="+l.KubeconfigOf(t, l.TokenOf(t, "default", "historyserver")))
	for namespace, user := range users {
		lab.Eventually(t, "those who may see "+namespace+" do", func() bool {
			_, live := ask(t, url(port, "/namespaces/"+namespace+"/clusters/hidden-in-"+namespace+
				"/sessions/live/api/version"), "token-"+user)
			_, stored := ask(t, url(port, "/namespaces/"+namespace+"/clusters/hidden-in-"+namespace+
				"/sessions/latest/api/v0/logs/file?filename=raylet.out&node_id="+rayid.Node{1}.String()), "token-"+user)
			return live == "lives hidden-in-"+namespace && strings.Contains(stored, "log of hidden-in-")
		})
	}

	public := []string{"/healthz", "/livez", "/readyz", "/metrics", "/api/history/about"}
	routes, asked := everyRoute(t), 0
	for _, route := range routes {
		for namespace, user := range map[string]string{"a": "bob", "b": "ann"} {
			cluster := "hidden-in-" + namespace
			for _, name := range []string{session, "latest", "live"} {
				path := about(route, namespace, cluster, name)
				for _, token := range []string{"token-" + user, "token-eve", "forged", ""} {
					asked++
					status, body := askAs(t, route.Method, url(port, path), token,
						fmt.Sprintf("cluster_namespace=%s; cluster_name=%s; session_name=%s", namespace, cluster, name))
					body = strings.ReplaceAll(body, strings.Split(path, "?")[0], "") // what was asked is no secret
					if strings.Contains(body, cluster) {
						t.Errorf("%s %s with %q: %d %.300s", route.Method, path, token, status, body)
					}
					want := map[bool]int{true: http.StatusForbidden,
						false: http.StatusUnauthorized}[strings.HasPrefix(token, "token-")]
					// answered with what they may see
					known := want == http.StatusForbidden && !strings.Contains(route.Path, "{session_namespace}")
					if status != want && !known && !slices.Contains(public, route.Path) {
						t.Errorf("%s %s with %q: %d %.200s, want %d", route.Method, path, token, status, body, want)
					}
				}
			}
		}
	}
	t.Logf("%d routes, %d requests", len(routes), asked)
}

func askAs(t *testing.T, method, address, token, cookies string) (status int, body string) {
	t.Helper()
	req := must.Get(http.NewRequestWithContext(t.Context(), method, address, nil))(t)
	req.Header.Set("Cookie", cookies)
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	resp := must.Get(http.DefaultTransport.RoundTrip(req))(t)
	defer func() { _ = resp.Body.Close() }()
	data := must.Get(io.ReadAll(resp.Body))(t)
	return resp.StatusCode, string(data)
}

// runHead makes a RayCluster with the service that KubeRay would make for its head, whose address leads to a dashboard
// here.
func runHead(t *testing.T, l *lab.Lab, namespace, name string, dashboard http.Handler) {
	t.Helper()
	l.Kubectl(t, rayCluster(namespace, name, ""), "create", "-f", "-")
	ip := l.HeadService(t, namespace, name)
	ownAddress(t, ip)
	front := httptest.NewUnstartedServer(dashboard)
	_ = front.Listener.Close()
	front.Listener = listen(t, ip+":8265")
	front.Start()
	t.Cleanup(front.Close)
}
