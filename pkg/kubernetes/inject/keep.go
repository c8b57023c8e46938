package inject

import (
	"maps"
	"slices"
	"strings"

	"github.com/rayhistory/historyserver/pkg/ray/event"
)

// Keep gives the groups of an updated object that are as before, but for what inject adds, the pod templates that they
// had. A collector of another version or with other settings would make KubeRay replace clusters that nobody changed.
// Other groups lose what is left of the collector where an update took the rest away.
func Keep(object, before map[string]any, o Options) {
	groups, had := groupsOf(object), groupsOf(before)
	// A collector depends on its cluster, and a worker's on the head too.
	all := sameSurroundings(object, before) && o.keep(groups[roleHead], had[roleHead])
	for name, group := range groups {
		if kept := all && (name == roleHead || o.keep(group, had[name])); !kept && had[name] != nil {
			dropRest(group)
		}
	}
}

// sameSurroundings reports whether an object says the same of its cluster as a whole, but for labels.
func sameSurroundings(object, before map[string]any) bool {
	now, err := surroundingsOf(object)
	was, errBefore := surroundingsOf(before)
	return err == nil && errBefore == nil && now == was
}

func surroundingsOf(object map[string]any) (surroundings, error) {
	kind := text(object, "kind")
	meta, _ := mapping(object, "metadata")
	spec, _ := descend(object, clusterAt[kind]...)
	c, err := newCluster(kind, meta, spec, Options{})
	c.labels = "" // another label, such as a chart's version, is no reason for a new cluster
	return c.surroundings, err
}

// keep gives a group the template that it had, if nothing else of it is different.
func (o *Options) keep(group, had map[string]any) bool {
	now, _ := mapping(group, "template")
	was, _ := mapping(had, "template")
	if was == nil || !same(group["rayStartParams"], had["rayStartParams"]) || !same(now, o.bare(was, now)) {
		return false
	}
	group["template"] = was
	return true
}

// dropRest takes what was added out of a group if it is no longer whole: a merge patch replaces the lists that a
// manifest has and leaves others, such as initContainers and volumes, as they were. A collector is not whole if it
// shares no volume with Ray's container or mounts one that the pod has not.
func dropRest(spec map[string]any) {
	pod, _ := descend(spec, "template", "spec")
	g, err := newGroup(spec, pod, "")
	volumes, errVolumes := list(pod, "volumes")
	if err != nil || errVolumes != nil {
		return // Mutate says so
	}
	shares, whole := false, true
	rays, _ := list(g.ray, "volumeMounts")
	mounts, _ := mountsOf(g.collector())
	for _, m := range mounts {
		name := text(m, "name")
		shares = shares || named(rays, name) >= 0
		whole = whole && (name == tokenVolume || named(volumes, name) >= 0) // KubeRay adds the token's volume
	}
	if shares && whole {
		return
	}
	for _, key := range []string{"containers", "initContainers"} {
		remove(pod, key)
	}
	mounted := func(name string) bool {
		return slices.ContainsFunc(slices.Concat(g.containers, g.inits), func(v any) bool {
			container, _ := v.(map[string]any)
			mounts, _ := list(container, "volumeMounts")
			return text(container, "name") != containerName && named(mounts, name) >= 0
		})
	}
	volumes = slices.DeleteFunc(slices.Clone(volumes), func(v any) bool {
		volume, _ := v.(map[string]any)
		name := text(volume, "name")
		plain := same(volume, map[string]any{"name": name, "emptyDir": nil})
		return isVolume(name) && (plain || !strings.HasPrefix(name, volumeName)) && !mounted(name)
	})
	if pod["volumes"] = volumes; len(volumes) == 0 {
		delete(pod, "volumes")
	}
}

// isVolume reports whether a volume has a name of those that inject adds.
func isVolume(name string) bool {
	return name == spoolVolume || name == configVolume || strings.HasPrefix(name, volumeName)
}

// groupsOf are the groups of an object's cluster, by name.
func groupsOf(object map[string]any) map[string]map[string]any {
	groups := map[string]map[string]any{}
	spec, _ := descend(object, clusterAt[text(object, "kind")]...)
	if head, _ := mapping(spec, "headGroupSpec"); head != nil {
		groups[roleHead] = head
	}
	workers, _ := list(spec, "workerGroupSpecs")
	for _, w := range workers {
		if group, ok := w.(map[string]any); ok {
			groups[roleWorker+" "+text(group, "groupName")] = group
		}
	}
	return groups
}

// bare is a copy of a pod template without what inject adds and the manifest's template does not have itself.
func (o *Options) bare(template, manifest map[string]any) map[string]any {
	template = maps.Clone(template)
	pod := copied(template, "spec")
	if pod == nil {
		return template
	}
	wanted, _ := mapping(manifest, "spec")
	isCollector := func(name string) bool { return name == containerName }
	pod["containers"] = without(pod, wanted, "containers", isCollector)
	pod["initContainers"] = without(pod, wanted, "initContainers", isCollector)
	pod["volumes"] = without(pod, wanted, "volumes", isVolume)
	if containers := pod["containers"].([]any); len(containers) > 0 {
		ray, _ := containers[0].(map[string]any)
		ray = maps.Clone(ray)
		asked := map[string]any{}
		if others, _ := list(wanted, "containers"); len(others) > 0 {
			asked, _ = others[0].(map[string]any)
		}
		exports := event.ExportVariables("", "")
		ray["env"] = without(ray, asked, "env", func(name string) bool {
			return slices.ContainsFunc(exports, func(v event.Variable) bool { return v.Name == name })
		})
		ray["volumeMounts"] = without(ray, asked, "volumeMounts", isVolume)
		containers[0] = ray
	}
	if wanted["serviceAccountName"] == nil && text(pod, "serviceAccountName") == o.ServiceAccount {
		delete(pod, "serviceAccountName")
	}
	labels, _ := descend(manifest, "metadata", "labels")
	if meta := copied(template, "metadata"); meta != nil {
		maps.DeleteFunc(copied(meta, "labels"), func(key string, _ any) bool {
			_, added := o.PodLabels[key]
			return added && labels[key] == nil
		})
	}
	return template
}

// copied puts a copy of the mapping below a key in its place.
func copied(m map[string]any, key string) map[string]any {
	below, _ := mapping(m, key)
	if below = maps.Clone(below); below != nil {
		m[key] = below
	}
	return below
}

// without is the list below a key without the items that have one of our names and are not in the manifest's.
func without(m, manifest map[string]any, key string, ours func(name string) bool) []any {
	had, _ := list(m, key)
	wanted, _ := list(manifest, key)
	return slices.DeleteFunc(slices.Clone(had), func(item any) bool {
		entry, _ := item.(map[string]any)
		name := text(entry, "name")
		return ours(name) && named(wanted, name) < 0
	})
}

// same compares parts of manifests; nothing, null and what is empty are the same.
func same(a, b any) bool {
	switch a := a.(type) {
	case nil:
		return b == nil || same(b, nil)
	case map[string]any:
		other, ok := b.(map[string]any)
		for k := range a {
			if !same(a[k], other[k]) {
				return false
			}
		}
		for k := range other {
			if _, seen := a[k]; !seen && !same(nil, other[k]) {
				return false
			}
		}
		return ok || b == nil
	case []any:
		other, ok := b.([]any)
		return (ok || b == nil) && slices.EqualFunc(a, other, same)
	}
	return a == b
}
