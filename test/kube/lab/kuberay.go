package lab

import (
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"
)

// KubeRays are the versions of KubeRay whose types and samples are tested with, oldest first.
var KubeRays = []string{"v1.6.2", "v1.7.0"}

// crds are the files of KubeRay's types.
func crds(t *testing.T, version string) []string {
	t.Helper()
	var files []string
	for _, name := range []string{"rayclusters", "rayjobs", "rayservices", "raycronjobs"} {
		files = append(files, filepath.Join(KubeRayDir(t, version), "config/crd/bases/ray.io_"+name+".yaml"))
	}
	return files
}

// KubeRayDir is the folder of KubeRay's operator module. A test with a version that the module proxy does not give out
// is skipped, but not one with the oldest: that must be there.
func KubeRayDir(t *testing.T, version string) string {
	t.Helper()
	dir, err := moduleDir(t, "github.com/ray-project/kuberay/ray-operator@"+version)
	if err != nil && version != KubeRays[0] && withheld.MatchString(err.Error()) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// withheld is how a module proxy says that it does not give a version out, or does not know it.
var withheld = regexp.MustCompile(`: (403 Forbidden|404 Not Found|410 Gone)`)

// moduleDir downloads a module, "path@version".
func moduleDir(t *testing.T, module string) (string, error) {
	t.Helper()
	cmd := exec.Command("go", "mod", "download", "-json", module)
	cmd.Dir = t.TempDir() // no module: the version is the one asked for
	out, err := cmd.Output()
	var answer struct{ Dir, Error string }
	if jsonErr := json.Unmarshal(out, &answer); jsonErr != nil || answer.Dir == "" {
		return "", fmt.Errorf("download %s: %w %s", module, err, answer.Error)
	}
	return answer.Dir, nil
}

// HeadService makes the service that KubeRay's operator makes for a cluster's head and tells of in its status. It gives
// the service's address.
func (l *Lab) HeadService(t *testing.T, namespace, cluster string) string {
	t.Helper()
	name := cluster + "-head-svc"
	uid := l.Kubectl(t, "", "get", "raycluster", "-n", namespace, cluster, "-o", "jsonpath={.metadata.uid}")
	l.Kubectl(t, fmt.Sprintf(`{"apiVersion":"v1","kind":"Service","metadata":{"namespace":%q,"name":%q,
"ownerReferences":[{"apiVersion":"ray.io/v1","kind":"RayCluster","name":%q,"uid":%q,"controller":true}]},
"spec":{"selector":{"ray.io/cluster":%q,"ray.io/node-type":"head"},"ports":[{"name":"gcs-server","port":6379},{"name":"dashboard","port":8265}]}}`,
		namespace, name, cluster, uid, cluster), "create", "-f", "-")
	l.Kubectl(t, "", "patch", "raycluster", "-n", namespace, cluster, "--subresource=status", "--type=merge", "-p",
		fmt.Sprintf(`{"status":{"state":"ready","head":{"serviceName":%q}}}`, name))
	return l.Kubectl(t, "", "get", "service", "-n", namespace, name, "-o", "jsonpath={.spec.clusterIP}")
}

// HeadPod makes the pod of a cluster's head, at an address of the host's, and has the service of HeadService lead to
// it: the API server passes requests on to pods only.
func (l *Lab) HeadPod(t *testing.T, namespace, cluster, ip string) {
	t.Helper()
	name := cluster + "-head"
	l.Kubectl(t, fmt.Sprintf(`{"apiVersion":"v1","kind":"Pod","metadata":{"namespace":%q,"name":%q},"spec":{"containers":[{"name":"ray-head","image":"rayproject/ray:2.60.0"}]}}`,
		namespace, name), "create", "-f", "-")
	l.Kubectl(t, "", "patch", "pod", "-n", namespace, name, "--subresource=status", "--type=merge", "-p",
		fmt.Sprintf(`{"status":{"phase":"Running","podIP":%q,"podIPs":[{"ip":%q}]}}`, ip, ip))
	l.Kubectl(t, fmt.Sprintf(`{"apiVersion":"v1","kind":"Endpoints","metadata":{"namespace":%q,"name":"%s-svc"},
"subsets":[{"addresses":[{"ip":%q,"targetRef":{"kind":"Pod","namespace":%q,"name":%q}}],"ports":[{"name":"dashboard","port":8265}]}]}`,
		namespace, name, ip, namespace, name), "create", "-f", "-")
}
