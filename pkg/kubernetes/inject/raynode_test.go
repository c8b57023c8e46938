package inject

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/says"
)

// place is what the collector of a group is told of Ray.
type place struct {
	Folders   []string          `yaml:"folders"`
	Dashboard string            `yaml:"dashboard"`
	Mounts    map[string]string `yaml:"mounts"` // by path, the volume and what else the mount says
	Ports     string            `yaml:"ports"`
	Warnings  []string          `yaml:"warnings"` // a part of each
}

type groupCase struct {
	Params      map[string]any `yaml:"params"`
	Ray         map[string]any `yaml:"ray"`
	Others      []any          `yaml:"others"` // further containers
	Inits       []any          `yaml:"inits"`
	Volumes     []any          `yaml:"volumes"`
	Annotations map[string]any `yaml:"annotations"`
	Want        *place         `yaml:"want"`
}

func (g groupCase) group(name string) map[string]any {
	ray := map[string]any{"name": "ray", "image": "rayproject/ray"}
	maps.Copy(ray, g.Ray)
	pod := map[string]any{"containers": append([]any{ray}, g.Others...)}
	if g.Inits != nil {
		pod["initContainers"] = g.Inits
	}
	if g.Volumes != nil {
		pod["volumes"] = g.Volumes
	}
	template := map[string]any{"spec": pod}
	if g.Annotations != nil {
		template["metadata"] = map[string]any{"annotations": g.Annotations}
	}
	return map[string]any{"groupName": name, "rayStartParams": g.Params, "template": template}
}

// wanted completes what a case does not say with what nothing else than defaults gives.
func (g groupCase) wanted() place {
	want := place{}
	if g.Want != nil {
		want = *g.Want
	}
	if want.Folders == nil {
		want.Folders = []string{DefaultTmpDir}
	}
	switch want.Dashboard {
	case "":
		want.Dashboard = DefaultDashboard
	case "none":
		want.Dashboard = ""
	}
	if want.Mounts == nil {
		want.Mounts = map[string]string{want.Folders[len(want.Folders)-1]: "ray-logs"}
	}
	return want
}

// told reads what an injected group's collector is told.
func told(t *testing.T, group map[string]any) place {
	t.Helper()
	pod := must.Get(descend(group, "template", "spec"))(t)
	containers := pod["containers"].([]any)
	collector := containers[indexOfName(containers, containerName)].(map[string]any)
	out := place{Folders: []string{DefaultTmpDir}, Dashboard: DefaultDashboard, Mounts: map[string]string{}}
	spool := ""
	for _, a := range collector["args"].([]any) {
		flag, given, _ := strings.Cut(a.(string), "=")
		switch flag {
		case "--ray-tmp-dir":
			out.Folders[0] = given
		case "--ray-head-tmp-dir":
			out.Folders = append(out.Folders, given)
		case "--ray-dashboard-address":
			out.Dashboard = given
		case "--spool-dir":
			spool = given
		case "--events-port", "--metrics-port":
			out.Ports = strings.TrimSpace(out.Ports + " " + given)
		}
	}
	rays := must.Get(mountsOf(containers[0].(map[string]any)))(t)
	mounts := must.Get(mountsOf(collector))(t)
	volumes, _ := list(pod, "volumes")
	for _, m := range mounts {
		if isWithin(m.path(), spool) {
			if i := indexOfName(volumes, text(m, "name")); text(m, "name") != spoolVolume || i < 0 {
				t.Errorf("the spool %s is on volume %s", spool, text(m, "name"))
			}
			continue
		}
		said := text(m, "name")
		for _, key := range []string{"subPath", "subPathExpr"} {
			if v := text(m, key); v != "" {
				said += " " + v
			}
		}
		if m["readOnly"] == true {
			said += " readOnly"
		}
		out.Mounts[m.path()] = said
		same := slices.IndexFunc(rays, func(r mount) bool {
			return r.path() == m.path() && text(r, "name") == text(m, "name") && text(r, "subPath") == text(m, "subPath")
		})
		says.True(t, same >= 0, "Ray has no mount as the collector's %v", m)
	}
	says.True(t, spool != "", "no spool")
	return out
}

// TestPlaces: every way in which a manifest tells Ray where it is. Each case is tried as a RayCluster and as every
// other kind.
func TestPlaces(t *testing.T) {
	files, err := filepath.Glob("testdata/places/*.yaml")
	must.True(t, err == nil && len(files) >= 4, "%v %v", files, err)
	total := 0
	for _, file := range files {
		data := must.Get(os.ReadFile(file))(t)
		var cases []struct {
			Name        string         `yaml:"name"`
			Version     string         `yaml:"version"`
			Annotations map[string]any `yaml:"annotations"`
			Head        groupCase      `yaml:"head"`
			Worker      *groupCase     `yaml:"worker"`
			Flags       struct {
				RayTmpDir string `yaml:"ray-tmp-dir"`
				Dashboard string `yaml:"ray-dashboard-address"`
			} `yaml:"flags"`
		}
		must.OK(t, yaml.Unmarshal(data, &cases), file)
		total += len(cases)
		for _, c := range cases {
			for kind, at := range clusterAt {
				if kind == "RayCronJob" && c.Annotations != nil {
					continue // KubeRay does not copy them
				}
				t.Run(fmt.Sprintf("%s/%s/%s", filepath.Base(file), c.Name, kind), func(t *testing.T) {
					// Cases are decoded once for all kinds, so each works on a copy.
					head, worker := clone(t, c.Head).group(""), map[string]any(nil)
					spec := map[string]any{"headGroupSpec": head}
					if c.Version != "" {
						spec["rayVersion"] = c.Version
					}
					if c.Worker != nil {
						worker = clone(t, *c.Worker).group("w")
						spec["workerGroupSpecs"] = []any{worker}
					}
					object := map[string]any{"apiVersion": "ray.io/v1", "kind": kind,
						"metadata": map[string]any{"name": "c", "annotations": c.Annotations}}
					inner := object
					for _, key := range at[:len(at)-1] {
						next := map[string]any{}
						inner[key] = next
						inner = next
					}
					inner[at[len(at)-1]] = spec
					o := s3()
					o.RayTmpDir, o.RayDashboardAddress = c.Flags.RayTmpDir, c.Flags.Dashboard
					changes := must.Get(Mutate(object, o))(t)
					checkPlace(t, "head", c.Head, told(t, head), changes[0].Warnings)
					if c.Worker != nil {
						checkPlace(t, "worker group w", *c.Worker, told(t, worker), changes[0].Warnings)
					}
				})
			}
		}
	}
	t.Logf("%d cases", total)
}

func clone(t *testing.T, g groupCase) groupCase {
	t.Helper()
	data := must.Get(yaml.Marshal(g))(t)
	var out groupCase
	must.OK(t, yaml.Unmarshal(data, &out))
	return out
}

func checkPlace(t *testing.T, what string, g groupCase, got place, warnings []string) {
	t.Helper()
	for _, w := range warnings {
		if strings.HasPrefix(w, what+": ") {
			got.Warnings = append(got.Warnings, w)
		}
	}
	want := g.wanted()
	said := got.Warnings
	got.Warnings = nil
	for _, w := range want.Warnings {
		says.True(t, slices.ContainsFunc(said, func(s string) bool { return strings.Contains(s, w) }),
			"%s: warnings %q, want one with %q", what, said, w)
	}
	says.Equal(t, len(said), len(want.Warnings), "%s: warnings %q", what, said)
	for _, s := range said {
		says.True(t, len(s) <= 250, "a warning has %d characters, Kubernetes passes on 256: %s", len(s), s)
	}
	want.Warnings = nil
	says.Equal(t, cmp.Diff(want, got), "", "%s (-want +got)", what)
}
