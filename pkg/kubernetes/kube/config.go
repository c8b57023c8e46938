package kube

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/rayhistory/historyserver/internal/settings"
)

// Mode says what running clusters are to the history server.
type Mode string

const (
	// Auto is Storage where there is a Kubernetes to ask (in a pod, or by --kubeconfigs or --use-kubernetes-proxy),
	// else Off.
	Auto Mode = "auto"
	// Storage lists running clusters and answers from what is stored of them, which is some seconds old.
	Storage Mode = "storage"
	// Proxy lists running clusters and passes requests on to their dashboards, which are their owners'.
	Proxy Mode = "proxy"
	// Off asks Kubernetes for nothing.
	Off Mode = "off"
)

// Default limits for the body of a request to a running cluster: Ray packs a working directory of up to 512 MiB.
const (
	defaultMaxUpload     = 512 << 20
	defaultUploadTimeout = 10 * time.Minute
)

// Requests to an API server, of all callers together: lists of people who may see many namespaces ask about each of
// them, and some are open at a time. client-go's own limit, 5 a second, would hold them up for minutes.
// pkg/server/access takes at most half of them for unknown tokens.
const (
	apiRequestsPerSecond = 100
	apiRequestsAtOnce    = 1000
)

// Config is how the history server finds running clusters.
type Config struct {
	Live               Mode
	Kubeconfigs        []string
	UseKubernetesProxy bool
	Namespaces         []string
	Selector           string
	AllowWrites        bool
	// MaxUpload is the most bytes that a request may bring to a running cluster, UploadTimeout how long it may take.
	MaxUpload     settings.Bytes
	UploadTimeout time.Duration
	// AnonymousTokens lets callers who did not say who they are reach clusters that want a token.
	AnonymousTokens bool
	// Anonymous says that callers do not say who they are. No flag: it follows from others.
	Anonymous bool
}

// AddFlags binds the configuration to flags.
func (c *Config) AddFlags(fs *pflag.FlagSet) {
	c.Live = Auto
	fs.StringVar((*string)(&c.Live), "live", string(Auto),
		"running clusters: storage (list them and answer from the store, some seconds behind), proxy (list them and "+
			"forward requests to their dashboards), off, or auto (storage where Kubernetes is available, else off)")
	fs.StringSliceVar(&c.Kubeconfigs, "kubeconfigs", nil,
		"kubeconfig files of the Kubernetes clusters with RayClusters; default: the cluster that the server runs in")
	fs.BoolVar(&c.UseKubernetesProxy, "use-kubernetes-proxy", false,
		"with --live=proxy, reach dashboards through the Kubernetes API server, for example from a laptop")
	fs.StringSliceVar(&c.Namespaces, "live-namespaces", nil, "namespaces with RayClusters; default: all")
	fs.StringVar(&c.Selector, "live-selector", "",
		"label selector of RayClusters, such as team=a,stage!=test; default: all")
	fs.BoolVar(&c.AllowWrites, "live-writes", false,
		"with --live=proxy, also forward requests that change a running cluster, such as submitting a job")
	c.MaxUpload = defaultMaxUpload
	fs.Var(&c.MaxUpload, "live-writes-max-body",
		"maximum size of one request to a running cluster, such as 512MiB; Ray's own limit may be lower")
	fs.DurationVar(&c.UploadTimeout, "live-writes-timeout", defaultUploadTimeout,
		"maximum time to upload one request to a running cluster")
	fs.BoolVar(&c.AnonymousTokens, "live-anonymous-tokens", false,
		"with --auth=off, let everybody reach running clusters that need a token: the server sends it for them")
}

// resolve checks the configuration, and returns the mode of --live; for auto, the one that fits here.
func (c Config) resolve() (Mode, error) {
	for _, ns := range c.Namespaces {
		if problems := validation.IsDNS1123Label(ns); len(problems) > 0 {
			return "", fmt.Errorf("--live-namespaces=%s: %s", ns, strings.Join(problems, "; "))
		}
	}
	if _, err := labels.Parse(c.Selector); err != nil {
		return "", fmt.Errorf("--live-selector=%q: %w", c.Selector, err)
	}
	if c.UploadTimeout < 0 {
		return "", fmt.Errorf("--live-writes-timeout=%s: want more than 0", c.UploadTimeout)
	}
	given := len(c.Kubeconfigs) > 0 || c.UseKubernetesProxy
	switch c.Live {
	case Auto, "":
		if given || os.Getenv("KUBERNETES_SERVICE_HOST") != "" {
			return Storage, nil
		}
		return Off, nil
	case Off:
		if given {
			return "", errors.New("--live=off contradicts --kubeconfigs and --use-kubernetes-proxy")
		}
		return Off, nil
	case Proxy, Storage:
		return c.Live, nil
	}
	return "", fmt.Errorf("--live=%s: want storage, proxy, off or auto", c.Live)
}

// setLimits sets this server's own limits.
func setLimits(rc *rest.Config) {
	rc.UserAgent, rc.QPS, rc.Burst = "ray-history-server", apiRequestsPerSecond, apiRequestsAtOnce
}

// restConfigs returns how to reach the API servers: by the given kubeconfigs, or with --use-kubernetes-proxy by the
// user's default kubeconfig, or else by the pod's account. Each has this server's own limits.
func (c Config) restConfigs() (configs []*rest.Config, err error) {
	for _, file := range c.Kubeconfigs {
		rc, err := clientcmd.BuildConfigFromFlags("", file)
		if err != nil {
			return nil, fmt.Errorf("--kubeconfigs: read %s: %w", file, err)
		}
		configs = append(configs, rc)
	}
	var rc *rest.Config
	switch {
	case len(configs) > 0:
	case c.UseKubernetesProxy:
		if rc, err = clientcmd.NewNonInteractiveDeferredLoadingClientConfig(
			clientcmd.NewDefaultClientConfigLoadingRules(), nil).ClientConfig(); err != nil {
			return nil, fmt.Errorf("--use-kubernetes-proxy: read the kubeconfig (KUBECONFIG or ~/.kube/config): %w",
				err)
		}
		configs = append(configs, rc)
	default:
		if rc, err = rest.InClusterConfig(); err != nil {
			return nil, fmt.Errorf("find Kubernetes: %w; outside of a pod give --kubeconfigs or "+
				"--use-kubernetes-proxy, or --live=off", err)
		}
		configs = append(configs, rc)
	}
	for _, rc := range configs {
		setLimits(rc)
	}
	return configs, nil
}
