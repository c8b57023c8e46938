package inject

import (
	"maps"
	"slices"
	"strings"

	"github.com/rayhistory/historyserver/pkg/ray/event"
)

// Keep gives the groups of an updated object that are as before, but for what inject adds, the pod templates that they
// had. A collector of another version or with other settings would make KubeRay replace clusters that nobody changed.
func Keep(object, before map[string]any, o Options) {
	had := groupsOf(before)
	for name, group := range groupsOf(object) {
		now, _ := mapping(group, "template")
		was, _ := mapping(had[name], "template")
		if was != nil && same(group["rayStartParams"], had[name]["rayStartParams"]) && same(now, o.bare(was, now)) {
			group["template"] = was
		}
	}
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
	isVolume := func(name string) bool {
		return name == spoolVolume || name == configVolume || strings.HasPrefix(name, volumeName)
	}
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
