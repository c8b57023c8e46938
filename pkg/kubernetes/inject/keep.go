package inject

import (
	"maps"
	"slices"

	"github.com/rayhistory/historyserver/pkg/ray/event"
)

// Keep gives groups of an updated object the pod templates that they had before, with the collector, if a user changed
// nothing in them. Otherwise a collector of another version or with other settings would make KubeRay replace clusters
// that nobody changed. From groups that were changed, Keep removes what is left of the collector where the update took
// a part of it away.
func Keep(object, before map[string]any, o Options) {
	if spec, _ := descend(object, clusterAt[text(object, "kind")]...); hasKubeRaysCollector(spec) {
		Drop(object, before)
		return
	}
	groups, had := groupsOf(object), groupsOf(before)
	// A collector depends on its cluster, and a worker's on the head too.
	headKept := sameSurroundings(object, before) && o.keepTemplate(groups[roleHead], had[roleHead])
	for name, group := range groups {
		if kept := headKept && (name == roleHead || o.keepTemplate(group, had[name])); !kept {
			dropRest(group, had[name], autoscalerContainer(object, name))
		}
	}
}

// Drop takes what an update has left of collectors out of an object that gets none: Kubernetes could make no pod of it.
// A whole collector stays, as does what was never a collector's.
func Drop(object, before map[string]any) {
	had := groupsOf(before)
	for name, group := range groupsOf(object) {
		dropRest(group, had[name], autoscalerContainer(object, name))
	}
}

// autoscalerContainer is the container that KubeRay adds to the head's pod, nil for other groups.
func autoscalerContainer(object map[string]any, group string) map[string]any {
	if group != roleHead {
		return nil
	}
	spec, _ := descend(object, clusterAt[text(object, "kind")]...)
	container, _ := mapping(spec, "autoscalerOptions")
	return container
}

// sameSurroundings reports whether an object says the same of its cluster as a whole, but for labels.
func sameSurroundings(object, before map[string]any) bool {
	now, err := surroundingsOf(object)
	was, errBefore := surroundingsOf(before)
	return err == nil && errBefore == nil && now == was
}

// surroundingsOf reads what a collector knows of the object around it.
func surroundingsOf(object map[string]any) (surroundings, error) {
	kind := text(object, "kind")
	meta, _ := mapping(object, "metadata")
	spec, _ := descend(object, clusterAt[kind]...)
	c, err := newCluster(kind, meta, spec, Options{})
	c.labels = "" // another label, such as a chart's version, is no reason for a new cluster
	return c.surroundings, err
}

// keepTemplate gives a group the template that it had, if nothing else of it is different.
func (o *Options) keepTemplate(group, had map[string]any) bool {
	now, _ := mapping(group, "template")
	was, _ := mapping(had, "template")
	if group == nil || was == nil || !sameMeaning(group["rayStartParams"], had["rayStartParams"]) ||
		!sameMeaning(now, o.withoutAdded(was, now)) {
		return false
	}
	group["template"] = was
	return true
}

// dropRest removes what was added to a group if the group's collector was whole before the update (had) and is no
// longer. A merge patch replaces the lists that a manifest has and leaves others, such as initContainers and volumes,
// as they were. A container that was not a whole collector is the user's, with the same name. A collector counts as
// whole only if Ray's container also has the variables by which it exports events. autoscaler is another container of
// the pod's, nil if there is none.
func dropRest(spec, had, autoscaler map[string]any) {
	pod, _ := descend(spec, "template", "spec")
	g, err := newGroup(spec, pod, anyRole)
	volumes, errVolumes := list(pod, "volumes")
	if err != nil || errVolumes != nil { // Mutate says so
		return
	}
	if !hasWholeCollector(had) || hasWholeCollector(spec) && !lostExports(g.ray, had) {
		return
	}
	for _, key := range []string{"containers", "initContainers"} {
		removeCollector(pod, key)
	}
	mounted := map[string]bool{} // by others than the collector
	for _, v := range slices.Concat(g.containers, g.inits, []any{autoscaler}) {
		container, _ := v.(map[string]any)
		if text(container, "name") == containerName {
			continue
		}
		mounts, _ := mountsOf(container)
		for _, m := range mounts {
			mounted[text(m, "name")] = true
		}
	}
	volumes = slices.DeleteFunc(slices.Clone(volumes), func(v any) bool {
		volume, _ := v.(map[string]any)
		return isAdded(volume) && !mounted[text(volume, "name")]
	})
	if pod["volumes"] = volumes; len(volumes) == 0 {
		delete(pod, "volumes")
	}
}

// hasWholeCollector says whether a group has a collector that shares a volume with Ray's container, and mounts only
// volumes that the pod has.
func hasWholeCollector(group map[string]any) bool {
	pod, _ := descend(group, "template", "spec")
	g, err := newGroup(nil, pod, anyRole)
	if err != nil {
		return false
	}
	volumes, _ := list(pod, "volumes")
	rays, _ := list(g.ray, "volumeMounts")
	mounts, _ := mountsOf(g.collector())
	shares := false
	for _, m := range mounts {
		name := text(m, "name")
		if name != tokenVolume && indexOfName(volumes, name) < 0 { // KubeRay adds the token's volume
			return false
		}
		shares = shares || indexOfName(rays, name) >= 0
	}
	return shares
}

// lostExports reports whether a group's Ray container had a variable for Ray's events that it has no more.
func lostExports(ray, had map[string]any) bool {
	pod, _ := descend(had, "template", "spec")
	before, _ := newGroup(nil, pod, anyRole)
	now, _ := list(ray, "env")
	was, _ := list(before.ray, "env")
	return slices.ContainsFunc(event.ExportVariables("", ""), func(v event.Variable) bool {
		return indexOfName(was, v.Name) >= 0 && indexOfName(now, v.Name) < 0
	})
}

// groupsOf returns the groups of an object's cluster: the head's as "head", and each worker group as "worker" and its
// name.
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

// withoutAdded returns a copy of a pod template without everything that inject adds, unless the manifest's own template
// has it too.
func (o *Options) withoutAdded(template, manifest map[string]any) map[string]any {
	template = maps.Clone(template)
	pod := copyMapping(template, "spec")
	if pod == nil {
		return template
	}
	wanted, _ := mapping(manifest, "spec") // the manifest's own pod
	isCollector := func(container map[string]any) bool { return text(container, "name") == containerName }
	pod["containers"] = withoutOurs(pod, wanted, "containers", isCollector)
	pod["initContainers"] = withoutOurs(pod, wanted, "initContainers", isCollector)
	pod["volumes"] = withoutOurs(pod, wanted, "volumes", isAdded)
	if g, err := newGroup(nil, pod, anyRole); err == nil {
		ray := maps.Clone(g.ray)
		wantedGroup, _ := newGroup(nil, wanted, anyRole)
		exports := event.ExportVariables("", "") // only their names are wanted, not their values
		ray["env"] = withoutOurs(ray, wantedGroup.ray, "env", func(variable map[string]any) bool {
			return slices.ContainsFunc(exports, func(v event.Variable) bool { return v.Name == text(variable, "name") })
		})
		ray["volumeMounts"] = withoutOurs(ray, wantedGroup.ray, "volumeMounts", func(m map[string]any) bool {
			return isRaysVolume(text(m, "name"))
		})
		g.containers[0] = ray
	}
	if wanted["serviceAccountName"] == nil && text(pod, "serviceAccountName") == o.ServiceAccount {
		delete(pod, "serviceAccountName")
	}
	labels, _ := descend(manifest, "metadata", "labels")
	if meta := copyMapping(template, "metadata"); meta != nil {
		maps.DeleteFunc(copyMapping(meta, "labels"), func(key string, _ any) bool {
			_, added := o.PodLabels[key]
			return added && labels[key] == nil
		})
	}
	return template
}

// copyMapping puts a copy of the mapping below a key in its place.
func copyMapping(m map[string]any, key string) map[string]any {
	below, _ := mapping(m, key)
	if below = maps.Clone(below); below != nil {
		m[key] = below
	}
	return below
}

// withoutOurs is the list below a key without the items that are ours and have no namesake in the manifest's.
func withoutOurs(m, manifest map[string]any, key string, ours func(item map[string]any) bool) []any {
	had, _ := list(m, key)
	wanted, _ := list(manifest, key)
	return slices.DeleteFunc(slices.Clone(had), func(item any) bool {
		entry, _ := item.(map[string]any)
		return ours(entry) && indexOfName(wanted, text(entry, "name")) < 0
	})
}

// sameMeaning says whether two parts of manifests mean the same: nothing, null and what is empty are equal, in lists
// and mappings as well.
func sameMeaning(a, b any) bool {
	switch a := a.(type) {
	case nil:
		return b == nil || sameMeaning(b, nil)
	case map[string]any:
		other, ok := b.(map[string]any)
		for k := range a {
			if !sameMeaning(a[k], other[k]) {
				return false
			}
		}
		for k := range other {
			if _, seen := a[k]; !seen && !sameMeaning(nil, other[k]) {
				return false
			}
		}
		return ok || b == nil
	case []any:
		other, ok := b.([]any)
		return (ok || b == nil) && slices.EqualFunc(a, other, sameMeaning)
	}
	return a == b
}
