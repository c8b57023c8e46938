package inject

import (
	"cmp"
	"errors"
	"fmt"
	"path"
	"strings"
)

// pod adds the collector to one group's pod template.
func (c cluster) pod(group map[string]any, role, what string, change *Change) error {
	template, err := mapping(group, "template")
	if err != nil {
		return err
	}
	spec, err := descend(group, "template", "spec")
	if err != nil {
		return err
	}
	containers, err := list(spec, "containers")
	if err != nil {
		return err
	}
	if len(containers) == 0 {
		return errors.New("template.spec.containers: want at least Ray's container")
	}
	// KubeRay takes the first container for Ray's.
	ray, ok := containers[0].(map[string]any)
	if !ok {
		return errors.New("template.spec.containers[0]: want a mapping")
	}
	inits, err := list(spec, "initContainers")
	if err != nil {
		return err
	}
	if named(containers, containerName) >= 0 || named(inits, containerName) >= 0 {
		if !c.options.Replace {
			return nil
		}
	}

	params, err := mapping(group, "rayStartParams")
	if err != nil {
		return err
	}
	tmpDir := text(params, "temp-dir")
	tmpDir = cmp.Or(tmpDir, defaultTmpDir)
	rayDir, err := c.shareTmpDir(spec, ray, tmpDir)
	if err != nil {
		return err
	}
	mounts := append([]mount{rayDir}, c.addVolumes(spec, text(rayDir, "name"))...)
	added, warnings, err := exportEnv(ray, c.address, c.typesFor(ray))
	if err != nil {
		return fmt.Errorf("template.spec.containers[0]: %w", err)
	}
	rayEnv, _ := list(ray, "env") // exportEnv has seen that it is one
	c.place(spec, containers, inits, c.container(role, tmpDir, mounts, rayEnv))
	if err := c.identity(template, spec); err != nil {
		return err
	}

	form := "container"
	if c.options.Native {
		form = "native sidecar"
	}
	change.Done = append(change.Done, fmt.Sprintf("%s: collector as %s, Ray's %s shared, %d variables for Ray's events", what, form, tmpDir, added))
	for _, w := range warnings {
		change.Warnings = append(change.Warnings, what+": "+w)
	}
	if host, _ := spec["hostNetwork"].(bool); host {
		change.Warnings = append(change.Warnings, fmt.Sprintf("%s: hostNetwork is set: two Ray pods on one node would share ports %d and %d", what, c.options.EventsPort, c.options.MetricsPort))
	}
	return nil
}

// typesFor prefers the version in the image's tag where the cluster does not say one.
func (c cluster) typesFor(ray map[string]any) string {
	if c.types == "ALL" {
		return c.types
	}
	_, tag, _ := strings.Cut(path.Base(text(ray, "image")), ":")
	return eventTypes(tag)
}

// place puts the collector into the list for its form, in place of an earlier one. One of the other form is removed.
func (c cluster) place(spec map[string]any, containers, inits []any, collector map[string]any) {
	keep, other, keepKey, otherKey := containers, inits, "containers", "initContainers"
	if c.options.Native {
		keep, other, keepKey, otherKey = inits, containers, "initContainers", "containers"
	}
	if i := named(other, containerName); i >= 0 {
		spec[otherKey] = append(other[:i:i], other[i+1:]...)
		if len(other) == 1 {
			delete(spec, otherKey)
		}
	}
	if i := named(keep, containerName); i >= 0 {
		keep[i] = collector
		return
	}
	spec[keepKey] = append(keep, collector)
}

// shareTmpDir makes Ray's temporary directory a volume, unless it is on one, and returns the collector's mount of the same.
func (c cluster) shareTmpDir(spec, ray map[string]any, tmpDir string) (mount, error) {
	mounts, err := list(ray, "volumeMounts")
	if err != nil {
		return nil, err
	}
	var best mount
	for _, v := range mounts {
		m, ok := v.(map[string]any)
		if !ok {
			continue
		}
		at := path.Clean(text(m, "mountPath"))
		if holds(at, tmpDir) && len(at) > len(text(best, "mountPath")) {
			best = m
		}
	}
	if best != nil {
		if readOnly, _ := best["readOnly"].(bool); readOnly {
			return nil, fmt.Errorf("volume %s is mounted read-only at %s, where Ray must write", text(best, "name"), text(best, "mountPath"))
		}
		shared := mount{}
		for _, k := range []string{"name", "mountPath", "subPath", "subPathExpr"} {
			if v := text(best, k); v != "" {
				shared[k] = v
			}
		}
		return shared, nil
	}
	volumes, err := list(spec, "volumes")
	if err != nil {
		return nil, err
	}
	name := volumeName
	for n := 2; named(volumes, name) >= 0; n++ {
		name = fmt.Sprintf("%s-%d", volumeName, n)
	}
	spec["volumes"] = append(volumes, map[string]any{"name": name, "emptyDir": map[string]any{}})
	shared := mount{"name": name, "mountPath": tmpDir}
	ray["volumeMounts"] = append(mounts, map[string]any{"name": name, "mountPath": tmpDir})
	return shared, nil
}

// holds reports whether p is dir or is below it.
func holds(dir, p string) bool {
	return dir != "/" && (p == dir || strings.HasPrefix(p, dir+"/"))
}

// addVolumes adds the other volumes that the collector needs and returns its mounts of them: the file with the backend's settings, and a separate
// folder for its spool if Ray's volume is not the pod's own. The collector does not run as Ray's user and might not be able to write there.
func (c cluster) addVolumes(spec map[string]any, rayVolume string) []mount {
	volumes, _ := list(spec, "volumes") // shareTmpDir has seen that it is one
	var mounts []mount
	add := func(name, at string, readOnly bool, source map[string]any) {
		m := mount{"name": name, "mountPath": at}
		if readOnly {
			m["readOnly"] = true
		}
		mounts = append(mounts, m)
		if named(volumes, name) < 0 {
			source["name"] = name
			volumes = append(volumes, source)
		}
	}
	if i := named(volumes, rayVolume); i >= 0 {
		if _, ofPod := volumes[i].(map[string]any)["emptyDir"]; !ofPod {
			add(spoolVolume, spoolPath, false, map[string]any{"emptyDir": map[string]any{}})
		}
	}
	if c.options.ConfigMap != "" {
		add(configVolume, configMountPath, true, map[string]any{"configMap": map[string]any{"name": c.options.ConfigMap}})
	}
	if len(mounts) > 0 {
		spec["volumes"] = volumes
	}
	return mounts
}

// identity gives the pod the service account and labels that a cloud's workload identity wants.
func (c cluster) identity(template, spec map[string]any) error {
	if sa := c.options.ServiceAccount; sa != "" && text(spec, "serviceAccountName") == "" {
		spec["serviceAccountName"] = sa
	}
	if len(c.options.PodLabels) == 0 {
		return nil
	}
	meta, err := mapping(template, "metadata")
	if err != nil {
		return err
	}
	if meta == nil {
		meta = map[string]any{}
		template["metadata"] = meta
	}
	labels, err := mapping(meta, "labels")
	if err != nil {
		return err
	}
	if labels == nil {
		labels = map[string]any{}
		meta["labels"] = labels
	}
	for k, v := range c.options.PodLabels {
		if _, ok := labels[k]; !ok {
			labels[k] = v
		}
	}
	return nil
}
