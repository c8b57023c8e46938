package kube

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// Mode says what running clusters are to the history server.
type Mode string

const (
	// Auto is Proxy where there is a Kubernetes to ask (in a pod, or by --kubeconfigs or --use-kubernetes-proxy), else Off.
	Auto Mode = "auto"
	// Proxy lists running clusters and passes requests on to their dashboards.
	Proxy Mode = "proxy"
	// Storage lists running clusters and answers from what is stored of them.
	Storage Mode = "storage"
	// Off asks Kubernetes for nothing.
	Off Mode = "off"
)

// Config is how the history server finds running clusters.
type Config struct {
	Live               Mode
	Kubeconfigs        []string
	UseKubernetesProxy bool
	Namespaces         []string
	Selector           string
	AllowWrites        bool
}

// AddFlags binds the configuration to flags.
func (c *Config) AddFlags(fs *pflag.FlagSet) {
	c.Live = Auto
	fs.StringVar((*string)(&c.Live), "live", string(Auto), "running clusters: proxy (list them and pass requests on to their dashboards), storage (list them, answer from what is stored), off, or auto (proxy where there is a Kubernetes to ask)")
	fs.StringSliceVar(&c.Kubeconfigs, "kubeconfigs", nil, "kubeconfig files of the Kubernetes clusters to look for RayClusters in; by default the one this runs in")
	fs.BoolVar(&c.UseKubernetesProxy, "use-kubernetes-proxy", false, "reach dashboards through the Kubernetes API server, as from a laptop")
	fs.StringSliceVar(&c.Namespaces, "live-namespaces", nil, "namespaces to look for RayClusters in; by default all")
	fs.StringVar(&c.Selector, "live-selector", "", "labels of the RayClusters to look for, as in team=a,stage!=test; by default all")
	fs.BoolVar(&c.AllowWrites, "live-writes", false, "pass on requests that change a running cluster, such as submitting a job")
}

// resolve checks the configuration and says which mode Auto is.
func (c Config) resolve() (Mode, error) {
	for _, ns := range c.Namespaces {
		if problems := validation.IsDNS1123Label(ns); len(problems) > 0 {
			return "", fmt.Errorf("--live-namespaces=%s: %s", ns, strings.Join(problems, "; "))
		}
	}
	if _, err := labels.Parse(c.Selector); err != nil {
		return "", fmt.Errorf("--live-selector=%q: %w", c.Selector, err)
	}
	told := len(c.Kubeconfigs) > 0 || c.UseKubernetesProxy
	switch c.Live {
	case Auto, "":
		if told || os.Getenv("KUBERNETES_SERVICE_HOST") != "" {
			return Proxy, nil
		}
		return Off, nil
	case Off:
		if told {
			return "", errors.New("--live=off contradicts --kubeconfigs and --use-kubernetes-proxy")
		}
		return Off, nil
	case Proxy, Storage:
		return c.Live, nil
	}
	return "", fmt.Errorf("--live=%s: want proxy, storage, off or auto", c.Live)
}

// restConfigs are the ways to the API servers: the given kubeconfigs, else the user's default one with the proxy, else the pod's account.
func (c Config) restConfigs() ([]*rest.Config, error) {
	var configs []*rest.Config
	for _, file := range c.Kubeconfigs {
		rc, err := clientcmd.BuildConfigFromFlags("", file)
		if err != nil {
			return nil, fmt.Errorf("--kubeconfigs: read %s: %w", file, err)
		}
		configs = append(configs, rc)
	}
	if len(configs) > 0 {
		return configs, nil
	}
	if c.UseKubernetesProxy {
		rc, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(clientcmd.NewDefaultClientConfigLoadingRules(), nil).ClientConfig()
		if err != nil {
			return nil, fmt.Errorf("--use-kubernetes-proxy: read the kubeconfig (KUBECONFIG or ~/.kube/config): %w", err)
		}
		return []*rest.Config{rc}, nil
	}
	rc, err := rest.InClusterConfig()
	if err != nil {
		return nil, fmt.Errorf("find Kubernetes: %w; outside of a pod give --kubeconfigs or --use-kubernetes-proxy, or --live=off", err)
	}
	return []*rest.Config{rc}, nil
}
