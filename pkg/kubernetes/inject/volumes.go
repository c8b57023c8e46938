package inject

import (
	"fmt"
	"path"
	"strconv"
	"strings"
)

// The volumes that are added.
const (
	// raysVolume is the one KubeRay gives the autoscaler's sidecar, which then shares the head's logs too.
	raysVolume  = "ray-logs"
	spoolVolume = "collector-spool"
	spoolPath   = "/var/collector-spool"
	// The collector makes this folder itself: the volume's own root may be written to by everybody.
	spoolFolder  = spoolPath + "/data"
	configVolume = "collector-config"
	// configMountPath is where the JSON file with a backend's settings is mounted from a ConfigMap's key `data`.
	configMountPath = "/var/collector-config"
)

// mount is one of a container's volume mounts.
type mount map[string]any

func (m mount) path() string { return path.Clean(text(m, "mountPath")) }

// forCollector is the mount for the collector, without mountPropagation: Kubernetes allows Bidirectional only to
// privileged containers.
func (m mount) forCollector() mount {
	out := mount{}
	for _, k := range []string{"name", "mountPath", "subPath", "subPathExpr", "readOnly"} {
		if v, ok := m[k]; ok {
			out[k] = v
		}
	}
	return out
}

// shareFolders puts each of Ray's folders on a volume, unless it is on one, and returns the collector's mounts of the
// same volumes: of those that hold the folders, and of those that Ray has mounted inside the folders, such as one for
// logs.
func (c cluster) shareFolders(pod, ray map[string]any, role string, n *rayNode) ([]mount, error) {
	var shared []mount
	taken := map[string]bool{} // paths
	add := func(m mount) (added bool) {
		if taken[m.path()] {
			return false
		}
		taken[m.path()] = true
		shared = append(shared, m.forCollector())
		return true
	}
	for _, folder := range n.folders {
		mounts, err := mountsOf(ray)
		if err != nil {
			return nil, err
		}
		holder := deepestMount(mounts, folder)
		switch {
		case holder == nil && strings.Contains(folder, "$("):
			n.warn("no volume holds Ray's folder %s, whose name differs by pod: mount a volume above it in Ray's "+
				"container", folder)
		case holder == nil:
			if holder, err = newVolume(pod, ray, folder); err != nil {
				return nil, err
			}
		}
		if readOnly, _ := holder["readOnly"].(bool); readOnly {
			return nil, fmt.Errorf("volume %s is mounted read-only at %s, where Ray must write", text(holder, "name"),
				holder.path())
		}
		if holder != nil && add(holder) {
			n.warnCommon(pod, holder, role)
		}
		for _, m := range mounts {
			if m.path() != folder && isWithin(folder, m.path()) {
				add(m)
			}
		}
	}
	return shared, nil
}

// warnCommon warns if the volume that holds Ray's folder may be mounted by several pods, because their Ray nodes would
// write the same logs. holder is the mount of that volume, role the group's role.
func (n *rayNode) warnCommon(pod map[string]any, holder mount, role string) {
	volumes, _ := list(pod, "volumes") // newVolume or addVolumes says if it is none
	name := text(holder, "name")
	at := indexOfName(volumes, name)
	if at < 0 || text(holder, "subPathExpr") != "" {
		return
	}
	for _, kind := range []string{"hostPath", "nfs", "persistentVolumeClaim"} {
		// A head has its claim alone.
		if _, ok := volumes[at].(map[string]any)[kind]; ok && (kind != "persistentVolumeClaim" || role != roleHead) {
			n.warn("volume %s (%s) holds Ray's folder, and other pods may have it too: their logs would be mixed. Give "+
				"its mount a subPathExpr with the pod's name, or use an emptyDir", name, kind)
		}
	}
}

func mountsOf(container map[string]any) ([]mount, error) {
	items, err := list(container, "volumeMounts")
	if err != nil {
		return nil, err
	}
	var mounts []mount
	for _, item := range items {
		if m, ok := item.(map[string]any); ok {
			mounts = append(mounts, m)
		}
	}
	return mounts, nil
}

// deepestMount is the mount that holds a folder, nil if there is none.
func deepestMount(mounts []mount, folder string) mount {
	var best mount
	for _, m := range mounts {
		if isWithin(m.path(), folder) && (best == nil || len(m.path()) > len(best.path())) {
			best = m
		}
	}
	return best
}

func isWithin(dir, p string) bool {
	return dir != "/" && (p == dir || strings.HasPrefix(p, dir+"/"))
}

// newVolume adds an empty volume for Ray's folder to the pod, mounts it in Ray's container, and returns the mount.
func newVolume(pod, ray map[string]any, folder string) (mount, error) {
	volumes, err := list(pod, "volumes")
	if err != nil {
		return nil, err
	}
	name := raysVolume
	for n := 2; indexOfName(volumes, name) >= 0; n++ {
		name = fmt.Sprintf("%s-%d", raysVolume, n)
	}
	pod["volumes"] = append(volumes, emptyVolume(name))
	mounts, _ := list(ray, "volumeMounts") // mountsOf has seen that it is one
	ray["volumeMounts"] = append(mounts, map[string]any{"name": name, "mountPath": folder})
	return mount{"name": name, "mountPath": folder}, nil
}

// isRaysVolume reports whether a name is one that newVolume gives.
func isRaysVolume(name string) bool {
	number, numbered := strings.CutPrefix(name, raysVolume+"-")
	_, err := strconv.ParseUint(number, 10, 32)
	return name == raysVolume || numbered && err == nil
}

// addVolumes adds the collector's own volumes to the pod, and returns its mounts of them: a folder for its spool, so
// that it makes no folder in Ray's and takes no room there, and the file with the backend's settings.
func (c cluster) addVolumes(pod map[string]any, n *rayNode) ([]mount, error) {
	volumes, err := list(pod, "volumes")
	if err != nil {
		return nil, err
	}
	own := []map[string]any{emptyVolume(spoolVolume)}
	mounts := []mount{{"name": spoolVolume, "mountPath": spoolPath}}
	if c.options.ConfigMap != "" {
		own = append(own, settingsVolume(c.options.ConfigMap))
		mounts = append(mounts, mount{"name": configVolume, "mountPath": configMountPath, "readOnly": true})
	}
	for _, v := range own {
		name := text(v, "name")
		at := indexOfName(volumes, name)
		switch {
		case at < 0:
			volumes = append(volumes, v)
		case isAdded(volumes[at].(map[string]any)): // an earlier collector's, maybe of another ConfigMap
			volumes[at] = v
		case name == configVolume && configMapOf(volumes[at].(map[string]any)) != c.options.ConfigMap:
			n.warn("the collector takes its settings from the manifest's own volume %s, not from ConfigMap %s", name,
				c.options.ConfigMap)
		}
	}
	pod["volumes"] = volumes
	return mounts, nil
}

// isAdded reports whether a volume is as newVolume and addVolumes make it. A manifest may have others of these names,
// such as a claim for the spool.
func isAdded(volume map[string]any) bool {
	name := text(volume, "name")
	if name == configVolume {
		return sameMeaning(volume, settingsVolume(configMapOf(volume)))
	}
	return (name == spoolVolume || isRaysVolume(name)) && sameMeaning(volume, emptyVolume(name))
}

// configMapOf is the name of the ConfigMap that a volume is of; "" if it is of something else.
func configMapOf(volume map[string]any) string {
	source, _ := mapping(volume, "configMap")
	return text(source, "name")
}

func emptyVolume(name string) map[string]any {
	return map[string]any{"name": name, "emptyDir": map[string]any{}}
}

// settingsVolume is optional, as everything of the collector's: Ray's pod must not wait for it.
func settingsVolume(configMap string) map[string]any {
	source := map[string]any{"name": configMap, "optional": true}
	return map[string]any{"name": configVolume, "configMap": source}
}
