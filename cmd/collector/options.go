package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/sirupsen/logrus"
	"github.com/spf13/pflag"

	"github.com/rayhistory/historyserver/pkg/blob/backend"
	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/settings"
)

// options are the settings of the collector.
type options struct {
	storage             backend.Config
	role                string
	head                bool
	cluster             string
	namespace           string
	ownerKind           string
	ownerName           string
	rayTmpDir           string
	spoolDir            string
	spoolMaxBytes       settings.Bytes
	eventFsync          string
	eventFsyncInterval  time.Duration
	eventsPort          int
	podIP               string
	dashboard           string
	authMode            string
	authToken           string
	authTokenPath       string
	authByKubernetes    bool
	additionalEndpoints []string
	snapshotInterval    time.Duration
	snapshotMaxBytes    settings.Bytes
	pushInterval        time.Duration
	uploadConcurrency   int
	uploadRate          settings.Bytes
	eventCompression    string
	gzipEvents          bool
	logCompression      string
	deleteShipped       bool
	shutdownTimeout     time.Duration
	logLevel            string
	logFormat           string
}

func defaults() *options {
	return &options{spoolMaxBytes: 1 << 30, snapshotMaxBytes: 256 << 20}
}

const (
	head   = "head"
	worker = "worker"

	fsyncAlways   = "always"
	fsyncInterval = "interval"
)

func (o *options) addFlags(fs *pflag.FlagSet) {
	o.storage.AddFlags(fs)
	fs.StringVar(&o.role, "role", worker, "head or worker: what the Ray node beside this collector is")
	fs.BoolVar(&o.head, "ray-head", false, "the same as --role=head")
	fs.StringVar(&o.cluster, "ray-cluster-name", "", "name of the RayCluster (required)")
	fs.StringVar(&o.namespace, "ray-cluster-namespace", "default", "namespace of the RayCluster")
	fs.StringVar(&o.ownerKind, "owner-kind", "", "RayJob or RayService, if one made the RayCluster; with --owner-name")
	fs.StringVar(&o.ownerName, "owner-name", "", "name of the RayJob or RayService that made the RayCluster")
	fs.StringVar(&o.rayTmpDir, "ray-tmp-dir", "/tmp/ray", "Ray's temporary folder, which Ray and the collector share")
	fs.StringVar(&o.spoolDir, "spool-dir", "", "folder for events until they are stored, and for the collector's state; empty: .rayhistory in --ray-tmp-dir, which survives a restart of the container")
	fs.Var(&o.spoolMaxBytes, "spool-max-bytes", "bytes of events that may wait for the backend; Ray is then told to try again later")
	fs.StringVar(&o.eventFsync, "event-fsync", fsyncAlways, "when events are put on disk: always (before they are answered) or interval")
	fs.DurationVar(&o.eventFsyncInterval, "event-fsync-interval", time.Second, "how often with --event-fsync=interval")
	fs.IntVar(&o.eventsPort, "events-port", 8084, "port for events (/v1/events), /healthz, /readyz and /metrics")
	fs.StringVar(&o.podIP, "pod-ip", "", "address of the pod, to find its node in the dashboard's list where nothing else tells it")
	fs.StringVar(&o.dashboard, "ray-dashboard-address", "http://127.0.0.1:8265", "address of the Ray dashboard, to save its answers (head); empty: none")
	fs.StringVar(&o.authMode, "ray-auth-mode", "", "token, if the dashboard asks for Ray's token")
	fs.StringVar(&o.authToken, "ray-auth-token", "", "Ray's token")
	fs.StringVar(&o.authTokenPath, "ray-auth-token-path", "", "file with Ray's token; empty: ~/.ray/auth_token")
	fs.BoolVar(&o.authByKubernetes, "ray-enable-k8s-token-auth", false, "Ray's token is its service account's: looked for in /var/run/secrets/ray.io/serviceaccount/token first, as Ray does")
	fs.StringSliceVar(&o.additionalEndpoints, "additional-endpoints", nil, "further paths of the dashboard whose answers are saved, separated by commas")
	fs.DurationVar(&o.snapshotInterval, "snapshot-interval", 30*time.Second, "how often the dashboard is asked while its answers change")
	fs.Var(&o.snapshotMaxBytes, "snapshot-max-bytes", "bytes that the saved answers of one session may take")
	fs.DurationVar(&o.pushInterval, "push-interval", time.Minute, "how long a byte may wait before it is stored; less is more requests")
	fs.IntVar(&o.uploadConcurrency, "upload-concurrency", 4, "uploads at a time")
	fs.Var(&o.uploadRate, "upload-bytes-per-second", "limit of what is sent, on average; not heeded at the shutdown; unset: no limit")
	fs.StringVar(&o.eventCompression, "event-compression", "none", "none, gzip or zstd")
	fs.StringVar(&o.logCompression, "log-compression", "none", "none, gzip or zstd")
	fs.BoolVar(&o.deleteShipped, "delete-shipped", false, "remove the logs of sessions that are over once they are stored")
	fs.DurationVar(&o.shutdownTimeout, "shutdown-timeout", 25*time.Second, "how long storing the rest may take after SIGTERM; less than the pod's terminationGracePeriodSeconds")
	fs.StringVar(&o.logLevel, "log-level", "info", "debug, info, warning or error")
	fs.StringVar(&o.logFormat, "log-format", "text", "text or json")
	o.addOldFlags(fs)
	settings.Bind(fs, map[string][]string{
		"role":                      {"RAY_ROLE"},
		"ray-cluster-name":          {"RAY_CLUSTER_NAME"},
		"ray-cluster-namespace":     {"RAY_CLUSTER_NAMESPACE"},
		"owner-kind":                {"OWNER_KIND"},
		"owner-name":                {"OWNER_NAME"},
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
	})
	settings.Secret(fs, "ray-auth-token")
}

// addOldFlags takes what KubeRay's manifests set and this collector does in another way.
func (o *options) addOldFlags(fs *pflag.FlagSet) {
	settings.Alias(fs, "ray-cluster-namespace", "ray-cluster-id")
	settings.Alias(fs, "spool-dir", "event-data-dir")
	fs.BoolVar(&o.gzipEvents, "event-compression-enabled", false, "the same as --event-compression=gzip")
	settings.Bind(fs, map[string][]string{"event-compression-enabled": {"RAY_COLLECTOR_EVENT_COMPRESSION_ENABLED"}})
	for flag, env := range map[string]string{
		"log-batching":            "LOG_BATCHING",
		"event-rotation-interval": "RAY_COLLECTOR_EVENT_ROTATION_INTERVAL",
		"event-max-file-size-mb":  "RAY_COLLECTOR_EVENT_MAX_FILE_SIZE_MB",
		"event-max-disk-mb":       "RAY_COLLECTOR_EVENT_MAX_DISK_MB",
	} {
		fs.String(flag, "", "has no effect: taken so that manifests for KubeRay's collector work")
		settings.Bind(fs, map[string][]string{flag: {env}})
		fs.Lookup(flag).Hidden = true
	}
}

// complete reads what the command line left open from the environment and the settings file, and checks it.
func (o *options) complete(fs *pflag.FlagSet, environ []string) (logrus.FieldLogger, error) {
	if err := settings.Load(fs, environ); err != nil {
		return nil, err
	}
	if err := o.completeRole(fs.Changed("role")); err != nil {
		return nil, err
	}
	if o.gzipEvents {
		if fs.Changed("event-compression") && o.eventCompression != "gzip" {
			return nil, fmt.Errorf("--event-compression=%q contradicts --event-compression-enabled, which is gzip", o.eventCompression)
		}
		o.eventCompression = "gzip"
	}
	if (o.ownerKind == "") != (o.ownerName == "") {
		return nil, errors.New("--owner-kind and --owner-name: give both or neither")
	}
	if o.eventFsync != fsyncAlways && o.eventFsync != fsyncInterval {
		return nil, fmt.Errorf("--event-fsync=%q: want %s or %s", o.eventFsync, fsyncAlways, fsyncInterval)
	}
	if o.eventFsync == fsyncAlways && fs.Changed("event-fsync-interval") {
		return nil, fmt.Errorf("--event-fsync-interval contradicts --event-fsync=%s", fsyncAlways)
	}
	if o.authMode != "" && !strings.EqualFold(o.authMode, "token") && !strings.EqualFold(o.authMode, "disabled") {
		return nil, fmt.Errorf("--ray-auth-mode=%q: want token or disabled", o.authMode)
	}
	if o.spoolDir == "" {
		o.spoolDir = filepath.Join(o.rayTmpDir, ".rayhistory")
	}
	if err := o.checkNumbers(); err != nil {
		return nil, err
	}
	if err := o.checkNames(); err != nil {
		return nil, err
	}
	for _, path := range o.additionalEndpoints {
		if !strings.HasPrefix(path, "/") {
			return nil, fmt.Errorf("--additional-endpoints: %q: want a path that begins with /", path)
		}
	}
	return newLog(o.logLevel, o.logFormat)
}

func (o *options) completeRole(given bool) error {
	switch role := strings.ToLower(strings.TrimSpace(o.role)); role {
	case head, worker:
		if o.head && given && role != head {
			return fmt.Errorf("--role=%q contradicts --ray-head", o.role)
		}
		o.head = o.head || role == head
		return nil
	}
	return fmt.Errorf("--role=%q: want head or worker", o.role)
}

func (o *options) checkNumbers() error {
	for flag, d := range map[string]time.Duration{
		"push-interval": o.pushInterval, "snapshot-interval": o.snapshotInterval, "shutdown-timeout": o.shutdownTimeout, "event-fsync-interval": o.eventFsyncInterval,
	} {
		if d <= 0 {
			return fmt.Errorf("--%s=%s: want more than 0", flag, d)
		}
	}
	if o.uploadConcurrency < 1 || o.uploadConcurrency > 64 {
		return fmt.Errorf("--upload-concurrency=%d: want 1 to 64", o.uploadConcurrency)
	}
	if o.eventsPort < 0 || o.eventsPort > 65535 {
		return fmt.Errorf("--events-port=%d: want a port", o.eventsPort)
	}
	for flag, name := range map[string]string{"event-compression": o.eventCompression, "log-compression": o.logCompression} {
		if _, ok := compressions[name]; !ok {
			return fmt.Errorf("--%s=%q: want none, gzip or zstd", flag, name)
		}
	}
	return nil
}

var compressions = map[string]layout.Compression{"none": layout.Plain, "gzip": layout.Gzip, "zstd": layout.Zstd}

// kubernetesNamespace cannot have an underscore, by which the stored names are told apart.
var kubernetesNamespace = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`)

func (o *options) checkNames() error {
	if o.cluster == "" {
		return errors.New("--ray-cluster-name is not set: give the name of the RayCluster (or RAY_CLUSTER_NAME)")
	}
	if !kubernetesNamespace.MatchString(o.namespace) {
		return fmt.Errorf("--ray-cluster-namespace=%q: want a Kubernetes namespace", o.namespace)
	}
	ref := layout.Session{Namespace: o.namespace, Cluster: o.cluster, Name: "session_"}
	if err := ref.Check(); err != nil {
		return fmt.Errorf("--ray-cluster-name=%q: %w", o.cluster, err)
	}
	return nil
}

func newLog(level, format string) (logrus.FieldLogger, error) {
	log := logrus.New()
	log.SetOutput(os.Stderr)
	parsed, err := logrus.ParseLevel(level)
	if err != nil {
		return nil, fmt.Errorf("--log-level=%q: want debug, info, warning or error", level)
	}
	log.SetLevel(parsed)
	switch format {
	case "text":
		log.SetFormatter(&logrus.TextFormatter{FullTimestamp: true})
	case "json":
		log.SetFormatter(&logrus.JSONFormatter{})
	default:
		return nil, fmt.Errorf("--log-format=%q: want text or json", format)
	}
	return log, nil
}
