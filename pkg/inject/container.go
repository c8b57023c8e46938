package inject

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/rayhistory/historyserver/pkg/kube/kuberay"
)

// mount is a volume mounted so that the collector sees Ray's temporary directory under the path Ray uses.
type mount map[string]any

// subPathVariable is a variable in a mount's subPathExpr; a container that mounts it must have it too.
var subPathVariable = regexp.MustCompile(`\$\(([^)]+)\)`)

// container is the collector's, for a pod of the cluster. The first of the shared mounts is Ray's temporary directory.
func (c cluster) container(role, tmpDir string, shared []mount, rayEnv []any) map[string]any {
	o := c.options
	args := []string{"--role=" + role}
	if o.StorageBackend != "" {
		args = append(args, "--storage-backend="+o.StorageBackend)
	}
	if o.StorageRootDir != "" {
		args = append(args, "--storage-root-dir="+o.StorageRootDir)
	}
	var mounts []any
	for _, m := range shared {
		mounts = append(mounts, map[string]any(m))
		switch text(m, "name") {
		case configVolume:
			args = append(args, "--storage-backend-config-path="+configMountPath+"/data")
		case spoolVolume:
			args = append(args, "--spool-dir="+spoolPath)
		}
	}
	if o.EventsPort != defaultEventsPort {
		args = append(args, fmt.Sprintf("--events-port=%d", o.EventsPort))
	}
	if o.MetricsPort != defaultMetricsPort {
		args = append(args, fmt.Sprintf("--metrics-port=%d", o.MetricsPort))
	}
	if tmpDir != defaultTmpDir {
		args = append(args, "--ray-tmp-dir="+tmpDir)
	}
	args = append(args, o.Args...)

	env, tokenMount := c.env(role)
	for _, m := range subPathVariable.FindAllStringSubmatch(text(shared[0], "subPathExpr"), -1) {
		if i := named(rayEnv, m[1]); i >= 0 && named(env, m[1]) < 0 {
			env = append(env, rayEnv[i])
		}
	}
	if tokenMount != nil {
		mounts = append(mounts, map[string]any(tokenMount))
	}
	out := map[string]any{
		"name":         containerName,
		"image":        o.Image,
		"args":         anySlice(args),
		"env":          env,
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
	if o.PullPolicy != "" {
		out["imagePullPolicy"] = o.PullPolicy
	}
	if o.Native {
		out["restartPolicy"] = "Always"
	}
	if from := o.envFrom(); len(from) > 0 {
		out["envFrom"] = from
	}
	resources := map[string]any{}
	if len(o.Requests) > 0 {
		resources["requests"] = quantities(o.Requests)
	}
	if len(o.Limits) > 0 {
		resources["limits"] = quantities(o.Limits)
	}
	if len(resources) > 0 {
		out["resources"] = resources
	}
	return out
}

// env is the collector's environment, and where it needs one, the mount of the token it calls Ray's dashboard with.
func (c cluster) env(role string) ([]any, mount) {
	fromField := func(name, path string) any {
		return map[string]any{"name": name, "valueFrom": map[string]any{"fieldRef": map[string]any{"fieldPath": path}}}
	}
	literal := func(name, value string) any { return map[string]any{"name": name, "value": value} }
	env := []any{
		// The label, because KubeRay makes up the name of a RayJob's or RayService's cluster.
		fromField("RAY_CLUSTER_NAME", "metadata.labels['ray.io/cluster']"),
		fromField("RAY_CLUSTER_NAMESPACE", "metadata.namespace"),
		fromField("POD_IP", "status.podIP"),
	}
	if c.ownerName != "" {
		env = append(env, literal("OWNER_KIND", c.ownerKind), literal("OWNER_NAME", c.ownerName))
	}
	var token mount
	if role == roleHead {
		if c.labels != "" {
			env = append(env, literal("CLUSTER_LABELS", c.labels))
		}
		switch {
		case c.auth == authKubernetes:
			// KubeRay adds the volume to the pod.
			env = append(env, literal("RAY_AUTH_MODE", "token"), literal("RAY_AUTH_TOKEN_PATH", tokenMountPath+"/token"))
			token = mount{"name": tokenVolume, "mountPath": tokenMountPath, "readOnly": true}
		case c.auth == authSecret && c.authSecret != "":
			env = append(env, literal("RAY_AUTH_MODE", "token"), map[string]any{
				"name": "RAY_AUTH_TOKEN",
				// Optional: a pod of Ray's must not wait for a token that only the collector wants.
				"valueFrom": map[string]any{"secretKeyRef": map[string]any{"name": c.authSecret, "key": kuberay.AuthSecretKey, "optional": true}},
			})
		}
	}
	for _, e := range c.options.Env {
		name, value, _ := strings.Cut(e, "=")
		env = append(env, literal(name, value))
	}
	return env, token
}

func (o *Options) envFrom() []any {
	var from []any
	for _, name := range o.EnvConfigMaps {
		from = append(from, map[string]any{"configMapRef": map[string]any{"name": name}})
	}
	for _, name := range o.EnvSecrets {
		from = append(from, map[string]any{"secretRef": map[string]any{"name": name}})
	}
	return from
}
