package inject

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/says"
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
	files := must.Get(filepath.Glob("testdata/*.in.yaml"))(t)
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
			says.Equal(t, cmp.Diff(before, after), "", "%s, %s (-before +after)", file, form)
			compared++
		}
	}
	says.True(t, compared >= 10, "only %d objects", compared)
}

// TestKeepChanged: what a user changes counts, and gets what pods get today; other groups keep theirs, but for those
// that depend on it: workers on the head, all on the cluster.
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
		"nothing":             {group("", ""), group("", ""), images(old, old)},
		"the group's size":    {group("", ""), group("", `,"replicas":7`), images(old, old)},
		"a variable":          {group(`,"env":[{"name":"A","value":"b"}]`, ""), group("", ""), images(now, now)},
		"a worker's variable": {group("", ""), group(`,"env":[{"name":"A","value":"b"}]`, ""), images(old, now)},
		"the head's folder": {strings.Replace(group("", ""), `Params":{`, `Params":{"temp-dir":"/data/ray"`, 1),
			group("", ""), images(now, now)},
		"a variable of Ray's": {group(`,"env":[{"name":"RAY_enable_ray_event","value":"0"}]`, ""), group("", ""),
			images(now, now)},
		"another container": {group(`},{"name":"other"`, ""), group("", ""), images(now, now)},
		"a volume": {group("", ""), strings.Replace(group("", ""), `"spec":{`,
			`"spec":{"volumes":[{"name":"ray-logs","emptyDir":{"medium":"Memory"}}],`, 1), images(old, now)},
		"the account": {strings.Replace(group("", ""), `"spec":{`, `"spec":{"serviceAccountName":"own",`, 1),
			group("", ""), images(now, now)},
		"parameters": {strings.Replace(group("", ""), `Params":{`, `Params":{"num-cpus":"1"`, 1), group("", ""),
			images(now, now)},
		"another group": {group("", ""), strings.Replace(group("", ""), `"g"`, `"h"`, 1), images(old, now)},
	} {
		t.Run(name, func(t *testing.T) {
			o := s3()
			before, after := rayService(t, "", "", group("", ""), group("", "")), rayService(t, "", "", tt.head, tt.worker)
			must.Get(Mutate(before, o))(t)
			o.Image = now
			Keep(after, before, o)
			must.Get(Mutate(after, o))(t)
			says.Equal(t, cmp.Diff(tt.want, collectorImages(after)), "")
		})
	}
}

// rayService is an object with more metadata and more of its cluster's specification, each empty or with a comma
// behind.
func rayService(t *testing.T, meta, spec, head, worker string) map[string]any {
	t.Helper()
	text := `{"apiVersion":"ray.io/v1","kind":"RayService","metadata":{` + meta + `"name":"s"},` +
		`"spec":{"rayClusterConfig":{` + spec + `"headGroupSpec":` + head + `,"workerGroupSpecs":[` + worker + `]}}}`
	return must.Get(yamledit.Decode([]byte(text)))(t).(map[string]any)
}

// collectorImages are those of the head's and the worker groups' last containers.
func collectorImages(object map[string]any) (images []string) {
	for _, at := range []string{roleHead, roleWorker + " g", roleWorker + " h"} {
		pod, _ := descend(groupsOf(object)[at], "template", "spec")
		if containers, _ := list(pod, "containers"); len(containers) > 0 {
			images = append(images, text(containers[len(containers)-1].(map[string]any), "image"))
		}
	}
	return images
}

// TestKeepSurroundings: a collector is of today where something changed that is in no group and that it depends on.
func TestKeepSurroundings(t *testing.T) {
	const group = `{"groupName":"g","template":{"spec":{"containers":[{"name":"ray","image":"rayproject/ray"}]}}}`
	for name, tt := range map[string]struct {
		meta, spec string
		kept       bool
	}{
		"nothing":                    {kept: true},
		"another annotation":         {meta: `"annotations":{"a":"b"},`, kept: true},
		"a label":                    {meta: `"labels":{"team":"a"},`, kept: true},
		"who writes Ray's command":   {meta: `"annotations":{"ray.io/overwrite-container-cmd":"true"},`},
		"the version":                {spec: `"rayVersion":"2.60.0",`},
		"a token":                    {spec: `"authOptions":{"mode":"token"},`},
		"a token of Kubernetes":      {spec: `"authOptions":{"mode":"token","enableK8sTokenAuth":true},`},
		"what is not read: suspend":  {spec: `"suspend":true,`, kept: true},
		"what cannot be read at all": {spec: `"authOptions":[],`},
	} {
		t.Run(name, func(t *testing.T) {
			o := s3()
			before, after := rayService(t, "", "", group, group), rayService(t, tt.meta, tt.spec, group, group)
			must.Get(Mutate(before, o))(t)
			Keep(after, before, o)
			want := []string{"rayproject/ray", "rayproject/ray"} // Ray's containers are alone
			if tt.kept {
				want = []string{o.Image, o.Image}
			}
			says.Equal(t, cmp.Diff(want, collectorImages(after)), "")
		})
	}
}

// TestKeepHalf: kubectl and Helm replace the lists that a manifest has and leave the others as they were. The pod has
// what a new one gets all the same: a whole collector, one volume for Ray's folder however often that happens, and the
// manifest's own volumes, whatever their names. One that is to have no collector is as in its manifest.
func TestKeepHalf(t *testing.T) {
	const group = `{"groupName":"g","template":{"spec":{"containers":[{"name":"ray","image":"rayproject/ray:2.60.0"}]}}}`
	for form, native := range map[string]bool{"container": false, "native sidecar": true} {
		for name, own := range map[string]struct{ spec, pod, ray, config string }{
			"nothing":        {},
			"with a file":    {config: "settings"},
			"volumes":        {pod: `"volumes":[{"name":"own","emptyDir":{}}],`},
			"a larger spool": {pod: `"volumes":[{"name":"collector-spool","persistentVolumeClaim":{"claimName":"s"}}],`},
			"a file that is needed": {pod: `"volumes":[{"name":"collector-config","configMap":{"name":"c"}}],`,
				config: "settings"},
			"a volume for Ray's logs": {pod: `"volumes":[{"name":"ray-logs","emptyDir":{}},` +
				`{"name":"collector-spool","emptyDir":{"sizeLimit":"9Gi"}}],`,
				ray: `"volumeMounts":[{"name":"ray-logs","mountPath":"/tmp/ray"}],`},
			"a volume of the autoscaler's": {spec: `"autoscalerOptions":{"volumeMounts":[{"name":"ray-logs-7",` +
				`"mountPath":"/a"}]},`, pod: `"volumes":[{"name":"ray-logs-7","emptyDir":{}}],`},
			"a name that begins like ours": {pod: `"volumes":[{"name":"ray-logs-archive","emptyDir":{}}],`},
		} {
			t.Run(form+", "+name, func(t *testing.T) {
				o := s3()
				o.Native, o.ConfigMap = native, own.config
				object := func(image string) map[string]any {
					head := strings.NewReplacer(`"spec":{`, `"spec":{`+own.pod, `"name":"ray",`, `"name":"ray",`+own.ray,
						"2.60.0", image).Replace(group)
					return rayService(t, "", own.spec, head, group)
				}
				before := object("2.60.0")
				must.Get(Mutate(before, o))(t)
				for _, image := range []string{"2.61.0", "2.62.0"} {
					half := func() map[string]any {
						after := object(image)
						had := must.Get(descend(groupsOf(before)[roleHead], "template", "spec"))(t)
						pod := must.Get(descend(groupsOf(after)[roleHead], "template", "spec"))(t)
						for _, list := range []string{"initContainers", "volumes"} {
							if pod[list] == nil && had[list] != nil {
								pod[list] = had[list]
							}
						}
						return after
					}
					declines := half()
					Drop(declines, before)
					diff := cmp.Diff(object(image), declines)
					must.True(t, diff == "", "%s, without (-want +got):\n%s", image, diff)
					after, want := half(), object(image)
					must.Get(Mutate(want, o))(t)
					Keep(after, before, o)
					must.Get(Mutate(after, o))(t)
					diff = cmp.Diff(want, after)
					must.True(t, diff == "", "%s (-want +got):\n%s", image, diff)
					before = after
				}
			})
		}
	}
}

// TestKeepWithoutVolume: a manifest without a volume that it had is another, whatever that was called.
func TestKeepWithoutVolume(t *testing.T) {
	const group = `{"groupName":"g","template":{"spec":{"containers":[{"name":"ray","image":"rayproject/ray:2.60.0"}]}}}`
	for _, volume := range []string{
		`{"name":"collector-spool","persistentVolumeClaim":{"claimName":"s"}}`,
		`{"name":"collector-config","configMap":{"name":"c"}}`,
		`{"name":"collector-config","configMap":{"name":"c","optional":true,"items":[{"key":"k","path":"data"}]}}`,
		`{"name":"ray-logs-archive","emptyDir":{}}`,
		`{"name":"ray-logs-2","emptyDir":{"medium":"Memory"}}`,
	} {
		before := rayService(t, "", "", strings.Replace(group, `"spec":{`, `"spec":{"volumes":[`+volume+`],`, 1), group)
		after, want := rayService(t, "", "", group, group), rayService(t, "", "", group, group)
		for _, object := range []map[string]any{before, want} {
			must.Get(Mutate(object, s3()))(t)
		}
		Keep(after, before, s3())
		must.Get(Mutate(after, s3()))(t)
		says.Equal(t, cmp.Diff(want, after), "", "%s (-want +got)", volume)
	}
}

// TestKeepOdd: objects without what theirs had, or with what is none, stay as they are.
func TestKeepOdd(t *testing.T) {
	const ray = `{"kind":"RayCluster","spec":{"headGroupSpec":{"template":{"spec":{"containers":[{"name":"ray"}]}}}}}`
	for _, tt := range [][2]string{ // before and after
		{`{"kind":"RayCluster","spec":{"headGroupSpec":{"template":{}}}}`, `{"kind":"RayCluster","spec":{}}`},
		{`{"kind":"RayJob","spec":{"rayClusterSpec":{"headGroupSpec":{"template":{}}}}}`, `{"kind":"RayJob","spec":{}}`},
		{strings.Replace(ray, `{"name":"ray"}`, `null`, 1), ray},
		{strings.Replace(ray, `{"name":"ray"}`, `"ray"`, 1), ray},
		{strings.Replace(ray, `[{"name":"ray"}]`, `{}`, 1), ray},
		{ray, strings.Replace(ray, `{"name":"ray"}`, `null`, 1)},
		{ray, strings.Replace(ray, `"spec":{"containers":[{"name":"ray"}]}`, `"spec":[]`, 1)},
	} {
		object := func(at int) map[string]any { return must.Get(yamledit.Decode([]byte(tt[at])))(t).(map[string]any) }
		after := object(1)
		Keep(after, object(0), s3())
		says.Equal(t, cmp.Diff(object(1), after), "", "%s (-want +got)", tt[1])
	}
}

// TestKeepOwn: a whole collector stays what it is in a group that changes: the manifest may have one of its own.
func TestKeepOwn(t *testing.T) {
	const group = `{"groupName":"g","template":{"spec":{"containers":[{"name":"ray","image":"rayproject/ray:2.60.0"}]}}}`
	before, after := rayService(t, "", "", group, group), rayService(t, "", "", strings.Replace(group, "60", "61", 1), group)
	o := s3()
	o.Image = "own"
	must.Get(Mutate(before, o))(t)
	must.Get(Mutate(after, o))(t)
	Keep(after, before, s3())
	must.Get(Mutate(after, s3()))(t)
	says.Equal(t, cmp.Diff([]string{"own", "own"}, collectorImages(after)), "")
}

// TestDropLeaves: a whole collector, which a manifest may have itself, stays, and so does what was never a collector's.
func TestDropLeaves(t *testing.T) {
	const group = `{"groupName":"g","template":{"spec":{"volumes":[{"name":"collector-spool","emptyDir":{}}],` +
		`"containers":[{"name":"ray"}]}}}`
	without := func() map[string]any { return rayService(t, "", "", group, group) }
	with := func() map[string]any {
		object := without()
		must.Get(Mutate(object, s3()))(t)
		return object
	}
	for name, object := range map[string]func() map[string]any{"with": with, "without": without} {
		after := object()
		Drop(after, object())
		says.Equal(t, cmp.Diff(object(), after), "", "%s (-want +got)", name)
	}
}

// TestOthersCollectorStays: a user's own container that is called like the collector stays, however the group changes.
func TestOthersCollectorStays(t *testing.T) {
	const group = `{"groupName":"g","template":{"spec":{"volumes":[{"name":"ray-logs","emptyDir":{}}],` +
		`"containers":[{"name":"ray","image":"rayproject/ray:2.60.0"},{"name":"collector","image":"otel"%s}]}}}`
	for name, mounts := range map[string]string{
		"without volumes":            ``,
		"with a volume of its own":   `,"volumeMounts":[{"name":"ray-logs","mountPath":"/x"}]`,
		"with a volume that is none": `,"volumeMounts":[{"name":"x","mountPath":"/x"}]`,
	} {
		with := fmt.Sprintf(group, mounts)
		changed := strings.Replace(with, "2.60.0", "2.61.0", 1)
		want := rayService(t, "", "", changed, changed)
		for function, of := range map[string]func(object, before map[string]any){
			"Drop": Drop, "Keep": func(object, before map[string]any) { Keep(object, before, s3()) },
		} {
			after := rayService(t, "", "", changed, changed)
			of(after, rayService(t, "", "", with, with))
			says.Equal(t, cmp.Diff(want, after), "", "%s, %s (-want +got)", function, name)
		}
	}
}

// TestKubeRaysOwnCollector: where KubeRay itself adds a collector, pods get no other, and lose what is left of one.
func TestKubeRaysOwnCollector(t *testing.T) {
	const group = `{"groupName":"g","template":{"spec":{"containers":[{"name":"ray"}]}}}`
	const options = `"historyServerOptions":{"collectorOptions":{"image":"own"}},`
	before, after := rayService(t, "", "", group, group), rayService(t, "", options, group, group)
	o := s3()
	o.Native = true
	must.Get(Mutate(before, o))(t)
	had := must.Get(descend(groupsOf(before)[roleHead], "template", "spec"))(t)
	must.Get(descend(groupsOf(after)[roleHead], "template", "spec"))(t)["initContainers"] = had["initContainers"]
	Keep(after, before, o)
	changes := must.Get(Mutate(after, o))(t)
	says.Equal(t, cmp.Diff(rayService(t, "", options, group, group), after), "", "-want +got")
	says.True(t, len(changes) == 1 && len(changes[0].Done) == 0 && len(changes[0].Warnings) == 1 &&
		strings.Contains(changes[0].Warnings[0], "historyServerOptions"), "%+v", changes)
}
