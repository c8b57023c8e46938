package kube

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/says"
)

func kubeconfig(t *testing.T, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "kubeconfig")
	must.OK(t, os.WriteFile(path, []byte("apiVersion: v1\nkind: Config\n"+content), 0o600))
	return path
}

// Each context leads to its own API server, with its own token, whichever the current context is.
func TestClientsOf(t *testing.T) {
	reviewed := map[string]*atomic.Int32{}
	server := func(name string) string {
		reviewed[name] = new(atomic.Int32)
		s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			if r.Method != http.MethodPost { // which types there are
				_ = json.NewEncoder(w).Encode(map[string]any{"kind": "APIResourceList", "apiVersion": "v1",
					"groupVersion": "authorization.k8s.io/v1", "resources": []any{map[string]any{
						"name": "subjectaccessreviews", "kind": "SubjectAccessReview", "verbs": []string{"create"}}}})
				return
			}
			if r.Header.Get("Authorization") == "Bearer of-"+name {
				reviewed[name].Add(1)
			}
			_ = json.NewEncoder(w).Encode(map[string]any{"kind": "SubjectAccessReview",
				"apiVersion": "authorization.k8s.io/v1", "status": map[string]any{"allowed": true}})
		}))
		t.Cleanup(s.Close)
		return s.URL
	}
	clients, err := ClientsOf(kubeconfig(t, `
clusters:
- {name: x, cluster: {server: "`+server("eu")+`", insecure-skip-tls-verify: true}}
- {name: z, cluster: {server: "`+server("us")+`", insecure-skip-tls-verify: true}}
users: [{name: x, user: {token: of-eu}}, {name: z, user: {token: of-us}}]
contexts: [{name: eu, context: {cluster: x, user: x}}, {name: us, context: {cluster: z, user: z}}]
current-context: us
`), authorizationv1.AddToScheme)
	must.OK(t, err)
	must.True(t, len(clients) == 2, "clients of %v", clients)
	for name, cl := range clients {
		must.OK(t, cl.Create(t.Context(), &authorizationv1.SubjectAccessReview{}))
		says.Equal(t, reviewed[name].Load(), 1, "%s was asked", name)
	}
}

func TestClientsOfWrongFiles(t *testing.T) {
	for want, file := range map[string]string{
		"no such file":     filepath.Join(t.TempDir(), "missing"),
		"no contexts":      kubeconfig(t, "clusters: []\n"),
		"context eu":       kubeconfig(t, "contexts: [{name: eu, context: {cluster: x, user: x}}]\n"),
		"cannot unmarshal": kubeconfig(t, "contexts: 3\n"),
		"yaml: control":    kubeconfig(t, "\x01"),
	} {
		says.Error(t, says.Err(ClientsOf(file, authorizationv1.AddToScheme)), want)
	}
}
