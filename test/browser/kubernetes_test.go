package browser

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/rayhistory/historyserver/internal/testkit/must"
)

// object is JSON of the Kubernetes API.
type object = map[string]any

// kubernetes is an API server with one RayCluster, default/lab, whose head is at an address of this machine. It knows
// the token of ann, who may get RayClusters. It gives the path of a kubeconfig.
func kubernetes(t *testing.T, head net.Addr) string {
	t.Helper()
	resources := func(groupVersion, name, kind string, namespaced bool) object {
		return object{"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": groupVersion,
			"resources": []object{
				{"name": name, "singularName": "", "kind": kind, "namespaced": namespaced,
					"verbs": []string{"get", "list", "watch", "create"}},
			}}
	}
	cluster := object{"apiVersion": "ray.io/v1", "kind": "RayCluster",
		"metadata": object{"namespace": "default", "name": "lab", "uid": "uid", "resourceVersion": "1"},
		"spec":     object{"rayVersion": "2.60.0"}}
	group := func(name string) object {
		v1 := object{"groupVersion": name + "/v1", "version": "v1"}
		return object{"name": name, "versions": []object{v1}, "preferredVersion": v1}
	}
	answers := map[string]object{
		"/api": {"kind": "APIVersions", "versions": []string{"v1"}},
		"/apis": {"kind": "APIGroupList", "apiVersion": "v1",
			"groups": []object{group("ray.io"), group("authentication.k8s.io"), group("authorization.k8s.io")}},
		"/apis/ray.io/v1":                resources("ray.io/v1", "rayclusters", "RayCluster", true),
		"/api/v1":                        resources("v1", "services", "Service", true),
		"/apis/authentication.k8s.io/v1": resources("authentication.k8s.io/v1", "tokenreviews", "TokenReview", false),
		"/apis/authorization.k8s.io/v1": resources("authorization.k8s.io/v1", "subjectaccessreviews",
			"SubjectAccessReview", false),
		"/apis/ray.io/v1/rayclusters": {"apiVersion": "ray.io/v1", "kind": "RayClusterList",
			"metadata": object{"resourceVersion": "1"}, "items": []object{cluster}},
		"/api/v1/namespaces/default/services/lab-head-svc": {
			"apiVersion": "v1", "kind": "Service", "metadata": object{"namespace": "default", "name": "lab-head-svc",
				"ownerReferences": []object{{"apiVersion": "ray.io/v1", "kind": "RayCluster", "name": "lab",
					"uid": "uid"}}},
			"spec": object{"clusterIP": "127.0.0.1",
				"selector": object{"ray.io/cluster": "lab", "ray.io/node-type": "head"},
				"ports":    []object{{"name": "dashboard", "port": head.(*net.TCPAddr).Port}}},
		},
	}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if r.URL.Query().Get("watch") != "" {
			w.WriteHeader(http.StatusOK)
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
			return
		}
		answer, known := answers[r.URL.Path]
		switch r.URL.Path {
		case "/apis/authentication.k8s.io/v1/tokenreviews":
			review, _ := io.ReadAll(r.Body) // of the API's own encoding
			answer, known = object{"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview",
				"status": object{"authenticated": bytes.Contains(review, []byte("ann")),
					"user": object{"username": "ann"}}}, true
		case "/apis/authorization.k8s.io/v1/subjectaccessreviews":
			answer, known = object{"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview",
				"status": object{"allowed": true}}, true
		}
		if !known {
			w.WriteHeader(http.StatusNotFound)
			answer = object{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "NotFound",
				"code": 404, "message": r.URL.Path}
		}
		_ = json.NewEncoder(w).Encode(answer)
	}))
	t.Cleanup(func() { s.CloseClientConnections(); s.Close() })
	file := filepath.Join(t.TempDir(), "kubeconfig")
	config := fmt.Sprintf("apiVersion: v1\nkind: Config\nclusters: [{name: a, cluster: {server: %q}}]\ncontexts: [{name: a, context: {cluster: a}}]\ncurrent-context: a\n", s.URL)
	must.OK(t, os.WriteFile(file, []byte(config), 0o600))
	return file
}
