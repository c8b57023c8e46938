package inject

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/pkg/ray/event"
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
	return spec, containers[indexOfName(containers, containerName)].(map[string]any), changes[0]
}

// TestUser: the collector of a pod whose containers run as root has a user of its own; others have the pod's.
func TestUser(t *testing.T) {
	for context, want := range map[string]any{`{}`: nil, `{"runAsUser":0}`: int64(imageUser),
		`{"runAsUser":1000}`: nil} {
		_, collector, _ := injected(t, `{"securityContext":`+context+`,"containers":[{"name":"ray"}]}`, s3())
		secured := collector["securityContext"].(map[string]any)
		got := []any{secured["runAsUser"], secured["runAsGroup"], secured["runAsNonRoot"]}
		says.Equal(t, cmp.Diff([]any{want, want, true}, got), "", "%s (-want +got)", context)
	}
}

// TestAccountIsSaid: whoever injects by hand learns which pods change their service account.
func TestAccountIsSaid(t *testing.T) {
	o := s3()
	o.ServiceAccount = "ray-history"
	for pod, want := range map[string]bool{`{"containers":[{"name":"ray"}]}`: true,
		`{"serviceAccountName":"own","containers":[{"name":"ray"}]}`: false} {
		_, _, change := injected(t, pod, o)
		says.Equal(t, strings.Contains(change.Done[0], "service account ray-history instead of default"), want,
			"%s: %s, want the account in it: %t", pod, change.Done[0], want)
	}
}

// TestPodWarnings: who adds the collector is told where it changes what the pod or its account may do, and where the
// pod's own settings keep it from storing.
func TestPodWarnings(t *testing.T) {
	const rights, egress = "the autoscaler's rights", "denies egress"
	const head, own = `{"containers":[{"name":"ray"}]}`, `{"serviceAccountName":"own","containers":[{"name":"ray"}]}`
	for name, tt := range map[string]struct {
		spec, head string // of the cluster, and its head's pod; empty: head
		mode       string // of a job's submission; empty: no job
		native     bool
		want       []string // parts of the warnings
	}{
		"nothing": {},
		"never": {head: `{"restartPolicy":"Never","containers":[{"name":"ray"}]}`,
			want: []string{"head: its restartPolicy is Never"}},
		"killed soon": {head: `{"terminationGracePeriodSeconds":5,"containers":[{"name":"ray"}]}`,
			want: []string{"head: its terminationGracePeriodSeconds is 5, but"}},
		"killed late": {head: `{"terminationGracePeriodSeconds":30,"containers":[{"name":"ray"}]}`},
		"always":      {head: `{"restartPolicy":"Always","containers":[{"name":"ray"}]}`},
		"autoscaler": {spec: `"enableInTreeAutoscaling":true,`,
			want: []string{"head: KubeRay gives its account, now ray-history, " + rights}},
		"own account": {spec: `"enableInTreeAutoscaling":true,`, head: own},
		"version 2": {spec: `"enableInTreeAutoscaling":true,"autoscalerOptions":{"version":"v2"},`, head: own,
			want: []string{"head: KubeRay makes its restartPolicy Never for the autoscaler's version 2: a collector",
				"worker group g: KubeRay makes"}},
		"version 2, native": {spec: `"enableInTreeAutoscaling":true,"autoscalerOptions":{"version":"v2"},`, head: own,
			native: true},
		"version 2 of no autoscaler": {spec: `"autoscalerOptions":{"version":"v2"},`},
		"submitted in the head": {mode: "SidecarMode",
			want: []string{"head: KubeRay makes its restartPolicy Never for submissionMode: SidecarMode"}},
		"submitted elsewhere": {mode: "K8sJobMode"},
		"no traffic":          {spec: `"networkPolicy":{},`, want: []string{egress}},
		"no egress":           {spec: `"networkPolicy":{"mode":"DenyAllEgress"},`, want: []string{egress}},
		"old Ray":             {spec: `"rayVersion":"2.54.1",`, want: []string{"head: Ray 2.54.1 does not export"}},
		"no ingress":          {spec: `"networkPolicy":{"mode":"DenyAllIngress"},`},
	} {
		t.Run(name, func(t *testing.T) {
			o := s3()
			o.ServiceAccount, o.Native = "ray-history", tt.native
			if tt.head == "" {
				tt.head = head
			}
			spec, kind := `{`+tt.spec+`"headGroupSpec":{"template":{"spec":`+tt.head+`}},`+
				`"workerGroupSpecs":[{"groupName":"g","template":{"spec":`+head+`}}]}`, "RayCluster"
			if tt.mode != "" {
				spec, kind = `{"submissionMode":"`+tt.mode+`","rayClusterSpec":`+spec+`}`, "RayJob"
			}
			var object map[string]any
			must.OK(t, json.Unmarshal([]byte(`{"apiVersion":"ray.io/v1","kind":"`+kind+`","spec":`+spec+`}`), &object))
			got := must.Get(Mutate(object, o))(t)[0].Warnings
			says.True(t, slices.EqualFunc(got, tt.want, strings.Contains), "%q, want %q", got, tt.want)
			again := must.Get(Mutate(object, o))(t)[0].Warnings
			says.True(t, len(again) == 0, "%q where nothing is added", again)
		})
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
	diff := cmp.Diff(want, got)
	says.True(t, diff == "" && len(change.Warnings) == 0, "%s warnings %q", diff, change.Warnings)
}

// TestResources: the collector has a limit where quotas want one, and leaves a Guaranteed pod what it is.
func TestResources(t *testing.T) {
	amounts := func(cpu, memory string) map[string]any { return map[string]any{"cpu": cpu, "memory": memory} }
	const whole = `"limits":{"cpu":"4","memory":"8Gi"}`
	for name, tt := range map[string]struct {
		rays, other    string // resources
		flags          string // of the collector
		wanted, limits map[string]any
	}{
		"no limits": {``, ``, "", amounts("50m", "64Mi"), map[string]any{"memory": "256Mi"}},
		"a limit":   {`"limits":{"cpu":"4"}`, ``, "", amounts("50m", "64Mi"), amounts("250m", "256Mi")},
		"a larger request": {`"limits":{"cpu":"4"}`, ``, "--requests=cpu=1", map[string]any{"cpu": "1"},
			amounts("1", "256Mi")},
		"a smaller request": {`"limits":{"cpu":"4"}`, ``, "--requests=cpu=10m", map[string]any{"cpu": "10m"},
			amounts("250m", "256Mi")},
		"a request in other words": {`"limits":{"cpu":"4"}`, ``, "--requests=cpu=0.3", map[string]any{"cpu": "0.3"},
			amounts("0.3", "256Mi")},
		"more memory": {``, ``, "--requests=memory=1Gi", map[string]any{"memory": "1Gi"},
			map[string]any{"memory": "1Gi"}},
		"a limit that leaves the other": {``, ``, "--limits=cpu=1", amounts("50m", "64Mi"), amounts("1", "256Mi")},
		"guaranteed in other words": {whole, `"limits":{"cpu":"4000m","memory":"8192Mi"},` +
			`"requests":{"cpu":4,"memory":"8388608Ki"}`, "", amounts("250m", "256Mi"), amounts("250m", "256Mi")},
		"guaranteed": {`"limits":{"cpu":4,"memory":"8Gi"}`, whole + `,"requests":{"cpu":"4","memory":"8Gi"}`, "",
			amounts("250m", "256Mi"), amounts("250m", "256Mi")},
		"disk": {`"limits":{"ephemeral-storage":"10Gi"}`, ``, "",
			map[string]any{"cpu": "50m", "memory": "64Mi", "ephemeral-storage": "64Mi"},
			map[string]any{"memory": "256Mi", "ephemeral-storage": "1280Mi"}},
		"a larger disk": {`"limits":{"ephemeral-storage":"10Gi"}`, ``, "--limits=ephemeral-storage=9Gi",
			amounts("50m", "64Mi"), map[string]any{"memory": "256Mi", "ephemeral-storage": "9Gi"}},
		"disk of another container": {``, `"limits":{"ephemeral-storage":"10Gi"}`, "", amounts("50m", "64Mi"),
			map[string]any{"memory": "256Mi"}},
		"one that is not": {whole, whole + `,"requests":{"cpu":"1"}`, "", amounts("50m", "64Mi"),
			amounts("250m", "256Mi")},
	} {
		t.Run(name, func(t *testing.T) {
			o := s3()
			fs := pflag.NewFlagSet("", pflag.ContinueOnError)
			o.AddFlags(fs)
			must.OK(t, fs.Parse(strings.Fields(tt.flags)))
			_, collector, _ := injected(t, `{"containers":[{"name":"ray","resources":{`+tt.rays+
				`}},{"name":"other","resources":{`+tt.other+`}}]}`, o)
			want := map[string]any{"requests": tt.wanted, "limits": tt.limits}
			says.Equal(t, cmp.Diff(want, collector["resources"]), "")
		})
	}
}

// TestNamesThatKubeRayMakes: the collector of a job that has no name yet learns its owner and its token's Secret
// whenever KubeRay writes the cluster that it makes of it, and nothing else of it changes. One that a user wrote stays
// as it is.
func TestNamesThatKubeRayMakes(t *testing.T) {
	var job map[string]any
	must.OK(t, json.Unmarshal([]byte(`{"apiVersion":"ray.io/v1","kind":"RayJob","metadata":{"generateName":"train-"},
		"spec":{"rayClusterSpec":{"authOptions":{"mode":"token"},
		"headGroupSpec":{"template":{"spec":{"containers":[{"name":"ray"}]}}},
		"workerGroupSpecs":[{"groupName":"g","template":{"spec":{"containers":[{"name":"ray"}]}}}]}}}`), &job))
	must.Get(Mutate(job, s3()))(t)
	meta := map[string]any{"name": "train-x-abc"}
	cluster := map[string]any{"apiVersion": "ray.io/v1", "kind": "RayCluster", "metadata": meta,
		"spec": must.Get(descend(job, "spec", "rayClusterSpec"))(t)}
	written := func() string { return string(must.Get(json.Marshal(cluster["spec"]))(t)) }
	before := written()
	later := newer(s3())
	later.Native = false
	must.Get(Mutate(cluster, later))(t)
	says.Equal(t, written(), before, "a user's own becomes")
	meta["labels"] = map[string]any{"ray.io/originated-from-crd": "RayJob", "ray.io/originated-from-cr-name": "train-x"}
	for range 2 { // the second time changes nothing
		must.Get(Mutate(cluster, later))(t)
		owner := `,{"name":"OWNER_KIND","value":"RayJob"},{"name":"OWNER_NAME","value":"train-x"}`
		token := `,{"name":"RAY_AUTH_MODE","value":"token"},{"name":"RAY_AUTH_TOKEN","valueFrom":{"secretKeyRef":` +
			`{"key":"auth_token","name":"train-x-abc","optional":true}}}`
		after := written()
		rest := strings.Replace(strings.ReplaceAll(after, owner, ""), token, "", 1)
		says.Equal(t, strings.Count(after, owner), 2, "%s", after)
		says.Equal(t, rest, before, "%s", after)
	}
}

// TestKeepsEvents: variables that are set already are left alone, and those that keep events from the collector are
// told.
func TestKeepsEvents(t *testing.T) {
	const address = "http://127.0.0.1:8084/v1/events"
	from := map[string]any{"secretKeyRef": map[string]any{"name": "s", "key": "k"}}
	for name, tt := range map[string]struct {
		env  []any
		want string // of one warning; empty: none
	}{
		"nothing":               {},
		"on":                    {env: []any{map[string]any{"name": event.EnvEnable, "value": "1"}}},
		"on, as a YAML boolean": {env: []any{map[string]any{"name": event.EnvEnable, "value": true}}},
		"off": {env: []any{map[string]any{"name": event.EnvEnableWorker, "value": "false"}},
			want: event.EnvEnableWorker + " is already set to false"},
		"of a Secret": {env: []any{map[string]any{"name": event.EnvEnable, "valueFrom": from}},
			want: event.EnvEnable + " depends on variable " + event.EnvEnable + " (valueFrom)"},
		"address": {env: []any{map[string]any{"name": event.EnvExportAddr,
			"value": "http://localhost:8084/v1/events"}}},
		"address by a reference": {env: []any{map[string]any{"name": "P", "value": "8084"},
			map[string]any{"name": event.EnvExportAddr, "value": "http://127.0.0.1:$(P)/v1/events"}}},
		"other address": {env: []any{map[string]any{"name": event.EnvExportAddr, "value": "http://elsewhere/"}},
			want: "Ray sends its events there"},
		"address of a Secret": {env: []any{map[string]any{"name": event.EnvExportAddr, "valueFrom": from}},
			want: "events are stored only if it is " + address},
		"not published": {env: []any{map[string]any{"name": event.EnvPublish, "value": "False"}},
			want: event.EnvPublish + " is already set to False"},
		"published":    {env: []any{map[string]any{"name": event.EnvPublish, "value": "true"}}},
		"no log files": {env: []any{map[string]any{"name": envLogToStderr, "value": "1"}}, want: "none are stored"},
		"log files":    {env: []any{map[string]any{"name": envLogToStderr, "value": "0"}}},
		"no tasks":     {env: []any{map[string]any{"name": envTaskEvents, "value": 0}}, want: "no tasks"},
		"tasks":        {env: []any{map[string]any{"name": envTaskEvents, "value": "1000"}}},
		"types":        {env: []any{map[string]any{"name": event.EnvTypes, "value": "NODE_LIFECYCLE_EVENT"}}},
	} {
		t.Run(name, func(t *testing.T) {
			_, warnings, err := exportEnv(map[string]any{"env": tt.env}, address, "ALL")
			must.OK(t, err)
			if tt.want == "" && len(warnings) != 0 || tt.want != "" &&
				(len(warnings) != 1 || !strings.Contains(warnings[0], tt.want)) {
				t.Errorf("%q, want %q", warnings, tt.want)
			}
		})
	}
}
