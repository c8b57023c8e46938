// Package inject adds the collector to RayClusters, RayJobs, RayServices and RayCronJobs: the sidecar in the pods of
// the head and of every worker group, the volume that it shares with Ray, and the environment variables that make Ray
// export its events.
//
// Ray and KubeRay define the names: the export variables are those of ray/dashboard/modules/aggregator, the fields are
// those of KubeRay's API ray.io/v1.
package inject

import (
	"github.com/spf13/pflag"

	"github.com/rayhistory/historyserver/internal/human"
	"github.com/rayhistory/historyserver/pkg/kubernetes/kube/kuberay"
)

const (
	// containerName is the sidecar's name. A pod that has a container of this name is left as it is.
	containerName = kuberay.Collector
	// defaultImage is what `make localimage-collector` builds.
	defaultImage = "collector:v0.1.0"
)

// The defaults of the collector's flags, which has them from here: a container that is added has no such flag.
const (
	// DefaultEventsPort is where the collector takes Ray's events.
	DefaultEventsPort = 8084
	// DefaultMetricsPort is where the collector answers probes and Prometheus.
	DefaultMetricsPort = 8085
	// DefaultTmpDir is Ray's temporary folder.
	DefaultTmpDir = "/tmp/ray"
	// DefaultDashboard is where Ray's dashboard answers in the head's pod.
	DefaultDashboard = "http://127.0.0.1:8265"
)

// Options say what to add. Start from Default; the zero value is not valid.
type Options struct {
	Image      string
	PullPolicy string // Always, IfNotPresent, Never or empty: Kubernetes' default
	// Native makes the collector an init container that restarts always: it starts before Ray and ends after it
	// (Kubernetes 1.29 or later).
	Native bool
	// Replace writes a collector that a pod already has again.
	Replace bool

	// Backends are the names of the collector's storage backends, for Check and --help; empty: any name will do.
	Backends       []string
	StorageBackend string
	StorageRootDir string   // empty: the collector's default
	Args           []string // further flags of the collector
	Env            []string // NAME=VALUE for the collector
	EnvSecrets     []string // Secrets whose keys become the collector's environment
	EnvConfigMaps  []string // ConfigMaps, likewise
	ConfigMap      string   // ConfigMap mounted at configMountPath; empty: none
	EventsPort     int
	MetricsPort    int
	// RayTmpDir and RayDashboardAddress replace what the manifest says of Ray; empty: what it says. The address none
	// means no dashboard.
	RayTmpDir           string
	RayDashboardAddress string

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
		EventsPort:  DefaultEventsPort,
		MetricsPort: DefaultMetricsPort,
		Requests:    map[string]string{"cpu": defaultCPU, "memory": "64Mi"},
		Limits:      map[string]string{"memory": memoryLimit},
	}
}

// AddFlags binds the options to flags. Backends must be set before.
func (o *Options) AddFlags(fs *pflag.FlagSet) {
	fs.StringVar(&o.Image, "image", o.Image, "image of the collector")
	fs.StringVar(&o.PullPolicy, "image-pull-policy", o.PullPolicy, "Always, IfNotPresent or Never")
	fs.BoolVar(&o.Native, "native", o.Native,
		"add the collector as a native sidecar, which outlives Ray (Kubernetes 1.29 or later)")
	fs.BoolVar(&o.Replace, "replace", o.Replace, "replace existing collectors")
	fs.StringVar(&o.StorageBackend, "storage-backend", o.StorageBackend, human.Or(o.Backends))
	fs.StringVar(&o.StorageRootDir, "storage-root-dir", o.StorageRootDir,
		"folder in the bucket for everything that is stored")
	fs.StringArrayVar(&o.Args, "arg", o.Args,
		"another flag of the collector, such as --arg=--push-interval=30s (repeatable)")
	fs.StringArrayVar(&o.Env, "env", o.Env, "NAME=VALUE for the collector (repeatable)")
	fs.StringArrayVar(&o.EnvSecrets, "env-from-secret", o.EnvSecrets,
		"Secret whose keys become the collector's environment (repeatable)")
	fs.StringArrayVar(&o.EnvConfigMaps, "env-from-configmap", o.EnvConfigMaps,
		"ConfigMap whose keys become the collector's environment (repeatable)")
	fs.StringVar(&o.ConfigMap, "config-map", o.ConfigMap,
		"ConfigMap with the backend's settings as JSON in its key data, mounted at "+configMountPath)
	fs.IntVar(&o.EventsPort, "events-port", o.EventsPort,
		"the collector's port for Ray's events, from its own pod only")
	fs.IntVar(&o.MetricsPort, "metrics-port", o.MetricsPort, "the collector's port for probes and Prometheus")
	fs.StringVar(&o.RayTmpDir, "ray-tmp-dir", o.RayTmpDir,
		"Ray's temporary folder in every pod; empty: what the manifest says of it")
	fs.StringVar(&o.RayDashboardAddress, "ray-dashboard-address", o.RayDashboardAddress,
		"URL of Ray's dashboard as the head's pod reaches it, or none; empty: what the manifest says of it")
	fs.StringVar(&o.ServiceAccount, "service-account", o.ServiceAccount,
		"service account for pods that name none; it must give them what default does, such as pull secrets")
	fs.StringToStringVar(&o.PodLabels, "pod-label", o.PodLabels,
		"label of the pods, such as azure.workload.identity/use=true (repeatable)")
	fs.StringToStringVar(&o.Requests, "requests", o.Requests,
		"resource requests of the collector; in a Guaranteed pod they are its limits")
	fs.StringToStringVar(&o.Limits, "limits", o.Limits,
		"resource limits of the collector; without memory it has "+memoryLimit+", without cpu "+cpuLimit+
			" where Ray's container has a limit of CPU, without ephemeral-storage "+diskLimit+" where Ray's container "+
			"has a limit of it: with a larger --spool-max-bytes give more; never less than it requests")
}
