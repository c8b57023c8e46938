package inject

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rayhistory/historyserver/internal/testkit/must"
)

// injected adds the collector to a cluster whose head has the pod's specification, in JSON.
func injected(t *testing.T, pod string, o Options) (after, collector map[string]any, change Change) {
	t.Helper()
	var spec, object map[string]any
	must.OK(t, json.Unmarshal([]byte(pod), &spec))
	object = map[string]any{"apiVersion": "ray.io/v1", "kind": "RayCluster", "metadata": map[string]any{"name": "lab"},
		"spec": map[string]any{"headGroupSpec": map[string]any{"template": map[string]any{"spec": spec}}}}
	changes := must.Get(Mutate(object, o))(t)
	containers := spec["containers"].([]any)
	return spec, containers[named(containers, containerName)].(map[string]any), changes[0]
}

// TestUser: the collector of a pod whose containers run as root has a user of its own; others have the pod's.
func TestUser(t *testing.T) {
	for context, want := range map[string]any{`{}`: nil, `{"runAsUser":0}`: int64(imageUser), `{"runAsUser":1000}`: nil} {
		_, collector, _ := injected(t, `{"securityContext":`+context+`,"containers":[{"name":"ray"}]}`, s3())
		secured := collector["securityContext"].(map[string]any)
		got := []any{secured["runAsUser"], secured["runAsGroup"], secured["runAsNonRoot"]}
		if diff := cmp.Diff([]any{want, want, true}, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", context, diff)
		}
	}
}

// TestAccountIsSaid: whoever injects by hand learns which pods change their service account.
func TestAccountIsSaid(t *testing.T) {
	o := s3()
	o.ServiceAccount = "ray-history"
	for pod, want := range map[string]bool{`{"containers":[{"name":"ray"}]}`: true,
		`{"serviceAccountName":"own","containers":[{"name":"ray"}]}`: false} {
		_, _, change := injected(t, pod, o)
		if strings.Contains(change.Done[0], "service account ray-history instead of default") != want {
			t.Errorf("%s: %s, want the account in it: %t", pod, change.Done[0], want)
		}
	}
}
