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
	for context, want := range map[string]any{`{}`: nil, `{"runAsUser":0}`: int64(imageUser),
		`{"runAsUser":1000}`: nil} {
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

// TestReferredVariables: a variable by which a volume is mounted comes behind those to which it refers.
func TestReferredVariables(t *testing.T) {
	_, collector, change := injected(t, `{"containers":[{"name":"ray","env":[
		{"name":"TEAM","value":"a"},{"name":"OTHER","value":"b"},
		{"name":"POD","valueFrom":{"fieldRef":{"fieldPath":"metadata.name"}}},
		{"name":"DIR","value":"$(TEAM)/$(POD)/$(TEAM)$(LATER)"},{"name":"LATER","value":"c"}],
		"volumeMounts":[{"name":"v","mountPath":"/tmp/ray","subPathExpr":"$(DIR)/$(RAY_NODE_TYPE_NAME)"}]}]}`, s3())
	var got []string
	for _, v := range collector["env"].([]any) {
		got = append(got, text(v.(map[string]any), "name"))
	}
	want := []string{"RAY_CLUSTER_NAME", "RAY_CLUSTER_NAMESPACE", "POD_IP", "S3_BUCKET", "TEAM", "POD", "DIR",
		"RAY_NODE_TYPE_NAME"}
	if diff := cmp.Diff(want, got); diff != "" || len(change.Warnings) != 0 {
		t.Errorf("%s warnings %q", diff, change.Warnings)
	}
}
