package kube_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rayhistory/historyserver/internal/testkit/freeport"
	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/pkg/ray/rayid"
	"github.com/rayhistory/historyserver/test/kube/lab"
)

// Two API servers whose people have the same names and other rights: one server shows the sessions of both, each by the
// rights of its own, with an account that may only ask for them.
func TestSeveralKubernetesClusters(t *testing.T) {
	home, us := lab.Start(t), lab.Start(t)
	for _, file := range []string{"service_account.yaml", "service_account-access.yaml"} {
		home.Kubectl(t, "", "apply", "-f", filepath.Join(repository, "config/rbac", file))
	}
	for l, users := range map[*lab.Lab][]string{home: {"ann", "bob"}, us: {"bob", "eve"}} {
		l.Kubectl(t, "", "create", "clusterrole", "ray-viewer", "--verb=get", "--resource=rayclusters.ray.io")
		l.Kubectl(t, "", "create", "namespace", "a")
		for _, user := range users {
			l.Kubectl(t, "", "create", "rolebinding", "-n", "a", user, "--clusterrole=ray-viewer", "--user="+user)
		}
	}
	home.Kubectl(t, rayCluster("a", "runs", ""), "create", "-f", "-")
	// As docs/kubernetes/several.md tells.
	us.Kubectl(t, "", "create", "serviceaccount", "-n", "kube-system", "ray-history-access")
	us.Kubectl(t, "", "create", "clusterrole", "ray-history-access", "--verb=create",
		"--resource=subjectaccessreviews.authorization.k8s.io")
	us.Kubectl(t, "", "create", "clusterrolebinding", "ray-history-access", "--clusterrole=ray-history-access",
		"--serviceaccount=kube-system:ray-history-access")
	others := filepath.Join(t.TempDir(), "kubeconfig")
	must.OK(t, os.WriteFile(others, []byte(fmt.Sprintf(`apiVersion: v1
kind: Config
clusters:
- {name: us, cluster: {server: %q, insecure-skip-tls-verify: true}}
- {name: gone, cluster: {server: "https://%s", insecure-skip-tls-verify: true}}
users: [{name: us, user: {token: %q}}]
contexts:
- {name: us, context: {cluster: us, user: us}}
- {name: gone, context: {cluster: gone, user: us}}
`, us.Server, freeport.Address(t), us.TokenOf(t, "kube-system", "ray-history-access"))), 0o600))

	dir := t.TempDir()
	for _, namespace := range []string{"a", "a.home", "a.us", "a.gone", "a.mars"} {
		store(t, dir, namespace, "train")
	}
	port := freeport.Port(t)
	run(t, nil, "historyserver", "--listen="+strings.TrimPrefix(url(port, ""), "http://"), "--storage-backend=local",
		"--local-dir="+dir, "--auth=kubernetes", "--auth-cache=1s", "--live=storage",
		"--kubeconfigs="+home.KubeconfigOf(t, home.TokenOf(t, "default", "historyserver")),
		"--kubernetes-cluster=home", "--kubernetes-clusters="+others)
	lab.Eventually(t, "the server is ready", func() bool {
		status, _ := ask(t, url(port, "/readyz"), "")
		return status == 200
	})
	lab.Eventually(t, "the running cluster is known", func() bool {
		_, body := ask(t, url(port, "/clusters"), "token-ann")
		return strings.Contains(body, `"runs"`)
	})
	const path = "/namespaces/%s/clusters/train/sessions/latest/api/v0/logs/file?filename=raylet.out&node_id=%s"
	for token, tt := range map[string]struct {
		list   []string
		status map[string]int
	}{
		"token-ann": {[]string{"a.home/runs", "a.home/train", "a/train"},
			map[string]int{"a": 200, "a.home": 200, "a.us": 403, "a.gone": 503, "a.mars": 403}},
		"token-bob": {[]string{"a.home/runs", "a.home/train", "a.us/train", "a/train"},
			map[string]int{"a": 200, "a.home": 200, "a.us": 200, "a.gone": 503, "a.mars": 403}},
		"token-eve": {[]string{"a.us/train"},
			map[string]int{"a": 403, "a.home": 403, "a.us": 200, "a.gone": 503, "a.mars": 403}},
	} {
		if status, body := ask(t, url(port, "/clusters"), token); status != 200 || !slices.Equal(clusters(t, body),
			tt.list) {
			t.Errorf("%s sees %d %s, want %v", token, status, body, tt.list)
		}
		for namespace, want := range tt.status {
			status, body := ask(t, url(port, fmt.Sprintf(path, namespace, rayid.Node{1})), token)
			if status != want || want != 200 && strings.Contains(body, "log of") {
				t.Errorf("%s asks for the log of %s: %d %.300s, want %d", token, namespace, status, body, want)
			}
		}
	}
	if _, body := ask(t, url(port, "/clusters?kubernetes_cluster=us"), "token-bob"); !slices.Equal(clusters(t, body),
		[]string{"a.us/train"}) {
		t.Errorf("of us bob sees %s", body)
	}
	// Rights that are taken away there end here.
	us.Kubectl(t, "", "delete", "rolebinding", "-n", "a", "bob")
	lab.Eventually(t, "bob sees nothing of us", func() bool {
		status, _ := ask(t, url(port, fmt.Sprintf(path, "a.us", rayid.Node{1})), "token-bob")
		return status == 403
	})
}
