package inject

import (
	"slices"
	"strconv"
	"strings"

	"github.com/rayhistory/historyserver/pkg/kubernetes/kube/kuberay"
)

// imageUser is whom the collector's image runs as (Dockerfile.collector).
const imageUser = 65532

// container returns the collector's container for a pod of the group g. shared are its mounts of Ray's volumes, own its
// mounts of its own volumes. Warnings are added to n.
func (c cluster) container(g group, n *rayNode, shared, own []mount) map[string]any {
	o := c.options
	args := append(c.args(g.role, n), o.Args...)
	env, tokenMount := c.env(g.role)
	vars := newReferred(env, g.ray)
	for _, a := range args {
		vars.add(a) // what is missing stays as it is, in Ray's arguments too
	}
	var mounts []any
	for _, m := range shared {
		if missing := vars.add(text(m, "subPathExpr")); missing != "" {
			n.warn("the collector cannot have variable %s, by which volume %s is mounted at %s, and does not see it: "+
				"write the variable into env of Ray's container", missing, text(m, "name"), m.path())
			continue
		}
		mounts = append(mounts, map[string]any(m))
	}
	for _, m := range own {
		mounts = append(mounts, map[string]any(m))
	}
	if tokenMount != nil {
		mounts = append(mounts, map[string]any(tokenMount))
	}
	out := map[string]any{
		"name":         containerName,
		"image":        o.Image,
		"args":         anySlice(args),
		"env":          vars.env,
		"ports":        []any{map[string]any{"name": "history-metrics", "containerPort": int64(o.MetricsPort)}},
		"volumeMounts": mounts,
		"securityContext": map[string]any{
			"allowPrivilegeEscalation": false,
			"readOnlyRootFilesystem":   true,
			"runAsNonRoot":             true,
			"capabilities":             map[string]any{"drop": []any{"ALL"}},
			"seccompProfile":           map[string]any{"type": "RuntimeDefault"},
		},
	}
	if context, _ := mapping(g.pod, "securityContext"); scalarText(context["runAsUser"]) == "0" {
		// Kubernetes would start no container that is to run as the pod's root and as nobody who is root.
		secured := out["securityContext"].(map[string]any)
		secured["runAsUser"], secured["runAsGroup"] = int64(imageUser), int64(imageUser)
	}
	if o.PullPolicy != "" {
		out["imagePullPolicy"] = o.PullPolicy
	}
	if o.Native {
		out["restartPolicy"] = "Always"
	}
	if from := o.envFrom(); len(from) > 0 {
		out["envFrom"] = from
	}
	if resources := o.resources(g); len(resources) > 0 {
		out["resources"] = resources
	}
	return out
}

// collectorArgs are the flags that the options alone give the collector.
func (o *Options) collectorArgs() []string {
	var args []string
	if o.StorageBackend != "" {
		args = append(args, "--storage-backend="+o.StorageBackend)
	}
	if o.StorageRootDir != "" {
		args = append(args, "--storage-root-dir="+o.StorageRootDir)
	}
	return append(args, o.Args...)
}

// args returns the collector's flags, without those whose value is the collector's default.
func (c cluster) args(role string, n *rayNode) []string {
	o := c.options
	args := []string{"--role=" + role}
	add := func(flag, value, usual string) {
		if value != usual {
			args = append(args, "--"+flag+"="+value)
		}
	}
	add("storage-backend", o.StorageBackend, "")
	add("storage-root-dir", o.StorageRootDir, "")
	if o.ConfigMap != "" {
		add("storage-backend-config-path", configMountPath+"/data", "")
	}
	add("spool-dir", spoolFolder, "")
	add("events-port", strconv.Itoa(o.EventsPort), strconv.Itoa(DefaultEventsPort))
	add("metrics-port", strconv.Itoa(o.MetricsPort), strconv.Itoa(DefaultMetricsPort))
	add("ray-tmp-dir", n.folders[0], DefaultTmpDir)
	if len(n.folders) > 1 {
		add("ray-head-tmp-dir", n.folders[1], "")
	}
	add("ray-dashboard-address", n.dashboard, DefaultDashboard)
	return args
}

// fromField is a variable with the value of a field of the pod.
func fromField(name, path string) any {
	return map[string]any{"name": name, "valueFrom": map[string]any{"fieldRef": map[string]any{"fieldPath": path}}}
}

// env returns the collector's environment, and the mount of the token with which it asks Ray's dashboard; nil if it
// needs none.
func (c cluster) env(role string) (env []any, token mount) {
	literal := func(name, value string) any { return map[string]any{"name": name, "value": value} }
	env = []any{
		// The label, because KubeRay makes up the name of a RayJob's or RayService's cluster.
		fromField("RAY_CLUSTER_NAME", "metadata.labels['ray.io/cluster']"),
		fromField("RAY_CLUSTER_NAMESPACE", "metadata.namespace"),
		fromField("POD_IP", "status.podIP"),
	}
	if c.ownerName != "" {
		env = append(env, literal("OWNER_KIND", c.ownerKind), literal("OWNER_NAME", c.ownerName))
	}
	if role == roleHead {
		if c.labels != "" {
			env = append(env, literal("CLUSTER_LABELS", c.labels))
		}
		switch {
		case c.auth == authKubernetes:
			// KubeRay adds the volume to the pod.
			env = append(env, literal("RAY_AUTH_MODE", "token"),
				literal("RAY_AUTH_TOKEN_PATH", tokenMountPath+"/token"))
			token = mount{"name": tokenVolume, "mountPath": tokenMountPath, "readOnly": true}
		case c.auth == authSecret && c.authSecret != "":
			env = append(env, literal("RAY_AUTH_MODE", "token"), map[string]any{
				"name": "RAY_AUTH_TOKEN",
				// Optional: a pod of Ray's must not wait for a token that only the collector wants.
				"valueFrom": map[string]any{"secretKeyRef": map[string]any{"name": c.authSecret,
					"key": kuberay.AuthSecretKey, "optional": true}},
			})
		}
	}
	for _, e := range c.options.Env {
		name, value, _ := strings.Cut(e, "=")
		env = append(env, literal(name, value))
	}
	return env, token
}

// completeCollector tells a collector that was added before KubeRay made the cluster whose it is and where its token
// is: both follow from names that KubeRay makes up. Whenever KubeRay updates the cluster, it writes the RayService's
// collector again, which knows neither.
func (c cluster) completeCollector(collector map[string]any, role string) error {
	env, err := list(collector, "env")
	if err != nil {
		return err
	}
	c.options = Options{} // of c.env only what follows from the cluster is taken
	if c.auth == authKubernetes {
		c.auth = authNone // it does not follow from names: the collector that was added has its variables and volume
	}
	all, _ := c.env(role)
	for _, part := range []string{"OWNER_", "RAY_AUTH_"} { // of names, such as RAYHISTORY_OWNER_NAME
		isNamed := func(v any) bool {
			m, _ := v.(map[string]any)
			return strings.Contains(text(m, "name"), part)
		}
		if slices.ContainsFunc(env, isNamed) {
			continue // the collector has its own
		}
		for _, v := range all {
			if isNamed(v) {
				env = append(env, v)
			}
		}
	}
	if len(env) > 0 {
		collector["env"] = env
	}
	return nil
}

// envFrom is optional: a pod of Ray's must start without the collector's settings.
func (o *Options) envFrom() []any {
	var from []any
	for _, name := range o.EnvConfigMaps {
		from = append(from, map[string]any{"configMapRef": map[string]any{"name": name, "optional": true}})
	}
	for _, name := range o.EnvSecrets {
		from = append(from, map[string]any{"secretRef": map[string]any{"name": name, "optional": true}})
	}
	return from
}
