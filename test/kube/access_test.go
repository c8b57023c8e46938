package kube_test

import (
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rayhistory/historyserver/internal/testkit/freeport"
	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/ray/rayid"
	"github.com/rayhistory/historyserver/test/kube/lab"
)

const session = "session_2026-11-20_23-19-45_581717_22125"

// store writes a stored session with one log file into a folder.
func store(t *testing.T, dir, namespace, cluster string) {
	t.Helper()
	ref := layout.Session{Namespace: namespace, Cluster: cluster, Name: session}
	for key, content := range map[string]string{
		layout.MarkerKey(layout.DefaultRoot, ref):                           "",
		layout.LogKey(layout.DefaultRoot, ref, rayid.Node{1}, "raylet.out"): "log of " + cluster + "\n",
	} {
		path := filepath.Join(dir, key)
		must.OK(t, os.MkdirAll(filepath.Dir(path), 0o755))
		must.OK(t, os.WriteFile(path, []byte(content), 0o600))
	}
}

func ask(t *testing.T, address, token string) (status int, body string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, nil)
	must.OK(t, err)
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err.Error()
	}
	defer func() { _ = resp.Body.Close() }()
	data, err := io.ReadAll(resp.Body)
	must.OK(t, err)
	return resp.StatusCode, string(data)
}

func clusters(t *testing.T, body string) []string {
	t.Helper()
	var rows []struct{ Namespace, Name, SessionName string }
	if err := json.Unmarshal([]byte(body), &rows); err != nil {
		t.Fatalf("%v: %s", err, body)
	}
	var names []string
	for _, r := range rows {
		names = append(names, r.Namespace+"/"+r.Name)
	}
	slices.Sort(names)
	return names
}

// Users and service accounts, their rights given and taken by RBAC, with the account and rights of the history server's
// own manifests.
func TestPeopleSeeTheirNamespaces(t *testing.T) {
	l := lab.Start(t)
	for _, file := range []string{"service_account.yaml", "service_account-access.yaml"} {
		l.Kubectl(t, "", "apply", "-f", filepath.Join(repository, "config/rbac", file))
	}
	l.Kubectl(t, "", "create", "clusterrole", "ray-viewer", "--verb=get", "--resource=rayclusters.ray.io")
	for namespace, user := range map[string]string{"a": "ann", "b": "bob"} {
		l.Kubectl(t, "", "create", "namespace", namespace)
		l.Kubectl(t, "", "create", "rolebinding", "-n", namespace, "viewer", "--clusterrole=ray-viewer", "--user="+user)
		l.Kubectl(t, rayCluster(namespace, "runs-in-"+namespace, ""), "create", "-f", "-")
	}
	l.Kubectl(t, "", "create", "serviceaccount", "-n", "b", "ci")
	l.Kubectl(t, "", "create", "clusterrolebinding", "ci", "--clusterrole=ray-viewer", "--serviceaccount=b:ci")
	ci := l.TokenOf(t, "b", "ci")

	dir := t.TempDir()
	store(t, dir, "a", "stored-in-a")
	store(t, dir, "b", "stored-in-b")
	port := freeport.Port(t)
	listen := strings.TrimPrefix(url(port, ""), "http://")
	run(t, nil, "historyserver", "--listen="+listen, "--storage-backend=local", "--local-dir="+dir, "--auth=kubernetes",
		"--auth-cache=1s",
		"--live=storage", "--kubeconfigs="+l.KubeconfigOf(t, l.TokenOf(t, "default", "historyserver")))
	lab.Eventually(t, "the server is ready", func() bool {
		status,
			_ := ask(t, url(port, "/readyz"), "")
		return status == 200
	})
	lab.Eventually(t, "the running clusters are known", func() bool {
		_, body := ask(t, url(port, "/clusters"), ci)
		return strings.Contains(body, "runs-in-a") && strings.Contains(body, "runs-in-b")
	})

	for who, tt := range map[string]struct {
		token string
		want  []string
	}{
		"ann":     {"token-ann", []string{"a/runs-in-a", "a/stored-in-a"}},
		"bob":     {"token-bob", []string{"b/runs-in-b", "b/stored-in-b"}},
		"eve":     {"token-eve", nil},
		"account": {ci, []string{"a/runs-in-a", "a/stored-in-a", "b/runs-in-b", "b/stored-in-b"}},
	} {
		status, body := ask(t, url(port, "/clusters"), tt.token)
		if status != 200 || !slices.Equal(clusters(t, body), tt.want) {
			t.Errorf("%s sees %d %s, want %v", who, status, body, tt.want)
		}
	}
	log := "/namespaces/b/clusters/stored-in-b/sessions/latest/api/v0/logs/file?filename=raylet.out&node_id=" +
		rayid.Node{1}.String()
	for token, want := range map[string]int{"token-ann": 403, "token-bob": 200, "token-eve": 403, ci: 200, "": 401,
		"forged": 401} {
		status, body := ask(t, url(port, log), token)
		if status != want || want != 200 && strings.Contains(body, "log of") {
			t.Errorf("the log of b for %.12q: %d %.200s, want %d", token, status, body, want)
		}
	}

	// Rights that are taken away end within the cache's time.
	l.Kubectl(t, "", "delete", "rolebinding", "-n", "b", "viewer")
	lab.Eventually(t, "bob sees nothing", func() bool {
		status,
			_ := ask(t, url(port, log), "token-bob")
		return status == 403
	})
}

// With the API server away stored sessions are still there for a server without access control, and the page says what
// is missing.
func TestStoredSessionsWorkWithoutTheAPIServer(t *testing.T) {
	dir := t.TempDir()
	store(t, dir, "a", "stored-in-a")
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(kubeconfig, []byte(`apiVersion: v1
kind: Config
clusters: [{name: away, cluster: {server: "https://127.0.0.1:1"}}]
contexts: [{name: away, context: {cluster: away}}]
current-context: away
`), 0o600); err != nil {
		t.Fatal(err)
	}
	port := freeport.Port(t)
	run(t, nil, "historyserver", "--listen="+strings.TrimPrefix(url(port, ""), "http://"), "--storage-backend=local",
		"--local-dir="+dir, "--kubeconfigs="+kubeconfig)
	lab.Eventually(t, "the server is ready", func() bool {
		status,
			_ := ask(t, url(port, "/readyz"), "")
		return status == 200
	})
	began := time.Now()
	if status, body := ask(t, url(port, "/clusters"), ""); status != 200 ||
		!slices.Equal(clusters(t, body), []string{"a/stored-in-a"}) {
		t.Errorf("%d %s", status, body)
	}
	if status, body := ask(t, url(port, "/homepage"), ""); status != 200 ||
		!strings.Contains(body, "Running clusters may be missing") || !strings.Contains(body, "stored-in-a") {
		t.Errorf("%d %s", status, body)
	}
	if took := time.Since(began); took > 20*time.Second {
		t.Errorf("two pages took %v", took)
	}
	if status, body := ask(t, url(port, "/namespaces/a/clusters/stored-in-a/sessions/latest/api/v0/nodes"),
		""); status != 200 {
		t.Errorf("%d %s", status, body)
	}
}
