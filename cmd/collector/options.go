package main

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/rayhistory/historyserver/internal/logging"
	"github.com/rayhistory/historyserver/internal/settings"
	"github.com/rayhistory/historyserver/pkg/blob/backend"
	"github.com/rayhistory/historyserver/pkg/collector"
	"github.com/rayhistory/historyserver/pkg/collector/redact"
	"github.com/rayhistory/historyserver/pkg/collector/samples"
	"github.com/rayhistory/historyserver/pkg/collector/ship"
	"github.com/rayhistory/historyserver/pkg/collector/snapshot"
	"github.com/rayhistory/historyserver/pkg/collector/spool"
	"github.com/rayhistory/historyserver/pkg/kubernetes/inject"
	"github.com/rayhistory/historyserver/pkg/layout"
)

// options are the settings of the collector. Those of collector.Options are passed on to it; of some of the others,
// complete makes fields of collector.Options.
type options struct {
	collector.Options
	storage           backend.Config
	role              string
	namespace         string
	kubernetesCluster string
	rayHeadTmpDir     string
	listeners         collector.Listeners
	authMode          string
	authToken         string
	authTokenPath     string
	authByKubernetes  bool
	eventCompression  string
	gzipEvents        bool
	logCompression    string
	shutdownTimeout   time.Duration
	redact            redact.Settings
	exitOnError       bool
	unknown           error // names that are no settings of this version, and are ignored
	help, version     bool
	log               logging.Options
}

// defaults are options with the defaults of those flags that cannot give them themselves.
func defaults() *options {
	return &options{Options: collector.Options{SpoolMaxBytes: spool.DefaultMaxBytes,
		Snapshot: snapshot.Options{MaxBytes: snapshot.DefaultMaxBytes},
		Ship:     ship.Options{MaxChunk: ship.DefaultMaxChunk}}}
}

const (
	head   = "head"
	worker = "worker"
)

// addFlags adds all flags of the collector by their headings, with KubeRay's names for their variables.
func (o *options) addFlags(fs *pflag.FlagSet) {
	settings.Group(fs, "Ray node", o.addNodeFlags)
	settings.Group(fs, "Listeners", o.addListenerFlags)
	o.storage.AddFlags(fs)
	settings.Group(fs, "Events and spool", o.addEventFlags)
	settings.Group(fs, "Logs", func(fs *pflag.FlagSet) {
		fs.StringVar(&o.logCompression, "log-compression", "none", "compression of stored logs: none, gzip or zstd")
		fs.BoolVar(&o.DeleteShipped, "delete-shipped", false,
			"delete the local logs of ended sessions after they are stored")
	})
	settings.Group(fs, "Snapshots of the dashboard (head only)", o.addSnapshotFlags)
	settings.Group(fs, "Metrics", o.addMetricsFlags)
	settings.Group(fs, "Redaction", o.addRedactionFlags)
	settings.Group(fs, "Uploads", o.addUploadFlags)
	o.log.AddFlags(fs)
	o.addOldFlags(fs)
	settings.Bind(fs, environment)
	settings.Secret(fs, "ray-auth-token", "redact")
}

// environment lists the variables that Ray, KubeRay and its collector use for the flags.
var environment = map[string][]string{
	"role":                      {"RAY_ROLE"},
	"ray-cluster-name":          {"RAY_CLUSTER_NAME"},
	"ray-cluster-namespace":     {"RAY_CLUSTER_NAMESPACE"},
	"owner-kind":                {"OWNER_KIND"},
	"owner-name":                {"OWNER_NAME"},
	"cluster-labels":            {"CLUSTER_LABELS"},
	"ray-tmp-dir":               {"RAY_TMP_ROOT"},
	"spool-dir":                 {"RAY_COLLECTOR_EVENT_DATA_DIR"},
	"events-port":               {"EVENTS_PORT"},
	"pod-ip":                    {"POD_IP"},
	"ray-dashboard-address":     {"RAY_DASHBOARD_ADDRESS"},
	"ray-auth-mode":             {"RAY_AUTH_MODE"},
	"ray-auth-token":            {"RAY_AUTH_TOKEN"},
	"ray-auth-token-path":       {"RAY_AUTH_TOKEN_PATH"},
	"ray-enable-k8s-token-auth": {"RAY_ENABLE_K8S_TOKEN_AUTH"},
	"additional-endpoints":      {"RAY_COLLECTOR_ADDITIONAL_ENDPOINTS"},
	"snapshot-interval":         {"RAY_COLLECTOR_POLL_INTERVAL"},
	"push-interval":             {"PUSH_INTERVAL"},
}

// addNodeFlags adds the flags that say which node and cluster this is, and where Ray's folder is.
func (o *options) addNodeFlags(fs *pflag.FlagSet) {
	fs.StringVar(&o.role, "role", worker, "role of this Ray node: head or worker")
	fs.BoolVar(&o.Head, "ray-head", false, "the same as --role=head")
	fs.StringVar(&o.Cluster, "ray-cluster-name", "", "name of the RayCluster; required in Kubernetes. "+
		"Elsewhere, if it is empty: the name in the file of ray up, else of Slurm's job, else on a head of the machine")
	fs.StringVar(&o.namespace, "ray-cluster-namespace", "default", "namespace of the RayCluster")
	fs.StringVar(&o.kubernetesCluster, "kubernetes-cluster", "", "name of the Kubernetes cluster, such as prod-eu, if "+
		"several store in one bucket: it tells namespaces of the same name apart; empty: none")
	fs.StringVar(&o.OwnerKind, "owner-kind", "", "RayJob or RayService, if one owns the RayCluster; needs --owner-name")
	fs.StringVar(&o.OwnerName, "owner-name", "", "name of the RayJob or RayService that owns the RayCluster")
	fs.StringToStringVar(&o.Labels, "cluster-labels", nil,
		"labels of the RayCluster, or of the RayJob or RayService that owns it, such as team=search,stage=prod: "+
			"sessions are found by them")
	fs.StringVar(&o.PodIP, "pod-ip", "",
		"IP address of the pod, to find its node in the dashboard's list if nothing else identifies it")
	fs.BoolVar(&o.exitOnError, "exit-on-error", false,
		"exit with status 1 when a setting is wrong or a port is taken; otherwise the collector stays alive, so that "+
			"Ray's pod becomes ready, says on /readyz and in its log what is wrong, and begins once it is right")
	fs.StringVar(&o.RayTmpDir, "ray-tmp-dir", inject.DefaultTmpDir,
		"Ray's temporary folder, shared by Ray and the collector")
	fs.StringVar(&o.rayHeadTmpDir, "ray-head-tmp-dir", "",
		"Ray's temporary folder on the head, which a worker may use too: of both folders, the collector uses the one "+
			"with Ray's latest session; empty: only --ray-tmp-dir")
}

func (o *options) addListenerFlags(fs *pflag.FlagSet) {
	fs.StringVar(&o.listeners.EventsAddress, "events-address", collector.Loopback,
		"IP address to receive events on (/v1/events); localhost: only from the pod itself (127.0.0.1 and ::1); "+
			"empty: all addresses, so any pod can send events")
	fs.IntVar(&o.listeners.EventsPort, "events-port", inject.DefaultEventsPort, "port for events; 0: any free port")
	fs.StringVar(&o.listeners.MetricsAddress, "metrics-address", "",
		"IP address, or localhost, for /healthz, /livez, /readyz and /metrics; empty: all addresses, because "+
			"Kubernetes and Prometheus ask from outside the pod")
	fs.IntVar(&o.listeners.MetricsPort, "metrics-port", inject.DefaultMetricsPort,
		"port for /healthz, /livez, /readyz and /metrics; 0: any free port")
}

func (o *options) addEventFlags(fs *pflag.FlagSet) {
	fs.StringVar(&o.SpoolDir, "spool-dir", "",
		"folder for the collector's state and for events that are not stored yet; empty: .rayhistory in "+
			"--ray-tmp-dir, which survives a restart of the container")
	fs.Var((*settings.Bytes)(&o.SpoolMaxBytes), "spool-max-bytes",
		"maximum size of events that wait for the store; when it is reached, Ray is told to try again later")
	fs.StringVar(&o.eventCompression, "event-compression", "none", "compression of stored events: none, gzip or zstd")
}

func (o *options) addSnapshotFlags(fs *pflag.FlagSet) {
	fs.StringVar(&o.Dashboard, "ray-dashboard-address", inject.DefaultDashboard,
		"URL of the Ray dashboard whose answers are stored; empty: none")
	fs.StringVar(&o.authMode, "ray-auth-mode", "", "token, if the dashboard requires Ray's token")
	fs.StringVar(&o.authToken, "ray-auth-token", "", "Ray's token")
	fs.StringVar(&o.authTokenPath, "ray-auth-token-path", "", "file with Ray's token; empty: ~/.ray/auth_token")
	fs.BoolVar(&o.authByKubernetes, "ray-enable-k8s-token-auth", false,
		"use the service account's token as Ray's token: /var/run/secrets/ray.io/serviceaccount/token is read first, "+
			"as Ray does")
	fs.StringSliceVar(&o.Snapshot.Additional, "additional-endpoints", nil,
		"more paths of the dashboard to store, separated by commas")
	fs.DurationVar(&o.Snapshot.Interval, "snapshot-interval", snapshot.DefaultInterval,
		"how often the dashboard is asked while its answers change; above 4m, panels of hardware figures have gaps")
	fs.Var((*settings.Bytes)(&o.Snapshot.MaxBytes), "snapshot-max-bytes",
		"maximum size of the stored answers of one session")
}

func (o *options) addMetricsFlags(fs *pflag.FlagSet) {
	fs.StringVar((*string)(&o.Metrics), "metrics", string(collector.MetricsAuto),
		"read and store Ray's metrics: on, off, or auto (on from Ray 2.57; in older versions a second reader takes "+
			"values away from Prometheus)")
	fs.DurationVar(&o.Scrape.Interval, "metrics-interval", samples.Interval,
		"how often Ray's metrics are read, at most 2m; 0: never")
	fs.IntVar(&o.Scrape.MaxSeries, "metrics-max-series", 50_000,
		"maximum number of series of this node that are stored; others are dropped")
}

// addRedactionFlags adds the flags that say what is overwritten before it is stored.
func (o *options) addRedactionFlags(fs *pflag.FlagSet) {
	fs.StringArrayVar(&o.redact.Expressions, "redact", nil,
		"regular expression (Go's syntax) whose matches, or the matches of its groups, are overwritten with * before "+
			"anything is stored: in lines of logs, and in the strings of events, snapshots and metrics; may be "+
			"repeated")
	fs.StringVar(&o.redact.File, "redact-file", "", "file with more expressions like --redact, one a line")
	fs.StringSliceVar(&o.redact.Names, "redact-env", nil,
		"names of environment variables and JSON members whose values are overwritten with *, separated by commas, "+
			"such as HF_TOKEN,*_SECRET; * stands for letters, digits and underscores")
}

func (o *options) addUploadFlags(fs *pflag.FlagSet) {
	fs.DurationVar(&o.Ship.PushInterval, "push-interval", ship.DefaultPushInterval,
		"maximum time before new data is stored; a shorter interval needs more requests")
	fs.Var((*settings.Bytes)(&o.Ship.MaxChunk), "max-chunk-bytes",
		"maximum size of one chunk before compression, 64KiB to 64MiB; this much data is stored without waiting for "+
			"--push-interval")
	fs.IntVar(&o.Ship.Concurrency, "upload-concurrency", ship.DefaultConcurrency,
		"maximum number of uploads at the same time")
	fs.Var((*settings.Bytes)(&o.Ship.BytesPerSecond), "upload-bytes-per-second",
		"maximum average upload rate, not applied during shutdown; not set: no limit")
	fs.DurationVar(&o.shutdownTimeout, "shutdown-timeout", 25*time.Second,
		"after SIGTERM, how long storing the rest may take; keep it below the pod's terminationGracePeriodSeconds")
}

// addOldFlags accepts the other names of flags in KubeRay's collector, and its flags that have no effect here.
func (o *options) addOldFlags(fs *pflag.FlagSet) {
	settings.Alias(fs, "ray-cluster-namespace", "ray-cluster-id")
	settings.Alias(fs, "spool-dir", "event-data-dir")
	fs.BoolVar(&o.gzipEvents, "event-compression-enabled", false, "the same as --event-compression=gzip")
	settings.Bind(fs, map[string][]string{"event-compression-enabled": {"RAY_COLLECTOR_EVENT_COMPRESSION_ENABLED"}})
	settings.Heading(fs, "Events and spool", "event-compression-enabled")
	for flag, env := range collectorParts {
		fs.Bool(flag, true, "KubeRay's switch of a part of its collector; this one has both, and refuses false")
		settings.Bind(fs, map[string][]string{flag: {env}})
		fs.Lookup(flag).Hidden = true
	}
	for flag, env := range map[string]string{
		"log-batching":            "LOG_BATCHING",
		"event-rotation-interval": "RAY_COLLECTOR_EVENT_ROTATION_INTERVAL",
		"event-max-file-size-mb":  "RAY_COLLECTOR_EVENT_MAX_FILE_SIZE_MB",
		"event-max-disk-mb":       "RAY_COLLECTOR_EVENT_MAX_DISK_MB",
	} {
		fs.String(flag, "", "no effect; accepted for manifests of KubeRay's collector")
		settings.Bind(fs, map[string][]string{flag: {env}})
		fs.Lookup(flag).Hidden = true
	}
}

// collectorParts are the flags that switch off a part of KubeRay's collector, with their variables.
var collectorParts = map[string]string{
	"enable-event-collector": "ENABLE_EVENT_COLLECTOR", "enable-log-collector": "ENABLE_LOG_COLLECTOR",
}

// mistakes collects what is wrong with settings.
type mistakes []error

func (m *mistakes) add(format string, args ...any) { *m = append(*m, fmt.Errorf(format, args...)) }

// addIf adds a mistake if wrong is true.
func (m *mistakes) addIf(wrong bool, format string, args ...any) {
	if wrong {
		m.add(format, args...)
	}
}

// complete checks the settings, and derives the fields of collector.Options from them that are no flags. The error
// names every mistake. fs tells which flags were given.
func (o *options) complete(fs *pflag.FlagSet) error {
	m := mistakes{o.completeRole(fs.Changed("role"))}
	if o.gzipEvents {
		m.addIf(fs.Changed("event-compression") && o.eventCompression != "gzip",
			"--event-compression=%q contradicts --event-compression-enabled, which is gzip", o.eventCompression)
		o.eventCompression = "gzip"
	}
	for _, flag := range slices.Sorted(maps.Keys(collectorParts)) {
		on, err := fs.GetBool(flag)
		m.addIf(err == nil && !on, "--%s=false: this collector stores both events and logs; remove the flag", flag)
	}
	m.addIf((o.OwnerKind == "") != (o.OwnerName == ""), "--owner-kind and --owner-name: give both or neither")
	m.addIf(len(o.Labels) > layout.MaxLabels, "--cluster-labels: %d labels, want %d at most", len(o.Labels),
		layout.MaxLabels)
	m.addIf(o.authMode != "" && !strings.EqualFold(o.authMode, "token") && !strings.EqualFold(o.authMode, "disabled"),
		"--ray-auth-mode=%q: want token or disabled", o.authMode)
	for _, path := range o.Snapshot.Additional {
		m.addIf(!strings.HasPrefix(path, "/"), "--additional-endpoints: %q: want a path that begins with /", path)
	}
	var redactErr error
	o.Redact, redactErr = redact.New(o.redact)
	o.Token = snapshot.Token(o.authMode, o.authToken, snapshot.TokenFiles(o.authTokenPath, o.authByKubernetes))
	o.Root, o.Namespace = o.storage.Root, layout.JoinNamespace(o.namespace, o.kubernetesCluster)
	o.useRayFolder(o.RayTmpDir) // sets SpoolDir
	var known bool
	o.EventCompression, known = compressions[o.eventCompression]
	m.addIf(!known, "--event-compression=%q: want none, gzip or zstd", o.eventCompression)
	o.LogCompression, known = compressions[o.logCompression]
	m.addIf(!known, "--log-compression=%q: want none, gzip or zstd", o.logCompression)
	m = append(m, redactErr, o.checkNumbers(), o.correctListeners(), o.checkNames())
	return errors.Join(m...)
}

// completeRole sets Head by --role and --ray-head. given says that --role was given, so that it may contradict.
func (o *options) completeRole(given bool) error {
	switch role := strings.ToLower(strings.TrimSpace(o.role)); role {
	case head, worker:
		if o.Head && given && role != head {
			return fmt.Errorf("--role=%q contradicts --ray-head", o.role)
		}
		o.Head = o.Head || role == head
		return nil
	}
	return fmt.Errorf("--role=%q: want head or worker", o.role)
}

// checkNumbers checks the flags that are numbers or times, and --metrics, which has a few possible values.
func (o *options) checkNumbers() error {
	var m mistakes
	m.addIf(o.Ship.PushInterval <= 0, "--push-interval=%s: want more than 0", o.Ship.PushInterval)
	m.addIf(o.Snapshot.Interval <= 0, "--snapshot-interval=%s: want more than 0", o.Snapshot.Interval)
	m.addIf(o.shutdownTimeout <= 0, "--shutdown-timeout=%s: want more than 0", o.shutdownTimeout)
	m.addIf(o.Ship.Concurrency < 1 || o.Ship.Concurrency > 64, "--upload-concurrency=%d: want 1 to 64",
		o.Ship.Concurrency)
	m.addIf(o.Ship.MaxChunk < ship.LeastChunk || o.Ship.MaxChunk > layout.MaxChunk,
		"--max-chunk-bytes=%d: want 65536 to 67108864 (64 KiB to 64 MiB)", o.Ship.MaxChunk)
	// A value counts for five minutes in PromQL, and a rate needs two.
	m.addIf(o.Scrape.Interval != 0 && (o.Scrape.Interval < time.Second || o.Scrape.Interval > 2*time.Minute),
		"--metrics-interval=%s: want 1s to 2m, or 0 for none", o.Scrape.Interval)
	m.addIf(o.Scrape.MaxSeries < 1 || o.Scrape.MaxSeries > samples.MaxSeries, "--metrics-max-series=%d: want 1 to %d",
		o.Scrape.MaxSeries, samples.MaxSeries)
	modes := []collector.MetricsMode{collector.MetricsAuto, collector.MetricsOn, collector.MetricsOff}
	m.addIf(!slices.Contains(modes, o.Metrics), "--metrics=%q: want auto, on or off", o.Metrics)
	return errors.Join(m...)
}

// correctListeners checks addresses and ports. A wrong one is replaced by its default, so that the collector can listen
// there and tell the mistakes.
func (o *options) correctListeners() error {
	var m mistakes
	l := &o.listeners
	checkPort := func(flag string, value *int, byDefault int) {
		if *value < 0 || *value > 65535 {
			m.add("--%s=%d: want a port", flag, *value)
			*value = byDefault
		}
	}
	checkPort("events-port", &l.EventsPort, inject.DefaultEventsPort)
	checkPort("metrics-port", &l.MetricsPort, inject.DefaultMetricsPort)
	if l.EventsPort == l.MetricsPort && l.EventsPort != 0 {
		m.add("--events-port and --metrics-port are both %d: give each a port of its own", l.EventsPort)
		l.MetricsPort = inject.DefaultMetricsPort
		if l.EventsPort == inject.DefaultMetricsPort {
			l.EventsPort = inject.DefaultEventsPort
		}
	}
	checkAddress := func(flag string, value *string, byDefault string) {
		if *value != "" && *value != collector.Loopback && net.ParseIP(*value) == nil {
			m.add("--%s=%q: want an IP address, localhost or nothing", flag, *value)
			*value = byDefault
		}
	}
	checkAddress("events-address", &l.EventsAddress, collector.Loopback)
	checkAddress("metrics-address", &l.MetricsAddress, "") // all addresses
	return errors.Join(m...)
}

// compressions are the values of --event-compression and --log-compression.
var compressions = map[string]layout.Compression{"none": layout.Plain, "gzip": layout.Gzip, "zstd": layout.Zstd}

// kubernetesNamespace cannot contain an underscore, because stored names use it as a separator.
var kubernetesNamespace = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`)

// checkNames checks the names of the cluster, its namespace and the Kubernetes cluster: they become parts of keys.
func (o *options) checkNames() error {
	if o.Cluster == "" {
		return errors.New("--ray-cluster-name is not set: give the name of the RayCluster (or RAY_CLUSTER_NAME), " +
			"the same to all nodes of a cluster")
	}
	if !kubernetesNamespace.MatchString(o.namespace) {
		return fmt.Errorf("--ray-cluster-namespace=%q: want a Kubernetes namespace", o.namespace)
	}
	if o.kubernetesCluster != "" {
		if err := layout.CheckKubernetesCluster(o.kubernetesCluster); err != nil {
			return fmt.Errorf("--kubernetes-cluster=%w", err)
		}
	}
	const anySession = "session_" // stands for the name that Ray chooses
	ref := layout.Session{Namespace: o.Namespace, Cluster: o.Cluster, Name: anySession}
	if err := ref.Check(); err != nil {
		return fmt.Errorf("--ray-cluster-name=%q: %w", o.Cluster, err)
	}
	return nil
}
