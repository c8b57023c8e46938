package inject

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/rayhistory/historyserver/internal/human"
)

// The patterns are compiled where they are used: the collector itself, which runs in every pod, needs none of them.
const (
	variableName = `^[A-Za-z_][A-Za-z0-9_.-]*$`
	// imageName is a container image: registry, path, tag and digest (github.com/distribution/reference).
	imageName = `^([A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?(\.[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?)*(:[0-9]+)?/|` +
		`\[[0-9a-fA-F:]+\](:[0-9]+)?/)?` +
		`[a-z0-9]+((\.|_|__|-+)[a-z0-9]+)*(/[a-z0-9]+((\.|_|__|-+)[a-z0-9]+)*)*` +
		`(:[A-Za-z0-9_][A-Za-z0-9_.-]{0,127})?(@[A-Za-z0-9+._-]+:[0-9a-fA-F]{32,})?$`
	quantity   = `^[0-9]+(\.[0-9]*)?(n|u|m|k|Ki|M|Mi|G|Gi|T|Ti|P|Pi|E|Ei|[eE][+-]?[0-9]+)?$`
	objectName = `^[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?$`
	labelKey   = `^([a-z0-9]([a-z0-9.-]*[a-z0-9])?/)?[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?$`
	labelValue = `^([A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?)?$`
)

func isMatch(pattern, s string) bool { return regexp.MustCompile(pattern).MatchString(s) }

// mistakes are the settings that are wrong.
type mistakes []error

func (m *mistakes) add(format string, args ...any) { *m = append(*m, fmt.Errorf(format, args...)) }

// Check returns an error that names every option with which no pod could run.
func (o *Options) Check() error {
	var m mistakes
	switch {
	case o.Image == "":
		m.add("--image is empty")
	case !isMatch(imageName, o.Image):
		m.add("--image=%s: want an image, such as registry.example.com/collector:v0.1.0", o.Image)
	}
	if !slices.Contains([]string{"", "Always", "IfNotPresent", "Never"}, o.PullPolicy) {
		m.add("--image-pull-policy=%s: want Always, IfNotPresent or Never", o.PullPolicy)
	}
	if o.EventsPort < 1 || o.EventsPort > 65535 {
		m.add("--events-port=%d: want 1 to 65535", o.EventsPort)
	}
	if o.MetricsPort < 1 || o.MetricsPort > 65535 || o.MetricsPort == o.EventsPort {
		m.add("--metrics-port=%d: want 1 to 65535, and different from --events-port", o.MetricsPort)
	}
	if o.RayTmpDir != "" && !path.IsAbs(o.RayTmpDir) {
		m.add("--ray-tmp-dir=%s: want an absolute path", o.RayTmpDir)
	}
	if u, err := url.Parse(o.RayDashboardAddress); o.RayDashboardAddress != "" && o.RayDashboardAddress != "none" &&
		(err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https") {
		m.add("--ray-dashboard-address=%s: want a URL, such as %s, or none", o.RayDashboardAddress, DefaultDashboard)
	}
	o.checkNames(&m)
	o.checkEnv(&m)
	o.checkArgs(&m)
	return errors.Join(m...)
}

// Complete reports whether all of the collector's settings are in the options, so that a missing one can be told.
func (o *Options) Complete() bool {
	return o.ConfigMap == "" && len(o.EnvSecrets) == 0 && len(o.EnvConfigMaps) == 0
}

// checkNames checks the options that are names of Kubernetes' objects, labels and quantities.
func (o *Options) checkNames(m *mistakes) {
	one := func(flag, value, want, pattern string) {
		if !isMatch(pattern, value) {
			m.add("--%s=%s: want %s", flag, value, want)
		}
	}
	for flag, names := range map[string][]string{
		"env-from-secret": o.EnvSecrets, "env-from-configmap": o.EnvConfigMaps, "config-map": {o.ConfigMap},
		"service-account": {o.ServiceAccount},
	} {
		for _, name := range names {
			if name != "" || flag == "env-from-secret" || flag == "env-from-configmap" {
				one(flag, name, "the name of an object of Kubernetes", objectName)
			}
		}
	}
	for key, v := range o.PodLabels {
		one("pod-label", key, "a label of Kubernetes", labelKey)
		one("pod-label="+key, v, "a label's value", labelValue)
	}
	standard := []string{"cpu", "memory", disk}
	for flag, resources := range map[string]map[string]string{"requests": o.Requests, "limits": o.Limits} {
		for name, v := range resources {
			// Kubernetes refuses pods with other names, but for hugepages-2Mi and such, which no collector uses.
			if !slices.Contains(standard, name) && !(strings.Contains(name, "/") && isMatch(labelKey, name)) {
				m.add("--%s=%s: want %s%s", flag, name, human.Or(standard), human.Suggest(name, standard))
			}
			one(flag+"="+name, v, "a quantity, such as 100m or 256Mi", quantity)
		}
	}
}

// checkEnv checks the variables for collectors, and the storage backend, which a variable or the flag names.
func (o *Options) checkEnv(m *mistakes) {
	given := map[string]string{}
	named := o.StorageBackend
	for _, e := range o.Env {
		name, v, ok := strings.Cut(e, "=")
		if !ok || !isMatch(variableName, name) {
			m.add("--env=%s: want NAME=VALUE", e)
			continue
		}
		if before, twice := given[name]; twice && before != v {
			m.add("--env=%s is given twice, with different values", name)
		}
		given[name] = v
		switch flag := ownSetting(name); flag {
		case "", "storage-root-dir": // neither volumes nor ports follow the root folder of the store
		case "role":
			m.add("--env=%s: each group's collector has its own role", e)
		case "storage-backend":
			if named != "" && v != "" && !strings.EqualFold(named, v) {
				m.add("--env=%s contradicts %s: they are the same setting", e, named)
			}
			named = cmp.Or(v, named)
		default:
			m.add("--env=%s: use --%s, which the pod's volumes and ports follow", e, flag)
		}
	}
	switch {
	case named != "" && len(o.Backends) > 0 && !slices.Contains(o.Backends, strings.ToLower(named)):
		m.add("--storage-backend=%s: want %s", named, human.Or(o.Backends))
	case named == "" && o.Complete():
		m.add("--storage-backend is not set: say where data is stored (%s), or name with "+
			"--env-from-configmap, --env-from-secret or --config-map what says it", strings.Join(o.Backends, ", "))
	}
}

// ownSettings are the collector's settings that flags of inject set, or that follow from the manifest: Ray's container
// and the pod's volumes must agree with them. Each has its flags, of which the first names it, and the variables that
// are not made of a flag's name.
var ownSettings = []struct{ flags, variables []string }{
	{[]string{"role", "ray-head"}, []string{"RAY_ROLE"}},
	{[]string{"storage-backend", "runtime-class-name"}, []string{"STORAGE_BACKEND", "RUNTIME_CLASS_NAME"}},
	{[]string{"storage-root-dir", "ray-root-dir"}, []string{"STORAGE_ROOT_DIR", "RAY_ROOT_DIR"}},
	{[]string{"events-port"}, []string{"EVENTS_PORT"}},
	{[]string{"metrics-port"}, nil},
	{[]string{"ray-tmp-dir"}, []string{"RAY_TMP_ROOT"}},
	{[]string{"ray-dashboard-address"}, []string{"RAY_DASHBOARD_ADDRESS"}},
}

// ownSetting is the setting that a flag or a variable of the collector's sets; "" if it is not one of the above.
func ownSetting(name string) string {
	isNamed := func(flag string) bool {
		return name == flag || name == "RAYHISTORY_"+strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
	}
	for _, s := range ownSettings {
		if slices.ContainsFunc(s.flags, isNamed) || slices.Contains(s.variables, name) {
			return s.flags[0]
		}
	}
	return ""
}

// checkArgs checks the further arguments of collectors: each must be a flag, and none that this command has itself.
func (o *Options) checkArgs(m *mistakes) {
	for _, a := range o.Args {
		if !strings.HasPrefix(a, "-") {
			m.add("--arg=%s: want a flag of the collector, such as --arg=--push-interval=30s", a)
		}
		name, _, _ := strings.Cut(strings.TrimLeft(a, "-"), "=")
		switch flag := ownSetting(name); flag {
		case "":
		case "role":
			m.add("--arg=%s: each group's collector has its own role", a)
		default:
			m.add("--arg=%s: use --%s without --arg, which the pod's volumes and ports follow", a, flag)
		}
	}
}
