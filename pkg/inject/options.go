// Package inject adds the collector to RayClusters, RayJobs, RayServices and RayCronJobs: the sidecar in the pods of the head and of every
// worker group, the volume that it shares with Ray, and the environment variables that make Ray export its events.
//
// Ray and KubeRay define the names: the export variables are those of ray/dashboard/modules/aggregator, the fields are those of KubeRay's
// API ray.io/v1.
package inject

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/spf13/pflag"
)

const (
	// containerName is the sidecar's name. A pod that has a container of this name is left as it is.
	containerName = "collector"
	// defaultImage is what `make localimage-collector` builds.
	defaultImage = "collector:v0.1.0"
	// configMountPath is where the JSON file with a backend's settings is mounted from a ConfigMap's key `data`.
	configMountPath = "/var/collector-config"
	// defaultEventsPort is where the collector takes Ray's events.
	defaultEventsPort = 8084
	// defaultMetricsPort is where the collector answers probes and Prometheus.
	defaultMetricsPort = 8085

	defaultTmpDir = "/tmp/ray"
	// volumeName is the one KubeRay gives the autoscaler's sidecar, which then shares the head's logs too.
	volumeName = "ray-logs"
)

// Options say what to add. Start from Default; the zero value is not valid.
type Options struct {
	Image      string
	PullPolicy string // Always, IfNotPresent, Never or empty: Kubernetes' default
	// Native makes the collector an init container that restarts always: it starts before Ray and ends after it (Kubernetes 1.29 or later).
	Native bool
	// Replace writes a collector that a pod already has again.
	Replace bool

	StorageBackend string
	StorageRootDir string   // empty: the collector's default
	Args           []string // further flags of the collector
	Env            []string // NAME=VALUE for the collector
	EnvSecrets     []string // Secrets whose keys become the collector's environment
	EnvConfigMaps  []string // ConfigMaps, likewise
	ConfigMap      string   // ConfigMap mounted at configMountPath; empty: none
	EventsPort     int
	MetricsPort    int

	ServiceAccount string            // for pods that name none
	PodLabels      map[string]string // for pods that have no such label
	Requests       map[string]string // resources of the collector
	Limits         map[string]string
}

// Default returns the options that need only a storage backend.
func Default() Options {
	return Options{
		Image:       defaultImage,
		PullPolicy:  "IfNotPresent",
		EventsPort:  defaultEventsPort,
		MetricsPort: defaultMetricsPort,
		Requests:    map[string]string{"cpu": "50m", "memory": "64Mi"},
		Limits:      map[string]string{"memory": "256Mi"},
	}
}

// AddFlags binds the options to flags.
func (o *Options) AddFlags(fs *pflag.FlagSet) {
	fs.StringVar(&o.Image, "image", o.Image, "image of the collector")
	fs.StringVar(&o.PullPolicy, "image-pull-policy", o.PullPolicy, "Always, IfNotPresent or Never")
	fs.BoolVar(&o.Native, "native", o.Native, "add the collector as a native sidecar, which outlives Ray (Kubernetes 1.29 or later)")
	fs.BoolVar(&o.Replace, "replace", o.Replace, "replace existing collectors")
	fs.StringVar(&o.StorageBackend, "storage-backend", o.StorageBackend, "s3, gcs, azureblob, aliyunoss or local")
	fs.StringVar(&o.StorageRootDir, "storage-root-dir", o.StorageRootDir, "folder in the bucket for everything that is stored")
	fs.StringArrayVar(&o.Args, "arg", o.Args, "another flag of the collector, such as --arg=--push-interval=30s (repeatable)")
	fs.StringArrayVar(&o.Env, "env", o.Env, "NAME=VALUE for the collector (repeatable)")
	fs.StringArrayVar(&o.EnvSecrets, "env-from-secret", o.EnvSecrets, "Secret whose keys become the collector's environment (repeatable)")
	fs.StringArrayVar(&o.EnvConfigMaps, "env-from-configmap", o.EnvConfigMaps, "ConfigMap whose keys become the collector's environment (repeatable)")
	fs.StringVar(&o.ConfigMap, "config-map", o.ConfigMap, "ConfigMap with the backend's settings as JSON in its key data, mounted at "+configMountPath)
	fs.IntVar(&o.EventsPort, "events-port", o.EventsPort, "the collector's port for Ray's events, from its own pod only")
	fs.IntVar(&o.MetricsPort, "metrics-port", o.MetricsPort, "the collector's port for probes and Prometheus")
	fs.StringVar(&o.ServiceAccount, "service-account", o.ServiceAccount, "service account for pods that have none")
	fs.StringToStringVar(&o.PodLabels, "pod-label", o.PodLabels, "label of the pods, such as azure.workload.identity/use=true (repeatable)")
	fs.StringToStringVar(&o.Requests, "requests", o.Requests, "resource requests of the collector")
	fs.StringToStringVar(&o.Limits, "limits", o.Limits, "resource limits of the collector")
}

var envName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_.-]*$`)

// Check reports every setting that is wrong.
func (o *Options) Check() error {
	var errs []error
	if o.Image == "" {
		errs = append(errs, errors.New("--image is empty"))
	}
	switch o.PullPolicy {
	case "", "Always", "IfNotPresent", "Never":
	default:
		errs = append(errs, fmt.Errorf("--image-pull-policy=%s: want Always, IfNotPresent or Never", o.PullPolicy))
	}
	if o.EventsPort < 1 || o.EventsPort > 65535 {
		errs = append(errs, fmt.Errorf("--events-port=%d: want 1 to 65535", o.EventsPort))
	}
	if o.MetricsPort < 1 || o.MetricsPort > 65535 || o.MetricsPort == o.EventsPort {
		errs = append(errs, fmt.Errorf("--metrics-port=%d: want 1 to 65535, and different from --events-port", o.MetricsPort))
	}
	if o.StorageBackend == "" && o.ConfigMap == "" && len(o.EnvSecrets) == 0 && len(o.EnvConfigMaps) == 0 && !o.hasEnv("STORAGE_BACKEND") {
		errs = append(errs, errors.New("--storage-backend is not set: the collector needs to know where to store data"))
	}
	for _, e := range o.Env {
		if name, _, ok := strings.Cut(e, "="); !ok || !envName.MatchString(name) {
			errs = append(errs, fmt.Errorf("--env=%s: want NAME=VALUE", e))
		}
	}
	for _, a := range o.Args {
		if !strings.HasPrefix(a, "-") {
			errs = append(errs, fmt.Errorf("--arg=%s: want a flag of the collector, such as --arg=--push-interval=30s", a))
		}
	}
	return errors.Join(errs...)
}

func (o *Options) hasEnv(name string) bool {
	for _, e := range o.Env {
		if n, _, _ := strings.Cut(e, "="); n == name {
			return true
		}
	}
	return false
}
