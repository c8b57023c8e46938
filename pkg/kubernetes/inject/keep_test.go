package inject

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/pkg/kubernetes/inject/yamledit"
)

// newer are the settings of a later chart.
func newer(o Options) Options {
	o.Image, o.Native, o.ConfigMap, o.EnvSecrets = "collector:v9", !o.Native, "settings", []string{"keys"}
	o.EventsPort, o.Limits = 9084, map[string]string{"memory": "1Gi"}
	return o
}

// TestKeepUnchanged: a manifest that is applied again has the pods that it had, whatever is added to new ones.
func TestKeepUnchanged(t *testing.T) {
	files, err := filepath.Glob("testdata/*.in.yaml")
	must.OK(t, err)
	compared := 0
	for _, file := range files {
		object := func() map[string]any {
			return must.Get(yamledit.Decode(must.Get(os.ReadFile(file))(t)))(t).(map[string]any)
		}
		if clusterAt[text(object(), "kind")] == nil {
			continue
		}
		for form, native := range map[string]bool{"container": false, "native sidecar": true} {
			o := s3()
			o.Native, o.ServiceAccount, o.PodLabels = native, "ray-history", map[string]string{"identity": "use"}
			before, after := object(), object()
			must.Get(Mutate(before, o))(t)
			Keep(after, before, newer(o))
			must.Get(Mutate(after, newer(o)))(t)
			if diff := cmp.Diff(before, after); diff != "" {
				t.Errorf("%s, %s (-before +after):\n%s", file, form, diff)
			}
			compared++
		}
	}
	if compared < 10 {
		t.Errorf("only %d objects", compared)
	}
}

// TestKeepChanged: what a user changes counts, and gets what pods get today; other groups keep theirs.
func TestKeepChanged(t *testing.T) {
	group := func(container, rest string) string {
		return fmt.Sprintf(`{"groupName":"g","rayStartParams":{},"template":{"spec":{"containers":[{"name":"ray",`+
			`"image":"rayproject/ray:2.60.0"%s}]}}%s}`, container, rest)
	}
	images := func(head, worker string) []string { return []string{head, worker} }
	const old, now = "collector:v0.1.0", "collector:v9"
	for name, tt := range map[string]struct {
		head, worker string
		want         []string // the collectors' images
	}{
		"nothing":          {group("", ""), group("", ""), images(old, old)},
		"the group's size": {group("", ""), group("", `,"replicas":7`), images(old, old)},
		"a variable":       {group(`,"env":[{"name":"A","value":"b"}]`, ""), group("", ""), images(now, old)},
		"a variable of Ray's": {group(`,"env":[{"name":"RAY_enable_ray_event","value":"0"}]`, ""), group("", ""),
			images(now, old)},
		"another container": {group(`},{"name":"other"`, ""), group("", ""),
			images(now, old)},
		"a volume": {group("", ""), strings.Replace(group("", ""), `"spec":{`,
			`"spec":{"volumes":[{"name":"ray-logs","emptyDir":{"medium":"Memory"}}],`, 1), images(old, now)},
		"the account": {strings.Replace(group("", ""), `"spec":{`, `"spec":{"serviceAccountName":"own",`, 1),
			group("", ""), images(now, old)},
		"parameters": {strings.Replace(group("", ""), `Params":{`, `Params":{"num-cpus":"1"`, 1), group("", ""),
			images(now, old)},
		"another group": {group("", ""), strings.Replace(group("", ""), `"g"`, `"h"`, 1), images(old, now)},
	} {
		t.Run(name, func(t *testing.T) {
			object := func(head, worker string) map[string]any {
				text := `{"apiVersion":"ray.io/v1","kind":"RayService","spec":{"rayClusterConfig":{"headGroupSpec":` + head +
					`,"workerGroupSpecs":[` + worker + `]}}}`
				return must.Get(yamledit.Decode([]byte(text)))(t).(map[string]any)
			}
			o := s3()
			before, after := object(group("", ""), group("", "")), object(tt.head, tt.worker)
			must.Get(Mutate(before, o))(t)
			o.Image = now
			Keep(after, before, o)
			must.Get(Mutate(after, o))(t)
			var got []string
			for _, at := range []string{roleHead, roleWorker + " g", roleWorker + " h"} {
				pod := must.Get(descend(groupsOf(after)[at], "template", "spec"))(t)
				if containers, _ := list(pod, "containers"); len(containers) > 0 {
					got = append(got, text(containers[len(containers)-1].(map[string]any), "image"))
				}
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}
